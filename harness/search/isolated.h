// Units of work that launch kernels, one at a time in each of a few worker processes: one that crashes or hangs costs
// only itself.
#ifndef TILEPROOF_SEARCH_ISOLATED_H
#define TILEPROOF_SEARCH_ISOLATED_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "execute/executor.h"

namespace tileproof {

struct Isolation {
  int jobs = 0;  // worker processes; 0: one per core; on cuda always one
  double timeout_seconds = 10;
  std::int64_t deadline_ns = INT64_MAX;                // steady_ns() after which no unit is begun any more
  std::function<void(std::uint64_t done)> progress{};  // a few times a second; may be empty
};

struct UnitAnswer {
  bool done = false;   // false: the deadline came first, or a signal (search/interrupt.h)
  std::string answer;  // what the unit answered
  std::string death;   // or how its process ended: SIGSEGV, timeout, the name of a device's error
};

// Answers a unit, in a worker process.
using AnswerUnit = std::function<std::string(std::uint64_t unit)>;
// Called once in every worker process, with the worker's number.
using MakeWorker = std::function<AnswerUnit(int number)>;

// Answers of units 0 to count - 1, in that order. Throws EnvironmentError.
std::vector<UnitAnswer> answer_units(std::string_view device, std::uint64_t count, const Isolation& isolation,
                                     const MakeWorker& make_worker);

}  // namespace tileproof

#endif
