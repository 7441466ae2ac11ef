#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "execute/executor.h"
#include "memory/float_bits.h"
#include "memory/recipes.h"
#include "search/results.h"

namespace tileproof {

namespace {

thread_local double largest_ratio = 0;

struct Miss {
  std::size_t tensor = 0;
  std::int64_t element = 0;
  double expected = 0;
  double bound = 0;
  bool copied = false;
};

// Compares rows of the reference against packed outputs as they come.
class Judge : public ReferenceSink {
 public:
  Judge(const HostTensors& inputs, const HostTensors& outputs) : inputs_(inputs), outputs_(outputs) {}

  void copied(std::size_t tensor, std::int64_t row, std::int64_t dim, std::size_t source, std::int64_t source_element,
              std::int64_t count) override {
    const HostTensor& out = outputs_[tensor];
    const std::size_t size = size_of(out.shape.dtype);
    const std::int64_t element = row * out.shape.row_length() + dim;
    const std::byte* actual = out.bytes.data() + static_cast<std::size_t>(element) * size;
    const std::byte* wanted = inputs_[source].bytes.data() + static_cast<std::size_t>(source_element) * size;
    compared += count;
    if (std::memcmp(actual, wanted, static_cast<std::size_t>(count) * size) == 0) {
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      if (std::memcmp(actual + static_cast<std::size_t>(i) * size, wanted + static_cast<std::size_t>(i) * size, size) !=
          0) {
        miss({tensor, element + i, inputs_[source].at(source_element + i), 0, true});
      }
    }
  }

  void computed(std::size_t tensor, std::int64_t row, std::int64_t dim, std::int64_t step, const double* value,
                const double* bound, std::int64_t count) override {
    const HostTensor& out = outputs_[tensor];
    const std::int64_t element = row * out.shape.row_length() + dim;
    compared += count;
    switch (out.shape.dtype) {
      case Dtype::f32: {
        const float* from = out.as<const float>().data() + element;
        scan(tensor, element, step, value, bound, count, [from](std::int64_t i) { return double{from[i]}; });
        return;
      }
      case Dtype::bf16: {
        const std::uint16_t* from = out.as<const std::uint16_t>().data() + element;
        scan(tensor, element, step, value, bound, count,
             [from](std::int64_t i) { return double{bf16_to_float(from[i])}; });
        return;
      }
      case Dtype::f16: {
        const std::uint16_t* from = out.as<const std::uint16_t>().data() + element;
        scan(tensor, element, step, value, bound, count,
             [from](std::int64_t i) { return double{half_to_float(from[i])}; });
        return;
      }
      case Dtype::i32: break;
    }
  }

  void inexact(std::size_t tensor, std::int64_t row, const std::string& what) override {
    throw HarnessError(
        fmt::format("the exact recipe is not exact: row {} of {}: {}", row, outputs_[tensor].shape.spec->name, what));
  }

  std::int64_t compared = 0;
  std::int64_t misses = 0;
  Miss first;

 private:
  template <typename Load>
  void scan(std::size_t tensor, std::int64_t element, std::int64_t step, const double* value, const double* bound,
            std::int64_t count, Load load) {
    // The common case in one pass without branches or divisions: everything finite, within its bound, and no closer to
    // it than what was seen before. Counters as wide as a double keep the loop in vectors.
    std::int64_t past_bound = 0;
    std::int64_t record = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double error = std::abs(load(i * step) - value[i]);
      past_bound += error <= bound[i] ? 0 : 1;
      record += error > largest_ratio * bound[i] ? 1 : 0;
    }
    if (past_bound == 0) {
      if (record != 0) {
        raise_largest_ratio(value, bound, count, [&](std::int64_t i) { return load(i * step); });
      }
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const double actual = load(i * step);
      const bool no_promise = std::isinf(bound[i]);
      const bool right = no_promise || (std::isnan(value[i])   ? std::isnan(actual)
                                        : std::isinf(value[i]) ? actual == value[i]
                                                               : std::abs(actual - value[i]) <= bound[i]);
      if (!right) {
        miss({tensor, element + i * step, value[i], bound[i], false});
      }
    }
  }

  template <typename Load>
  static void raise_largest_ratio(const double* value, const double* bound, std::int64_t count, Load load) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (bound[i] > 0) {
        largest_ratio = std::max(largest_ratio, std::abs(load(i) - value[i]) / bound[i]);
      }
    }
  }

  void miss(const Miss& found) {
    if (misses++ == 0 || found.tensor < first.tensor ||
        (found.tensor == first.tensor && found.element < first.element)) {
      first = found;
    }
  }

  const HostTensors& inputs_;
  const HostTensors& outputs_;
};

class Collector : public ReferenceSink {
 public:
  // `made_by_run`: the inputs are what a subject put out, which on exact data need not be exact when it is wrong.
  Collector(const HostTensors& inputs, std::vector<Bounded>& out, const Problem& problem, bool made_by_run)
      : inputs_(inputs), out_(out), made_by_run_(made_by_run), widths_(problem.operation().tensors().size(), 0) {
    const Operation& operation = problem.operation();
    out_.assign(operation.tensors().size(), {});
    for (const TensorShape& shape : operation.shapes(problem)) {
      if (shape.spec->role != Role::in) {
        out_[shape.index].value.assign(static_cast<std::size_t>(shape.elements()), 0);
        out_[shape.index].bound.assign(static_cast<std::size_t>(shape.elements()), 0);
        widths_[shape.index] = shape.row_length();
      }
    }
  }
  void copied(std::size_t tensor, std::int64_t row, std::int64_t dim, std::size_t source, std::int64_t source_element,
              std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) {
      put(tensor, row, dim + i, inputs_[source].at(source_element + i), -1);
    }
  }
  void computed(std::size_t tensor, std::int64_t row, std::int64_t dim, std::int64_t step, const double* value,
                const double* bound, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) {
      put(tensor, row, dim + i * step, value[i], bound[i]);
    }
  }
  void inexact(std::size_t, std::int64_t, const std::string& what) override {
    if (!made_by_run_) {
      throw HarnessError("the exact recipe is not exact: " + what);
    }
  }

 private:
  void put(std::size_t tensor, std::int64_t row, std::int64_t dim, double value, double bound) {
    const auto at = static_cast<std::size_t>(row * widths_[tensor] + dim);
    out_[tensor].value[at] = value;
    out_[tensor].bound[at] = bound;
  }
  const HostTensors& inputs_;
  std::vector<Bounded>& out_;
  bool made_by_run_;
  std::vector<std::int64_t> widths_;
};

// Whether the arithmetic leaves the bits of an output tensor no choice. `reordered`: its heads were permuted, which
// changes the order of whatever is summed over them.
bool must_be_bitwise(const Problem& problem, const tileproof_arithmetic& arithmetic, std::size_t tensor,
                     bool reordered) {
  if (problem.choice("data") == "exact") {
    return true;
  }
  const Operation::Choices shows = problem.operation().choices(problem, arithmetic, tensor);
  return !(arithmetic.contraction_free != 0 && shows.contraction) &&
         !((arithmetic.order_free != 0 || reordered) && shows.order);
}

// Maps a packed element of `a` to the packed element of `b` it corresponds to; -1: to none.
class Mapping {
 public:
  Mapping(const TensorShape& a, const TensorShape& b, const Correspondence& correspondence) {
    if (correspondence.index.empty()) {
      return;
    }
    axis_ = a.axis(correspondence.axis);
    identity_ = axis_ < 0;
    if (identity_) {
      usable_ = correspondence.others;
      return;
    }
    index_ = &correspondence.index;
    merged_ = correspondence.axis == AxisKind::token && a.axis(AxisKind::batch) == axis_ + 1;
    inner_ = 1;
    for (int i = axis_ + (merged_ ? 2 : 1); i < a.rank; ++i) {
      inner_ *= a.shape[static_cast<std::size_t>(i)];
    }
    length_a_ = length(a);
    length_b_ = length(b);
  }
  bool usable() const { return usable_; }
  std::int64_t operator()(std::int64_t element) const {
    if (identity_) {
      return element;
    }
    const std::int64_t inner = element % inner_;
    const std::int64_t at = element / inner_ % length_a_;
    const std::int64_t outer = element / inner_ / length_a_;
    return (outer * length_b_ + (*index_)[static_cast<std::size_t>(at)]) * inner_ + inner;
  }

