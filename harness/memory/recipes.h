// What tensors hold: the data recipes of a case.
//
//   exact    small whole numbers for which every product, sum and result is representable (the reference proves it).
//            Along a head axis heads come in pairs of opposite sign, so that a sum over 256 of them stays small.
//   normal   bell-shaped around 0 with variance near 1 (the sum of four uniform numbers), all mantissa bits in use.
//   Runs
//            of 64 elements are drawn from 131072 places of one pool.
//   index    whole numbers that encode tensor and coordinates, modulo what the storage type holds exactly.
//   special  normal, with infinities, NaNs, subnormals, the largest numbers and signed zeros among them.
//
// Every element is a pure function of (seed, tensor, packed index): the same bits on every compiler and machine.
#ifndef TILEPROOF_MEMORY_RECIPES_H
#define TILEPROOF_MEMORY_RECIPES_H

#include "tileproof/operation.h"

namespace tileproof {

enum class Recipe { exact, normal, index, special };

// Fills `out.bytes` (resized) for `shape` under recipe and seed. When `broadcast` is an axis kind that the tensor has
// and allows, elements are equal along it, as a stride of 0 makes them.
void fill_recipe(Recipe recipe, std::uint64_t seed, const TensorShape& shape, int broadcast_axis, HostTensor& out);

// All inputs of a problem, packed, indexed by tensor; absent tensors and pure outputs have no bytes.
// `reuse` keeps its allocations.
void make_inputs(const Problem& problem, HostTensors& reuse);

}  // namespace tileproof

#endif
