// Worker processes: each claims units of work, writes what it is about to do to shared memory, and is replaced when it
// dies, so that a kernel that crashes, hangs or is killed costs one unit and nothing else.
//
// The supervisor never runs a kernel and never initialises a GPU.
#ifndef TILEPROOF_SEARCH_WORKER_POOL_H
#define TILEPROOF_SEARCH_WORKER_POOL_H

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "execute/executor.h"

namespace tileproof {

// What a lane of a worker has in flight; lives in shared memory and outlives the worker. A lane does one batch of units
// at a time; workers have several lanes where they are threads that share a device.
// `stage` 3, of the slot for suspects: all of them are done.
struct Slot : Watched {
  std::atomic<std::uint32_t> subject{0};
  std::atomic<std::uint64_t> unit{0};        // the next whose verdicts are not recorded yet
  std::atomic<std::uint64_t> batch_to{0};    // one past the last unit in flight
  std::atomic<std::uint64_t> claimed_to{0};  // one past the last unit of the chunk it claimed
  std::array<char, 64> error{};              // what a worker that ends by itself says of the device it lost
};

// Units [from, to) of a subject.
struct Range {
  std::uint32_t subject = 0;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

struct Death {
  std::uint32_t subject = 0;
  std::uint64_t unit = 0;
  std::string how;  // "SIGSEGV", "timeout", "exit 3", or the name of a device's error
  bool inside_launch = false;
  // 1: it was this unit. More: one of so many that were in flight; each ended well when it was tried alone.
  std::uint64_t in_flight = 1;
};

// A worker's own side of the pool.
struct WorkerSide {
  int number = 0;               // 0, 1, ... of all workers
  std::span<Slot> lanes;        // each goes on with [unit, claimed_to) of its slot, then claims more
  Slot* alone = nullptr;        // of the suspects
  std::vector<Range> suspects;  // before anything else, one unit at a time: one of them cost the worker before it
  std::function<void(const std::string&)> send;  // to the supervisor; any thread may call it
};

struct PoolCallbacks {
  std::function<void(const WorkerSide&)> work;      // in the worker: does all work it can claim
  std::function<void(const std::string&)> message;  // in the supervisor, whole messages only
  std::function<void(const Death&)> death;          // in the supervisor, once per lost unit
  std::function<void()> tick;                       // in the supervisor, a few times a second
  std::function<bool()> stop;                       // in the supervisor; true kills what is still running after a grace
};

// Runs `workers` processes of `lanes` lanes each until all are done. One that stays in one launch, or in one step of
// the work between two, for longer than the timeout is killed; several units in
// flight together are given up sooner and tried one by one. Throws
// EnvironmentError when processes or memory cannot be had.
void run_pool(int workers, int lanes, double timeout_seconds, const PoolCallbacks& callbacks);

// What became of a process, by the status that wait gave: "SIGSEGV", "exit 3".
std::string end_of_process(int status);

// In a worker whose device is lost: leaves the error's name for the supervisor and ends the process.
[[noreturn]] void end_with_lost_device(Slot& slot, const char* error);

}  // namespace tileproof

#endif