 private:
  std::int64_t length(const TensorShape& shape) const {
    const auto at = static_cast<std::size_t>(axis_);
    return shape.shape[at] * (merged_ ? shape.shape[at + 1] : 1);
  }
  int axis_ = -1;
  bool identity_ = true;
  bool usable_ = true;
  bool merged_ = false;
  std::int64_t inner_ = 1;
  std::int64_t length_a_ = 1;
  std::int64_t length_b_ = 1;
  const std::vector<std::int64_t>* index_ = nullptr;
};

// The bits of a NaN that arithmetic made are nobody's promise: sign and payload follow the order of operands, which
// differs between the vector and the scalar part of one loop. The payload of a copied NaN is the oracle's to hold.
bool same_bits(const HostTensor& a, std::int64_t i, const HostTensor& b, std::int64_t j) {
  const std::size_t size = size_of(a.shape.dtype);
  const bool equal = std::memcmp(a.bytes.data() + static_cast<std::size_t>(i) * size,
                                 b.bytes.data() + static_cast<std::size_t>(j) * size, size) == 0;
  return equal || (std::isnan(a.at(i)) && std::isnan(b.at(j)));
}

// Equal but for the sign of zero, or both NaN.
bool same_value(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

double largest_error_over_bound() { return largest_ratio; }

const HostTensors& Results::whole(ProblemId id, HostTensors& inputs) const {
  const Stopwatch watch(stage_times().inputs);
  complete_inputs(problem(id), inputs, spare_);
  return inputs;
}

const HostTensors& Results::outputs(RunId id) const {
  RunResult& run = runs_[id];
  if (run.outputs.empty() && run.status == RunResult::Status::ok && executor_ != nullptr) {
    const Stopwatch watch(stage_times().gather);
    executor_->fetch(run);
  }
  return run.outputs;
}

std::string element_name(const TensorShape& shape, std::int64_t element) {
  std::string result;
  for (int i = shape.rank - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    result = fmt::format("{}={}{}{}", name_of(shape.spec->axes[at].kind), element % shape.shape[at],
                         result.empty() ? "" : ", ", result);
    element /= shape.shape[at];
  }
  return fmt::format("{}[{}]", shape.spec->name, result);
}

std::vector<Bounded> reference_values(const Results& results, RunId id) {
  const RunRequest& request = results.request(id);
  const Problem& problem = results.problem_of(id);
  const bool made_by_run =
      std::any_of(request.gathers.begin(), request.gathers.end(), [](const Gather& gather) { return gather.from_run; });
  std::vector<Bounded> result;
  Collector collector(results.inputs(id), result, problem, made_by_run);
  problem.operation().reference(problem, request.subject->raw->arithmetic, results.inputs(id), collector);
  return result;
}

std::vector<Bounded> reference_of(const Problem& problem, const Subject& subject, const HostTensors& inputs) {
  std::vector<Bounded> result;
  Collector collector(inputs, result, problem, true);
  problem.operation().reference(problem, subject.raw->arithmetic, inputs, collector);
  return result;
}

std::optional<Failure> compare_with_reference(const CaseContext& context, const Results& results, RunId id) {
  const HostTensors& outputs = results.outputs(id);
  const Problem& problem = results.problem_of(id);
  Judge judge(results.inputs(id), outputs);
  problem.operation().reference(problem, context.subject.raw->arithmetic, results.inputs(id), judge);
  if (judge.misses == 0) {
    return std::nullopt;
  }
  const Miss& miss = judge.first;
  const HostTensor& tensor = outputs[miss.tensor];
  Failure failure;
  failure.tensor = tensor.shape.spec->name;
  failure.where = miss.copied ? "copied" : "computed";
  failure.kind = "wrong";
  failure.run = id;
  failure.message = fmt::format("{} is {:.9g}, expected {:.9g}{} ({} of {} elements wrong)",
                                element_name(tensor.shape, miss.element), tensor.at(miss.element), miss.expected,
                                miss.copied ? " bit for bit" : fmt::format(" within {:.3g}", miss.bound), judge.misses,
                                judge.compared);
  return failure;
}

namespace {

struct Difference {
  std::int64_t count = 0;
  std::int64_t compared = 0;
  std::int64_t a = 0;
  std::int64_t b = 0;
  double bound = 0;
};

// `va`, `vb`: reference values where the comparison is by bounds; null where it is by bits.
Difference compare_tensor(const HostTensor& a, const HostTensor& b, const Correspondence& correspondence,
                          bool zeros_equal, const Bounded* va, const Bounded* vb) {
  Difference difference;
  // Not operator==, which compares std::byte one by one.
  if (correspondence.index.empty() && a.bytes.size() == b.bytes.size() &&
      std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0) {
    difference.compared = a.shape.elements();
    return difference;
  }
  const Mapping mapping(a.shape, b.shape, correspondence);
  if (!mapping.usable()) {
    return difference;
  }
  const std::int64_t count = a.shape.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t j = mapping(i);
    ++difference.compared;
    if (same_bits(a, i, b, j) || (zeros_equal && a.at(i) == 0 && b.at(j) == 0)) {
      continue;
    }
    double bound = 0;
    if (va != nullptr && va->bound[static_cast<std::size_t>(i)] >= 0) {
      bound = va->bound[static_cast<std::size_t>(i)] + vb->bound[static_cast<std::size_t>(j)];
      if (same_value(a.at(i), b.at(j)) || !(std::abs(a.at(i) - b.at(j)) > bound)) {
        continue;
      }
    }
    if (difference.count++ == 0) {
      difference.a = i;
      difference.b = j;
      difference.bound = bound;
    }
  }
  return difference;
}

}  // namespace

