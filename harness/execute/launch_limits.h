// What a launch on the CPU executor may ask for.
#ifndef TILEPROOF_EXECUTE_LAUNCH_LIMITS_H
#define TILEPROOF_EXECUTE_LAUNCH_LIMITS_H

#include <cstddef>
#include <cstdint>

#include "execute/launch_order.h"

namespace tileproof::cpu {

constexpr std::size_t kMaxShared = 227UL * 1024;
constexpr std::size_t kStackBytes = 64UL * 1024;  // of a thread

// Why this launch is not taken, by the limits of CUDA first of all; null when it is.
inline const char* reason_against(dim3 grid, dim3 block, std::size_t shared_bytes, bool shuffled) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
    return "a dimension is 0";
  }
  if (grid.x > 0x7fffffffU || grid.y > 65535 || grid.z > 65535) {
    return "the grid exceeds (2147483647,65535,65535)";
  }
  if (block.x > 1024 || block.y > 1024 || block.z > 64) {
    return "the block exceeds (1024,1024,64)";
  }
  if (block.x * block.y * block.z > kMaxThreads) {
    return "the block has more than 1024 threads";
  }
  if (shuffled && std::uint64_t{grid.x} * grid.y * grid.z > kMaxShuffledBlocks) {
    return "the grid has more than 16777216 blocks, which no shuffled order holds";
  }
  return shared_bytes > kMaxShared ? "more than 232448 bytes of dynamic shared memory" : nullptr;
}

}  // namespace tileproof::cpu

#endif
