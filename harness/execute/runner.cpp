#include "execute/runner.h"

#include <ctime>

#include "execute/launch_request.h"
#include "memory/arena.h"
#include "sanitize/sanitizing_executor.h"

namespace tileproof {

void fill_arena(Arena& arena, const Problem& problem, const Tiling& tiling, const Memory& memory,
                const HostTensors& inputs) {
  arena.prepare(lay_out(problem, memory), memory.guard, overrun_rows(tiling));
  for (const Placed& placed : arena.tensors()) {
    if (placed.layout.shape.spec->role != Role::out) {
      arena.scatter(placed, inputs[placed.layout.shape.index].bytes.data());
    } else if (memory.prefill != memory.guard) {
      arena.prefill(placed, memory.prefill);
    }
  }
}

void collect_results(Arena& arena, const Memory& memory, const HostTensors& inputs, RunResult& result) {
  result.damage = arena.damage(memory.guard);
  result.outputs.resize(inputs.size());
  for (const Placed& placed : arena.tensors()) {
    const TensorShape& shape = placed.layout.shape;
    if (shape.spec->role == Role::in) {
      const std::int64_t changed = arena.first_difference(placed, inputs[shape.index].bytes.data());
      if (changed >= 0) {
        result.changes.push_back({shape.index, changed});
      }
    } else {
      HostTensor& out = result.outputs[shape.index];
      out.shape = shape;
      arena.gather(placed, out.bytes);
    }
  }
}

RunResult execute_run(Arena& arena, const Subject& subject, const Problem& problem, const Tiling& tiling,
                      const Memory& memory, const HostTensors& inputs) {
  RunResult result;
  {
    const Stopwatch watch(stage_times().fill);
    fill_arena(arena, problem, tiling, memory, inputs);
  }
  {
    const Stopwatch watch(stage_times().kernel);
    LaunchRequest request(problem, tiling, arena.tensors());
    const LaunchScope launching;
    request.submit(*subject.raw, result);
  }
  if (result.status == RunResult::Status::ok) {
    const Stopwatch watch(stage_times().gather);
    collect_results(arena, memory, inputs, result);
  }
  return result;
}

namespace {

class CpuExecutor : public Executor {
 public:
  void begin() override {}
  void execute(std::span<const RunOrder> orders) override {
    for (const RunOrder& order : orders) {
      RunResult result =
          execute_run(arena_, *order.subject, *order.problem, *order.tiling, *order.memory, *order.inputs);
      result.inputs = std::move(order.result->inputs);
      *order.result = std::move(result);
    }
  }
  void fetch(RunResult&) override {}

 private:
  Arena arena_;
};

}  // namespace

std::unique_ptr<Executor> make_cpu_executor() { return make_sanitizing_executor(std::make_unique<CpuExecutor>()); }

std::int64_t steady_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

Watched*& watched() {
  static thread_local Watched* place = nullptr;
  return place;
}

void note_stage(std::uint32_t stage) {
  if (Watched* place = watched()) {
    place->since_ns = steady_ns();
    place->stage = stage;
  }
}

void note_progress() { note_stage(1); }

StageTimes& stage_times() {
  static thread_local StageTimes times;
  return times;
}

namespace {

thread_local Stopwatch* innermost = nullptr;

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Stopwatch::Stopwatch(double& total) : total_(total), outer_(innermost), start_(std::chrono::steady_clock::now()) {
  if (outer_ != nullptr) {
    outer_->total_ += seconds_between(outer_->start_, start_);
  }
  innermost = this;
}

Stopwatch::~Stopwatch() {
  const auto now = std::chrono::steady_clock::now();
  total_ += seconds_between(start_, now);
  if (outer_ != nullptr) {
    outer_->start_ = now;
  }
  innermost = outer_;
}

}  // namespace tileproof
