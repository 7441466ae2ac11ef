// Executes runs on a device. One executor per thread; the engine hands it what a batch of cases needs.
#ifndef TILEPROOF_EXECUTE_EXECUTOR_H
#define TILEPROOF_EXECUTE_EXECUTOR_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "execute/subject.h"
#include "tileproof/property.h"

namespace tileproof {

// The device of this process can do nothing any more: a kernel broke it. `what()` is the error's name as the device's
// runtime spells it. The process that meets it reports it and ends; another one goes on.
class DeviceLost : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One run. Everything it points to outlives the batch.
struct RunOrder {
  const Subject* subject = nullptr;
  const Problem* problem = nullptr;
  const Tiling* tiling = nullptr;
  const Memory* memory = nullptr;
  // Packed, of `problem`. Where Executor::makes_data() a tensor that a recipe fills may lack its bytes.
  const HostTensors* inputs = nullptr;
  bool outputs_wanted = false;  // in host memory at once; others are fetched when a judge asks for them
  RunResult* result = nullptr;
  bool sanitize = false;  // by the sanitizing build of the subject
  // Where a launch is captured with the contents of one problem and replayed on those of `problem`: the former, and its
  // inputs as above. Executors of devices without graphs are given none.
  const Problem* captured_problem = nullptr;
  const HostTensors* captured_inputs = nullptr;
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Whether it fills tensors by the recipe of the problem where their bytes are missing.
  virtual bool makes_data() const { return false; }
  // Forgets the runs executed so far, and outputs in their results that are borrowed.
  virtual void begin() = 0;
  // Executes in the order given. Throws EnvironmentError when memory cannot be had, and DeviceLost.
  virtual void execute(std::span<const RunOrder> orders) = 0;
  // Brings the outputs of a run since begin() into its result.
  virtual void fetch(RunResult& result) = 0;
};

std::unique_ptr<Executor> make_cpu_executor();  // of every build for the CPU

std::int64_t steady_ns();

// What a thread is at, for a watchdog in another process.
struct Watched {
  std::atomic<std::uint32_t> stage{0};    // 0 idle, 1 working, 2 inside launches
  std::atomic<std::int64_t> since_ns{0};  // steady clock, when that began
};
// Where an executor notes that launches begin and end, of the calling thread. Null: nowhere.
Watched*& watched();
void note_stage(std::uint32_t stage);
// Notes that the work outside launches goes on: the stage begins anew.
void note_progress();

class LaunchScope {
 public:
  LaunchScope() { note_stage(2); }
  ~LaunchScope() { note_stage(1); }
  LaunchScope(const LaunchScope&) = delete;
  LaunchScope& operator=(const LaunchScope&) = delete;
};

// Where the time of the calling thread went, in seconds.
struct StageTimes {
  double inputs = 0;  // making what tensors hold
  double fill = 0;
  double kernel = 0;     // cuda: submitting them
  double gather = 0;     // guards and gathering; cuda: waiting for the device and taking over what it says
  double reference = 0;  // and everything else that judges
  // Of the GPU's own clock: what this thread's stream did. Streams overlap.
  double gpu_fill = 0;
  double gpu_kernel = 0;
  double gpu_compare = 0;
  double gpu_copy = 0;
};
StageTimes& stage_times();

// Adds the time of its life to one of them, less that of those that live inside it on the same thread.
class Stopwatch {
 public:
  explicit Stopwatch(double& total);
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& total_;
  Stopwatch* outer_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace tileproof

#endif
