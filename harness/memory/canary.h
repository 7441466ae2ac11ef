// Canaries: the bytes of guards and of outputs before a launch.
//
// Two patterns. `finite`: every 16-bit and 32-bit element of it is an ordinary number in every storage type, so a
// stray read gives a wrong but plausible value. `nan`: every element is a NaN in every storage type (and negative as
// an int32). A store that happens to equal one pattern differs from the other.
#ifndef TILEPROOF_MEMORY_CANARY_H
#define TILEPROOF_MEMORY_CANARY_H

#include <cstddef>

#include "tileproof/property.h"

namespace tileproof {

// The pattern repeats after this many bytes. Not a power of two, so that bytes moved by a power-of-two distance show.
inline constexpr std::size_t kCanaryPeriod = 4160;

// Bytes [at, at + count) of the pattern, for any `at`; `at` counts from the start of the arena.
void paint_canary(GuardFill fill, std::byte* to, std::size_t at, std::size_t count);

// Offset of the first byte in [0, count) that differs from the pattern at `at`; count when none does.
std::size_t first_damage(GuardFill fill, const std::byte* from, std::size_t at, std::size_t count);

// The byte of the pattern at `at`.
std::byte canary_byte(GuardFill fill, std::size_t at);

}  // namespace tileproof

#endif
