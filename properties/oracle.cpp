// Every element against the reference, for the first tiling and for the first one with a partial block.
#include "plans.h"

namespace tileproof {

namespace {

class Oracle : public Property {
 public:
  std::string_view name() const override { return "oracle"; }
  std::string_view holds_when() const override {
    return "every element is within its derived bound of the reference, bitwise on exact data";
  }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    Expectation expectation{.applies = true, .power = has_elements(context.the_case.problem), .reason = {}, .runs = {}};
    expectation.runs.push_back(base_run(context, plan));
    for (const Tiling& tiling : context.the_case.tilings) {
      if (has_partial_block(context.the_case.problem, tiling)) {
        expectation.runs.push_back(run_with(context, plan, tiling));
        break;
      }
    }
    return expectation;
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    for (const RunId id : expectation.runs) {
      if (auto failure = compare_with_reference(context, results, id)) {
        failure->evidence.push_back("tiling: " + text(*context.subject.operation, results.request(id).tiling));
        return failure;
      }
    }
    return std::nullopt;
  }
};

}  // namespace

const Property& oracle_property() {
  static const Oracle property;
  return property;
}

}  // namespace tileproof
