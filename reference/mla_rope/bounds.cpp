#include "mla_rope/bounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "memory/float_bits.h"

namespace tileproof {

namespace {

// The reference's own arithmetic: two products of at most 48 bits, exact in double, and one rounded sum; or products of
// a sum over up to 256 heads. 2^-44 of the magnitudes is far above both, and far below a rounding to f32.
constexpr double kDoubleError = 0x1p-44;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Dtype resolve(std::int32_t precision, const Problem& problem) {
  const auto storage = static_cast<Dtype>(problem.integer("dtype"));
  const bool same_tables = problem.integer("table_dtype") == 0;
  const bool in_storage = precision == TILEPROOF_PRECISION_STORAGE ||
                          (precision == TILEPROOF_PRECISION_STORAGE_IF_TABLES_MATCH && same_tables);
  return in_storage ? storage : Dtype::f32;
}

bool overflows(double v, double largest) { return std::isfinite(v) && std::abs(v) > largest; }

// An infinity or NaN among the inputs decides the class of the result: bound 0. Where a finite product, sum or result
// may leave the range, the answer may be an infinity, or as inf - inf a NaN, or neither: no promise, bound infinity.
double bound_at_the_extremes(const RopeArithmetic& arithmetic, const Component& x, Eigen::Index i, double value,
                             double bound) {
  const double a = x.a[i];
  const double b = x.b[i];
  const bool nan_anyway = std::isnan(a) || std::isnan(b);
  const bool uncertain = x.a_error != nullptr && !((*x.a_error)[i] < kInfinity && (*x.b_error)[i] < kInfinity);
  // An infinity times what may become zero may become a NaN.
  const bool vanishes = (arithmetic.flush || arithmetic.tables_rounded) && std::isinf(value);
  if (!nan_anyway && (uncertain || vanishes)) {
    return kInfinity;
  }
  const bool lost = overflows(a * x.c[i], arithmetic.compute.largest) ||
                    overflows(b * x.s[i], arithmetic.compute.largest) ||
                    (std::isfinite(value) && !(std::abs(value) + bound <= arithmetic.storage.largest));
  return lost && !nan_anyway ? kInfinity : std::isfinite(value) ? bound : 0;
}

// Whether all bounds are safe; a NaN is not. One pass: rows are short, and most of a check's judging is spent here.
bool value_and_bound(const RopeArithmetic& arithmetic, const Component& x, double* __restrict value,
                     double* __restrict bound) {
  const double* const a = x.a.data();
  const double* const c = x.c.data();
  const double* const b = x.b.data();
  const double* const s = x.s.data();
  const auto count = static_cast<std::int64_t>(x.a.size());
  const auto [per_product, per_value, constant, safe] =
      std::array{arithmetic.per_product, arithmetic.per_value, arithmetic.constant, arithmetic.safe};
  std::int64_t unsafe = 0;  // as wide as a double, which keeps the loop in vectors
  for (std::int64_t i = 0; i < count; ++i) {
    const double ac = a[i] * c[i];
    const double bs = b[i] * s[i];
    value[i] = ac + x.sign * bs;
    bound[i] = per_product * (std::abs(ac) + std::abs(bs)) + per_value * std::abs(value[i]) + constant;
    unsafe += bound[i] <= safe ? 0 : 1;
  }
  if (x.a_error == nullptr && arithmetic.per_flush == 0) {
    return unsafe == 0;
  }
  Eigen::Map<Values> bounds(bound, count);
  if (x.a_error != nullptr) {
    bounds += arithmetic.per_carried * (x.c.abs() * *x.a_error + x.s.abs() * *x.b_error);
  }
  if (arithmetic.per_flush != 0) {
    bounds += arithmetic.per_flush * (4 + x.a.abs() + x.b.abs() + x.c.abs() + x.s.abs());
  }
  return (bounds <= safe).all();
}

}  // namespace

Format format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16: return {0x1p-11, 0x1p-25, 0x1p-14, 65504.0, 11};
    case Dtype::bf16: return {0x1p-8, 0x1p-134, 0x1p-126, 0x1.fep127, 8};
    case Dtype::f32:
    case Dtype::i32: break;
  }
  return {0x1p-24, 0x1p-150, 0x1p-126, 0x1.fffffep127, 24};
}

