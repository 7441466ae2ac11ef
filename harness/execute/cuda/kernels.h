// What the harness itself does on a device: paint guards, make and scatter inputs, gather and digest outputs, check
// guards.
// Each works on all runs of a batch at once.
#ifndef TILEPROOF_EXECUTE_CUDA_KERNELS_H
#define TILEPROOF_EXECUTE_CUDA_KERNELS_H

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "memory/recipe_rules.h"

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

// Whether a tensor is filled by a rule, and of which type it is then.
enum class RuleType : std::int32_t { none, f32, f16, bf16 };

// In device memory.
struct RecipeSource {
  RecipeTables<std::uint32_t> f32;
  RecipeTables<std::uint16_t> f16;
  RecipeTables<std::uint16_t> bf16;
};

// A tensor in place, walked like for_each_piece: rows of `piece` contiguous elements, found by the loops outermost
// first.
struct Walk {
  std::byte* base;
  // What it holds before the launch: packed here, or what the rule says; canary where there is neither.
  const std::byte* given;
  RecipeRule rule;
  RuleType rule_type;
  std::byte* taken;  // packed: where what it holds after the launch goes; null for a tensor that must not change
  std::int64_t at;   // canary position of the base
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

// What one block of threads does: kTile elements of a walk, or words of 16 bytes of a region, from `first` on. The
// items of a batch differ in size a thousandfold: a grid that fits the largest would be mostly blocks without work, and
// those keep the kernels of other streams waiting.
struct Tile {
  std::uint32_t item;
  std::uint32_t first;
};
constexpr std::uint32_t kTile = 4096;

// On the device: what the kernels below work on.
struct Batch {
  const std::byte* canary;  // [kFills][kCanaryBytes]
  RecipeSource recipes;
  const Region* regions;
  const Walk* walks;
  const Tile* region_tiles;
  const Tile* walk_tiles;
  std::uint32_t region_tile_count;
  std::uint32_t walk_tile_count;
  TensorVerdict* verdicts;  // of each walk
  unsigned* damaged;        // of each run
};

// All of these are submitted to `stream` and leave their errors for cudaGetLastError().
void paint(const Batch& batch, cudaStream_t stream);
void scatter(const Batch& batch, cudaStream_t stream);
// Takes, digests and compares; then puts the canary back, so that after it all of a region is canary but for damage.
void take(const Batch& batch, cudaStream_t stream);
// Adds to damaged[run] how many 16-byte words of the region are not canary.
void check_guards(const Batch& batch, cudaStream_t stream);

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME

#endif
