// Cases at random, from the declarations alone: parameters with their ranges and hints, tensors with their axes, and
// the limits of the subject.
#ifndef TILEPROOF_GENERATE_GENERATOR_H
#define TILEPROOF_GENERATE_GENERATOR_H

#include <cstdint>

#include "execute/subject.h"
#include "tileproof/model.h"

namespace tileproof {

// Case `index` of seed `seed`: a pure function of its arguments, valid for the operation and inside the subject's
// limits. Most cases touch few elements (thousands), some many. Throws HarnessError when the limits leave no case.
Case generate_case(const Subject& subject, std::uint64_t seed, std::uint64_t index);

// Whether the operation takes the problem, and exact data is exact: its sums rest on heads of opposite sign, which a
// broadcast over heads undoes.
bool is_legal(const Problem& problem);

// Elements of all tensors together: what a case costs.
std::int64_t elements_of(const Problem& problem);

}  // namespace tileproof

#endif
