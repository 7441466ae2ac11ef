// The vocabulary in which a failure is explained, derived from what an operation declares and from nothing else.
#ifndef TILEPROOF_SEARCH_FEATURES_H
#define TILEPROOF_SEARCH_FEATURES_H

#include <vector>

#include "search/condition.h"

namespace tileproof {

// A term that holds at a site or not. Of two conditions that separate as well, the cheaper one is simpler to read.
struct Feature {
  Term term;
  int cost = 0;
};

// A number that is compared with constants that occur.
struct Measure {
  Expression expression;
  int cost = 0;
};

struct Vocabulary {
  std::vector<Feature> features;
  std::vector<Measure> measures;
};

// features: flags and choices; lengths of head, token and dim axes against each tiling parameter (whole tiles, more
// than one); ranks of a ratio (the last, the middle one); parities and powers of two; strides of two tensors against
// each other.
// measures: integers, quantities, lists, sums of lengths, bytes of a row, tiles that lengths leave room for, strides,
// and the offset at which the last step along an axis lands.
Vocabulary vocabulary_of(const Names& names);

}  // namespace tileproof

#endif
