// The steps by which a case becomes simpler, read from the declaration of its operation.
#ifndef TILEPROOF_SEARCH_SHRINK_STEPS_H
#define TILEPROOF_SEARCH_SHRINK_STEPS_H

#include <vector>

#include "execute/subject.h"
#include "tileproof/model.h"

namespace tileproof {

// Every valid case inside the subject's limits that is simpler than `c` and one step away: one value of the problem or
// of a tiling changed, one tiling or list item left out, two tilings exchanged. A choice that makes other values
// required (a layout) is one step together with small ones for them. Simplest first.
std::vector<Case> shrink_steps(const Subject& subject, const Case& c);

// The same for two values changed together, one of which may grow: block_h=3 with head_num=4 leads to block_h=2 with
// head_num=3 by no single step that fails.
std::vector<Case> double_steps(const Subject& subject, const Case& c);

}  // namespace tileproof

#endif
