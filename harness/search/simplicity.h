// Which of two cases is the simpler one: the order that minimising goes by (harness/docs/minimize.md).
#ifndef TILEPROOF_SEARCH_SIMPLICITY_H
#define TILEPROOF_SEARCH_SIMPLICITY_H

#include <cstdint>
#include <vector>

#include "tileproof/model.h"

namespace tileproof {

// Compared as words are, from the left; less is simpler. In this order: tokens, heads, widths together, tilings,
// values that are not at their default, then each of the operation's own parameters as declared, the memory layout, the
// recipe of the data, the types, and each value of each tiling: how far each is from its simplest value.
using Simplicity = std::vector<std::int64_t>;

Simplicity simplicity(const Case& c);

}  // namespace tileproof

#endif
