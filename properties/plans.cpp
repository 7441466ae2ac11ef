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

std::string describe(const Operation& operation, const RunRequest& request) {
  const Memory& memory = request.memory;
  std::string result = text(operation, request.tiling);
  if (memory.strides != Strides::as_case) {
    constexpr std::string_view names[] = {"", "contiguous", "padded", "sliced", "materialised"};
    result += fmt::format(", {} strides", names[static_cast<int>(memory.strides)]);
  }
  if (memory.guard != GuardFill::finite) {
    result += ", NaN in the guards";
  }
  if (memory.prefill != GuardFill::finite) {
    result += ", NaN in the outputs before";
  }
  if (memory.extra_shift != 0) {
    result += fmt::format(", base shifted by {} elements", memory.extra_shift);
  }
  result += request.sanitize ? ", sanitizing build" : "";
  if (request.captured_with) {
    result += ", replayed from a CUDA graph";
  }
  return memory.repeat == 0 ? result : result + ", once more";
}

std::optional<Failure> same_as_first(const CaseContext& context, const Expectation& expectation,
                                     const Results& results) {
  for (std::size_t i = 1; i < expectation.runs.size(); ++i) {
    const RunId id = expectation.runs[i];
    if (auto failure = compare_runs(context, results, expectation.runs.front(), id, {}, "differs")) {
      const Operation& operation = *context.subject.operation;
      failure->evidence.push_back(
          fmt::format("one run:   {}", describe(operation, results.request(expectation.runs.front()))));
      failure->evidence.push_back(fmt::format("the other: {}", describe(operation, results.request(id))));
      return failure;
    }
  }
  return std::nullopt;
}

Expectation sanitized_runs(const CaseContext& context, Plan& plan, bool power) {
  if (context.subject.sanitizing == nullptr) {
    return Expectation::no("the subject has no sanitizing build");
  }
  Expectation expectation{.applies = true, .power = power, .reason = {}, .runs = {}};
  const ProblemId problem = plan.problem(context.the_case.problem);
  for (const Tiling& tiling : context.the_case.tilings) {
    const Memory memory{.strides = expectation.runs.empty() ? Strides::as_case : Strides::padded};
    expectation.runs.push_back(plan.run({&context.subject, problem, tiling, memory, {}, true}));
  }
  return expectation;
}

std::optional<Failure> first_hazard(const CaseContext& context, const Expectation& expectation, const Results& results,
                                    std::string_view property) {
  constexpr std::size_t kMostOthers = 5;
  std::optional<Failure> failure;
  std::vector<std::string> others;
  for (const RunId id : expectation.runs) {
    for (const HazardReport& report : results.run(id).reports) {
      if (report.property != property) {
        continue;
      }
      if (!failure) {
        failure = Failure{report.tensor, report.where, report.kind, report.message, report.evidence};
        failure->evidence.push_back("run: " + describe(*context.subject.operation, results.request(id)));
      } else if (report.where != failure->where &&
                 std::find(others.begin(), others.end(), report.where) == others.end()) {
        others.push_back(report.where);
      }
    }
  }
  if (!others.empty()) {
    const std::size_t shown = std::min(others.size(), kMostOthers);
    failure->evidence.push_back(fmt::format(
        "also at {}{}", fmt::join(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
        shown < others.size() ? fmt::format(" and {} more", others.size() - shown) : ""));
  }
  return failure;
}

}  // namespace tileproof
