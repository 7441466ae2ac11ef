// The result must not show how the work was cut up. Tilings with a partial block run with reversed blocks too: where
// the last writer wins, only that order lets an overrun survive.
#include "plans.h"

namespace tileproof {

namespace {

class BlockInvariance : public Property {
 public:
  std::string_view name() const override { return "block_invariance"; }
  std::string_view holds_when() const override { return "the result is the same for every tiling of the case"; }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    const auto& tilings = context.the_case.tilings;
    if (tilings.size() < 2) {
      return Expectation::no("needs two tilings");
    }
    Expectation expectation{.applies = true,
                            .power = has_elements(context.the_case.problem) && some_partial_block(context),
                            .reason = {},
                            .runs = {base_run(context, plan)}};
    for (const Tiling& tiling : tilings) {
      expectation.runs.push_back(run_with(context, plan, tiling));
      if (has_partial_block(context.the_case.problem, tiling)) {
        Tiling reversed = tiling;
        reversed.blocks = Order::reverse;
        expectation.runs.push_back(run_with(context, plan, reversed));
      }
    }
    return expectation;
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    return same_as_first(context, expectation, results);
  }
};

}  // namespace

const Property& block_invariance_property() {
  static const BlockInvariance property;
  return property;
}

}  // namespace tileproof
