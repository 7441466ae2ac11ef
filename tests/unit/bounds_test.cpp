// Derived bounds against arithmetic that really rounds: never exceeded, and not far from being reached.
#include "mla_rope/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "memory/counter_random.h"
#include "memory/float_bits.h"

namespace tileproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kDtypeF32 = 0;
constexpr std::int64_t kDtypeF16 = 1;
constexpr std::int64_t kDtypeBf16 = 2;

RopeArithmetic arithmetic(std::int64_t dtype, std::int64_t table_dtype, const tileproof_arithmetic& declared) {
  Problem problem(*find_operation("mla_rope_q_fwd"));
  problem.set("dtype", dtype).set("table_dtype", table_dtype);
  return {problem, declared};
}

// Correctly rounded to `dtype`; values here are floats or exact doubles, where rounding through float is harmless only
// if it cannot round twice, so the narrow formats round from double directly.
double rounded(Dtype dtype, double value, bool flush = false) {
  const Format format = format_of(dtype);
  if (!std::isfinite(value) || value == 0) {
    return value;
  }
  const double unit = std::max(2 * format.half_subnormal, std::ldexp(1.0, std::ilogb(value) - format.digits + 1));
  const double result = std::nearbyint(value / unit) * unit;
  if (std::abs(result) > format.largest) {
    return std::copysign(kInfinity, result);
  }
  return flush && std::abs(result) < format.smallest_normal ? 0 : result;
}

// a*c + sign*b*s as a subject may compute it: 0 no contraction, 1 and 2 with either product fused into the sum.
double subject(const RopeArithmetic& x, double a, double c, double b, double s, double sign, int contraction) {
  const auto round = [&x](double v) { return rounded(x.compute_dtype, v, x.flush); };
  if (x.flush) {
    for (double* in : {&a, &b, &c, &s}) {
      *in = round(*in);
    }
  }
  if (x.tables_rounded) {
    c = round(c);
    s = round(s);
  }
  const double ac = contraction == 1 ? a * c : round(a * c);
  const double bs = contraction == 2 ? b * s : round(b * s);
  return rounded(x.storage_dtype, round(ac + sign * bs));
}

// Numbers of `dtype` over `binades` powers of two below 2^top.
double draw_number(CounterStream& draw, Dtype dtype, int top, int binades) {
  const double mantissa = 1 + static_cast<double>(draw.next() >> 11) * 0x1p-53;
  const double sign = draw.below(2) == 0 ? 1 : -1;
  return rounded(dtype,
                 sign * std::ldexp(mantissa, top - static_cast<int>(draw.below(static_cast<std::uint64_t>(binades)))));
}

// The largest error over bound of many random components.
double largest_ratio(const RopeArithmetic& x, Dtype table, int top, int binades) {
  CounterStream draw(17, static_cast<std::uint64_t>(top + 1000));
  double largest = 0;
  constexpr Eigen::Index n = 64;
  Values a(n);
  Values b(n);
  Values c(n);
  Values s(n);
  Values value;
  Values bound;
  for (int row = 0; row < 400; ++row) {
    for (Eigen::Index i = 0; i < n; ++i) {
      a[i] = draw_number(draw, x.storage_dtype, top, binades);
      b[i] = draw_number(draw, x.storage_dtype, top, binades);
      c[i] = draw_number(draw, table, 0, std::min(binades, 8));
      s[i] = draw_number(draw, table, 0, std::min(binades, 8));
    }
    const double sign = row % 2 == 0 ? 1 : -1;
    rotate_component(x, {a, c, b, s, sign}, value, bound);
    for (Eigen::Index i = 0; i < n; ++i) {
      for (int contraction = 0; contraction < 3; ++contraction) {
        const double error = std::abs(subject(x, a[i], c[i], b[i], s[i], sign, contraction) - value[i]);
        EXPECT_LE(error, bound[i]) << a[i] << " * " << c[i] << " + " << sign << " * " << b[i] << " * " << s[i];
        largest = std::max(largest, error / bound[i]);
      }
    }
  }
  return largest;
}