RopeArithmetic::RopeArithmetic(const Problem& problem, const tileproof_arithmetic& declared)
    : storage_dtype(static_cast<Dtype>(problem.integer("dtype"))),
      compute_dtype(resolve(declared.products, problem)),
      accumulator_dtype(resolve(declared.accumulator, problem)),
      storage(format_of(storage_dtype)),
      compute(format_of(compute_dtype)),
      accumulator(format_of(accumulator_dtype)),
      rounds_again(compute_dtype != storage_dtype),
      tables_rounded(compute_dtype != Dtype::f32 && problem.integer("table_dtype") != 0),
      flush(declared.flush_to_zero != 0) {
  // Products in the data type take a sum in f32 as rounded to it, whether declared or not.
  sum_rounded = accumulator_dtype != storage_dtype && (declared.sum_rounded_to_storage != 0 || !rounds_again);
  const double u = compute.roundoff;
  const double eta = compute.half_subnormal;
  const double again = rounds_again ? 1 + storage.roundoff : 1;
  const double table = tables_rounded ? u : 0;
  per_product = again * ((1 + u) * (u + table + u * table) + kDoubleError);
  per_value = again * u + (rounds_again ? storage.roundoff : 0);
  per_carried = again * (1 + u) * (1 + u + table);
  // A rounded table that underflows is off by eta, times a or b: covered like a flushed one.
  per_flush = again * (flush ? compute.smallest_normal : tables_rounded ? eta : 0);
  constant = again * (1 + u) * 2 * eta + (rounds_again ? storage.half_subnormal : 0);
  // A bound of at most `safe` puts |ac| + |bs| at most safe / per_product, and |value| cannot exceed that by more than
  // its rounding.
  safe = 0.999 * std::min(compute.largest * per_product, storage.largest / (1 / per_product + 1));
}

void rotate_component(const RopeArithmetic& arithmetic, const Component& x, Values& value, Values& bound) {
  value.resize(x.a.size());
  bound.resize(x.a.size());
  if (value_and_bound(arithmetic, x, value.data(), bound.data())) {
    return;
  }
  for (Eigen::Index i = 0; i < value.size(); ++i) {
    bound[i] = bound_at_the_extremes(arithmetic, x, i, value[i], bound[i]);
  }
}

void sum_bound(const RopeArithmetic& arithmetic, const Values& sum, const Values& magnitude, std::int64_t count,
               Values& bound) {
  const double roundings = static_cast<double>(count - 1) * arithmetic.accumulator.roundoff;
  // Partial sums in a narrow type can grow without limit once there are 1 / u terms; then nothing is promised.
  const double gamma = roundings < 1 ? roundings / (1 - roundings) : kInfinity;
  bound = (count > 1 ? gamma : 0.0) * magnitude + kDoubleError * magnitude;
  if (arithmetic.flush) {
    bound += 2 * static_cast<double>(count) * arithmetic.accumulator.smallest_normal;
  }
  double largest = arithmetic.accumulator.largest;
  if (arithmetic.sum_rounded) {
    bound += arithmetic.storage.roundoff * (sum.abs() + bound) + arithmetic.storage.half_subnormal;
    largest = std::min(largest, arithmetic.storage.largest);
  }
  // Partial sums may leave the range in one order and not in another; a NaN stays one in every order.
  for (Eigen::Index i = 0; i < sum.size(); ++i) {
    if (!(magnitude[i] + bound[i] <= largest)) {
      bound[i] = std::isnan(sum[i]) ? 0 : kInfinity;
    }
  }
}

bool representable(Dtype dtype, double value) {
  const auto narrow = static_cast<float>(value);
  if (static_cast<double>(narrow) != value) {
    return false;
  }
  if (dtype == Dtype::bf16) {
    return bf16_to_float(float_to_bf16(narrow)) == narrow;
  }
  return dtype != Dtype::f16 || half_to_float(float_to_half(narrow)) == narrow;
}

std::int64_t first_inexact(const RopeArithmetic& arithmetic, const Component& x, const Values& value) {
  // Whole products whose magnitudes sum to at most 2^digits have a whole sum of at most that: all are representable.
  const double whole = std::exp2(std::min(arithmetic.compute.digits, arithmetic.storage.digits));
  const double fractions = ((x.a * x.c) - (x.a * x.c).rint()).abs().sum() +
                           ((x.b * x.s) - (x.b * x.s).rint()).abs().sum() + (x.c - x.c.rint()).abs().sum() +
                           (x.s - x.s.rint()).abs().sum();
  if (fractions == 0 && ((x.a * x.c).abs() + (x.b * x.s).abs()).maxCoeff() <= whole) {
    return -1;
  }
  const Dtype compute = arithmetic.compute_dtype;
  for (Eigen::Index i = 0; i < value.size(); ++i) {
    const bool exact = representable(compute, x.c[i]) && representable(compute, x.s[i]) &&
                       representable(compute, x.a[i] * x.c[i]) && representable(compute, x.b[i] * x.s[i]) &&
                       representable(compute, value[i]) && representable(arithmetic.storage_dtype, value[i]);
    if (!exact) {
      return i;
    }
  }
  return -1;
}

bool sum_is_exact(const RopeArithmetic& arithmetic, const Values& sum, const Values& magnitude, bool whole) {
  if (!whole || !(magnitude.maxCoeff() <= std::exp2(arithmetic.accumulator.digits))) {
    return false;
  }
  for (Eigen::Index i = 0; arithmetic.sum_rounded && i < sum.size(); ++i) {
    if (!representable(arithmetic.storage_dtype, sum[i])) {
      return false;
    }
  }
  return true;
}

}  // namespace tileproof
