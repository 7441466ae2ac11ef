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

// One way back: who undoes the operation, on which problem, and which of its tensors hold what mine held.
struct Way {
  const Subject* subject = nullptr;
  Problem problem;
  std::vector<std::pair<std::size_t, std::size_t>> tensors;  // mine, its own
};

std::vector<Way> ways_back(const CaseContext& context, const Problem& rotation) {
  const Operation& mine = rotation.operation();
  std::vector<Way> ways;
  if (context.adjoint != nullptr && !sums_outputs(mine)) {
    const Operation& other = *context.adjoint->operation;
    Way way{context.adjoint, rotation.under(other), {}};
    for (const auto& [own, partner] : mine.algebra().adjoint_tensors) {
      way.tensors.emplace_back(mine.tensor_index(own), other.tensor_index(partner));
    }
    ways.push_back(std::move(way));
  }
  if (const auto undone = mine.undone_by(rotation)) {
    Way way{&context.subject, *undone, {}};
    for (std::size_t tensor = 0; tensor < mine.tensors().size(); ++tensor) {
      if (mine.tensors()[tensor].role == Role::inout) {
        way.tensors.emplace_back(tensor, tensor);
      }
    }
    ways.push_back(std::move(way));
  }
  std::erase_if(ways, [](const Way& way) { return outside_limits(*way.subject, way.problem).has_value(); });
  return ways;
}

class RoundTrip : public Property {
 public:
  std::string_view name() const override { return "round_trip"; }
  std::string_view holds_when() const override {
    return "its adjoint, or itself turned the other way, gives back the input where the tables are a rotation";
  }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    const Problem& problem = context.the_case.problem;
    const std::string& recipe = problem.choice("data");
    if (recipe == "special" || recipe == "index") {
      return Expectation::no("needs data of ordinary size");
    }
    const auto rotation = problem.operation().invertible(problem);
    if (!rotation || problem.choice("broadcast") != "none") {
      return Expectation::no("the problem has no tables that are a rotation");
    }
    const std::vector<Way> ways = ways_back(context, *rotation);
    if (ways.empty()) {
      return Expectation::no(
          "nothing undoes the operation: it sums over heads, or no subject of its adjoint takes this");
    }
    const RunId forward =
        plan.run({&context.subject, plan.problem(*rotation), context.the_case.tilings.front(), {}, {}});
    Expectation expectation{.applies = true, .power = has_elements(problem), .reason = {}, .runs = {forward}};
    for (const Way& way : ways) {
      RunRequest request{way.subject, plan.problem(way.problem), context.the_case.tilings.back(), {}, {}};
      for (const auto& [own, its] : way.tensors) {
        if (problem.operation().tensors()[own].role != Role::in && problem.operation().shape(*rotation, own)) {
          request.gathers.push_back({its, true, forward, own, AxisKind::token, {}});
        }
      }
      expectation.runs.push_back(plan.run(std::move(request)));
    }
    return expectation;
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    const RunId forward = expectation.runs.front();
    const std::vector<Way> ways = ways_back(context, results.problem_of(forward));
    const Slack slack = slack_of(results, forward, reference_values(results, forward));
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const RunId back = expectation.runs[i + 1];
      const std::vector<Bounded> bounds = reference_values(results, back);
      for (const auto& [own, its] : ways[i].tensors) {
        const HostTensor& wanted = results.inputs(forward)[own];
        if (context.subject.operation->tensors()[own].role == Role::out || wanted.bytes.empty() ||
            sums_heads(*context.subject.operation, own)) {
          continue;
        }
        if (auto failure = missed(wanted, results.outputs(back)[its], bounds[its], slack)) {
          failure->evidence.push_back("undone by " + ways[i].subject->name + ": " + text(ways[i].problem));
          return failure;
        }
      }
    }
    return std::nullopt;
  }

 private:
  // `bounds`: of the way back, on what really came out of the way there.
  static std::optional<Failure> missed(const HostTensor& wanted, const HostTensor& actual, const Bounded& bounds,
                                       const Slack& slack) {
    for (std::int64_t i = 0; i < wanted.shape.elements(); ++i) {
      const double own_bound = bounds.bound[static_cast<std::size_t>(i)];
      const bool copied = own_bound < 0;
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
    return std::nullopt;
  }
};

}  // namespace

const Property& round_trip_property() {
  static const RoundTrip property;
  return property;
}

}  // namespace tileproof
