// Worker processes: each claims units of work, writes what it is about to do to shared memory, and is replaced when it
// dies, so that a kernel that crashes, hangs or is killed costs one unit and nothing else.
//
// The supervisor never runs a kernel and never initialises a GPU.
#ifndef TILEPROOF_SEARCH_WORKER_POOL_H
#define TILEPROOF_SEARCH_WORKER_POOL_H

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "execute/runner.h"

namespace tileproof {

// What a worker has in flight; lives in shared memory.
struct Slot : Watched {
  std::atomic<std::uint32_t> subject{0};
  std::atomic<std::uint64_t> unit{0};        // in flight
  std::atomic<std::uint64_t> claimed_to{0};  // one past the last unit of the chunk it claimed
};

// Where a fresh worker goes on after another died: the rest of its chunk.
struct Resume {
  std::uint32_t subject = 0;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

struct Death {
  Slot* slot = nullptr;
  std::string how;  // "SIGSEGV", "timeout", "exit 3"
  bool inside_launch = false;
};

struct PoolCallbacks {
  // In the child: does all work it can claim; messages go through `send`. Returns when nothing is left.
  std::function<void(Slot&, const Resume&, const std::function<void(const std::string&)>& send)> work;
  std::function<void(const std::string&)> message;  // in the supervisor, whole messages only
  std::function<void(const Death&)> death;          // in the supervisor, once per lost unit
  std::function<void()> tick;                       // in the supervisor, a few times a second
  std::function<bool()> stop;                       // in the supervisor; true kills what is still running after a grace
};

// Runs `jobs` workers until all are done. One that stays in one launch, or in one step of the work between two, for
// longer than the timeout is killed: large cases take long, hanging launches do not end. Throws EnvironmentError when
// processes or memory cannot be had.
void run_pool(int jobs, double timeout_seconds, const PoolCallbacks& callbacks);

}  // namespace tileproof

#endif
