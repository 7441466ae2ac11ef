// The scheduler behind tileproof/cuda_on_cpu.h.
//
// One fiber, the carrier, runs the threads of a block one after another. A thread that must wait keeps its fiber, and
// another fiber becomes the carrier for the threads that have not started. So the number of switches is the number of
// waits, and a block without barriers runs on one stack.
#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/detail/fcontext.hpp>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "memory/counter_random.h"
#include "tileproof/cuda_on_cpu.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define TILEPROOF_ASAN_FIBERS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define TILEPROOF_ASAN_FIBERS 1
#endif
#endif

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace tileproof::cpu {

namespace {

namespace context = boost::context::detail;

constexpr unsigned kMaxThreads = 1024;
constexpr std::size_t kMaxShared = 227 * 1024;
constexpr std::size_t kStackBytes = 64 * 1024;
constexpr std::uint32_t kNobody = 0xffffffffU;

struct Schedule {
  int threads = TILEPROOF_FORWARD;
  int blocks = TILEPROOF_FORWARD;
  std::uint64_t seed = 0;
};

enum class Waits { nothing, block, warp };

struct Fiber {
  context::fcontext_t resume = nullptr;  // where it goes on
  char* stack = nullptr;                 // top, coloured
  char* low = nullptr;
  std::uint32_t thread = kNobody;  // linear index of the suspended thread
};

struct Thread {
  Waits waits = Waits::nothing;
  bool finished = false;
  unsigned mask = 0;             // of the warp operation it waits at
  std::uint64_t brought = 0;     // to that operation
  std::uint64_t received[32];    // what all lanes brought
  Fiber* fiber = nullptr;
};

struct Executor {
  Schedule schedule;
  std::string error;
  cudaError_t code = cudaSuccess;
  std::vector<Fiber*> free_fibers;
  std::vector<Thread> threads;
  std::vector<std::uint32_t> order;      // of threads
  std::vector<std::uint32_t> runnable;   // suspended threads that may go on, a stack: the next one is at the back
  std::uint32_t count = 0;               // threads in the block
  std::uint32_t next = 0;                // position in `order` of the next thread to start
  std::uint32_t finished = 0;
  std::uint32_t running = 0;
  Fiber* current = nullptr;
  context::fcontext_t scheduler = nullptr;
  const void* scheduler_stack = nullptr;  // for the address sanitizer
  std::size_t scheduler_stack_size = 0;
  Body body = nullptr;
  void* closure = nullptr;
  std::vector<std::uint64_t> shared;
};

Executor& executor() {
  static Executor instance;
  return instance;
}

void set_thread(std::uint32_t index) {
  Executor& e = executor();
  e.running = index;
  threadIdx = {index % blockDim.x, index / blockDim.x % blockDim.y, index / (blockDim.x * blockDim.y)};
}

Fiber* new_fiber() {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return nullptr;
  }
  mprotect(memory, page, PROT_NONE);  // an overflowing stack faults
  static std::size_t colour = 0;
  auto* fiber = new Fiber;
  fiber->low = static_cast<char*>(memory) + page;
  // Stack tops at different offsets, so that they do not all fall into one set of the first-level cache.
  fiber->stack = fiber->low + kStackBytes - (colour++ % 32) * 128;
  return fiber;
}

void before_switch(void** save, const void* low, std::size_t size) {
#ifdef TILEPROOF_ASAN_FIBERS
  __sanitizer_start_switch_fiber(save, low, size);
#else
  (void)save, (void)low, (void)size;
#endif
}

void after_switch(void* save) {
#ifdef TILEPROOF_ASAN_FIBERS
  __sanitizer_finish_switch_fiber(save, nullptr, nullptr);
#else
  (void)save;
#endif
}

// Runs threads that have not started until none is left or one suspends (then this fiber is resumed later, inside it).
void carry(context::transfer_t from) {
  Executor& e = executor();
#ifdef TILEPROOF_ASAN_FIBERS
  __sanitizer_finish_switch_fiber(nullptr, &e.scheduler_stack, &e.scheduler_stack_size);
#endif
  e.scheduler = from.fctx;
  while (true) {
    while (e.next < e.count) {
      const std::uint32_t index = e.order[e.next++];
      set_thread(index);
      e.body(e.closure);
      e.threads[e.running].finished = true;
      ++e.finished;
    }
    // Nothing left to start: back to the scheduler, which may hand this fiber another block.
    Fiber* self = e.current;
    self->thread = kNobody;
    void* save = nullptr;
    before_switch(&save, e.scheduler_stack, e.scheduler_stack_size);
    const context::transfer_t back = context::jump_fcontext(e.scheduler, nullptr);
    after_switch(save);
    e.scheduler = back.fctx;
  }
}

// From the scheduler into a fiber; returns when the fiber suspends or has nothing left.
void enter(Fiber* fiber) {
  Executor& e = executor();
  e.current = fiber;
  if (fiber->resume == nullptr) {
    fiber->resume = context::make_fcontext(fiber->stack, kStackBytes - 4096, carry);
  }
  void* save = nullptr;
  before_switch(&save, fiber->low, kStackBytes);
  const context::transfer_t back = context::jump_fcontext(fiber->resume, nullptr);
  after_switch(save);
  fiber->resume = back.fctx;
  if (fiber->thread == kNobody) {
    e.free_fibers.push_back(fiber);
  }
}

// From a fiber back to the scheduler, until the thread may go on.
void suspend() {
  Executor& e = executor();
  const std::uint32_t index = e.running;
  Fiber* self = e.current;
  self->thread = index;
  e.threads[index].fiber = self;
  void* save = nullptr;
  before_switch(&save, e.scheduler_stack, e.scheduler_stack_size);
  const context::transfer_t back = context::jump_fcontext(e.scheduler, nullptr);
  after_switch(save);
  e.scheduler = back.fctx;
  e.current = self;
  self->thread = kNobody;
  set_thread(index);
}

// Lets everybody go on whose wait is over. Runnable threads are stacked so that the scheduled order comes out.
void release_block() {
  Executor& e = executor();
  for (std::uint32_t i = e.count; i-- > 0;) {
    Thread& thread = e.threads[e.order[i]];
    if (!thread.finished && thread.waits == Waits::block) {
      thread.waits = Waits::nothing;
      e.runnable.push_back(e.order[i]);
    }
  }
}

bool release_warp(std::uint32_t first) {
  Executor& e = executor();
  const std::uint32_t last = std::min(first + 32, e.count);
  unsigned alive = 0;
  for (std::uint32_t i = first; i < last; ++i) {
    alive |= e.threads[i].finished ? 0U : 1U << (i - first);
  }
  for (std::uint32_t i = first; i < last; ++i) {
    const Thread& thread = e.threads[i];
    if (thread.waits != Waits::warp || thread.finished) {
      continue;
    }
    const unsigned members = thread.mask & alive;
    unsigned here = 0;
    for (std::uint32_t j = first; j < last; ++j) {
      here |= e.threads[j].waits == Waits::warp && e.threads[j].mask == thread.mask ? 1U << (j - first) : 0U;
    }
    if ((here & members) != members) {
      continue;
    }
    std::uint64_t brought[32] = {};
    for (std::uint32_t j = first; j < last; ++j) {
      brought[j - first] = e.threads[j].brought;
    }
    for (std::uint32_t j = last; j-- > first;) {
      if ((members >> (j - first) & 1U) != 0) {
        std::copy(std::begin(brought), std::end(brought), e.threads[j].received);
        e.threads[j].waits = Waits::nothing;
        e.runnable.push_back(j);
      }
    }
    return true;
  }
  return false;
}

void describe_deadlock() {
  Executor& e = executor();
  std::uint32_t at_block = kNobody;
  std::uint32_t at_warp = kNobody;
  for (std::uint32_t i = 0; i < e.count; ++i) {
    if (!e.threads[i].finished) {
      (e.threads[i].waits == Waits::block ? at_block : at_warp) = i;
    }
  }
  std::array<char, 200> text{};
  if (at_warp != kNobody) {
    std::snprintf(text.data(), text.size(),
                  "deadlock in block (%u,%u,%u): thread %u waits at a warp operation with mask 0x%x that not every "
                  "member reaches",
                  blockIdx.x, blockIdx.y, blockIdx.z, at_warp, e.threads[at_warp].mask);
  } else {
    std::snprintf(text.data(), text.size(), "deadlock in block (%u,%u,%u): thread %u waits at __syncthreads", blockIdx.x,
                  blockIdx.y, blockIdx.z, at_block);
  }
  e.error = text.data();
  e.code = cudaErrorLaunchFailure;
}

// A wait is over when all that can still come are there.
bool release_any() {
  Executor& e = executor();
  std::uint32_t at_block = 0;
  for (std::uint32_t i = 0; i < e.count; ++i) {
    at_block += !e.threads[i].finished && e.threads[i].waits == Waits::block ? 1 : 0;
  }
  for (std::uint32_t first = 0; first < e.count; first += 32) {
    if (release_warp(first)) {
      return true;
    }
  }
  if (at_block > 0 && at_block == e.count - e.finished) {
    release_block();
    return true;
  }
  return false;
}

bool run_block() {
  Executor& e = executor();
  e.next = 0;
  e.finished = 0;
  e.runnable.clear();
  for (std::uint32_t i = 0; i < e.count; ++i) {
    e.threads[i].finished = false;
    e.threads[i].waits = Waits::nothing;
  }
  while (e.finished < e.count) {
    Fiber* fiber = nullptr;
    if (!e.runnable.empty()) {
      fiber = e.threads[e.runnable.back()].fiber;
      e.runnable.pop_back();
    } else if (e.next < e.count) {
      if (e.free_fibers.empty()) {
        e.free_fibers.push_back(new_fiber());
      }
      fiber = e.free_fibers.back();
      e.free_fibers.pop_back();
      if (fiber == nullptr) {
        e.error = "no memory for the stacks of a block";
        e.code = cudaErrorLaunchFailure;
        return false;
      }
    } else if (!release_any()) {
      describe_deadlock();
      for (std::uint32_t i = 0; i < e.count; ++i) {  // their fibers are lost inside the kernel: start them afresh
        if (!e.threads[i].finished) {
          e.threads[i].fiber->resume = nullptr;
          e.free_fibers.push_back(e.threads[i].fiber);
        }
      }
      return false;
    } else {
      continue;
    }
    enter(fiber);
  }
  return true;
}

void shuffle_order(std::vector<std::uint32_t>& order, int kind, std::uint64_t seed, std::uint64_t stream) {
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    order[i] = kind == TILEPROOF_REVERSE ? static_cast<std::uint32_t>(order.size()) - 1 - i : i;
  }
  if (kind == TILEPROOF_SHUFFLED) {
    CounterStream random(seed, stream);
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[random.below(i)]);
    }
  }
}

