#include "execute/cuda/device_executor.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <semaphore>
#include <utility>

#include <fmt/format.h>

#include "execute/cuda/damage.h"
#include "execute/cuda/grid_limits.h"
#include "execute/cuda/walks.h"
#include "execute/launch_request.h"
#include "memory/canary.h"
#include "memory/recipes.h"

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

namespace {

static_assert(kCanaryBytes == kCanaryPeriod);

constexpr int kSubmitters = 6;  // of 2, 3, 4, 5, 6, 8 and any number, the best on an H200 with 16 cores
constexpr std::size_t kAlign = 256;
constexpr std::size_t kBatchBytes = std::size_t{256} << 20;    // of runs and inputs, on the device
constexpr std::size_t kOutputBytes = std::size_t{2048} << 20;  // kept there until a judge asks
// Outputs that judges read where they were downloaded. Beyond that they are copied, so that page-locked memory is
// not eaten up.
constexpr std::size_t kBorrowedBytes = std::size_t{64} << 20;
// Allocation waits for everything that runs on the device, so there is to be little of it.
constexpr std::size_t kDevicePiece = std::size_t{64} << 20;
constexpr std::size_t kPinnedPiece = std::size_t{8} << 20;

std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

std::size_t packed_bytes(const TensorShape& shape) {
  return static_cast<std::size_t>(shape.elements()) * size_of(shape.dtype);
}

// Launches, and sees to it that a launch that was refused for the device's limits is one that failed.
void launch(LaunchRequest& request, const Subject& subject, RunResult& result) {
  request.submit(*subject.raw, result);
  std::string refusal = take_refusal();
  if (!refusal.empty()) {
    result.status = RunResult::Status::failed;
    result.message = std::move(refusal);
  }
}

}  // namespace

DeviceExecutor::DeviceExecutor(int ordinal)
    : ordinal_(ordinal),
      outputs_(kDevicePiece),
      memory_(kDevicePiece),
      sparse_(ordinal),
      staging_(kPinnedPiece),
      downloads_(kPinnedPiece) {
  TILEPROOF_CUDA(cudaSetDevice(ordinal));
  // Not ordered with the default stream: a subject that launches anywhere but where it is told to shows.
  TILEPROOF_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  for (cudaEvent_t& event : marks_) {
    TILEPROOF_CUDA(cudaEventCreateWithFlags(&event, cudaEventBlockingSync));
  }
  void* canary = nullptr;
  TILEPROOF_CUDA(cudaMalloc(&canary, kFills * kCanaryBytes));
  canary_ = static_cast<std::byte*>(canary);
  std::vector<std::byte> table(kFills * kCanaryBytes);
  for (int fill = 0; fill < kFills; ++fill) {
    paint_canary(static_cast<GuardFill>(fill), table.data() + static_cast<std::size_t>(fill) * kCanaryBytes, 0,
                 kCanaryBytes);
  }
  TILEPROOF_CUDA(cudaMemcpyAsync(canary_, table.data(), table.size(), cudaMemcpyHostToDevice, stream_));
  TILEPROOF_CUDA(cudaStreamSynchronize(stream_));
  recipes_ = recipes_on(ordinal, stream_);
  hold_to_limits_of(ordinal);
}

// Nobody is left to tell about errors.
DeviceExecutor::~DeviceExecutor() {
  static_cast<void>(cudaFree(canary_));
  for (cudaEvent_t event : marks_) {
    static_cast<void>(cudaEventDestroy(event));
  }
  static_cast<void>(cudaStreamDestroy(stream_));
}

void DeviceExecutor::begin() {
  taken_.clear();
  outputs_.reset();
  downloads_.reset();
}

