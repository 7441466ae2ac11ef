// How a tensor of a run is walked on the device, and the data that its recipe chooses from there.
#ifndef TILEPROOF_EXECUTE_CUDA_WALKS_H
#define TILEPROOF_EXECUTE_CUDA_WALKS_H

#include <cuda_runtime.h>

#include "execute/cuda/kernels.h"
#include "memory/arena.h"

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

// Without what it is given and where it is taken.
Walk walk_of(const Placed& placed, const Memory& memory);

// Lets the device fill the tensor by the recipe of the problem.
void fill_by_rule(const Problem& problem, const TensorShape& shape, Walk& walk);

// The tables of memory/recipes.h in the memory of a device: brought there once by each process, and kept.
const RecipeSource& recipes_on(int ordinal, cudaStream_t stream);

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME

#endif
