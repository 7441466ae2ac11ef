// Changes of single parameters of a case, from what its operation declares. What comes out need not be a case that the
// operation or a subject takes: the caller sees to that.
#ifndef TILEPROOF_GENERATE_VARIATION_H
#define TILEPROOF_GENERATE_VARIATION_H

#include <cstddef>

#include "memory/counter_random.h"
#include "tileproof/model.h"
#include "tileproof/operation.h"

namespace tileproof {

// Parameters are numbered: those of the problem, then those of a tiling.
std::size_t parameters_of(const Operation& operation);

// Gives `to` the parameter's value of `from`, tiling by tiling. False when that changes nothing.
bool take_parameter(Case& to, const Case& from, std::size_t parameter);

// A step up or down, twice or half as much, or anything in the declared range; nothing where there is no number.
void nudge_parameter(Case& c, std::size_t parameter, CounterStream& draw);

}  // namespace tileproof

#endif
