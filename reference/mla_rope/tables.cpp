#include "mla_rope/tables.h"

#include <map>

#include "memory/counter_random.h"
#include "memory/float_bits.h"
#include "mla_rope/yarn.h"

namespace tileproof {

namespace {

constexpr std::uint64_t kFreeStream = 0x7ab1e5;
constexpr std::uint64_t kTurnStream = 0x70a45;
constexpr std::int64_t kCachedEntries = 16384;  // of cos and of sin, per emb_dim

// YaRN rows are asked for again and again; the first of each emb_dim are kept.
class YarnRows {
 public:
  explicit YarnRows(std::int64_t width) {
    parameters_.kv_channels = width;
    // As DeepSeek-V3 has them: equal mscales cancel, so that every entry pair is a rotation and can be undone.
    parameters_.scaling_factor = 40.0;
    parameters_.mscale = 1.0;
    parameters_.mscale_all_dim = 1.0;
    frequencies_ = yarn_frequencies(parameters_);
  }

  // `width` values each, valid until the next call.
  const double* row(std::int64_t position, bool is_cos) {
    const auto width = static_cast<std::size_t>(parameters_.kv_channels);
    const bool cached = (position + 1) * parameters_.kv_channels <= kCachedEntries;
    if (!cached) {
      scratch_cos_.resize(width);
      scratch_sin_.resize(width);
      yarn_row(parameters_, frequencies_, position, scratch_cos_.data(), scratch_sin_.data());
      return (is_cos ? scratch_cos_ : scratch_sin_).data();
    }
    while (rows_ <= position) {
      cos_.resize(cos_.size() + width);
      sin_.resize(sin_.size() + width);
      yarn_row(parameters_, frequencies_, rows_, cos_.data() + cos_.size() - width, sin_.data() + sin_.size() - width);
      ++rows_;
    }
    return (is_cos ? cos_ : sin_).data() + static_cast<std::size_t>(position) * width;
  }

 private:
  YarnParameters parameters_;
  std::vector<double> frequencies_;
  std::vector<double> cos_, sin_, scratch_cos_, scratch_sin_;
  std::int64_t rows_ = 0;
};

void fill_yarn(bool is_cos, HostTensor& out) {
  const std::int64_t width = out.shape.shape[1];
  thread_local std::map<std::int64_t, YarnRows> cache;
  YarnRows& yarn = cache.try_emplace(width, width).first->second;
  for (std::int64_t row = 0; row < out.shape.shape[0]; ++row) {
    const double* values = yarn.row(row, is_cos);
    for (std::int64_t column = 0; column < width; ++column) {
      store_element(out.shape.dtype, out.bytes.data(), row * width + column, values[column]);
    }
  }
}

void fill_turns(std::uint64_t seed, bool is_cos, HostTensor& out) {
  const std::int64_t width = out.shape.shape[1];
  constexpr double quarter_cos[] = {1, 0, -1, 0};
  constexpr double quarter_sin[] = {0, 1, 0, -1};
  for (std::int64_t i = 0; i < out.shape.elements(); ++i) {
    const auto pair = static_cast<std::uint64_t>(i % width % (width / 2));
    const auto turn = counter_hash(seed ^ kTurnStream, pair, static_cast<std::uint64_t>(i / width)) % 4U;
    store_element(out.shape.dtype, out.bytes.data(), i, (is_cos ? quarter_cos : quarter_sin)[turn]);
  }
}

void fill_free(std::uint64_t seed, bool exact, bool is_cos, HostTensor& out) {
  const std::int64_t width = out.shape.shape[1];
  for (std::int64_t row = 0; row < out.shape.shape[0]; ++row) {
    const auto key =
        static_cast<std::uint32_t>(counter_hash(seed ^ kFreeStream, is_cos ? 0 : 1, static_cast<std::uint64_t>(row)));
    for (std::int64_t column = 0; column < width; ++column) {
      const std::uint32_t draw = mix32(key + static_cast<std::uint32_t>(column));
      const double value =
          exact ? static_cast<double>(draw % 5U) - 2.0 : (static_cast<double>(draw >> 8U) - 0x1p23) * 0x1.8p-23;
      store_element(out.shape.dtype, out.bytes.data(), row * width + column, value);
    }
  }
}

}  // namespace

void fill_table(const Problem& problem, bool is_cos, HostTensor& out) {
  const auto seed = static_cast<std::uint64_t>(problem.value("data").second);
  const std::string& kind = problem.choice("tables");
  if (kind == "yarn") {
    fill_yarn(is_cos, out);
  } else if (kind == "turns") {
    fill_turns(seed, is_cos, out);
  } else {
    fill_free(seed, problem.choice("data") == "exact", is_cos, out);
  }
}

}  // namespace tileproof
