#include <array>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "memory/float_bits.h"
#include "mla_rope/rope_operation.h"

namespace tileproof {

namespace {

// f16 has no cheap conversion by shifting; 256 KiB of floats are looked up instead.
const float* half_table() {
  static const std::vector<float> table = [] {
    std::vector<float> values(65536);
    for (std::uint32_t bits = 0; bits < values.size(); ++bits) {
      values[bits] = half_to_float(static_cast<std::uint16_t>(bits));
    }
    return values;
  }();
  return table.data();
}

template <typename T, typename Convert>
void convert_pairs(const T* from, bool interleaved, std::int64_t half, double* first, double* second, Convert convert) {
  if (interleaved) {
    for (std::int64_t i = 0; i < half; ++i) {
      first[i] = static_cast<double>(convert(from[2 * i]));
      second[i] = static_cast<double>(convert(from[2 * i + 1]));
    }
    return;
  }
  for (std::int64_t i = 0; i < half; ++i) {
    first[i] = static_cast<double>(convert(from[i]));
  }
  for (std::int64_t i = 0; i < half; ++i) {
    second[i] = static_cast<double>(convert(from[half + i]));
  }
}

// The `half` pairs of a rope row that starts at packed element `start`, as doubles.
void load_pairs(const HostTensor& tensor, std::int64_t start, bool interleaved, std::int64_t half, Values& first,
                Values& second) {
  first.resize(half);
  second.resize(half);
  const auto with = [&](const auto* from, auto convert) {
    convert_pairs(from + start, interleaved, half, first.data(), second.data(), convert);
  };
  switch (tensor.shape.dtype) {
    case Dtype::f32: with(tensor.as<float>().data(), [](float value) { return value; }); return;
    case Dtype::bf16:
      with(tensor.as<std::uint16_t>().data(), [](std::uint16_t bits) { return bf16_to_float(bits); });
      return;
    case Dtype::f16:
      with(tensor.as<std::uint16_t>().data(), [table = half_table()](std::uint16_t bits) { return table[bits]; });
      return;
    case Dtype::i32: with(tensor.as<std::int32_t>().data(), [](std::int32_t value) { return value; }); return;
  }
}

// The positions that the subject is given, where it is given any.
std::vector<std::int64_t> positions_of(const Problem& problem, const HostTensors& inputs) {
  const std::size_t tensor = problem.operation().tensor_index("position_ids");
  if (tensor < inputs.size() && !inputs[tensor].bytes.empty()) {
    const auto given = inputs[tensor].as<std::int32_t>();
    return {given.begin(), given.end()};
  }
  return rope_positions(problem);
}

}  // namespace

RopeRows::RopeRows(const Problem& problem, const tileproof_arithmetic& declared, const HostTensors& inputs,
                   ReferenceSink& sink)
    : inputs_(inputs),
      sink_(sink),
      arithmetic_(problem, declared),
      positions_(positions_of(problem, inputs)),
      half_(problem.integer("emb_dim") / 2),
      exact_(problem.choice("data") == "exact"),
      inverse_(problem.has("inverse") && problem.flag("inverse")),
      cos_(problem.operation().tensor_index("cos")),
      sin_(problem.operation().tensor_index("sin")) {}

void RopeRows::load_tables(std::int64_t token) {
  const std::int64_t position = positions_[static_cast<std::size_t>(token)];
  if (position == loaded_position_) {
    return;
  }
  loaded_position_ = position;
  const std::int64_t start = position * 2 * half_;
  load_pairs(inputs_[cos_], start, false, half_, cos_left_, cos_right_);
  load_pairs(inputs_[sin_], start, false, half_, sin_left_, sin_right_);
  if (inverse_) {
    sin_left_ = -sin_left_;
    sin_right_ = -sin_right_;
  }
}

void RopeRows::load(std::size_t tensor, std::int64_t start, bool interleaved, Values& first, Values& second) const {
  load_pairs(inputs_[tensor], start, interleaved, half_, first, second);
}

void RopeRows::rotate(bool adjoint, const Values& first, const Values& second, const Values* first_error,
                      const Values* second_error) {
  // forward: left = x1 cos_l - x2 sin_l, right = x2 cos_r + x1 sin_r; adjoint: x1 = l cos_l + r sin_r,
  // x2 = r cos_r - l sin_l.
  const Component one{first,       cos_left_,   second, adjoint ? sin_right_ : sin_left_, adjoint ? 1.0 : -1.0,
                      first_error, second_error};
  const Component two{second,       cos_right_, first, adjoint ? sin_left_ : sin_right_, adjoint ? -1.0 : 1.0,
                      second_error, first_error};
  rotate_component(arithmetic_, one, first_value_, first_bound_);
  rotate_component(arithmetic_, two, second_value_, second_bound_);
  inexact_.clear();
  if (exact_) {
    prove(one, first_value_);
    prove(two, second_value_);
    if (inexact_.empty()) {
      first_bound_.setZero();
      second_bound_.setZero();
    }
  }
}

void RopeRows::prove(const Component& x, const Values& value) {
  const std::int64_t i = first_inexact(arithmetic_, x, value);
  if (i >= 0) {
    inexact_ = fmt::format("{} * {} and {} * {} at pair {}", x.a[i], x.c[i], x.b[i], x.s[i], i);
  }
}

void RopeRows::report(std::size_t tensor, std::int64_t row, std::int64_t dim, bool interleaved) const {
  if (!inexact_.empty()) {
    sink_.inexact(tensor, row, inexact_);
  }
  const std::int64_t step = interleaved ? 2 : 1;
  const std::int64_t second_dim = interleaved ? dim + 1 : dim + half_;
  sink_.computed(tensor, row, dim, step, first_value_.data(), first_bound_.data(), half_);
  sink_.computed(tensor, row, second_dim, step, second_value_.data(), second_bound_.data(), half_);
}

void RopeRows::prove_sum(std::size_t tensor, std::int64_t row, const Values& sum, const Values& magnitude, bool whole) {
  if (exact_ && !sum_is_exact(arithmetic_, sum, magnitude, whole)) {
    sink_.inexact(tensor, row,
                  fmt::format("a sum over heads of magnitude {}{}", magnitude.maxCoeff(),
                              whole ? "" : " of numbers that are not whole"));
  }
}

}  // namespace tileproof