std::optional<Failure> compare_runs(const CaseContext& context, const Results& results, RunId a, RunId b,
                                    const Correspondence& correspondence, std::string_view kind) {
  const Problem& problem = results.problem_of(a);
  const bool reordered = !correspondence.index.empty() && correspondence.axis == AxisKind::head;
  std::vector<Bounded> va;
  std::vector<Bounded> vb;
  if (correspondence.index.empty() && results.same_digests(a, b)) {
    return std::nullopt;
  }
  const HostTensors& outputs_of_a = results.outputs(a);
  const HostTensors& outputs_of_b = results.outputs(b);
  for (std::size_t tensor = 0; tensor < outputs_of_a.size(); ++tensor) {
    const HostTensor& left = outputs_of_a[tensor];
    const HostTensor& right = outputs_of_b[tensor];
    if (left.bytes.empty()) {
      continue;
    }
    const bool bits = must_be_bitwise(problem, context.subject.raw->arithmetic, tensor, reordered);
    if (!bits && va.empty()) {
      va = reference_values(results, a);
      vb = reference_values(results, b);
    }
    const Difference difference = compare_tensor(left, right, correspondence, problem.choice("data") == "exact",
                                                 bits ? nullptr : &va[tensor], bits ? nullptr : &vb[tensor]);
    if (difference.count > 0) {
      Failure failure;
      failure.tensor = left.shape.spec->name;
      failure.where = "values";
      failure.kind = std::string(kind);
      failure.run = b;
      failure.message =
          fmt::format("{} is {:.9g} in one run and {:.9g} in the other{} ({} of {} elements differ)",
                      element_name(left.shape, difference.a), left.at(difference.a), right.at(difference.b),
                      bits ? ", expected the same bits" : fmt::format(", expected within {:.3g}", difference.bound),
                      difference.count, difference.compared);
      return failure;
    }
  }
  return std::nullopt;
}

}  // namespace tileproof
