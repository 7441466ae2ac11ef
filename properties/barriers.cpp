// In the sanitizing build of the subject a barrier passes only with a note of who did not reach it, and who reached
// another one.
#include "plans.h"

namespace tileproof {

namespace {

class Barriers : public Property {
 public:
  std::string_view name() const override { return "barriers"; }
  std::string_view holds_when() const override {
    return "every barrier and warp operation is reached by all threads that it names, on one line";
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

const Property& barriers_property() {
  static const Barriers property;
  return property;
}

}  // namespace tileproof
