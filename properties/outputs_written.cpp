// An output that is not written, or added to what was there, shows under two pre-fills.
#include "plans.h"

namespace tileproof {

namespace {

class OutputsWritten : public Property {
 public:
  std::string_view name() const override { return "outputs_written"; }
  std::string_view holds_when() const override { return "the result is the same whatever the outputs held before"; }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    for (const TensorSpec& spec : context.subject.operation->tensors()) {
      if (spec.role == Role::out) {
        return {.applies = true,
                .power = has_elements(context.the_case.problem),
                .reason = {},
                .runs = {base_run(context, plan), base_run_in(context, plan, Memory{.prefill = GuardFill::nan})}};
      }
    }
    return Expectation::no("the operation has no pure output");
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    return same_as_first(context, expectation, results);
  }
};

}  // namespace

const Property& outputs_written_property() {
  static const OutputsWritten property;
  return property;
}

}  // namespace tileproof
