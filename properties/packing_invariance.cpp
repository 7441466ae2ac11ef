// Every independent part of the problem is run alone, on its own rows, and must give the same rows.
#include <numeric>

#include "plans.h"

namespace tileproof {

namespace {

// The first, a middle and the last part: what goes wrong in packing goes wrong at a boundary.
std::vector<Operation::Part> chosen_parts(const Problem& problem) {
  std::vector<Operation::Part> parts = problem.operation().parts(problem);
  if (parts.size() > 3) {
    parts = {parts.front(), parts[parts.size() / 2], parts.back()};
  }
  return parts;
}

std::vector<std::int64_t> first_rows(const TensorShape& shape) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(shape.shape[0]));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

class PackingInvariance : public Property {
 public:
  std::string_view name() const override { return "packing_invariance"; }
  std::string_view holds_when() const override {
    return "packed sequences and batches are what each is alone; padding behind them changes nothing";
  }

  Expectation plan(const CaseContext& context, Plan& plan) const override {
    const Problem& problem = context.the_case.problem;
    const std::vector<Operation::Part> parts = chosen_parts(problem);
    if (parts.empty()) {
      return Expectation::no("the problem does not fall into independent parts");
    }
    if (problem.choice("broadcast") == "token") {
      return Expectation::no("tokens are equal under a broadcast over tokens");
    }
    Expectation expectation{.applies = true,
                            .power = problem.operation().parts(problem).size() > 1,
                            .reason = {},
                            .runs = {base_run(context, plan)}};
    const ProblemId whole = plan.problem(problem);
    for (const Operation::Part& part : parts) {
      RunRequest alone{&context.subject, plan.problem(part.problem), context.the_case.tilings.front(), {}, {}};
      for (const TensorShape& shape : part.problem.operation().shapes(part.problem)) {
        if (shape.spec->content == Content::recipe && shape.spec->role != Role::out) {
          alone.gathers.push_back({shape.index, false, whole, shape.index, AxisKind::token, part.tokens});
        } else if (shape.axis(AxisKind::row) >= 0) {
          alone.gathers.push_back({shape.index, false, whole, shape.index, AxisKind::row, first_rows(shape)});
        }
      }
      expectation.runs.push_back(plan.run(alone));
    }
    return expectation;
  }

  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    const std::vector<Operation::Part> parts = chosen_parts(context.the_case.problem);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Correspondence tokens{AxisKind::token, parts[i].tokens, false};
      if (auto failure =
              compare_runs(context, results, expectation.runs[i + 1], expectation.runs[0], tokens, "differs")) {
        failure->evidence.push_back("alone: " + text(parts[i].problem));
        return failure;
      }
    }
    return std::nullopt;
  }
};

}  // namespace

const Property& packing_invariance_property() {
  static const PackingInvariance property;
  return property;
}

}  // namespace tileproof
