#include <cmath>

#include <fmt/format.h>

#include "memory/float_bits.h"
#include "mla_rope/rope_operation.h"

namespace tileproof {

namespace {

// `count` elements of a packed tensor, `step` apart, as doubles.
void load_values(const HostTensor& tensor, std::int64_t start, std::int64_t step, std::int64_t count, Values& out) {
  out.resize(count);
  switch (tensor.shape.dtype) {
    case Dtype::f32: {
      const float* from = tensor.as<const float>().data() + start;
      for (std::int64_t i = 0; i < count; ++i) {
        out[i] = from[i * step];
      }
      return;
    }
    case Dtype::bf16: {
      const std::uint16_t* from = tensor.as<const std::uint16_t>().data() + start;
      for (std::int64_t i = 0; i < count; ++i) {
        out[i] = bf16_to_float(from[i * step]);
      }
      return;
    }
    case Dtype::f16:
    case Dtype::i32: break;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = tensor.at(start + i * step);
  }
}

}  // namespace

RopeRows::RopeRows(const Problem& problem, const tileproof_arithmetic& declared, const HostTensors& inputs,
                   ReferenceSink& sink)
    : operation_(problem.operation()),
      inputs_(inputs),
      sink_(sink),
      arithmetic_(problem, declared),
      positions_(rope_positions(problem)),
      half_(problem.integer("emb_dim") / 2),
      exact_(problem.choice("data") == "exact" && problem.choice("tables") != "yarn"),
      inverse_(problem.has("inverse") && problem.flag("inverse")),
      cos_(operation_.tensor_index("cos")),
      sin_(operation_.tensor_index("sin")) {}

void RopeRows::load_tables(std::int64_t token) {
  const std::int64_t start = positions_[static_cast<std::size_t>(token)] * 2 * half_;
  load_values(inputs_[cos_], start, 1, half_, tables_.cos_left);
  load_values(inputs_[cos_], start + half_, 1, half_, tables_.cos_right);
  load_values(inputs_[sin_], start, 1, half_, tables_.sin_left);
  load_values(inputs_[sin_], start + half_, 1, half_, tables_.sin_right);
  if (inverse_) {
    tables_.sin_left = -tables_.sin_left;
    tables_.sin_right = -tables_.sin_right;
  }
}

void RopeRows::load(std::size_t tensor, std::int64_t start, bool interleaved, Values& first, Values& second) const {
  const HostTensor& from = inputs_[tensor];
  load_values(from, start, interleaved ? 2 : 1, half_, first);
  load_values(from, interleaved ? start + 1 : start + half_, interleaved ? 2 : 1, half_, second);
}

void RopeRows::prove(std::size_t tensor, std::int64_t row, const Values& a, const Values& c, const Values& b,
                     const Values& s, const Values& value) {
  for (std::int64_t i = 0; i < half_; ++i) {
    if (!component_is_exact(arithmetic_, a[i], c[i], b[i], s[i], value[i])) {
      sink_.inexact(tensor, row, fmt::format("{} * {} and {} * {} at pair {}", a[i], c[i], b[i], s[i], i));
      return;
    }
  }
}

void RopeRows::report(std::size_t tensor, std::int64_t row, std::int64_t dim, bool interleaved, bool adjoint,
                      const Values& first, const Values& second, const Values* first_error,
                      const Values* second_error) {
  const TokenTables& t = tables_;
  const std::int64_t step = interleaved ? 2 : 1;
  const std::int64_t second_dim = interleaved ? dim + 1 : dim + half_;
  // forward: left = x1 cos_l - x2 sin_l, right = x2 cos_r + x1 sin_r; adjoint: x1 = l cos_l + r sin_r,
  // x2 = r cos_r - l sin_l.
  const Values& first_sin = adjoint ? t.sin_right : t.sin_left;
  const Values& second_sin = adjoint ? t.sin_left : t.sin_right;
  const auto component = [&](std::int64_t at, const Values& a, const Values& c, const Values& b, const Values& s,
                             double sign, const Values* a_error, const Values* b_error) {
    rotate_component(arithmetic_, a, c, b, s, sign, a_error, b_error, value_, bound_);
    if (exact_) {
      prove(tensor, row, a, c, b, s, value_);
      bound_.setZero();
    }
    sink_.computed(tensor, row, at, step, value_.data(), bound_.data(), half_);
  };
  component(dim, first, t.cos_left, second, first_sin, adjoint ? 1.0 : -1.0, first_error, second_error);
  component(second_dim, second, t.cos_right, first, second_sin, adjoint ? -1.0 : 1.0, second_error, first_error);
}

void RopeRows::prove_sum(std::size_t tensor, std::int64_t row, const Values& terms_magnitude, bool whole) {
  if (!whole || terms_magnitude.maxCoeff() > std::exp2(arithmetic_.accumulator.digits)) {
    sink_.inexact(tensor, row, fmt::format("a sum over heads of magnitude {}{}", terms_magnitude.maxCoeff(),
                                           whole ? "" : " of numbers that are not whole"));
  }
}

}  // namespace tileproof
