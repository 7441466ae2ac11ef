// The scheduler behind tileproof/cuda_on_cpu.h.
//
// One fiber, the carrier, runs the blocks of a launch and their threads one after another. A thread that must wait
// keeps its fiber, and another fiber becomes the carrier for the threads that have not started. Fibers jump to each
// other directly, so a barrier costs two jumps a thread, and a launch without barriers one round trip.
//
// Who runs next: first the threads whose wait is over, then those that have not started, each in the scheduled order.
// A warp operation is therefore over as soon as its last member is there, before other warps go on: what follows it
// runs after all of an earlier warp and before all of a later one, so that a conflict between two warps shows in
// forward or in reverse order.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <utility>

#include "execute/launch_limits.h"
#include "execute/launch_state.h"
#include "execute/launch_watcher.h"
#include "tileproof/cuda_on_cpu.h"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace tileproof::cpu {

std::uint32_t running_thread = 0;

namespace {

void carry(boost::context::detail::transfer_t transfer);

State s(carry);
alignas(1024) std::array<std::byte, kMaxShared> shared_memory;

template <typename... Values>
void fail(cudaError_t code, const char* format, Values... values) {
  std::snprintf(s.error.data(), s.error.size(), format, values...);
  s.code = code;
  s.failed = true;
}

// Null, with the error set, when there is no memory for one more.
Fiber* take_fiber() {
  Fiber* fiber = s.fibers.take();
  if (fiber == nullptr) {
    fail(cudaErrorLaunchFailure, "no memory for the stack of one more waiting thread (%zu stacks of %zu bytes so far)",
         s.fibers.created(), kStackBytes);
  }
  return fiber;
}

bool is_alive(std::uint32_t thread) { return (s.warps[thread / kWarp].alive >> (thread % kWarp) & 1U) != 0; }

// Makes the lanes of a warp runnable, the first in the scheduled order on top.
void make_runnable(std::uint32_t warp, std::uint32_t lanes) {
  auto* const begin = s.runnable.begin() + s.runnable_count;
  for (; lanes != 0; lanes &= lanes - 1) {
    s.runnable[s.runnable_count++] = warp * kWarp + static_cast<std::uint32_t>(std::countr_zero(lanes));
  }
  auto* const end = s.runnable.begin() + s.runnable_count;
  if (s.turns.kind() == TILEPROOF_FORWARD) {
    std::reverse(begin, end);
  } else if (s.turns.kind() == TILEPROOF_SHUFFLED) {
    std::sort(begin, end, [](std::uint32_t a, std::uint32_t b) { return s.turns.position(a) > s.turns.position(b); });
  }
}

void release_barrier_if_all_there() {
  if (s.at_barrier == 0 || s.at_barrier != s.unfinished) {
    return;
  }
  s.at_barrier = 0;
  for (std::uint32_t i = s.count; i-- > 0;) {
    if (is_alive(s.turns[i].thread)) {
      s.runnable[s.runnable_count++] = s.turns[i].thread;
    }
  }
  if (s.watcher != nullptr) {
    s.watcher->barrier_passes(s.count - s.unfinished, s.runnable[s.runnable_count - 1]);
  }
}

// Carries out the warp operation with that mask when every member that has not returned is at it.
void release_warp_if_all_there(std::uint32_t warp, std::uint32_t mask) {
  const std::uint32_t first = warp * kWarp;
  const std::uint32_t members = mask & s.warps[warp].alive;
  if ((members & ~s.warps[warp].waiting) != 0) {
    return;
  }
  std::uint32_t votes = 0;
  for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
    if ((members >> lane & 1U) != 0) {
      if (s.mask[first + lane] != mask) {
        return;
      }
      votes |= s.brought[first + lane] != 0 ? 1U << lane : 0U;
    }
  }
  for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
    if ((members >> lane & 1U) != 0) {
      const std::uint32_t source = s.source_lane[first + lane];
      const bool present = source < kWarp && (members >> source & 1U) != 0;
      s.received[first + lane] = source >= kWarp ? votes : present ? s.brought[first + source] : s.from_nobody;
    }
  }
  if (s.watcher != nullptr && members != 0) {
    const std::uint32_t existing = s.count - first >= kWarp ? ~0U : (1U << (s.count - first)) - 1;
    const std::uint32_t any = first + static_cast<std::uint32_t>(std::countr_zero(members));
    s.watcher->warp_passes(warp, members, mask & existing, s.source_lane[any] == kSync);
  }
  s.warps[warp].waiting &= ~members;
  make_runnable(warp, members);
}

// From now on the block keeps books; so far its threads returned one after another.
void begin_waiting() {
  s.waited = true;
  s.unfinished = s.count - (s.next - 1);
  s.at_barrier = 0;
  s.warps.fill({});
  for (std::uint32_t i = s.next - 1; i < s.count; ++i) {
    s.warps[s.turns[i].thread / kWarp].alive |= 1U << (s.turns[i].thread % kWarp);
  }
}

// The running thread has returned; it counts as arrived wherever others wait for it.
void finish_thread() {
  const std::uint32_t warp = running_thread / kWarp;
  s.warps[warp].alive &= ~(1U << (running_thread % kWarp));
  --s.unfinished;
  release_barrier_if_all_there();
  for (std::uint32_t lanes = s.warps[warp].waiting; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(lanes));
    if ((s.warps[warp].waiting >> lane & 1U) != 0) {
      release_warp_if_all_there(warp, s.mask[warp * kWarp + lane]);
    }
  }
}

void fail_deadlock() {
  std::uint32_t at_barrier = 0;
  std::uint32_t at_warp = kMaxThreads;
  std::uint32_t first_at_barrier = kMaxThreads;
  for (std::uint32_t i = 0; i < s.count; ++i) {
    const bool in_warp = (s.warps[i / kWarp].waiting >> (i % kWarp) & 1U) != 0;
    at_warp = in_warp ? std::min(at_warp, i) : at_warp;
    first_at_barrier = is_alive(i) && !in_warp ? std::min(first_at_barrier, i) : first_at_barrier;
    at_barrier += is_alive(i) && !in_warp ? 1U : 0U;
  }
  // Everybody at the barrier would have passed it, so somebody is at a warp operation.
  fail(cudaErrorLaunchFailure,
       "deadlock in block (%u,%u,%u): thread %u waits at a warp operation with mask 0x%08x that not every member "
       "reaches; %u threads wait at __syncthreads",
       blockIdx.x, blockIdx.y, blockIdx.z, at_warp, at_warp < kMaxThreads ? s.mask[at_warp] : 0U, at_barrier);
  if (s.watcher != nullptr) {
    const std::array<std::uint32_t, 2> threads{at_warp, first_at_barrier};
    s.watcher->launch_is_stuck(std::span(threads).first(at_barrier > 0 ? 2 : 1));
  }
}

// Suspends the running thread, which has been entered among those that wait, until its turn comes.
void wait_for_turn() {
  const std::uint32_t thread = running_thread;
  Fiber* to = nullptr;
  s.fiber[thread] = s.fibers.current();
  if (s.failed) {
    to = s.fibers.launcher();
  } else if (s.runnable_count > 0) {
    const std::uint32_t chosen = s.runnable[--s.runnable_count];
    if (chosen == thread) {
      return;
    }
    to = s.fiber[chosen];
  } else if (s.next < s.count) {
    to = take_fiber();
  } else {
    fail_deadlock();
  }
  s.fibers.switch_to(to != nullptr ? to : s.fibers.launcher());
  running_thread = thread;
  threadIdx = s.turns[s.turns.position(thread)].index;
}

bool next_block() {
  if (!s.blocks.advance()) {
    return false;
  }
  s.next = 0;
  s.waited = false;
  if (s.watcher != nullptr) {
    s.watcher->block_begins();
  }
  return true;
}

// Starts threads while they return at once. What it needs is in registers: nothing changes before somebody waits.
void run_until_somebody_waits() {
  const Body body = s.body;
  void* const closure = s.closure;
  do {
    const std::uint32_t count = s.count;
    for (std::uint32_t i = 0; i < count;) {
      const ThreadOrder::Turn& turn = s.turns[i];
      threadIdx = turn.index;
      running_thread = turn.thread;
      s.next = ++i;
      body(closure);
      if (s.waited) {
        finish_thread();
        return;
      }
    }
  } while (next_block());
}

// What a fiber does: starts threads while there are any, hands over to those whose wait is over, and goes on to the
// next block when all have returned.
void carry(boost::context::detail::transfer_t transfer) {
  Fibers::arrive(transfer);
  while (true) {
    if (s.next == 0) {
      run_until_somebody_waits();
    }
    while (s.runnable_count == 0 && s.next < s.count) {
      const ThreadOrder::Turn& turn = s.turns[s.next++];
      threadIdx = turn.index;
      running_thread = turn.thread;
      s.body(s.closure);
      finish_thread();
    }
    Fiber* to = s.fibers.launcher();
    if (s.runnable_count > 0) {
      to = s.fiber[s.runnable[--s.runnable_count]];
    } else if (s.waited && s.unfinished > 0) {
      fail_deadlock();
    } else if (s.waited && next_block()) {
      continue;
    }
    s.fibers.park();
    s.fibers.switch_to(to);
  }
}

// After a failure: the suspended threads never return.
void abandon_threads() {
  for (std::uint32_t i = 0; s.waited && i < s.next; ++i) {
    if (is_alive(s.turns[i].thread)) {
      s.fibers.abandon(s.fiber[s.turns[i].thread]);
    }
  }
}

}  // namespace

void block_barrier() {
  if (s.count == 1) {
    return;
  }
  if (!s.waited) {
    begin_waiting();
  }
  ++s.at_barrier;
  s.site[running_thread] = __builtin_return_address(0);
  release_barrier_if_all_there();
  wait_for_turn();
}

namespace {

std::uint64_t warp_operation(unsigned mask, std::uint64_t value, std::uint8_t source_lane, const void* site) {
  if (!s.waited) {
    begin_waiting();
  }
  const std::uint32_t thread = running_thread;
  const std::uint32_t warp = thread / kWarp;
  s.site[thread] = site;
  if ((mask >> (thread % kWarp) & 1U) == 0) {
    fail(cudaErrorLaunchFailure, "block (%u,%u,%u): thread %u calls a warp operation whose mask 0x%08x leaves it out",
         blockIdx.x, blockIdx.y, blockIdx.z, thread, mask);
    if (s.watcher != nullptr) {
      s.watcher->launch_is_stuck({&thread, 1});
    }
  } else {
    s.mask[thread] = mask;
    s.brought[thread] = value;
    s.source_lane[thread] = source_lane;
    s.warps[warp].waiting |= 1U << (thread % kWarp);
    release_warp_if_all_there(warp, mask);
  }
  wait_for_turn();
  return s.received[thread];
}

}  // namespace

std::uint64_t warp_shuffle(unsigned mask, std::uint64_t value, unsigned source_lane) {
  return warp_operation(mask, value, static_cast<std::uint8_t>(source_lane % kWarp), __builtin_return_address(0));
}

unsigned warp_vote(unsigned mask, bool vote) {
  return static_cast<unsigned>(warp_operation(mask, vote ? 1 : 0, kVote, __builtin_return_address(0)));
}

void warp_sync(unsigned mask) { warp_operation(mask, 0, kSync, __builtin_return_address(0)); }

unsigned lane_id() { return running_thread % kWarp; }

void* dynamic_shared() { return shared_memory.data(); }

const char* last_error() { return s.error.data(); }

void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, Body body, void* closure) {
  if (const char* reason = reason_against(grid, block, shared_bytes, s.block_order.kind == TILEPROOF_SHUFFLED)) {
    fail(cudaErrorInvalidConfiguration,
         "invalid configuration: %s (grid (%u,%u,%u), block (%u,%u,%u), %zu bytes of shared memory)", reason, grid.x,
         grid.y, grid.z, block.x, block.y, block.z, shared_bytes);
    return;
  }
  s.failed = false;
  Fiber* carrier = take_fiber();
  if (carrier == nullptr) {
    return;
  }
  gridDim = grid;
  blockDim = block;
  s.body = body;
  s.closure = closure;
  s.count = block.x * block.y * block.z;
  s.runnable_count = 0;
  s.turns.prepare(block, s.thread_order);
  s.blocks.prepare(grid, s.block_order);
  if (s.watcher != nullptr) {
    s.watcher->launch_begins(grid, block, shared_bytes, closure);
  }
  next_block();
  s.fibers.switch_to(carrier);
  if (s.watcher != nullptr) {
    s.watcher->launch_ends();
  }
  if (s.failed) {
    abandon_threads();
  }
}

void watch_launches(LaunchWatcher* watcher) { s.watcher = watcher; }

const char* running_stack_top() { return s.fibers.current()->top; }

const void* waiting_at(std::uint32_t thread) { return s.site[thread]; }

void abandon_launch(const char* why) {
  if (!s.waited) {
    begin_waiting();
  }
  fail(cudaErrorLaunchFailure, "%s", why);
  wait_for_turn();
  __builtin_unreachable();
}

void fill_missing_lanes(bool set) { s.from_nobody = set ? ~std::uint64_t{0} : 0; }

Schedule::Schedule(int thread_order, int block_order, std::uint64_t seed)
    : thread_order_(s.thread_order.kind),
      block_order_(s.block_order.kind),
      seed_(std::max(s.thread_order.seed, s.block_order.seed)) {
  s.thread_order = {thread_order, seed};
  s.block_order = {block_order, seed};
}

Schedule::~Schedule() {
  s.thread_order = {thread_order_, seed_};
  s.block_order = {block_order_, seed_};
}

}  // namespace tileproof::cpu

cudaError_t cudaGetLastError() { return std::exchange(tileproof::cpu::s.code, cudaSuccess); }

cudaError_t cudaPeekAtLastError() { return tileproof::cpu::s.code; }

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : tileproof::cpu::last_error();
}
