// What a run changed outside its tensors, found out on the host: for the few runs whose guards did not hold.
#ifndef TILEPROOF_EXECUTE_CUDA_DAMAGE_H
#define TILEPROOF_EXECUTE_CUDA_DAMAGE_H

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "execute/cuda/kernels.h"
#include "memory/arena.h"

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

// `memory`: of the dense tensors of the run, on the device. The bases of the placement are of no use after it.
std::vector<GuardDamage> damage_on_device(const std::byte* memory, Placement& placement, GuardFill guard,
                                          cudaStream_t stream);

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME

#endif
