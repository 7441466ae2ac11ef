// What a person wants to see of a failure: where, what is there, and whose value it is.
#ifndef TILEPROOF_SEARCH_SHOW_H
#define TILEPROOF_SEARCH_SHOW_H

#include <string>
#include <vector>

#include "search/results.h"

namespace tileproof {

// For a failure whose run is known: a map of its tensor, one line per token and one character per head, the first
// element that misses the reference, and what its value can be recognised as. Nothing for other failures.
std::vector<std::string> map_of_failure(const CaseContext& context, const Results& results, const Failure& failure);

// Which element of the inputs the first wrong element is a copy of, where only one can be meant: for data whose values
// do not repeat.
std::vector<std::string> owner_of_value(const CaseContext& context, const Results& results, const Failure& failure);

}  // namespace tileproof

#endif
