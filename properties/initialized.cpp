// In the sanitizing build of the subject a load of what nobody wrote is seen as it happens. A local without a value is
// seen in what is stored: the same launch with zeros in its place must store the same.
#include "plans.h"

namespace tileproof {

namespace {

class Initialized : public Property {
 public:
  std::string_view name() const override { return "initialized"; }
  std::string_view holds_when() const override {
    return "nothing is loaded before it was written, and no stored value depends on a local without a value";
  }

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

const Property& initialized_property() {
  static const Initialized property;
  return property;
}

}  // namespace tileproof
