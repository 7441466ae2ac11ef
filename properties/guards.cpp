// Guards lie before, after and in every gap between the rows of each tensor. A store that happens to equal one pattern
// differs from the other.
#include "plans.h"

namespace tileproof {

namespace {

class Guards : public Property {
 public:
  std::string_view name() const override { return "guards"; }
  std::string_view holds_when() const override {
    return "no byte outside the declared elements changes, over two canary patterns";
  }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    const Problem& problem = context.the_case.problem;
    Expectation expectation{.applies = true,
                            .power = problem.operation().rotates(problem) && some_partial_block(context),
                            .reason = {},
                            .runs = {}};
    for (const Tiling& tiling : context.the_case.tilings) {
      expectation.runs.push_back(run_with(context, plan, tiling));
      expectation.runs.push_back(run_with(context, plan, tiling, Memory{.guard = GuardFill::nan}));
    }
    return expectation;
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    for (const RunId id : expectation.runs) {
      const std::vector<GuardDamage>& damage = results.run(id).damage;
      if (damage.empty()) {
        continue;
      }
      Failure failure;
      failure.tensor = context.subject.operation->tensors()[damage.front().tensor].name;
      failure.where = damage.front().where;
      failure.kind = "overrun";
      failure.message = damage.front().text;
      failure.run = id;
      failure.evidence.push_back("run: " + describe(*context.subject.operation, results.request(id)));
      return failure;
    }
    return std::nullopt;
  }
  bool judges_every_run() const override { return true; }
};

}  // namespace

const Property& guards_property() {
  static const Guards property;
  return property;
}

}  // namespace tileproof