void DeviceExecutor::execute(std::span<const RunOrder> orders) {
  while (!orders.empty()) {
    {
      const Stopwatch watch(stage_times().fill);
      orders = orders.subspan(choose_batch(orders));
      place_outputs();
    }
    graphs_.clear();
    if (batch_.front().order->captured_problem != nullptr) {
      capture();
    }
    {
      const Stopwatch watch(stage_times().fill);
      stage(false);
    }
    {
      const LaunchScope launching;
      in_turn([this] { submit(); });
      const Stopwatch watch(stage_times().gather);
      TILEPROOF_CUDA(cudaEventSynchronize(marks_[kCopied]));
    }
    const Stopwatch watch(stage_times().gather);
    add_gpu_times();
    take_over();
  }
}

// Places as many runs as fit together; at least one.
std::size_t DeviceExecutor::choose_batch(std::span<const RunOrder> orders) {
  batch_.clear();
  image_.clear();
  memory_.reset();
  sparse_.recycle();
  std::size_t used = 0;
  for (const RunOrder& order : orders) {
    Placement placement = place(lay_out(*order.problem, *order.memory), overrun_rows(*order.tiling));
    const std::size_t size = round_up(placement.bytes, kAlign);
    // Runs with sparse tensors go alone, so that each finds the memory of the one before it.
    const bool sparse = std::any_of(placement.tensors.begin(), placement.tensors.end(),
                                    [](const Placed& placed) { return placed.layout.sparse; });
    const auto is_replay = [](const RunOrder& run) { return run.captured_problem != nullptr; };
    if (!batch_.empty() && (sparse || is_replay(order) != is_replay(*batch_.front().order) ||
                            used + image_.input_bytes() + size > kBatchBytes)) {
      break;
    }
    used += size;
    Prepared& run = batch_.emplace_back();
    run.order = &order;
    run.placement = std::move(placement);
    run.memory = memory_.take(size);
    used += sparse_.place(run.placement.tensors);
    for (Placed& placed : run.placement.tensors) {
      placed.base = placed.layout.sparse ? placed.base : run.memory + placed.at;
      const TensorShape& shape = placed.layout.shape;
      if (shape.spec->role != Role::in) {
        run.output_bytes += round_up(packed_bytes(shape), kAlign);
      }
      const HostTensor& input = (*order.inputs)[shape.index];
      if (shape.spec->role != Role::out && !input.bytes.empty()) {
        image_.add_input(input);
      }
    }
    if (sparse) {
      break;
    }
  }
  return batch_.size();
}

// Outputs that are wanted lie in one piece, so that they come back in one copy.
void DeviceExecutor::place_outputs() {
  first_ticket_ = taken_.size();
  taken_.resize(first_ticket_ + batch_.size());
  std::size_t all = 0;
  for (const Prepared& run : batch_) {
    all += run.output_bytes;
  }
  const bool keep = outputs_.used() + all <= kOutputBytes;
  Pool<DeviceMemory>& pool = keep ? outputs_ : memory_;
  wanted_bytes_ = 0;
  for (Prepared& run : batch_) {
    run.wanted = run.order->outputs_wanted || !keep;
    wanted_bytes_ += run.wanted ? run.output_bytes : 0;
  }
  wanted_ = pool.take(wanted_bytes_);
  std::byte* next_wanted = wanted_;
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    const Prepared& run = batch_[i];
    Taken& taken = taken_[first_ticket_ + i];
    taken.tensors = run.order->inputs->size();
    taken.bytes = run.output_bytes;
    taken.memory = run.wanted ? next_wanted : pool.take(run.output_bytes);
    next_wanted += run.wanted ? run.output_bytes : 0;
    run.order->result->ticket = first_ticket_ + i;
  }
}

// Writes descriptors and inputs into page-locked memory, and what subjects are launched with. `captured`: with the
// contents that launches are captured with.
void DeviceExecutor::stage(bool captured) {
  requests_.clear();
  image_.clear();
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    Prepared& run = batch_[i];
    const RunOrder& order = *run.order;
    const Problem& problem = captured ? *order.captured_problem : *order.problem;
    add_regions(run, i);
    add_walks(run, problem, captured ? *order.captured_inputs : *order.inputs, taken_[first_ticket_ + i]);
    requests_.push_back(
        std::make_unique<LaunchRequest>(problem, *order.tiling, run.placement.tensors, stream_, ordinal_));
  }
  staging_.reset();
  image_.write(batch_.size(), staging_, memory_);
  download_ = captured ? Download{} : room_for(wanted_bytes_);
}

