// The simplest condition that separates failing cases from those that hold.
#ifndef TILEPROOF_SEARCH_INFERENCE_H
#define TILEPROOF_SEARCH_INFERENCE_H

#include <cstdint>
#include <vector>

#include "search/features.h"

namespace tileproof {

struct Sample {
  std::vector<Names::Facts> sites;  // one per tiling of the case
  bool fails = false;
};

struct Separation {
  Condition condition;
  int cost = 0;
  bool exact = false;
  std::uint64_t inside = 0;  // samples that fulfil it, and how many of them fail
  std::uint64_t inside_failing = 0;
  std::uint64_t outside = 0;
  std::uint64_t outside_failing = 0;
};

inline constexpr std::size_t kMostTerms = 3;

// Conditions of at most three terms, best first. Where some are exact: only such, those with the fewest terms, cheapest
// first, and with them others that say the same of these samples in other words. Else the best that are not.
// All samples have equally many sites, and at least one fails. At most `most` conditions; always at least one.
std::vector<Separation> separate(const Vocabulary& vocabulary, const std::vector<Sample>& samples, std::size_t most);

}  // namespace tileproof

#endif
