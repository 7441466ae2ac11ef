#include "execute/runner.h"

#include <array>
#include <chrono>
#include <ctime>

#include "memory/arena.h"

namespace tileproof {

namespace {

class Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() { total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& total_;
  std::chrono::steady_clock::time_point start_;
};

tileproof_tensor bind(const Placed& placed) {
  tileproof_tensor tensor{};
  tensor.name = placed.layout.shape.spec->name.c_str();
  tensor.data = placed.base;
  tensor.dtype = static_cast<std::int32_t>(placed.layout.shape.dtype);
  tensor.rank = placed.layout.shape.rank;
  for (std::size_t i = 0; i < TILEPROOF_MAX_RANK; ++i) {
    tensor.shape[i] = placed.layout.shape.shape[i];
    tensor.strides[i] = placed.layout.strides[i];
  }
  return tensor;
}

void fill(Arena& arena, const Problem& problem, const Tiling& tiling, const Memory& memory, const HostTensors& inputs) {
  std::int64_t largest = 1;
  for (const std::int64_t value : tiling.values) {
    largest = std::max(largest, value);
  }
  arena.prepare(lay_out(problem, memory), memory.guard, largest);
  for (const Placed& placed : arena.tensors()) {
    if (placed.layout.shape.spec->role != Role::out) {
      arena.scatter(placed, inputs[placed.layout.shape.index].bytes.data());
    } else if (memory.prefill != memory.guard) {
      arena.prefill(placed, memory.prefill);
    }
  }
}

void note_stage(std::uint32_t stage) {
  if (Watched* place = watched()) {
    place->since_ns = steady_ns();
    place->stage = stage;
  }
}

void launch(Arena& arena, const Subject& subject, const Problem& problem, const Tiling& tiling, RunResult& result) {
  std::vector<tileproof_tensor> tensors;
  for (const Placed& placed : arena.tensors()) {
    tensors.push_back(bind(placed));
  }
  std::vector<tileproof_named_value> scalars;
  for (const auto& [name, value] : problem.operation().scalars(problem)) {
    scalars.push_back({name, value});
  }
  std::vector<tileproof_named_value> tile;
  const auto& declared = problem.operation().tiling_parameters();
  for (std::size_t i = 0; i < declared.size(); ++i) {
    tile.push_back({declared[i].key.c_str(), tiling.values[i]});
  }
  std::array<char, 512> message{};
  tileproof_launch request{};
  request.struct_size = sizeof request;
  request.tensors = tensors.data();
  request.tensor_count = tensors.size();
  request.scalars = scalars.data();
  request.scalar_count = scalars.size();
  request.tiling = tile.data();
  request.tiling_count = tile.size();
  request.thread_order = static_cast<std::int32_t>(tiling.threads);
  request.block_order = static_cast<std::int32_t>(tiling.blocks);
  request.order_seed = tiling.order_seed;
  request.message = message.data();
  request.message_size = message.size();
  note_stage(2);
  const std::int32_t status = subject.raw->launch(&request);
  note_stage(1);
  result.status = status == TILEPROOF_LAUNCHED  ? RunResult::Status::ok
                  : status == TILEPROOF_REFUSED ? RunResult::Status::refused
                                                : RunResult::Status::failed;
  if (status != TILEPROOF_LAUNCHED) {
    result.message = message.data();
  }
}

void collect(Arena& arena, const Memory& memory, const HostTensors& inputs, RunResult& result) {
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

}  // namespace

RunResult execute_run(Arena& arena, const Subject& subject, const Problem& problem, const Tiling& tiling,
                      const Memory& memory, const HostTensors& inputs) {
  RunResult result;
  {
    const Stopwatch watch(stage_times().fill);
    fill(arena, problem, tiling, memory, inputs);
  }
  {
    const Stopwatch watch(stage_times().kernel);
    launch(arena, subject, problem, tiling, result);
  }
  if (result.status == RunResult::Status::ok) {
    const Stopwatch watch(stage_times().judge);
    collect(arena, memory, inputs, result);
  }
  return result;
}

std::int64_t steady_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

void note_progress() { note_stage(1); }

Watched*& watched() {
  static Watched* place = nullptr;
  return place;
}

StageTimes& stage_times() {
  static StageTimes times;
  return times;
}

}  // namespace tileproof
