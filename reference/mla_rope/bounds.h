// Error bounds of a sum of two products, for the arithmetic that a subject declares. Derived in harness/docs/bounds.md.
#ifndef TILEPROOF_REFERENCE_MLA_ROPE_BOUNDS_H
#define TILEPROOF_REFERENCE_MLA_ROPE_BOUNDS_H

#include <Eigen/Core>

#include "tileproof/operation.h"

namespace tileproof {

using Values = Eigen::ArrayXd;

// A floating-point format: unit roundoff, half its smallest subnormal, smallest normal, largest finite, digits.
struct Format {
  double roundoff;
  double half_subnormal;
  double smallest_normal;
  double largest;
  int digits;
};
Format format_of(Dtype dtype);

struct RopeArithmetic {
  RopeArithmetic(const Problem& problem, const tileproof_arithmetic& declared);
  Format compute;      // of products and their sum
  Format accumulator;  // of a sum over heads
  Format storage;
  bool rounds_again;   // results in `compute` are rounded once more to storage
  bool sum_rounded;
  bool flush;
  Dtype storage_dtype;
  Dtype compute_dtype;
  Dtype accumulator_dtype;
};

// value = a*c + sign * b*s, with the bound for inputs a, b that carry errors of at most a_error, b_error (may be empty).
void rotate_component(const RopeArithmetic& arithmetic, const Values& a, const Values& c, const Values& b,
                      const Values& s, double sign, const Values* a_error, const Values* b_error, Values& value,
                      Values& bound);

// Bound of a sum of `count` terms whose absolute values sum to `magnitude`, rounded to storage when declared.
void sum_bound(const RopeArithmetic& arithmetic, const Values& sum, const Values& magnitude, std::int64_t count,
               Values& bound);

bool representable(Dtype dtype, double value);

// Whether a*c, b*s, their sum and the stored result are all representable: then every order and contraction agrees.
bool component_is_exact(const RopeArithmetic& arithmetic, double a, double c, double b, double s, double value);

}  // namespace tileproof

#endif
