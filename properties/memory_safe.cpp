// In the sanitizing build of the subject every access is held against the elements that the operation declares. Padded
// rows turn an access that leaves its row into one outside the tensor.
#include "plans.h"

namespace tileproof {

namespace {

class MemorySafe : public Property {
 public:
  std::string_view name() const override { return "memory_safe"; }
  std::string_view holds_when() const override {
    return "every access lies in an element of its tensor, in shared memory or in a live local";
  }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    return sanitized_runs(context, plan, some_partial_block(context));
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    return first_hazard(context, expectation, results, name());
  }
  bool sanitizes() const override { return true; }
};

}  // namespace

const Property& memory_safe_property() {
  static const MemorySafe property;
  return property;
}

}  // namespace tileproof
