// Error bounds of a sum of two products, and of a sum over heads, for the arithmetic that a subject declares.
// Derived in harness/docs/bounds.md.
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
  Dtype storage_dtype;
  Dtype compute_dtype;
  Dtype accumulator_dtype;
  Format storage;
  Format compute;       // of products and their sum
  Format accumulator;   // of a sum over heads
  bool rounds_again;    // results in `compute` are rounded once more to storage
  bool tables_rounded;  // tables wider than `compute` are rounded to it first
  bool sum_rounded;     // a sum over heads is rounded to storage before it is rotated
  bool flush;

  // |computed - value| <= per_product * (|ac| + |bs|) + per_value * |value| + constant
  //                       + per_carried * (errors that a and b bring along) + per_flush * (4 + |a| + |b| + |c| + |s|).
  double per_product, per_value, per_carried, per_flush, constant;
  double safe;  // where no bound of a row exceeds this, nothing in it can leave the range of its format
};

// The four factors of a row of components a*c + sign * b*s, and the errors that a and b carry (both or neither).
struct Component {
  const Values& a;
  const Values& c;
  const Values& b;
  const Values& s;
  double sign;
  const Values* a_error = nullptr;
  const Values* b_error = nullptr;
};

// value and bound of every component of the row; both are resized. See ReferenceSink::computed for what a bound of 0
// or infinity says where values leave the range.
void rotate_component(const RopeArithmetic& arithmetic, const Component& x, Values& value, Values& bound);

// Bound of a sum of `count` terms whose absolute values sum to `magnitude`, rounded to storage when declared.
void sum_bound(const RopeArithmetic& arithmetic, const Values& sum, const Values& magnitude, std::int64_t count,
               Values& bound);

bool representable(Dtype dtype, double value);

// The first component of a row for which a product, their sum or the stored result is not representable, -1 when there
// is none: then every order and every contraction gives the same value.
std::int64_t first_inexact(const RopeArithmetic& arithmetic, const Component& x, const Values& value);

// Whether a sum over heads is the same in any order: whole numbers, and no partial sum needs more digits than there
// are.
bool sum_is_exact(const RopeArithmetic& arithmetic, const Values& sum, const Values& magnitude, bool whole);

}  // namespace tileproof

#endif
