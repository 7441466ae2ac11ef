#include "plans.h"

#include <algorithm>

#include <fmt/format.h>

namespace tileproof {

RunId run_with(const CaseContext& context, Plan& plan, const Tiling& tiling, const Memory& memory) {
  return plan.run({&context.subject, plan.problem(context.the_case.problem), tiling, memory, {}});
}

RunId base_run(const CaseContext& context, Plan& plan) { return base_run_in(context, plan, {}); }

RunId base_run_in(const CaseContext& context, Plan& plan, const Memory& memory) {
  return run_with(context, plan, context.the_case.tilings.front(), memory);
}

bool has_elements(const Problem& problem) {
  for (const TensorShape& shape : problem.operation().shapes(problem)) {
    if (shape.spec->role != Role::in && shape.elements() > 0) {
      return true;
    }
  }
  return false;
}

bool has_partial_block(const Problem& problem, const Tiling& tiling) {
  for (const TensorShape& shape : problem.operation().shapes(problem)) {
    const int axis = shape.axis(AxisKind::head);
    const std::int64_t heads = axis < 0 ? 0 : shape.shape[static_cast<std::size_t>(axis)];
    if (axis >= 0 && heads > tiling.values.front() && heads % tiling.values.front() != 0) {
      return true;
    }
  }
  return false;
}

bool some_partial_block(const CaseContext& context) {
  const auto& tilings = context.the_case.tilings;
  return std::any_of(tilings.begin(), tilings.end(),
                     [&](const Tiling& tiling) { return has_partial_block(context.the_case.problem, tiling); });
}

namespace {

std::string describe(const Operation& operation, const RunRequest& request, const RunRequest& base) {
  std::string result = text(operation, request.tiling);
  if (request.memory.strides != base.memory.strides) {
    constexpr std::string_view names[] = {"", "contiguous", "padded", "sliced", "materialised"};
    result += fmt::format(", {} strides", names[static_cast<int>(request.memory.strides)]);
  }
  if (request.memory.guard != base.memory.guard) {
    result += ", NaN in the guards";
  }
  if (request.memory.prefill != base.memory.prefill) {
    result += ", NaN in the outputs before";
  }
  if (request.memory.extra_shift != 0) {
    result += fmt::format(", base shifted by {} elements", request.memory.extra_shift);
  }
  return request.memory.repeat == 0 ? result : result + ", once more";
}

}  // namespace

std::optional<Failure> same_as_first(const CaseContext& context, const Expectation& expectation,
                                     const Results& results) {
  const RunRequest& base = results.request(expectation.runs.front());
  for (std::size_t i = 1; i < expectation.runs.size(); ++i) {
    const RunId id = expectation.runs[i];
    if (auto failure = compare_runs(context, results, expectation.runs.front(), id, {}, "differs")) {
      const Operation& operation = *context.subject.operation;
      failure->evidence.push_back(fmt::format("one run:   {}", text(operation, base.tiling)));
      failure->evidence.push_back(fmt::format("the other: {}", describe(operation, results.request(id), base)));
      return failure;
    }
  }
  return std::nullopt;
}

}  // namespace tileproof
