// What the harness itself does on a device: paint guards, scatter inputs, gather and digest outputs, check guards.
// Each works on all runs of a batch at once.
#ifndef TILEPROOF_EXECUTE_CUDA_KERNELS_H
#define TILEPROOF_EXECUTE_CUDA_KERNELS_H

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#ifndef TILEPROOF_CUDA_RUNTIME
#define TILEPROOF_CUDA_RUNTIME cuda  // tests build this code over another runtime under another name
#endif

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

constexpr std::size_t kCanaryBytes = 4160;  // kCanaryPeriod of memory/canary.h
constexpr int kFills = 2;                   // of GuardFill

// A piece of memory that belongs to one run, all of it guard but for the elements of its tensors. Both ends are
// multiples of 256 bytes.
struct Region {
  std::byte* memory;
  std::int64_t at;  // canary position of its start, a multiple of 16
  std::int64_t bytes;
  std::int32_t fill;
  std::int32_t run;  // whose `damaged` counts
};

constexpr int kMaxLoops = 4;

// A tensor in place, walked like for_each_piece: rows of `piece` contiguous elements, found by the loops outermost
// first.
struct Walk {
  std::byte* base;
  const std::byte* given;  // packed: what it holds before the launch; null where it holds canary
  std::byte* taken;        // packed: where what it holds after the launch goes; null for a tensor that must not change
  std::int64_t at;         // canary position of the base
  std::int64_t stride[kMaxLoops];  // in elements
  std::uint32_t packed[kMaxLoops];
  std::uint32_t count[kMaxLoops];
  std::uint32_t loops;
  std::uint32_t piece;
  std::uint32_t elements;       // visited: all loops times the piece
  std::uint32_t element_bytes;  // 2 or 4
  std::int32_t fill;            // of the guards
  std::int32_t prefill;         // of the elements where nothing is given
};

// What a device says of one tensor of a run.
struct TensorVerdict {
  unsigned long long digest;  // of what was taken: a sum over elements, so that no order matters
  unsigned long long
      first_changed;  // packed index of the first element that differs from what was given; or kUnchanged
};
constexpr unsigned long long kUnchanged = ~0ULL;

// canary: [kFills][kCanaryBytes]. All of these are submitted to `stream` and leave their errors for cudaGetLastError().
void paint(const std::byte* canary, const Region* regions, int count, std::int64_t largest_bytes, cudaStream_t stream);
void scatter(const std::byte* canary, const Walk* walks, int count, std::int64_t most_elements, cudaStream_t stream);
// Takes, digests and compares; then puts the canary back, so that after it all of a region is canary but for damage.
void take(const std::byte* canary, const Walk* walks, TensorVerdict* verdicts, int count, std::int64_t most_elements,
          cudaStream_t stream);
// Adds to damaged[run] how many 16-byte words of the region are not canary.
void check_guards(const std::byte* canary, const Region* regions, unsigned* damaged, int count,
                  std::int64_t largest_bytes, cudaStream_t stream);

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME

#endif
