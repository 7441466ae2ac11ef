#include "execute/cuda/walks.h"

#include <map>
#include <mutex>

#include "execute/cuda/checked.h"
#include "memory/recipes.h"

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

namespace {

template <typename Bits>
const Bits* bring(const Bits* from, std::size_t count, cudaStream_t stream) {
  std::byte* const memory = DeviceMemory::allocate(count * sizeof(Bits));
  TILEPROOF_CUDA(cudaMemcpyAsync(memory, from, count * sizeof(Bits), cudaMemcpyHostToDevice, stream));
  return reinterpret_cast<const Bits*>(memory);
}

template <typename Bits>
RecipeTables<Bits> bring(const RecipeTables<Bits>& tables, cudaStream_t stream) {
  return {bring(tables.pool, kPoolSize + kRun, stream), bring(tables.specials, kSpecials, stream),
          tables.wholes == nullptr ? nullptr : bring(tables.wholes, kWholes, stream)};
}

RuleType rule_type_of(Dtype dtype) {
  return dtype == Dtype::f16 ? RuleType::f16 : dtype == Dtype::bf16 ? RuleType::bf16 : RuleType::f32;
}

}  // namespace

Walk walk_of(const Placed& placed, const Memory& memory) {
  Walk walk{};
  std::int64_t piece = 1;
  const std::vector<detail::Loop> loops = detail::loops_of(placed.layout, piece);
  std::int64_t elements = piece;
  for (const detail::Loop& loop : loops) {
    walk.stride[walk.loops] = loop.stride;
    walk.packed[walk.loops] = static_cast<std::uint32_t>(loop.packed);
    walk.count[walk.loops++] = static_cast<std::uint32_t>(loop.count);
    elements *= loop.count;
  }
  walk.base = placed.base;
  walk.at = static_cast<std::int64_t>(placed.at);
  walk.piece = static_cast<std::uint32_t>(piece);
  walk.elements = static_cast<std::uint32_t>(elements);
  walk.element_bytes = static_cast<std::uint32_t>(size_of(placed.layout.shape.dtype));
  walk.fill = static_cast<std::int32_t>(memory.guard);
  walk.prefill = static_cast<std::int32_t>(memory.prefill);
  return walk;
}

void fill_by_rule(const Problem& problem, const TensorShape& shape, Walk& walk) {
  walk.rule = recipe_rule(problem, shape);
  walk.rule_type = rule_type_of(shape.dtype);
}

const RecipeSource& recipes_on(int ordinal, cudaStream_t stream) {
  static std::mutex bringing;
  static std::map<int, RecipeSource> brought;
  const std::lock_guard lock(bringing);
  const auto known = brought.find(ordinal);
  if (known != brought.end()) {
    return known->second;
  }
  const RecipeSource source{bring(recipe_tables_32(), stream), bring(recipe_tables_16(Dtype::f16), stream),
                            bring(recipe_tables_16(Dtype::bf16), stream)};
  TILEPROOF_CUDA(cudaStreamSynchronize(stream));
  return brought.emplace(ordinal, source).first->second;
}

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME
