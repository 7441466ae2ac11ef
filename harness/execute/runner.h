// Executes one run on the CPU, in this process: lays the arena out, fills it, launches, checks guards, gathers outputs.
#ifndef TILEPROOF_EXECUTE_RUNNER_H
#define TILEPROOF_EXECUTE_RUNNER_H

#include "execute/executor.h"

namespace tileproof {

class Arena;  // memory/arena.h

// `inputs` are packed and of `problem`. The result's `inputs` stays empty.
// Throws EnvironmentError when memory cannot be had.
RunResult execute_run(Arena& arena, const Subject& subject, const Problem& problem, const Tiling& tiling,
                      const Memory& memory, const HostTensors& inputs);

// Its parts: what the tensors hold before the launch, and what they hold after it.
void fill_arena(Arena& arena, const Problem& problem, const Tiling& tiling, const Memory& memory,
                const HostTensors& inputs);
void collect_results(Arena& arena, const Memory& memory, const HostTensors& inputs, RunResult& result);

}  // namespace tileproof

#endif
