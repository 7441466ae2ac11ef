#include "execute/cuda/kernels.h"

#include "memory/counter_random.h"

namespace tileproof {
namespace TILEPROOF_CUDA_RUNTIME {

namespace {

constexpr std::uint32_t kThreads = 256;

struct alignas(16) Word {
  std::uint32_t part[4];
};

__device__ inline Word canary_word(const std::byte* canary, int fill, std::int64_t at) {
  const std::byte* const from = canary + fill * kCanaryBytes + at % static_cast<std::int64_t>(kCanaryBytes);
  return *reinterpret_cast<const Word*>(from);
}

__global__ void paint_kernel(Batch batch) {
  const Tile tile = batch.region_tiles[blockIdx.x];
  const Region region = batch.regions[tile.item];
  const std::int64_t end = min(region.bytes / 16, std::int64_t{tile.first} + kTile);
  for (std::int64_t i = std::int64_t{tile.first} + threadIdx.x; i < end; i += kThreads) {
    reinterpret_cast<Word*>(region.memory)[i] = canary_word(batch.canary, region.fill, region.at + 16 * i);
  }
}

__global__ void check_guards_kernel(Batch batch) {
  const Tile tile = batch.region_tiles[blockIdx.x];
  const Region region = batch.regions[tile.item];
  const std::int64_t end = min(region.bytes / 16, std::int64_t{tile.first} + kTile);
  unsigned wrong = 0;
  for (std::int64_t i = std::int64_t{tile.first} + threadIdx.x; i < end; i += kThreads) {
    const Word is = reinterpret_cast<const Word*>(region.memory)[i];
    const Word was = canary_word(batch.canary, region.fill, region.at + 16 * i);
    wrong +=
        is.part[0] == was.part[0] && is.part[1] == was.part[1] && is.part[2] == was.part[2] && is.part[3] == was.part[3]
            ? 0
            : 1;
  }
  if (wrong != 0) atomicAdd(batch.damaged + region.run, wrong);
}

struct Place {
  std::int64_t offset;  // of the element from the base, in elements
  std::uint32_t packed;
};

__device__ inline Place place_of(const Walk& walk, std::uint32_t element) {
  std::uint32_t row = element / walk.piece;
  const std::uint32_t column = element - row * walk.piece;
  Place place{column, column};
  for (int i = static_cast<int>(walk.loops) - 1; i >= 0; --i) {
    const std::uint32_t outer = row / walk.count[i];
    const std::uint32_t index = row - outer * walk.count[i];
    place.offset += index * walk.stride[i];
    place.packed += index * walk.packed[i];
    row = outer;
  }
  return place;
}

template <typename T>
__device__ inline T canary_element(const std::byte* canary, int fill, std::int64_t at) {
  return *reinterpret_cast<const T*>(canary + fill * kCanaryBytes + at % static_cast<std::int64_t>(kCanaryBytes));
}

__device__ inline std::uint32_t whole_bits(const RecipeTables<std::uint32_t>&, std::int32_t value) {
  return __float_as_uint(static_cast<float>(value));
}

__device__ inline std::uint16_t whole_bits(const RecipeTables<std::uint16_t>& tables, std::int32_t value) {
  return tables.wholes[value - kLeastWhole];
}

template <typename T>
__device__ inline T recipe_bits(const RecipeTables<T>& tables, const RecipeRule& rule, std::uint32_t packed) {
  const std::uint32_t i = level(rule, packed);
  if (rule.recipe == Recipe::exact) return whole_bits(tables, exact_value(rule, i));
  if (rule.recipe == Recipe::index) return whole_bits(tables, index_value(rule, i));
  const std::uint32_t pick = rule.recipe == Recipe::special ? special_pick(rule, i) : kSpecials;
  return pick < kSpecials ? tables.specials[pick] : tables.pool[normal_place(rule, i)];
}

// What an element holds before the launch.
template <typename T>
__device__ inline T given_bits(const RecipeTables<T>& tables, const Walk& walk, std::uint32_t packed) {
  return walk.given != nullptr ? reinterpret_cast<const T*>(walk.given)[packed]
                               : recipe_bits(tables, walk.rule, packed);
}

template <typename T>
__device__ inline void scatter_elements(const std::byte* canary, const RecipeTables<T>& tables, const Walk& walk,
                                        std::uint32_t first) {
  const std::uint32_t end = min(walk.elements, first + kTile);
  const bool is_given = walk.given != nullptr || walk.rule_type != RuleType::none;
  for (std::uint32_t i = first + threadIdx.x; i < end; i += kThreads) {
    const Place place = place_of(walk, i);
    reinterpret_cast<T*>(walk.base)[place.offset] =
        is_given
            ? given_bits(tables, walk, place.packed)
            : canary_element<T>(canary, walk.prefill, walk.at + place.offset * static_cast<std::int64_t>(sizeof(T)));
  }
}

__global__ void scatter_kernel(Batch batch) {
  const Tile tile = batch.walk_tiles[blockIdx.x];
  const Walk walk = batch.walks[tile.item];
  // What holds canary as its guards do was painted with them.
  if (walk.given == nullptr && walk.rule_type == RuleType::none && walk.prefill == walk.fill) return;
  if (walk.element_bytes == 4) {
    scatter_elements(batch.canary, batch.recipes.f32, walk, tile.first);
  } else {
    const bool half = walk.rule_type == RuleType::f16;
    scatter_elements(batch.canary, half ? batch.recipes.f16 : batch.recipes.bf16, walk, tile.first);
  }
}

template <typename T>
__device__ inline void take_elements(const std::byte* canary, const RecipeTables<T>& tables, const Walk& walk,
                                     std::uint32_t first, TensorVerdict& verdict) {
  const std::uint32_t end = min(walk.elements, first + kTile);
  unsigned long long digest = 0;
  unsigned long long changed = kUnchanged;
  for (std::uint32_t i = first + threadIdx.x; i < end; i += kThreads) {
    const Place place = place_of(walk, i);
    T* const here = reinterpret_cast<T*>(walk.base) + place.offset;
    const T value = *here;
    if (walk.taken != nullptr) {
      reinterpret_cast<T*>(walk.taken)[place.packed] = value;
      digest += mix64((std::uint64_t{place.packed} << 32 | value) + 0x9e3779b97f4a7c15ULL);
    } else if (value != given_bits(tables, walk, place.packed) && place.packed < changed) {
      changed = place.packed;
    }
    *here = canary_element<T>(canary, walk.fill, walk.at + place.offset * static_cast<std::int64_t>(sizeof(T)));
  }
  if (changed != kUnchanged) atomicMin(&verdict.first_changed, changed);
  if (walk.taken == nullptr) return;
  for (int lane = 16; lane > 0; lane /= 2) digest += __shfl_down_sync(0xffffffffU, digest, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(&verdict.digest, digest);
}

__global__ void take_kernel(Batch batch) {
  const Tile tile = batch.walk_tiles[blockIdx.x];
  const Walk walk = batch.walks[tile.item];
  TensorVerdict& verdict = batch.verdicts[tile.item];
  if (walk.element_bytes == 4) {
    take_elements(batch.canary, batch.recipes.f32, walk, tile.first, verdict);
  } else {
    const bool half = walk.rule_type == RuleType::f16;
    take_elements(batch.canary, half ? batch.recipes.f16 : batch.recipes.bf16, walk, tile.first, verdict);
  }
}

}  // namespace

void paint(const Batch& batch, cudaStream_t stream) {
  if (batch.region_tile_count > 0) paint_kernel<<<batch.region_tile_count, kThreads, 0, stream>>>(batch);
}

void scatter(const Batch& batch, cudaStream_t stream) {
  if (batch.walk_tile_count > 0) scatter_kernel<<<batch.walk_tile_count, kThreads, 0, stream>>>(batch);
}

void take(const Batch& batch, cudaStream_t stream) {
  if (batch.walk_tile_count > 0) take_kernel<<<batch.walk_tile_count, kThreads, 0, stream>>>(batch);
}

void check_guards(const Batch& batch, cudaStream_t stream) {
  if (batch.region_tile_count > 0) check_guards_kernel<<<batch.region_tile_count, kThreads, 0, stream>>>(batch);
}

}  // namespace TILEPROOF_CUDA_RUNTIME
}  // namespace tileproof