// Captures the launches of a batch, and replays each on the contents that it was captured with.
void DeviceExecutor::capture() {
  {
    const Stopwatch watch(stage_times().fill);
    stage(true);
  }
  const LaunchScope launching;
  in_turn([this] {
    fill(image_.on_device());
    const Stopwatch watch(stage_times().kernel);
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      const Subject* const subject = batch_[i].order->subject;
      RunResult& result = *batch_[i].order->result;
      const std::string reason = graphs_.emplace_back().capture(
          stream_, [request = requests_[i].get(), subject, &result] { launch(*request, *subject, result); });
      if (result.status == RunResult::Status::ok && !reason.empty()) {
        result.status = RunResult::Status::failed;
        result.message = reason;
      }
      if (result.status == RunResult::Status::ok) {
        graphs_[i].replay(stream_);
      }
    }
  });
  const Stopwatch watch(stage_times().gather);
  TILEPROOF_CUDA(cudaStreamSynchronize(stream_));
  captured_ = std::move(requests_);
}

void DeviceExecutor::add_regions(const Prepared& run, std::size_t index) {
  const auto fill = static_cast<std::int32_t>(run.order->memory->guard);
  const auto number = static_cast<std::int32_t>(index);
  image_.add_region({run.memory, 0, static_cast<std::int64_t>(round_up(run.placement.bytes, kAlign)), fill, number});
  for (const Placed& placed : run.placement.tensors) {
    for (const auto& [from, to] : placed.mapped) {
      image_.add_region({placed.base + from, static_cast<std::int64_t>(placed.at) + from, to - from, fill, number});
    }
  }
}

void DeviceExecutor::add_walks(Prepared& run, const Problem& problem, const HostTensors& inputs, Taken& taken) {
  taken.shapes.clear();
  run.first_walk = image_.walks();
  std::size_t output = 0;
  for (const Placed& placed : run.placement.tensors) {
    const TensorShape& shape = placed.layout.shape;
    Walk walk = walk_of(placed, *run.order->memory);
    const HostTensor* given = nullptr;
    if (shape.spec->role != Role::out) {
      given = inputs[shape.index].bytes.empty() ? nullptr : &inputs[shape.index];
      if (given == nullptr) {
        fill_by_rule(problem, shape, walk);
      } else {
        image_.add_input(*given);
      }
    }
    if (shape.spec->role != Role::in) {
      walk.taken = taken.memory + output;
      output += round_up(packed_bytes(shape), kAlign);
      taken.shapes.push_back(shape);
    }
    if (placed.layout.extent > 0) {
      image_.add_walk(walk, given);
    }
  }
}

void DeviceExecutor::mark(Mark which) { TILEPROOF_CUDA(cudaEventRecord(marks_[which], stream_)); }

// The driver takes one launch at a time. Threads that meet at its lock cost each other more than they gain, so only a
// few submit at once; the others make inputs, judge, or wait here.
template <typename Submit>
void DeviceExecutor::in_turn(Submit submit) {
  static std::counting_semaphore<> turns(kSubmitters);
  turns.acquire();
  try {
    submit();
  } catch (...) {
    turns.release();
    throw;
  }
  turns.release();
}

// Returns what was filled, with all that kernels need.
Batch DeviceExecutor::fill(Batch batch) {
  batch.canary = canary_;
  batch.recipes = recipes_;
  image_.upload(stream_);
  paint(batch, stream_);
  scatter(batch, stream_);
  TILEPROOF_CUDA(cudaGetLastError());
  return batch;
}

