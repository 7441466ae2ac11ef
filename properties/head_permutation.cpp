// Each head is treated alike. Heads are rotated by one and every second pair swapped, so that none stays where it was.
#include <utility>

#include "plans.h"

namespace tileproof {

namespace {

std::int64_t head_count(const Problem& problem) {
  std::int64_t heads = 0;
  for (const TensorShape& shape : problem.operation().shapes(problem)) {
    const int axis = shape.axis(AxisKind::head);
    heads = axis < 0 ? heads : shape.shape[static_cast<std::size_t>(axis)];
  }
  return heads;
}

std::vector<std::int64_t> permutation(std::int64_t heads) {
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < heads; ++i) {
    order.push_back((i + 1) % heads);
  }
  for (std::size_t i = 0; i + 3 < order.size(); i += 4) {
    std::swap(order[i], order[i + 2]);
  }
  return order;
}

class HeadPermutation : public Property {
 public:
  std::string_view name() const override { return "head_permutation"; }
  std::string_view holds_when() const override {
    return "permuting the heads permutes the result; a sum over heads stays within its bound";
  }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    const Problem& problem = context.the_case.problem;
    const std::int64_t heads = head_count(problem);
    if (!problem.operation().head_equivariant() || heads < 2) {
      return Expectation::no("needs two heads and an operation that treats heads alike");
    }
    if (problem.choice("broadcast") == "head") {
      return Expectation::no("heads are equal under a broadcast over heads");
    }
    RunRequest permuted{&context.subject, plan.problem(problem), context.the_case.tilings.front(), {}, {}};
    const std::vector<std::int64_t> order = permutation(heads);
    for (const TensorShape& shape : problem.operation().shapes(problem)) {
      if (shape.spec->role != Role::out && shape.axis(AxisKind::head) >= 0) {
        permuted.gathers.push_back({shape.index, false, permuted.problem, shape.index, AxisKind::head, order});
      }
    }
    return {.applies = true,
            .power = has_elements(problem),
            .reason = {},
            .runs = {plan.run(permuted), base_run(context, plan)}};
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    const Correspondence heads{AxisKind::head, permutation(head_count(context.the_case.problem)), true};
    return compare_runs(context, results, expectation.runs[0], expectation.runs[1], heads, "differs");
  }
};

}  // namespace

const Property& head_permutation_property() {
  static const HeadPermutation property;
  return property;
}

}  // namespace tileproof
