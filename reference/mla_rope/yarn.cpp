#include "mla_rope/yarn.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tileproof {

namespace {

double magnitude_scale(double scale, double mscale) {
  return scale <= 1.0 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

// The dimension whose frequency turns `rotations` times over the original context.
double correction_dim(const YarnParameters& p, double rotations) {
  const auto dim = static_cast<double>(p.kv_channels);
  return dim * std::log(p.original_max_position_embeddings / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(p.rotary_base));
}

}  // namespace

std::vector<double> yarn_frequencies(const YarnParameters& p) {
  double low = correction_dim(p, p.beta_fast);
  double high = correction_dim(p, p.beta_slow);
  if (p.correction_range_round_to_int) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(p.kv_channels) - 1.0);
  if (low == high) {
    high += 0.001;  // a ramp of no width would divide by zero
  }
  std::vector<double> frequencies(static_cast<std::size_t>(p.kv_channels / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(p.kv_channels);
    const double plain = std::pow(p.rotary_base, -exponent);
    const double slow = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = plain / p.scaling_factor * slow + plain * (1.0 - slow);
  }
  return frequencies;
}

double yarn_mscale(const YarnParameters& p) {
  return magnitude_scale(p.scaling_factor, p.mscale) / magnitude_scale(p.scaling_factor, p.mscale_all_dim);
}

void yarn_row(const YarnParameters& p, const std::vector<double>& frequencies, std::int64_t position, double* cos,
              double* sin) {
  const double factor = yarn_mscale(p);
  const std::size_t half = frequencies.size();
  for (std::size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * frequencies[i];
    cos[i] = cos[half + i] = std::cos(angle) * factor;
    sin[i] = sin[half + i] = std::sin(angle) * factor;
  }
}

}  // namespace tileproof