struct Declared {
  std::int64_t dtype;
  std::int64_t table_dtype;
  tileproof_precision products;
};
constexpr Declared kDeclared[] = {
    {kDtypeF32, 0, TILEPROOF_PRECISION_F32},      {kDtypeF16, 0, TILEPROOF_PRECISION_F32},
    {kDtypeBf16, 0, TILEPROOF_PRECISION_F32},     {kDtypeBf16, 1, TILEPROOF_PRECISION_F32},
    {kDtypeF16, 0, TILEPROOF_PRECISION_STORAGE},  {kDtypeBf16, 0, TILEPROOF_PRECISION_STORAGE},
    {kDtypeBf16, 1, TILEPROOF_PRECISION_STORAGE}, {kDtypeF16, 1, TILEPROOF_PRECISION_STORAGE}};

TEST(BoundsTest, RoundedArithmeticStaysWithinAndComesNear) {
  for (const Declared& d : kDeclared) {
    const RopeArithmetic x = arithmetic(d.dtype, d.table_dtype, {d.products, 1, TILEPROOF_PRECISION_F32, 1, 0, 0});
    const Dtype table = d.table_dtype == 0 ? x.storage_dtype : Dtype::f32;
    EXPECT_GT(largest_ratio(x, table, 0, 2), 0.6) << d.dtype << ' ' << d.table_dtype << ' ' << d.products;
  }
}

TEST(BoundsTest, UnderflowIsCovered) {
  for (const Declared& d : kDeclared) {
    for (const int flush : {0, 1}) {
      const RopeArithmetic x =
          arithmetic(d.dtype, d.table_dtype, {d.products, 1, TILEPROOF_PRECISION_F32, 1, 0, flush});
      const Dtype table = d.table_dtype == 0 ? x.storage_dtype : Dtype::f32;
      const int bottom = std::ilogb(x.storage.smallest_normal);
      for (int top = bottom - 8; top <= bottom + 8; top += 4) {
        largest_ratio(x, table, top, 6);
      }
    }
  }
}

TEST(BoundsTest, SumsInAnyOrderStayWithin) {
  CounterStream draw(5, 6);
  for (const auto& [dtype, accumulator] :
       {std::pair{kDtypeF32, TILEPROOF_PRECISION_F32}, std::pair{kDtypeBf16, TILEPROOF_PRECISION_F32},
        std::pair{kDtypeF16, TILEPROOF_PRECISION_STORAGE}}) {
    for (const int sum_rounded : {0, 1}) {
      const RopeArithmetic x = arithmetic(dtype, 0, {TILEPROOF_PRECISION_F32, 1, accumulator, 1, sum_rounded, 0});
      double largest = 0;
      for (int trial = 0; trial < 2000; ++trial) {
        std::vector<double> terms(1 + draw.below(100));
        Values sum = Values::Zero(1);
        Values magnitude = Values::Zero(1);
        for (double& term : terms) {
          // Over so many binades that sums of 8-digit numbers need more than 24 digits.
          term = draw_number(draw, x.storage_dtype, 0, dtype == kDtypeBf16 ? 24 : 4);
          sum[0] += term;
          magnitude[0] += std::abs(term);
        }
        Values bound;
        sum_bound(x, sum, magnitude, std::ssize(terms), bound);
        double computed = terms[0];
        for (std::size_t i = 1; i < terms.size(); ++i) {
          computed = rounded(x.accumulator_dtype, computed + terms[i]);
        }
        computed = sum_rounded != 0 ? rounded(x.storage_dtype, computed) : computed;
        EXPECT_LE(std::abs(computed - sum[0]), bound[0]);
        largest = std::max(largest, bound[0] > 0 ? std::abs(computed - sum[0]) / bound[0] : 0);
      }
      EXPECT_GT(largest, 0.2);
    }
  }
}

// One component in f32, its inputs given.
std::pair<double, double> component(double a, double c, double b, double s, const Values* a_error = nullptr,
                                    const Values* b_error = nullptr) {
  const RopeArithmetic x = arithmetic(kDtypeF32, 0, {TILEPROOF_PRECISION_F32, 1, TILEPROOF_PRECISION_F32, 1, 0, 0});
  const Values va = Values::Constant(1, a);
  const Values vb = Values::Constant(1, b);
  const Values vc = Values::Constant(1, c);
  const Values vs = Values::Constant(1, s);
  Values value;
  Values bound;
  rotate_component(x, {va, vc, vb, vs, 1.0, a_error, b_error}, value, bound);
  return {value[0], bound[0]};
}

