// Follows every access of a launch of a sanitizing build on the CPU executor, and notes what CUDA does not allow.
//
// Kernels of a sanitizing build call __tsan_read4() and its family (runtime.cpp) before each access. What they pass is
// held against the shadow memory. A sighting is one such violation, with the calls that led to it; for a race the other
// side is found by a second look at the same launch, in which the addresses that were seen are recorded in full.
#ifndef TILEPROOF_SANITIZE_SANITIZER_H
#define TILEPROOF_SANITIZE_SANITIZER_H

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "execute/launch_watcher.h"
#include "sanitize/clock.h"
#include "sanitize/shadow.h"

namespace tileproof::sanitize {

enum class Fault {
  race,              // two accesses that nothing orders
  second_store,      // an element stored by two threads
  outside,           // no element of any tensor, nor shared memory that the launch asked for
  read_only,         // a store to a tensor that is only read
  expired_local,     // a local of a function that has returned
  wild,              // none of the launch's memory
  unwritten,         // a load of what nothing wrote
  undefined_value,   // a stored value that depends on a local without a value (found by the executor)
  barrier_missed,    // __syncthreads that threads returned without
  barrier_diverged,  // threads of a block at different __syncthreads
  warp_missed,       // a warp operation that names lanes that returned without it
  warp_diverged,     // lanes at different warp operations
  stuck              // a wait that never ends
};

// Return addresses, innermost first; null where there are no more.
using Calls = std::array<const void*, 12>;

struct Touch {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  bool store = false;
  bool atomic = false;
};

struct Access : Touch {
  std::uint32_t thread = 0;
  uint3 thread_index{};
  uint3 block{};
  Tick tick = 0;
  Calls calls{};
};

struct Sighting {
  Fault fault = Fault::race;
  Access access;
  std::optional<Access> other;
  std::uint32_t count = 0;  // threads, or lanes as bits, that a barrier or warp operation lacks
  std::string text;         // of `stuck`
};

class Sanitizer final : public cpu::LaunchWatcher {
 public:
  // Before a launch with these tensors: follow() it, then unfollow(). Throws EnvironmentError.
  void follow(const std::vector<Placed>& tensors);
  // Before the same launch once more, from the same memory: completes the sightings so far.
  void follow_again(const std::vector<Placed>& tensors);
  void unfollow();
  std::vector<Sighting>& sightings() { return sightings_; }
  // Whether a second look could tell more.
  bool wants_second_look() const;
  // Asks the second look for the last store to these bytes.
  void ask_for_store(std::uintptr_t address, std::size_t bytes);
  bool any_launch() const { return launched_; }  // a kernel of a sanitizing build ran since follow()

  // An access of the running thread; `frame` is that of the function that the kernel called.
  template <std::size_t kBytes, bool kStore>
  void access(const void* address, void** frame);
  void access(Touch touch, void** frame);
  void atomic(const void* address, std::size_t bytes, void* frame);  // read-modify-write
  void fence();

  void launch_begins(dim3 grid, dim3 block, std::size_t shared_bytes, const void* closure) override;
  void launch_ends() override { live_ = false; }
  void block_begins() override;
  void barrier_passes(std::uint32_t absent, std::uint32_t waiting) override;
  void warp_passes(std::uint32_t warp, std::uint32_t members, std::uint32_t mask, bool orders_memory) override;
  void launch_is_stuck(std::span<const std::uint32_t> threads) override;

 private:
  struct Seen {
    Fault fault;
    const void* at;
    std::uint64_t count;
  };

  template <std::size_t kGranules, bool kStore>
  void check(const Region& region, std::size_t granule, const Touch& touch, void** frame);
  template <bool kStore>
  void check_apart(const Region& region, std::size_t granule, std::size_t count, const Touch& touch, void** frame);
  template <bool kStore>
  void check_pieces(const Region& region, Touch touch, void** frame);
  template <bool kStore>
  Stamp next_stamp(const Region& region, Stamp store, Stamp loads, Owner owner, const Touch& touch, void** frame);
  Stamp after_load(const Region& region, Stamp loads, Stamp mine) const;
  bool conflicts(const Region& region, Stamp store) const;
  bool loads_conflict(const Region& region, Stamp loads) const;
  void meet_store(const Region& region, Stamp store, const Touch& touch, void** frame);
  // The stack of who launched holds the arguments of the launch.
  bool is_argument(std::uintptr_t address) const {
    constexpr std::uintptr_t kReach = std::uintptr_t{1} << 16;
    return address - arguments_ + kReach < 2 * kReach;
  }
  void access_slowly(Touch touch, void** frame);
  bool in_own_stack(std::uintptr_t address, void** frame);
  void elsewhere(const Touch& touch, void** frame);
  void wrong_place(const Touch& touch, Owner owner, void** frame);
  void advance();

  Access complete(const Touch& touch, void** frame) const;
  void see(Fault fault, const Touch& touch, void** frame);
  void see(Sighting sighting);
  bool is_news(Fault fault, const void* at);
  void record(const Touch& touch, void** frame);
  void find_other(Sighting& sighting, const std::vector<Access>& history) const;

  bool live_ = false;       // a kernel runs
  bool recording_ = false;  // the second look
  bool launched_ = false;
  Clock clock_;
  Shadow shadow_;
  std::uintptr_t stack_top_ = 0;
  std::uintptr_t arguments_ = 0;  // where the arguments of the launch lie, on the stack of who launched
  std::vector<Seen> seen_;
  std::vector<Sighting> sightings_;
  std::vector<std::vector<Access>> histories_;  // of each sighting's address, in the second look
};

// One launch runs at a time in a process (cuda_on_cpu.h), so there is one.
extern __attribute__((visibility("hidden"))) Sanitizer sanitizer;

}  // namespace tileproof::sanitize

#endif
