// A kernel that keeps something between launches shows when another problem runs in between: one with other data, which
// a cache by address does not notice, and one of another shape, which a cache by shape does. On a GPU a launch is
// captured in a graph too, and replayed when its tensors hold other data and other boundaries.
#include <algorithm>
#include <string_view>

#include "plans.h"

namespace tileproof {

namespace {

Problem other_data(const Problem& problem) {
  Problem other = problem;
  Value data = other.value("data");
  data.second = data.second == 0 ? 1 : data.second - 1;
  other.set("data", data);
  return other;
}

bool differ_in_contents_only(const Problem& a, const Problem& b) {
  const Operation& operation = a.operation();
  const std::vector<TensorShape> left = operation.shapes(a);
  const std::vector<TensorShape> right = operation.shapes(b);
  const auto same = [](const TensorShape& x, const TensorShape& y) { return x.index == y.index && x.shape == y.shape; };
  const auto values = [&operation](const Problem& problem) {
    std::vector<std::int64_t> result;
    for (const auto& [name, value] : operation.scalars(problem)) {
      result.push_back(value);
    }
    return result;
  };
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), same) && values(a) == values(b);
}

// Other data, and lists (boundaries of sequences) in another order where that changes no shape.
Problem other_contents(const CaseContext& context) {
  const Problem& problem = context.the_case.problem;
  Problem other = other_data(problem);
  for (const Parameter& parameter : problem.operation().parameters()) {
    if (parameter.kind != ParameterKind::list || !parameter.required || !problem.applies(parameter)) {
      continue;
    }
    Problem reversed = other;
    Value list = problem.value(parameter.key);
    std::reverse(list.items.begin(), list.items.end());
    reversed.set(parameter.key, list);
    if (!outside_limits(context.subject, reversed) && differ_in_contents_only(problem, reversed)) {
      other = reversed;
    }
  }
  return other;
}

// The problem with one size a step smaller; none where every size is at its least.
std::optional<Problem> other_shape(const CaseContext& context) {
  const Problem& problem = context.the_case.problem;
  for (const Parameter& parameter : problem.operation().parameters()) {
    if (parameter.kind != ParameterKind::integer || !parameter.required || !problem.applies(parameter)) {
      continue;
    }
    const std::int64_t less = problem.integer(parameter.key) - parameter.multiple_of;
    Problem other = other_data(problem);
    other.set(parameter.key, less);
    if (less >= std::max<std::int64_t>(1, parameter.min) && !other.operation().invalid(other) &&
        !outside_limits(context.subject, other)) {
      return other;
    }
  }
  return std::nullopt;
}

class CallOrder : public Property {
 public:
  std::string_view name() const override { return "call_order"; }
  std::string_view holds_when() const override {
    return "two problems give the same in either order, the same one again from fresh memory, and (cuda) from a graph";
  }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    const Tiling& tiling = context.the_case.tilings.back();
    const RunId first = base_run(context, plan);
    plan.run({&context.subject, plan.problem(other_data(context.the_case.problem)), tiling, {}, {}});
    Expectation expectation{
        .applies = true, .power = has_elements(context.the_case.problem), .reason = {}, .runs = {first}};
    const std::optional<Problem> shape = other_shape(context);
    const ProblemId other = shape ? plan.problem(*shape) : 0;
    const RunId before = shape ? plan.run({&context.subject, other, tiling, {}, {}}) : first;
    expectation.runs.push_back(base_run_in(context, plan, Memory{.repeat = 2}));
    if (shape) {
      expectation.runs.push_back(before);
      expectation.runs.push_back(plan.run({&context.subject, other, tiling, Memory{.repeat = 2}, {}}));
    }
    if (std::string_view(context.subject.raw->device) == "cuda") {
      RunRequest replayed{
          &context.subject, plan.problem(context.the_case.problem), context.the_case.tilings.front(), {}, {}};
      replayed.captured_with = plan.problem(other_contents(context));
      expectation.runs.push_back(first);
      expectation.runs.push_back(plan.run(std::move(replayed)));
    }
    return expectation;
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    for (std::size_t i = 0; i + 1 < expectation.runs.size(); i += 2) {
      auto failure = compare_runs(context, results, expectation.runs[i], expectation.runs[i + 1], {}, "differs");
      if (failure) {
        failure->evidence.push_back("the problem: " + text(results.problem_of(expectation.runs[i])));
        if (const auto& captured = results.request(expectation.runs[i + 1]).captured_with) {
          failure->evidence.push_back("the other: replayed from a CUDA graph that was captured with " +
                                      text(results.problem(*captured)));
        }
        return failure;
      }
    }
    return std::nullopt;
  }
};

}  // namespace

const Property& call_order_property() {
  static const CallOrder property;
  return property;
}

}  // namespace tileproof
