// Launches beyond the limits of the device are refused before they reach it, and say which limit it was: those of any
// kernel that is linked into this binary and launched by <<<>>> or cudaLaunchKernel(). A shared library with a runtime
// of its own, or the driver's API, is out of reach; there the runtime's error is what there is.
#ifndef TILEPROOF_EXECUTE_CUDA_GRID_LIMITS_H
#define TILEPROOF_EXECUTE_CUDA_GRID_LIMITS_H

#include <string>

#include "execute/cuda/kernels.h"

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

// From now on launches of this thread are held to the limits of that device.
void hold_to_limits_of(int ordinal);

// Why launches of this thread were refused since the last call, the first of them; empty when none was.
std::string take_refusal();

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME

#endif
