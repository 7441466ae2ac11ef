// Who follows a launch on the CPU executor: told when blocks begin and when threads have waited for each other.
#ifndef TILEPROOF_EXECUTE_LAUNCH_WATCHER_H
#define TILEPROOF_EXECUTE_LAUNCH_WATCHER_H

#include <cstddef>
#include <cstdint>
#include <span>

#include "tileproof/cuda_on_cpu.h"

namespace tileproof::cpu {

class LaunchWatcher {
 public:
  virtual ~LaunchWatcher() = default;
  // `closure` holds the arguments of the launch.
  virtual void launch_begins(dim3 grid, dim3 block, std::size_t shared_bytes, const void* closure) = 0;
  virtual void launch_ends() = 0;
  virtual void block_begins() = 0;  // blockIdx is set
  // Every thread of the block that has not returned is at __syncthreads and goes on. `absent`: how many have.
  // `waiting`: one that has not.
  virtual void barrier_passes(std::uint32_t absent, std::uint32_t waiting) = 0;
  // The lanes `members` of a warp go on. `mask` is what they named, less lanes that the block does not have.
  // `orders_memory`: __syncwarp, not a shuffle or a vote.
  virtual void warp_passes(std::uint32_t warp, std::uint32_t members, std::uint32_t mask, bool orders_memory) = 0;
  // The launch ends with last_error(): somebody waits for what never comes. `threads`: one or two that wait.
  virtual void launch_is_stuck(std::span<const std::uint32_t> threads) = 0;
};

// From now on, of launches to come; null: nobody.
void watch_launches(LaunchWatcher* watcher);

extern std::uint32_t running_thread;  // linear index in its block
const char* running_stack_top();      // one past the stack that runs now
// Where in the kernel a thread of the block last called a barrier or a warp operation; null: nowhere.
const void* waiting_at(std::uint32_t thread);

// Ends the launch from within its running thread, which never goes on.
[[noreturn]] void abandon_launch(const char* why);

// What a lane receives from one that takes no part in a warp operation (undefined in CUDA): all bits set, or none.
void fill_missing_lanes(bool set);

}  // namespace tileproof::cpu

#endif
