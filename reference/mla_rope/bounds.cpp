#include "mla_rope/bounds.h"

#include <cmath>
#include <limits>

#include "memory/float_bits.h"

namespace tileproof {

namespace {

// The reference's own arithmetic: two products that are exact in double (at most 48 bits) and one rounded sum; sums
// over heads of up to 256 terms. Far above both.
constexpr double kDoubleError = 0x1p-44;

// An infinity or NaN among the inputs decides the class of the result (bound 0). Where a finite product or result may
// leave the range, the answer may be an infinity or (inf - inf) a NaN: no promise (bound infinity).
void bound_extremes(const RopeArithmetic& arithmetic, const Values& a, const Values& c, const Values& b, const Values& s,
                    const Values& value, Values& bound) {
  const auto overflows = [](double v, double largest) { return std::isfinite(v) && std::abs(v) > largest; };
  for (Eigen::Index i = 0; i < value.size(); ++i) {
    const bool lost = overflows(a[i] * c[i], arithmetic.compute.largest) ||
                      overflows(b[i] * s[i], arithmetic.compute.largest) ||
                      overflows(std::abs(value[i]) + bound[i], arithmetic.storage.largest);
    if (lost) {
      bound[i] = std::numeric_limits<double>::infinity();
    } else if (!std::isfinite(value[i])) {
      bound[i] = 0;
    }
  }
}

Dtype resolve(std::int32_t precision, const Problem& problem) {
  const auto storage = static_cast<Dtype>(problem.integer("dtype"));
  const bool same_tables = problem.integer("table_dtype") == 0;
  const bool in_storage = precision == TILEPROOF_PRECISION_STORAGE ||
                          (precision == TILEPROOF_PRECISION_STORAGE_IF_TABLES_MATCH && same_tables);
  return in_storage ? storage : Dtype::f32;
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
      accumulator_dtype(resolve(declared.accumulator, problem)) {
  compute = format_of(compute_dtype);
  accumulator = format_of(accumulator_dtype);
  storage = format_of(storage_dtype);
  rounds_again = compute_dtype != storage_dtype;
  sum_rounded = declared.sum_rounded_to_storage != 0;
  flush = declared.flush_to_zero != 0;
}

void rotate_component(const RopeArithmetic& arithmetic, const Values& a, const Values& c, const Values& b,
                      const Values& s, double sign, const Values* a_error, const Values* b_error, Values& value,
                      Values& bound) {
  const double u = arithmetic.compute.roundoff;
  const double eta = arithmetic.compute.half_subnormal;
  value = a * c + sign * (b * s);
  Values products = (a * c).abs() + (b * s).abs();
  Values carried = Values::Zero(value.size());
  if (a_error != nullptr) {
    carried = c.abs() * *a_error + s.abs() * *b_error;
    products += carried;
  }
  bound = (1 + u) * (u * products + 2 * eta) + u * (value.abs() + carried) + carried + kDoubleError * products;
  if (arithmetic.flush) {
    bound += arithmetic.compute.smallest_normal * (4 + c.abs() + s.abs());
  }
  if (arithmetic.rounds_again) {
    bound += arithmetic.storage.roundoff * (value.abs() + bound) + arithmetic.storage.half_subnormal;
  }
  if (!((products <= arithmetic.compute.largest) && (value.abs() + bound <= arithmetic.storage.largest)).all()) {
    bound_extremes(arithmetic, a, c, b, s, value, bound);
  }
}

void sum_bound(const RopeArithmetic& arithmetic, const Values& sum, const Values& magnitude, std::int64_t count,
               Values& bound) {
  const double terms = static_cast<double>(count - 1) * arithmetic.accumulator.roundoff;
  // Rounded partial sums in a narrow type can grow beyond 1/u terms; then nothing is promised.
  const double gamma = terms < 1 ? terms / (1 - terms) : std::numeric_limits<double>::infinity();
  bound = (count > 1 ? gamma : 0.0) * magnitude + kDoubleError * magnitude;
  if (arithmetic.sum_rounded) {
    bound += arithmetic.storage.roundoff * (sum.abs() + bound) + arithmetic.storage.half_subnormal;
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

bool component_is_exact(const RopeArithmetic& arithmetic, double a, double c, double b, double s, double value) {
  return representable(arithmetic.compute_dtype, a * c) && representable(arithmetic.compute_dtype, b * s) &&
         representable(arithmetic.compute_dtype, value) && representable(arithmetic.storage_dtype, value);
}

}  // namespace tileproof
