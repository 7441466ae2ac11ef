// Two subjects of one operation on the same cases: where do their outputs or their guards differ?
#ifndef TILEPROOF_SEARCH_DIFFERENCE_H
#define TILEPROOF_SEARCH_DIFFERENCE_H

#include <span>
#include <vector>

#include "search/trial.h"

namespace tileproof {

// Runs every tiling of a case under both subjects from the same memory: over each of the two guard patterns and, on the
// cpu, with threads and blocks in reverse order too. Outcome `fails`: they differ, in
//   /outputs   a bit of an output; a NaN equals any NaN, since neither IEEE 754 nor compilers promise its bits
//   /guards    which bytes outside the tensors changed
//   /launch    only one of them refused, failed, crashed or hung
// and the signature names it, e.g. "compare/q/outputs/differs". `holds`: they do not. `refused`: neither took the case,
// or neither survived it; a crash is judged on the first attempt. Both are of one operation and one device. Throws
// EnvironmentError.
std::vector<Trial> compare_subjects(const Subject& old_one, const Subject& new_one, std::span<const Attempts> cases,
                                    const Isolation& isolation);

}  // namespace tileproof

#endif
