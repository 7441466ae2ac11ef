// YaRN rotary tables (Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", 2023).
#ifndef TILEPROOF_REFERENCE_MLA_ROPE_YARN_H
#define TILEPROOF_REFERENCE_MLA_ROPE_YARN_H

#include <cstdint>
#include <vector>

namespace tileproof {

struct YarnParameters {
  std::int64_t kv_channels = 64;  // emb_dim: width of the rotary part, even
  double rotary_base = 10000.0;
  double scaling_factor = 1.0;
  double original_max_position_embeddings = 4096.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  double mscale = 1.0;
  double mscale_all_dim = 0.0;
  bool correction_range_round_to_int = true;
};

// Angle per position of each of the kv_channels / 2 frequencies.
//
// With theta_i = base^(-2i/d), a frequency that turns more than beta_fast times over the original context keeps
// theta_i, one that turns less than beta_slow times is slowed to theta_i / scaling_factor, and a linear ramp joins the
// two between the dimensions where that happens: dim(beta) = d ln(L / (2 pi beta)) / (2 ln base).
std::vector<double> yarn_frequencies(const YarnParameters& parameters);

// The factor on cos and sin: m(scale, mscale) / m(scale, mscale_all_dim), m(s, a) = 0.1 a ln s + 1 for s > 1, else 1.
double yarn_mscale(const YarnParameters& parameters);

// Row `position`: cos and sin of kv_channels values each, the two halves equal, times the factor.
void yarn_row(const YarnParameters& parameters, const std::vector<double>& frequencies, std::int64_t position,
              double* cos, double* sin);

}  // namespace tileproof

#endif
