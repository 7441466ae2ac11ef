// The YaRN tables against what the paper says of them.
#include "mla_rope/yarn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace tileproof {
namespace {

double plain_frequency(const YarnParameters& p, std::size_t i) {
  return std::pow(p.rotary_base, -2.0 * static_cast<double>(i) / static_cast<double>(p.kv_channels));
}

TEST(YarnTest, WithoutScalingItIsPlainRope) {
  YarnParameters p;
  p.kv_channels = 96;
  const auto frequencies = yarn_frequencies(p);
  ASSERT_EQ(frequencies.size(), 48U);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    EXPECT_NEAR(frequencies[i], plain_frequency(p, i), 1e-15);
  }
  EXPECT_EQ(yarn_mscale(p), 1.0);
}

// A frequency that turns more than beta_fast times over the original context stays; one that turns less than
// beta_slow times is divided by the factor; between them it falls from one to the other.
TEST(YarnTest, FastFrequenciesStayAndSlowOnesAreScaled) {
  YarnParameters p;
  p.scaling_factor = 40;
  const auto frequencies = yarn_frequencies(p);
  int kept = 0;
  int scaled = 0;
  double last = 1;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double turns = p.original_max_position_embeddings * plain_frequency(p, i) / (2 * std::numbers::pi);
    const double ratio = frequencies[i] / plain_frequency(p, i);
    EXPECT_LE(ratio, last * (1 + 1e-12));
    last = ratio;
    // The bounds of the ramp are rounded outwards by up to one pair, a factor of 10000^(1/32).
    const double slack = std::pow(p.rotary_base, 2.0 / static_cast<double>(p.kv_channels));
    if (turns > p.beta_fast * slack) {
      EXPECT_NEAR(ratio, 1, 1e-12) << i;
      ++kept;
    } else if (turns < p.beta_slow / slack) {
      EXPECT_NEAR(ratio, 1 / p.scaling_factor, 1e-12) << i;
      ++scaled;
    }
  }
  EXPECT_GT(kept, 5);
  EXPECT_GT(scaled, 3);
}

TEST(YarnTest, RowsAreRotationsTimesTheFactorWithEqualHalves) {
  YarnParameters p;
  p.kv_channels = 12;
  p.scaling_factor = 8;
  p.mscale = 0.7;
  const double factor = yarn_mscale(p);
  EXPECT_NEAR(factor, 0.07 * std::log(8.0) + 1, 1e-14);
  const auto frequencies = yarn_frequencies(p);
  std::vector<double> cos(12);
  std::vector<double> sin(12);
  yarn_row(p, frequencies, 1234, cos.data(), sin.data());
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(std::hypot(cos[i], sin[i]), factor, 1e-13);
    EXPECT_NEAR(std::atan2(sin[i], cos[i]), std::remainder(1234 * frequencies[i], 2 * std::numbers::pi), 1e-9);
    EXPECT_EQ(cos[i], cos[i + 6]);
    EXPECT_EQ(sin[i], sin[i + 6]);
  }
}

TEST(YarnTest, EqualMscalesCancelAndARampWithoutWidthIsAStep) {
  YarnParameters p;
  p.scaling_factor = 32;
  p.mscale = p.mscale_all_dim = 0.707;
  EXPECT_EQ(yarn_mscale(p), 1.0);
  p.beta_fast = p.beta_slow = 1;
  p.correction_range_round_to_int = false;
  for (const double frequency : yarn_frequencies(p)) {
    EXPECT_TRUE(std::isfinite(frequency));
  }
}

}  // namespace
}  // namespace tileproof