TEST(BoundsTest, ExtremesArePromisedWhereTheyAreCertain) {
  const double largest = std::numeric_limits<float>::max();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(component(nan, 1, 1, 1).first));
  EXPECT_EQ(component(nan, 1, 1, 1).second, 0);
  EXPECT_EQ(component(kInfinity, 1, 1, 1), std::pair(kInfinity, 0.0));
  EXPECT_TRUE(std::isnan(component(kInfinity, 0, 1, 1).first));
  EXPECT_EQ(component(kInfinity, 0, 1, 1).second, 0);
  // Each product leaves the range, their sum does not; one product of the other sign than an infinity does.
  EXPECT_EQ(component(largest, 1.5, largest, -1.5).second, kInfinity);
  EXPECT_EQ(component(kInfinity, 1, largest, -1.5).second, kInfinity);
  EXPECT_EQ(component(largest, 1, largest, 1).second, kInfinity);
  EXPECT_EQ(component(largest, 1.5, nan, 1).second, 0);
  EXPECT_LT(component(largest, 0.5, largest, 0.25).second, kInfinity);
  const Values unsure = Values::Constant(1, kInfinity);
  const Values sure = Values::Constant(1, 0);
  EXPECT_EQ(component(1, 0, 1, 1, &unsure, &sure).second, kInfinity);
}

TEST(BoundsTest, SumsThatMayLeaveTheRangePromiseNothing) {
  const RopeArithmetic x = arithmetic(kDtypeF32, 0, {TILEPROOF_PRECISION_F32, 1, TILEPROOF_PRECISION_F32, 1, 0, 0});
  Values bound;
  sum_bound(x, Values::Constant(1, 0), Values::Constant(1, 6e38), 4, bound);
  EXPECT_EQ(bound[0], kInfinity);
  sum_bound(x, Values::Constant(1, 1), Values::Constant(1, 3e38), 4, bound);
  EXPECT_LT(bound[0], kInfinity);
}

std::int64_t inexact_at(const RopeArithmetic& x, double a, double c, double b, double s) {
  const Values va = Values::Constant(1, a);
  const Values vb = Values::Constant(1, b);
  const Values vc = Values::Constant(1, c);
  const Values vs = Values::Constant(1, s);
  return first_inexact(x, {va, vc, vb, vs, 1.0}, va * vc + vb * vs);
}

TEST(BoundsTest, ExactnessIsProvenPerElement) {
  const RopeArithmetic wide = arithmetic(kDtypeF32, 0, {TILEPROOF_PRECISION_F32, 1, TILEPROOF_PRECISION_F32, 1, 0, 0});
  const RopeArithmetic narrow =
      arithmetic(kDtypeBf16, 0, {TILEPROOF_PRECISION_F32, 1, TILEPROOF_PRECISION_F32, 1, 1, 0});
  EXPECT_EQ(inexact_at(wide, 7, 2, -8, 1), -1);
  EXPECT_EQ(inexact_at(wide, 0.75, 0.5, 3, 1), -1);                // dyadic
  EXPECT_EQ(inexact_at(wide, 1 + 0x1p-23, 1 + 0x1p-23, 0, 0), 0);  // the product
  EXPECT_EQ(inexact_at(wide, 0x1p24, 1, 1, 1), 0);                 // the sum
  EXPECT_EQ(inexact_at(narrow, 255, 1, 2, 1), 0);                  // 257 in the storage type
  EXPECT_EQ(inexact_at(narrow, 254, 1, 2, 1), -1);
  const auto sum_exact = [](const RopeArithmetic& x, double sum, double magnitude, bool whole) {
    return sum_is_exact(x, Values::Constant(1, sum), Values::Constant(1, magnitude), whole);
  };
  EXPECT_TRUE(sum_exact(narrow, 12, 4000, true));
  EXPECT_FALSE(sum_exact(narrow, 12, 4000, false));
  EXPECT_FALSE(sum_exact(narrow, 257, 4000, true));  // rounded to bf16
  EXPECT_FALSE(sum_exact(wide, 0, 0x1p25, true));    // a partial sum may need 25 digits
}

}  // namespace
}  // namespace tileproof
