// The result must not depend on the alignment of the base, down to the minimum that the subject declares.
#include <algorithm>

#include "plans.h"

namespace tileproof {

namespace {

// In elements; a limit "alignment multiple of N" is in bytes, and two bytes are the smallest element.
std::int64_t least_shift(const CaseContext& context) {
  for (const Limit& limit : context.subject.limits) {
    if (limit.key == "alignment" && limit.kind == Limit::Kind::multiple_of) {
      return std::max<std::int64_t>(1, limit.factor / 2);
    }
  }
  return 1;
}

class AlignmentInvariance : public Property {
 public:
  std::string_view name() const override { return "alignment_invariance"; }
  std::string_view holds_when() const override {
    return "the result is the same when every base address is shifted by elements";
  }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    Expectation expectation{.applies = true,
                            .power = has_elements(context.the_case.problem),
                            .reason = {},
                            .runs = {base_run(context, plan)}};
    const std::int64_t step = least_shift(context);
    for (const std::int64_t shift : {step, 2 * step, 3 * step}) {
      expectation.runs.push_back(base_run_in(context, plan, Memory{.extra_shift = shift}));
    }
    return expectation;
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    return same_as_first(context, expectation, results);
  }
};

}  // namespace

const Property& alignment_invariance_property() {
  static const AlignmentInvariance property;
  return property;
}

}  // namespace tileproof