const char* refused(dim3 grid, dim3 block, std::size_t shared_bytes) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
    return "invalid configuration: a grid or block dimension is 0";
  }
  if (grid.x > 0x7fffffffU || grid.y > 65535 || grid.z > 65535) {
    return "invalid configuration: grid beyond (2147483647, 65535, 65535)";
  }
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || block.x * block.y * block.z > kMaxThreads) {
    return "invalid configuration: more than 1024 threads in a block";
  }
  return shared_bytes > kMaxShared ? "invalid configuration: more than 227 KiB of shared memory" : nullptr;
}

}  // namespace

void block_barrier() {
  Executor& e = executor();
  if (e.count == 1) {
    return;
  }
  e.threads[e.running].waits = Waits::block;
  suspend();
}

void warp_exchange(unsigned mask, std::uint64_t mine, std::uint64_t all[32]) {
  Thread& thread = executor().threads[executor().running];
  thread.waits = Waits::warp;
  thread.mask = mask;
  thread.brought = mine;
  suspend();
  std::copy(std::begin(thread.received), std::end(thread.received), all);
}

unsigned lane_id() { return executor().running % 32; }

void* dynamic_shared() { return executor().shared.data(); }

void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, Body body, void* closure) {
  Executor& e = executor();
  if (const char* reason = refused(grid, block, shared_bytes)) {
    e.error = reason;
    e.code = cudaErrorInvalidConfiguration;
    return;
  }
  gridDim = grid;
  blockDim = block;
  e.body = body;
  e.closure = closure;
  e.count = block.x * block.y * block.z;
  e.threads.resize(kMaxThreads);
  e.order.resize(e.count);
  e.shared.resize(kMaxShared / 8 + 2);
  shuffle_order(e.order, e.schedule.threads, e.schedule.seed, 0);
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  std::vector<std::uint32_t> block_order;
  if (e.schedule.blocks == TILEPROOF_SHUFFLED) {
    block_order.resize(blocks);
    shuffle_order(block_order, TILEPROOF_SHUFFLED, e.schedule.seed, 1);
  }
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t index = !block_order.empty()                        ? block_order[i]
                                : e.schedule.blocks == TILEPROOF_REVERSE ? blocks - 1 - i
                                                                            : i;
    blockIdx = {static_cast<unsigned>(index % grid.x), static_cast<unsigned>(index / grid.x % grid.y),
                static_cast<unsigned>(index / grid.x / grid.y)};
    if (!run_block()) {
      return;
    }
  }
}

int32_t run_scheduled(const tileproof_launch* request, int32_t (*launch)(const tileproof_launch*)) {
  Executor& e = executor();
  e.schedule = {request->thread_order, request->block_order, request->order_seed};
  const int32_t status = launch(request);
  e.schedule = {};
  return status;
}

}  // namespace tileproof::cpu

cudaError_t cudaGetLastError() {
  auto& e = tileproof::cpu::executor();
  const cudaError_t code = e.code;
  e.code = cudaSuccess;
  return code;
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : tileproof::cpu::executor().error.c_str();
}
