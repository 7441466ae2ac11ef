// The backward is the transpose of the forward. Both sides are summed per group (a pair of a head, or a copied
// element), so that one wrong element is not drowned; e and y are random.
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "plans.h"

namespace tileproof {

namespace {

struct Sums {
  double difference = 0;
  double bound = 0;
  const TensorShape* shape = nullptr;  // of an element of the group, by which it is named
  std::int64_t element = 0;
};
using Groups = std::vector<Sums>;

// Adds sign * result * cotangent per group; each product may be off by |cotangent| times the bound of the result. The
// sums themselves are in double: 2^-43 of the magnitudes covers up to a thousand terms
// (two for a pair, two a head where a row is shared by up to 256 of them), each addition being off by 2^-53.
void add(const Problem& problem, std::size_t tensor, bool output, const HostTensor& result, const Bounded& bounds,
         const HostTensor& cotangent, double sign, Groups& groups) {
  const Operation::GroupOf group_of = problem.operation().groups(problem, tensor, output);
  for (std::int64_t i = 0; group_of && i < std::ssize(bounds.bound); ++i) {
    const std::int64_t number = group_of(i);
    if (number >= std::ssize(groups)) {
      groups.resize(static_cast<std::size_t>(std::max(number + 1, 2 * std::ssize(groups))));
    }
    const double a = result.at(i);
    const double b = cotangent.at(i);
    Sums& sums = groups[static_cast<std::size_t>(number)];
    sums.difference += sign * a * b;
    sums.bound += std::abs(b) * std::max(0.0, bounds.bound[static_cast<std::size_t>(i)]) + 0x1p-43 * std::abs(a * b);
    if (sums.shape == nullptr) {
      sums.shape = &result.shape;
      sums.element = i;
    }
  }
}

class Adjoint : public Property {
 public:
  std::string_view name() const override { return "adjoint"; }
  std::string_view holds_when() const override {
    return "<F e, y> = <e, F' y> for every group of elements that depend on each other";
  }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    const Problem& problem = context.the_case.problem;
    const std::string& recipe = problem.choice("data");
    if (context.adjoint == nullptr || recipe == "special" || recipe == "index") {
      return Expectation::no("needs the adjoint's subject and data of ordinary size");
    }
    const Operation& other = *context.adjoint->operation;
    Problem transposed = problem.under(other);
    if (problem.choice("broadcast") != "none" || outside_limits(*context.adjoint, transposed)) {
      return Expectation::no("the adjoint's subject does not take this problem");
    }
    RunRequest request{context.adjoint, plan.problem(transposed), context.the_case.tilings.front(), {}, {}};
    return {.applies = true,
            .power = has_elements(problem),
            .reason = {},
            .runs = {base_run(context, plan), plan.run(request)}};
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    const Problem& problem = context.the_case.problem;
    const Operation& mine = *context.subject.operation;
    const Operation& other = *context.adjoint->operation;
    const RunId there = expectation.runs[1];
    const auto my_bounds = reference_values(results, expectation.runs[0]);
    const auto other_bounds = reference_values(results, there);
    Groups groups;
    for (const auto& [own, partner] : mine.algebra().adjoint_tensors) {
      const std::size_t a = mine.tensor_index(own);
      const std::size_t b = other.tensor_index(partner);
      if (mine.tensors()[a].role != Role::in) {  // F e against y
        add(problem, a, true, results.outputs(expectation.runs[0])[a], my_bounds[a], results.inputs(there)[b], 1,
            groups);
      }
      if (mine.tensors()[a].role != Role::out) {  // e against F' y
        add(problem, a, false, results.outputs(there)[b], other_bounds[b], results.inputs(expectation.runs[0])[a], -1,
            groups);
      }
    }
    for (const Sums& sums : groups) {
      if (!(std::abs(sums.difference) <= sums.bound)) {
        Failure failure;
        failure.tensor = sums.shape->spec->name;
        failure.where = "group";
        failure.kind = "not_adjoint";
        failure.message = fmt::format("<F e, y> - <e, F' y> is {:.6g} around {}, expected at most {:.3g}",
                                      sums.difference, element_name(*sums.shape, sums.element), sums.bound);
        return failure;
      }
    }
    return std::nullopt;
  }
};

}  // namespace

const Property& adjoint_property() {
  static const Adjoint property;
  return property;
}

}  // namespace tileproof
