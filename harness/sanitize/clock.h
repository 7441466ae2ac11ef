// What is ordered before what, in one launch on the CPU executor.
//
// Time is counted in ticks that only go forward: one more when a block begins, when the threads of a block have waited
// for each other, when lanes of a warp have, and at a fence. A stamp is the tick and the thread of an access. Blocks
// run one after another, so a stamp from before the block's first tick is of another block.
#ifndef TILEPROOF_SANITIZE_CLOCK_H
#define TILEPROOF_SANITIZE_CLOCK_H

#include <array>
#include <bit>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tileproof::sanitize {

constexpr unsigned kWarp = 32;
constexpr unsigned kMaxThreads = 1024;

using Tick = std::uint32_t;
constexpr Tick kTicks = Tick{1} << 18;  // as many as a stamp in shadow memory can tell apart

class Clock {
 public:
  Tick now = 0;
  Tick launch_first = 0;
  Tick block_first = 0;
  Tick last_barrier = 0;  // what came before it in this block is ordered before everything now

  void begin_launch() {
    launch_first = ++now;
    forget_atomics();
    used_atomics_ = false;
  }
  void begin_block() {
    block_first = last_barrier = ++now;
    fenced_.clear();
    known_.clear();
    known_to_all_.clear();
  }
  void pass_barrier() {
    last_barrier = ++now;
    for (const auto& [thread, known] : known_) {
      known_to_all_.insert(known_to_all_.end(), known.begin(), known.end());
    }
    known_.clear();
  }
  // __syncwarp: what each member did, or knows to be done, is ordered before what every member does next.
  void sync_warp(std::uint32_t warp, std::uint32_t members);
  void fence(std::uint32_t thread);
  void atomic(std::uint32_t thread, const void* address);

  // Whether an access of that thread at that tick is ordered before what `thread` does now. Both of this launch.
  bool ordered(Tick tick, std::uint32_t by, std::uint32_t thread) const {
    if (tick >= block_first &&
        (by == thread || tick < last_barrier || (by / kWarp == thread / kWarp && tick < synced_[thread][by % kWarp]))) {
      return true;
    }
    return used_atomics_ && released_to(tick, by, thread);
  }
  // Whether the launch orders threads by atomics in a way that reads of other blocks cannot be held against.
  bool used_atomics() const { return used_atomics_; }
  // The last tick at which the thread has waited for other lanes of its warp.
  Tick last_sync(std::uint32_t thread) const { return synced_[thread][thread % kWarp]; }

  // Before a launch: all stamps are forgotten.
  void reset() {
    restart();
    now = launch_first = block_first = last_barrier = 0;
  }
  // Starts counting anew in the middle of a launch: stamps of earlier blocks become tick 1, those of this block tick 2.
  void restart() {
    launch_first = 1;
    block_first = 2;
    last_barrier = now = 3;
    for (auto& row : synced_) {
      row.fill(0);
    }
    forget_atomics();
  }

 private:
  // What an atomic hands on: everything that its thread's fence came after.
  struct Released {
    Tick block_first, barrier;  // all threads of the block, ticks [block_first, barrier)
    Tick fence;                 // its thread, ticks [block_first, fence)
    std::uint32_t thread;
  };
  using Releases = std::vector<Released>;

  bool released_to(Tick tick, std::uint32_t by, std::uint32_t thread) const;
  void forget_atomics() {
    fenced_.clear();
    known_.clear();
    known_to_all_.clear();
    handed_on_.clear();
  }

  // Tick of the last sync by which accesses of a lane of the warp are ordered before those of a thread.
  std::array<std::array<Tick, kWarp>, kMaxThreads> synced_{};
  bool used_atomics_ = false;
  std::unordered_map<std::uint32_t, Releases> fenced_;  // what a thread knew, and had done, at its last fence
  std::unordered_map<std::uint32_t, Releases> known_;   // what is ordered before a thread's next access
  Releases known_to_all_;                               // of the block
  std::unordered_map<const void*, Releases> handed_on_;
};

}  // namespace tileproof::sanitize

#endif
