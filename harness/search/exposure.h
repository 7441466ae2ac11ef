// Does a real model reach the shapes on which a subject fails? Its per-rank shapes, exhaustively over tilings.
#ifndef TILEPROOF_SEARCH_EXPOSURE_H
#define TILEPROOF_SEARCH_EXPOSURE_H

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "search/engine.h"
#include "search/isolated.h"
#include "search/neighbourhood.h"

namespace tileproof {

// What is known of a model: the numbers and words of its config.json by key, what is fixed in the words of a case, and
// how it is cut up. Operations say which keys they read (Parameter::config_keys).
struct ModelRecipe {
  std::map<std::string, std::string> config;
  std::vector<std::string> set;                  // KEY=VALUE; keys that an operation does not declare are skipped
  std::vector<std::int64_t> tensor_parallel{1};  // sizes
  std::vector<std::int64_t> context_parallel{1};
};

// Reads a config.json as Hugging Face writes it: top level, and text_config below it. Throws InputError.
std::map<std::string, std::string> read_config(const std::string& path);

// One per-rank shape: the problems that differ only in what no recipe fixes (modes, layout, rank).
struct ReachedShape {
  std::string label;  // "tp 8: head_num=12 nope_dim=128 emb_dim=64"
  std::vector<Problem> problems;
};

// The shapes of every tensor and context parallel size. Contents are plain, lengths that no config knows are small.
// Throws InputError when a number is missing, is out of range, or is not divided by a size.
std::vector<ReachedShape> shapes_of(const Operation& operation, const ModelRecipe& recipe);
// The shapes of cases, equal labels together.
std::vector<ReachedShape> shapes_of(const Operation& operation, const std::vector<Case>& cases);

// "block_h=1,2,4": a tiling parameter and values that it may have. Throws InputError.
struct TilingChoice {
  std::string key;
  std::vector<std::int64_t> values;
};
TilingChoice parse_tiling_choice(const Operation& operation, const std::string& text);

// All combinations inside the subject's limits. What is not chosen: the first parameter takes every power of two up to
// 128, others keep their default.
std::vector<Tiling> tilings_of(const Subject& subject, const std::vector<TilingChoice>& choices);

// What became of a shape under one tiling.
struct Exposed {
  std::uint64_t cases = 0;
  std::uint64_t failing = 0;
  std::uint64_t refused = 0;
  std::uint64_t left = 0;               // the deadline or a signal came before them; not among `cases`
  std::vector<std::string> properties;  // that failed
  std::string message;                  // of the first failure
  std::string case_text;                // and its case
};

// Every problem of every shape under every tiling, each held against the subject's smallest tiling by all properties:
// result[shape][tiling]. A deadline or a signal (search/interrupt.h) leaves what was judged until then. Throws
// EnvironmentError.
std::vector<std::vector<Exposed>> expose(const Subject& subject, const std::vector<ReachedShape>& shapes,
                                         const std::vector<Tiling>& tilings, const Isolation& isolation);

}  // namespace tileproof

#endif
