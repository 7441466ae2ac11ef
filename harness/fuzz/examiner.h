// What a campaign does with what it met, one thing after the other, while the search goes on: inputs whose process died
// are tried alone, and each new finding is minimised, explained and written as a file of cases.
#ifndef TILEPROOF_FUZZ_EXAMINER_H
#define TILEPROOF_FUZZ_EXAMINER_H

#include <string>

#include "record/store.h"

namespace tileproof {

// Looks into everything that waits. For a process of its own: it launches kernels in further ones. Throws
// EnvironmentError and HarnessError.
void examine(const std::string& directory);

// Whether something waits.
bool needs_examination(const std::string& directory, const Store& store);

}  // namespace tileproof

#endif
