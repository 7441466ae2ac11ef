// In the sanitizing build of the subject every access is held against those before it (harness/docs/sanitizer.md): what
// no barrier orders is a race, whichever order the launch happened to run in.
#include "plans.h"

namespace tileproof {

namespace {

class RaceFree : public Property {
 public:
  std::string_view name() const override { return "race_free"; }
  std::string_view holds_when() const override {
    return "no two threads access one byte, one of them storing, while neither a barrier nor an atomic orders them";
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

const Property& race_free_property() {
  static const RaceFree property;
  return property;
}

}  // namespace tileproof
