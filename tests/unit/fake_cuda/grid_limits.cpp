// Limits of the fake: the CPU executor has its own.
#include "execute/cuda/grid_limits.h"

namespace tileproof::fake_cuda {

void hold_to_limits_of(int) {}

std::string take_refusal() { return {}; }

}  // namespace tileproof::fake_cuda
