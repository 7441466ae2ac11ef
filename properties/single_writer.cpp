// In the sanitizing build of the subject a second store to an element is seen even where it stores the same value.
#include "plans.h"

namespace tileproof {

namespace {

class SingleWriter : public Property {
 public:
  std::string_view name() const override { return "single_writer"; }
  std::string_view holds_when() const override { return "no element of an output is stored by two threads"; }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    return sanitized_runs(context, plan, has_elements(context.the_case.problem));
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    return first_hazard(context, expectation, results, name());
  }
  bool sanitizes() const override { return true; }
};

}  // namespace

const Property& single_writer_property() {
  static const SingleWriter property;
  return property;
}

}  // namespace tileproof
