// The books of the CPU executor: cpu_executor.cpp keeps them.
#ifndef TILEPROOF_EXECUTE_LAUNCH_STATE_H
#define TILEPROOF_EXECUTE_LAUNCH_STATE_H

#include <array>
#include <cstdint>

#include "execute/fiber.h"
#include "execute/launch_order.h"
#include "execute/launch_watcher.h"

namespace tileproof::cpu {

constexpr unsigned kWarp = 32;
constexpr std::uint8_t kVote = 0xff;
constexpr std::uint8_t kSync = 0xfe;  // nothing is asked for

struct Warp {
  std::uint32_t alive = 0;    // lanes that have not returned, the ones not started included
  std::uint32_t waiting = 0;  // lanes at a warp operation
};

// What the scheduler knows, of the launch and of the block that runs.
struct State {
  explicit State(Fibers::Entry entry) : fibers(entry) {}

  Order thread_order, block_order;  // of the launches to come
  cudaError_t code = cudaSuccess;
  LaunchWatcher* watcher = nullptr;
  // What a lane receives from one that takes no part in the operation: a NaN of every type.
  std::uint64_t from_nobody = ~std::uint64_t{0};
  std::array<char, 320> error{};

  // The launch.
  Body body = nullptr;
  void* closure = nullptr;
  bool failed = false;
  Fibers fibers;
  ThreadOrder turns;
  BlockOrder blocks;

  // The block. What comes after `waited` holds only once a thread of the block has waited.
  std::uint32_t count = 0;  // threads
  std::uint32_t next = 0;   // position in `turns` of the next thread to start
  std::uint32_t runnable_count = 0;
  bool waited = false;
  std::uint32_t unfinished = 0;
  std::uint32_t at_barrier = 0;
  std::array<Warp, kMaxThreads / kWarp> warps;
  std::array<Fiber*, kMaxThreads> fiber{};              // of each suspended thread
  std::array<std::uint32_t, kMaxThreads> runnable{};    // suspended threads that may go on; the next is at the back
  std::array<std::uint32_t, kMaxThreads> mask{};        // of the warp operation a thread is at
  std::array<std::uint64_t, kMaxThreads> brought{};     // to it
  std::array<std::uint64_t, kMaxThreads> received{};    // from it
  std::array<std::uint8_t, kMaxThreads> source_lane{};  // whose value it asks for; kVote: all votes
  std::array<const void*, kMaxThreads> site{};          // where in the kernel it waits
};

}  // namespace tileproof::cpu

#endif
