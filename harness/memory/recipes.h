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

#include "memory/recipe_rules.h"
#include "tileproof/operation.h"

namespace tileproof {

// All inputs of a problem, packed, indexed by tensor; absent tensors and pure outputs have no bytes.
// `reuse` keeps its allocations.
void make_inputs(const Problem& problem, HostTensors& reuse);

// The two halves of make_inputs(): what the operation itself fills (tables, boundaries), with no bytes for the tensors
// that a recipe fills; and those of the latter that have none yet. Devices that fill them by themselves leave out the
// second half until the host needs them.
void make_operation_inputs(const Problem& problem, HostTensors& reuse);
void complete_inputs(const Problem& problem, HostTensors& inputs, std::vector<Bytes>* spare = nullptr);
// Takes what recipes filled out of `inputs`. The next complete_inputs() takes the memory that was put there last, which
// the processor still has at hand.
void recycle_inputs(HostTensors& inputs, std::vector<Bytes>& spare);

inline bool is_made_by_recipe(const TensorShape& shape) {
  return shape.spec != nullptr && shape.spec->content == Content::recipe && shape.spec->role != Role::out &&
         shape.elements() > 0;
}

// What a tensor that is made by a recipe (and has elements) holds, element by element, and the bit patterns that the
// rules choose from: of f32, and of f16 or bf16. The tables live as long as the process.
RecipeRule recipe_rule(const Problem& problem, const TensorShape& shape);
RecipeTables<std::uint32_t> recipe_tables_32();
RecipeTables<std::uint16_t> recipe_tables_16(Dtype dtype);

}  // namespace tileproof

#endif
