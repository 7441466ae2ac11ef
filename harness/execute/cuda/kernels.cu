#include "execute/cuda/kernels.h"

#include <algorithm>

#include "memory/counter_random.h"

namespace tileproof {
namespace TILEPROOF_CUDA_RUNTIME {

namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 16;  // elements or words, before a block takes a second round
constexpr int kMostBlocks = 512;
constexpr int kMostRows = 65535;  // of grid.y

struct alignas(16) Word {
  std::uint32_t part[4];
};

__device__ inline Word canary_word(const std::byte* canary, int fill, std::int64_t at) {
  const std::byte* const from = canary + fill * kCanaryBytes + at % static_cast<std::int64_t>(kCanaryBytes);
  return *reinterpret_cast<const Word*>(from);
}

__global__ void paint_kernel(const std::byte* canary, const Region* regions) {
  const Region region = regions[blockIdx.y];
  const std::int64_t words = region.bytes / 16;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    reinterpret_cast<Word*>(region.memory)[i] = canary_word(canary, region.fill, region.at + 16 * i);
  }
}

__global__ void check_guards_kernel(const std::byte* canary, const Region* regions, unsigned* damaged) {
  const Region region = regions[blockIdx.y];
  const std::int64_t words = region.bytes / 16;
  unsigned wrong = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const Word is = reinterpret_cast<const Word*>(region.memory)[i];
    const Word was = canary_word(canary, region.fill, region.at + 16 * i);
    wrong +=
        is.part[0] == was.part[0] && is.part[1] == was.part[1] && is.part[2] == was.part[2] && is.part[3] == was.part[3]
            ? 0
            : 1;
  }
  if (wrong != 0) atomicAdd(damaged + region.run, wrong);
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

template <typename T>
__device__ inline void scatter_elements(const std::byte* canary, const Walk& walk) {
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < walk.elements; i += gridDim.x * blockDim.x) {
    const Place place = place_of(walk, i);
    reinterpret_cast<T*>(walk.base)[place.offset] =
        walk.given != nullptr
            ? reinterpret_cast<const T*>(walk.given)[place.packed]
            : canary_element<T>(canary, walk.prefill, walk.at + place.offset * static_cast<std::int64_t>(sizeof(T)));
  }
}

__global__ void scatter_kernel(const std::byte* canary, const Walk* walks) {
  const Walk walk = walks[blockIdx.y];
  if (walk.given == nullptr && walk.prefill == walk.fill) return;  // painted with the guards
  if (walk.element_bytes == 4) {
    scatter_elements<std::uint32_t>(canary, walk);
  } else {
    scatter_elements<std::uint16_t>(canary, walk);
  }
}

template <typename T>
__device__ inline void take_elements(const std::byte* canary, const Walk& walk, TensorVerdict& verdict) {
  unsigned long long digest = 0;
  unsigned long long changed = kUnchanged;
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < walk.elements; i += gridDim.x * blockDim.x) {
    const Place place = place_of(walk, i);
    T* const here = reinterpret_cast<T*>(walk.base) + place.offset;
    const T value = *here;
    if (walk.taken != nullptr) {
      reinterpret_cast<T*>(walk.taken)[place.packed] = value;
      digest += mix64((std::uint64_t{place.packed} << 32 | value) + 0x9e3779b97f4a7c15ULL);
    } else if (value != reinterpret_cast<const T*>(walk.given)[place.packed] && place.packed < changed) {
      changed = place.packed;
    }
    *here = canary_element<T>(canary, walk.fill, walk.at + place.offset * static_cast<std::int64_t>(sizeof(T)));
  }
  if (changed != kUnchanged) atomicMin(&verdict.first_changed, changed);
  if (walk.taken == nullptr) return;
  for (int lane = 16; lane > 0; lane /= 2) digest += __shfl_down_sync(0xffffffffU, digest, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(&verdict.digest, digest);
}

__global__ void take_kernel(const std::byte* canary, const Walk* walks, TensorVerdict* verdicts) {
  const Walk walk = walks[blockIdx.y];
  if (walk.element_bytes == 4) {
    take_elements<std::uint32_t>(canary, walk, verdicts[blockIdx.y]);
  } else {
    take_elements<std::uint16_t>(canary, walk, verdicts[blockIdx.y]);
  }
}

// The grid's x covers the largest of them; its y, the first `count` of what is left.
dim3 grid_for(std::int64_t largest, int count) {
  const std::int64_t blocks = (largest + kThreads * kPerThread - 1) / (kThreads * kPerThread);
  return dim3(static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, kMostBlocks)),
              static_cast<unsigned>(std::min(count, kMostRows)));
}

}  // namespace

void paint(const std::byte* canary, const Region* regions, int count, std::int64_t largest_bytes, cudaStream_t stream) {
  for (int first = 0; first < count; first += kMostRows) {
    paint_kernel<<<grid_for(largest_bytes / 16, count - first), kThreads, 0, stream>>>(canary, regions + first);
  }
}

void scatter(const std::byte* canary, const Walk* walks, int count, std::int64_t most_elements, cudaStream_t stream) {
  for (int first = 0; first < count; first += kMostRows) {
    scatter_kernel<<<grid_for(most_elements, count - first), kThreads, 0, stream>>>(canary, walks + first);
  }
}

void take(const std::byte* canary, const Walk* walks, TensorVerdict* verdicts, int count, std::int64_t most_elements,
          cudaStream_t stream) {
  for (int first = 0; first < count; first += kMostRows) {
    take_kernel<<<grid_for(most_elements, count - first), kThreads, 0, stream>>>(canary, walks + first,
                                                                                 verdicts + first);
  }
}

void check_guards(const std::byte* canary, const Region* regions, unsigned* damaged, int count,
                  std::int64_t largest_bytes, cudaStream_t stream) {
  for (int first = 0; first < count; first += kMostRows) {
    check_guards_kernel<<<grid_for(largest_bytes / 16, count - first), kThreads, 0, stream>>>(canary, regions + first,
                                                                                              damaged);
  }
}

}  // namespace TILEPROOF_CUDA_RUNTIME
}  // namespace tileproof
