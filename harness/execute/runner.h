// Executes one run in this process: lays the arena out, fills it, launches, checks guards, gathers outputs.
#ifndef TILEPROOF_EXECUTE_RUNNER_H
#define TILEPROOF_EXECUTE_RUNNER_H

#include <atomic>
#include <cstdint>

#include "execute/subject.h"
#include "tileproof/property.h"

namespace tileproof {

class Arena;  // memory/arena.h

// `inputs` are packed and of `problem`. The result's `inputs` stays empty.
// Throws EnvironmentError when memory cannot be had.
RunResult execute_run(Arena& arena, const Subject& subject, const Problem& problem, const Tiling& tiling,
                      const Memory& memory, const HostTensors& inputs);

std::int64_t steady_ns();

// What this process is at, for a watchdog in another one.
struct Watched {
  std::atomic<std::uint32_t> stage{0};    // 0 idle, 1 working, 2 inside a launch
  std::atomic<std::int64_t> since_ns{0};  // steady clock, when that began
};
// Where the runner notes that a launch begins and ends. Null: nowhere.
Watched*& watched();
// Notes that the work outside launches goes on: the stage begins anew.
void note_progress();

// Where time went since the process started, in seconds.
struct StageTimes {
  double fill = 0;
  double kernel = 0;
  double judge = 0;  // guards and gathering
};
StageTimes& stage_times();

}  // namespace tileproof

#endif
