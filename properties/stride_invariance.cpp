// The result must not depend on where the rows lie.
#include "plans.h"

namespace tileproof {

namespace {

class StrideInvariance : public Property {
 public:
  std::string_view name() const override { return "stride_invariance"; }
  std::string_view holds_when() const override {
    return "the result is the same for contiguous, padded and sliced rows, and for broadcasts written out";
  }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    Expectation expectation{.applies = true,
                            .power = has_elements(context.the_case.problem),
                            .reason = {},
                            .runs = {base_run(context, plan)}};
    for (const Strides strides : {Strides::contiguous, Strides::padded, Strides::sliced, Strides::materialised}) {
      if (strides != Strides::materialised || context.the_case.problem.integer("broadcast") != 0) {
        expectation.runs.push_back(base_run_in(context, plan, Memory{.strides = strides}));
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

const Property& stride_invariance_property() {
  static const StrideInvariance property;
  return property;
}

}  // namespace tileproof
