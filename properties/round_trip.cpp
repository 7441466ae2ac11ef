// Backward after forward is the identity up to both bounds and |c^2 + s^2 - 1|. On exact data (quarter turns) it is
// exact.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "plans.h"

namespace tileproof {

namespace {

bool has_heads(const TensorSpec& spec) {
  return std::any_of(spec.axes.begin(), spec.axes.end(), [](const Axis& axis) { return axis.kind == AxisKind::head; });
}

// An input that every head receives comes back as a sum over heads, which is no inverse.
bool sums_heads(const Operation& operation, std::size_t tensor) {
  return std::any_of(operation.tensors().begin(), operation.tensors().end(), has_heads) &&
         !has_heads(operation.tensors()[tensor]);
}

bool sums_outputs(const Operation& operation) {
  for (std::size_t i = 0; i < operation.tensors().size(); ++i) {
    if (operation.tensors()[i].role == Role::out && sums_heads(operation, i)) {
      return true;
    }
  }
  return false;
}

struct Slack {
  bool exact = false;
  double of_value = 0;
};

// How far the input may be missed beyond the bound of the way back. With table entries at most m in size, an error e1
// of the way there is carried back as at most 2 m e1; and the way back multiplies a value x by c^2 + s^2, which the
// rounding of the tables puts within d of 1: |x| d. The largest of each over the tensor serves for all of its elements.
Slack slack_of(const Results& results, RunId forward, const std::vector<Bounded>& there) {
  const Problem& problem = results.problem_of(forward);
  Slack slack;
  slack.exact = problem.choice("data") == "exact";
  double largest_bound = 0;
  double largest_value = 0;
  for (const Bounded& tensor : there) {
    for (std::size_t i = 0; i < tensor.bound.size(); ++i) {
      largest_bound = std::max(largest_bound, tensor.bound[i]);
      largest_value = std::max(largest_value, std::abs(tensor.value[i]));
    }
  }
  double largest_entry = 0;
  double off_unity = 0;
  const HostTensor* tables[2] = {nullptr, nullptr};
  for (const HostTensor& input : results.inputs(forward)) {
    if (!input.bytes.empty() && input.shape.axis(AxisKind::row) >= 0) {
      (tables[0] == nullptr ? tables[0] : tables[1]) = &input;
    }
  }
  for (std::int64_t i = 0; tables[1] != nullptr && i < tables[0]->shape.elements(); ++i) {
    const double c = tables[0]->at(i);
    const double s = tables[1]->at(i);
    largest_entry = std::max({largest_entry, std::abs(c), std::abs(s)});
    off_unity = std::max(off_unity, std::abs(c * c + s * s - 1));
  }
  // Values there and back differ in size by the norm of the rotation, at most sqrt(2) per component.
  slack.of_value = 2 * largest_entry * largest_bound + 2 * largest_value * off_unity;
  return slack;
}

class RoundTrip : public Property {
 public:
  std::string_view name() const override { return "round_trip"; }
  std::string_view holds_when() const override {
    return "the adjoint after the operation gives back the input, where the tables are a rotation";
  }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    const Problem& problem = context.the_case.problem;
    const std::string& recipe = problem.choice("data");
    if (context.adjoint == nullptr || recipe == "special" || recipe == "index") {
      return Expectation::no("needs the adjoint's subject and data of ordinary size");
    }
    const auto rotation = problem.operation().invertible(problem);
    if (!rotation || problem.choice("broadcast") != "none") {
      return Expectation::no("the problem has no tables that are a rotation");
    }
    const Operation& other = *context.adjoint->operation;
    if (sums_outputs(problem.operation())) {
      return Expectation::no("the operation sums over heads, which has no inverse");
    }
    const Problem back = rotation->under(other);
    if (outside_limits(*context.adjoint, back)) {
      return Expectation::no("the adjoint's subject does not take this problem");
    }
    const ProblemId there = plan.problem(*rotation);
    const RunId forward = plan.run({&context.subject, there, context.the_case.tilings.front(), {}, {}});
    RunRequest request{context.adjoint, plan.problem(back), context.the_case.tilings.back(), {}, {}};
    for (const auto& [own, partner] : problem.operation().algebra().adjoint_tensors) {
      const std::size_t a = problem.operation().tensor_index(own);
      const std::size_t b = other.tensor_index(partner);
      if (problem.operation().tensors()[a].role != Role::in && problem.operation().shape(*rotation, a)) {
        request.gathers.push_back({b, true, forward, a, AxisKind::token, {}});
      }
    }
    return {.applies = true, .power = has_elements(problem), .reason = {}, .runs = {forward, plan.run(request)}};
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    const Operation& mine = *context.subject.operation;
    const Operation& other = *context.adjoint->operation;
    const auto [forward, back] = std::pair(expectation.runs[0], expectation.runs[1]);
    // Of the way back on what really came out (bound 2), and on the same moved by the bound of the way there (bound 1).
    const auto there = reference_values(results, forward);
    const auto again = reference_values(results, back);
    for (const auto& [own, partner] : mine.algebra().adjoint_tensors) {
      const std::size_t a = mine.tensor_index(own);
      const std::size_t b = other.tensor_index(partner);
      const HostTensor& wanted = results.inputs(forward)[a];
      const HostTensor& actual = results.outputs(back)[b];
      if (mine.tensors()[a].role == Role::out || wanted.bytes.empty() || sums_heads(mine, a)) {
        continue;
      }
      const Slack slack = slack_of(results, forward, there);
      for (std::int64_t i = 0; i < wanted.shape.elements(); ++i) {
        const double own_bound = std::max(0.0, again[b].bound[static_cast<std::size_t>(i)]);
        const bool copied = again[b].bound[static_cast<std::size_t>(i)] < 0;
        const double bound = copied || slack.exact ? 0.0 : own_bound + slack.of_value;
        if (!(std::abs(actual.at(i) - wanted.at(i)) <= bound)) {
          Failure failure;
          failure.tensor = wanted.shape.spec->name;
          failure.where = copied ? "copied" : "computed";
          failure.kind = "not_restored";
          failure.message = fmt::format("{} is {:.9g} after the round trip, was {:.9g}, expected within {:.3g}",
                                        element_name(wanted.shape, i), actual.at(i), wanted.at(i), bound);
          return failure;
        }
      }
    }
    return std::nullopt;
  }
};

}  // namespace

const Property& round_trip_property() {
  static const RoundTrip property;
  return property;
}

}  // namespace tileproof
