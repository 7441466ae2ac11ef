// A read out of bounds that reaches the result shows when the guards change.
#include "plans.h"

namespace tileproof {

namespace {

class PoisonInvariance : public Property {
 public:
  std::string_view name() const override { return "poison_invariance"; }
  std::string_view holds_when() const override {
    return "the result is the same whether the guards hold numbers or NaN";
  }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    const Tiling* tiling = &context.the_case.tilings.front();
    for (const Tiling& other : context.the_case.tilings) {
      tiling = has_partial_block(context.the_case.problem, other) ? &other : tiling;
    }
    return {
        .applies = true,
        .power = has_elements(context.the_case.problem) && some_partial_block(context),
        .reason = {},
        .runs = {run_with(context, plan, *tiling), run_with(context, plan, *tiling, Memory{.guard = GuardFill::nan})}};
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    return same_as_first(context, expectation, results);
  }
};

}  // namespace

const Property& poison_invariance_property() {
  static const PoisonInvariance property;
  return property;
}

}  // namespace tileproof