void DeviceExecutor::submit() {
  mark(kStart);
  const Batch batch = fill(image_.on_device());
  mark(kFilled);
  {
    const Stopwatch watch(stage_times().kernel);
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      RunResult& result = *batch_[i].order->result;
      if (graphs_.empty()) {
        launch(*requests_[i], *batch_[i].order->subject, result);
      } else if (result.status == RunResult::Status::ok) {
        graphs_[i].replay(stream_);
      }
    }
  }
  mark(kLaunched);
  take(batch, stream_);
  check_guards(batch, stream_);
  TILEPROOF_CUDA(cudaGetLastError());
  mark(kCompared);
  image_.download(stream_);
  if (wanted_bytes_ > 0) {
    TILEPROOF_CUDA(cudaMemcpyAsync(download_.memory, wanted_, wanted_bytes_, cudaMemcpyDeviceToHost, stream_));
  }
  mark(kCopied);
}

void DeviceExecutor::add_gpu_times() {
  const auto between = [this](Mark from, Mark to) {
    float milliseconds = 0;
    TILEPROOF_CUDA(cudaEventElapsedTime(&milliseconds, marks_[from], marks_[to]));
    return static_cast<double>(milliseconds) * 1e-3;
  };
  StageTimes& times = stage_times();
  times.gpu_fill += between(kStart, kFilled);
  times.gpu_kernel += between(kFilled, kLaunched);
  times.gpu_compare += between(kLaunched, kCompared);
  times.gpu_copy += between(kCompared, kCopied);
}

void DeviceExecutor::take_over() {
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    Prepared& run = batch_[i];
    const Taken& taken = taken_[first_ticket_ + i];
    if (run.order->result->status == RunResult::Status::ok) {
      take_over_run(run, i);
      if (run.wanted) {
        unpack(taken, download_, taken.memory - wanted_, *run.order->result);
      }
    }
  }
}

void DeviceExecutor::take_over_run(Prepared& run, std::size_t index) {
  const TensorVerdict* verdict = image_.verdicts() + run.first_walk;
  RunResult& result = *run.order->result;
  result.digests.assign(run.order->inputs->size(), 0);
  for (const Placed& placed : run.placement.tensors) {
    if (placed.layout.extent == 0) {
      continue;
    }
    result.digests[placed.layout.shape.index] = verdict->digest;
    if (verdict->first_changed != kUnchanged) {
      result.changes.push_back({placed.layout.shape.index, static_cast<std::int64_t>(verdict->first_changed)});
    }
    ++verdict;
  }
  if (image_.damaged()[index] != 0) {
    result.damage = damage_on_device(run.memory, run.placement, run.order->memory->guard, stream_);
  }
}

// Memory that lasts until begin() while there is little of it; else of the batch at hand.
DeviceExecutor::Download DeviceExecutor::room_for(std::size_t bytes) {
  const bool lasts = downloads_.used() + bytes <= kBorrowedBytes;
  return {(lasts ? downloads_ : staging_).take(bytes), lasts};
}

void DeviceExecutor::unpack(const Taken& taken, const Download& download, std::ptrdiff_t at, RunResult& result) {
  const std::byte* from = download.memory + at;
  result.outputs.resize(taken.tensors);
  for (const TensorShape& shape : taken.shapes) {
    HostTensor& out = result.outputs[shape.index];
    out.shape = shape;
    const std::size_t bytes = packed_bytes(shape);
    if (download.lasts) {
      out.bytes = Bytes::borrow(from, bytes);
    } else {
      out.bytes.assign(from, bytes);
    }
    from += round_up(bytes, kAlign);
  }
}

void DeviceExecutor::fetch(RunResult& result) {
  const Taken& taken = taken_[result.ticket];
  staging_.reset();
  const Download here = room_for(taken.bytes);
  if (taken.bytes > 0) {
    TILEPROOF_CUDA(cudaMemcpyAsync(here.memory, taken.memory, taken.bytes, cudaMemcpyDeviceToHost, stream_));
    TILEPROOF_CUDA(cudaStreamSynchronize(stream_));
  }
  unpack(taken, here, 0, result);
}

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME
