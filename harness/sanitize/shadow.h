// Shadow memory: who last stored and who loaded each granule of the memory that a launch may touch.
//
// A granule is the smallest element of the arena, 2 or 4 bytes, and 1 byte of shared memory. It has two stamps of 32
// bits (the last store, the loads since) and one byte that says whose element it is: at most 4.5 bytes a byte of arena.
// Stamps hold ticks of a Clock that goes on from launch to launch, so nothing is cleared between launches: what is
// older than the launch is nothing.
#ifndef TILEPROOF_SANITIZE_SHADOW_H
#define TILEPROOF_SANITIZE_SHADOW_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "memory/arena.h"
#include "sanitize/clock.h"

namespace tileproof::sanitize {

// tick (18 bits) | thread (10 bits) | four flags. Stamps compare as their ticks do.
using Stamp = std::uint32_t;
constexpr unsigned kTickAt = 14;
constexpr unsigned kThreadAt = 4;
constexpr Stamp kPart = 1;           // of part of a granule: it may or may not meet another such access
constexpr Stamp kAtomic = 2;         // of a store
constexpr Stamp kOtherLanes = 2;     // of loads: other threads of the warp have loaded it too, since the last barrier
constexpr Stamp kOtherWarps = 4;     // and threads of other warps
constexpr Stamp kEarlierBlocks = 8;  // and blocks before this one, in this launch
constexpr Stamp stamp_of(Tick tick, std::uint32_t thread) { return tick << kTickAt | thread << kThreadAt; }
constexpr Tick tick_of(Stamp stamp) { return stamp >> kTickAt; }
constexpr std::uint32_t thread_of(Stamp stamp) { return stamp >> kThreadAt & (kMaxThreads - 1); }

// Whose element a granule is: 0 nobody's, else the number of a tensor of the launch from 1, with flags.
using Owner = std::uint8_t;
constexpr Owner kUnwritten = 0x80;  // holds nothing before the launch stores it (shared memory: before the block does)
constexpr Owner kReadOnly = 0x40;
constexpr Owner kNumber = 0x3f;
constexpr Owner kSharedMemory = kUnwritten | kNumber;

// A piece of memory with its shadow.
struct Region {
  std::uintptr_t low = 0;
  std::size_t bytes = 0;
  unsigned shift = 1;     // a granule is 1 << shift bytes
  bool of_block = false;  // shared memory: every block has its own
  Stamp* stores = nullptr;
  Stamp* loads = nullptr;
  Owner* owners = nullptr;
  bool contains(std::uintptr_t address) const { return address - low < bytes; }
};

// A mapping that is zero where nobody wrote, and takes memory only there.
class Mapping {
 public:
  Mapping() = default;
  explicit Mapping(std::size_t bytes);  // throws EnvironmentError
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  void clear();  // to zeros
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class Shadow {
 public:
  // Follows these tensors, which are in place. Throws EnvironmentError.
  void prepare(const std::vector<Placed>& tensors);
  // Besides them: shared memory, of which only these pieces (offset and bytes) may be touched, or, without any, all.
  void follow_shared(const void* low, std::size_t bytes,
                     std::span<const std::pair<std::size_t, std::size_t>> pieces = {});

  const Region& dense() const { return dense_; }
  const Region* find(std::uintptr_t address) const;  // of all, the dense one too
  // Forgets every stamp.
  void clear();
  // In the middle of a launch: see Clock::restart().
  void restart(Stamp launch_first, Stamp block_first);

 private:
  struct Piece {
    Region region;
    Mapping stores, loads, owners;
    // Of a sparse tensor: what is mapped of it, in granules.
    std::vector<std::pair<std::size_t, std::size_t>> used;
  };
  static void place(Piece& piece, std::uintptr_t low, std::size_t bytes, unsigned shift);

  Piece dense_piece_;
  Region dense_;
  std::vector<Piece> sparse_;
  std::vector<Piece> shared_;
};

}  // namespace tileproof::sanitize

#endif
