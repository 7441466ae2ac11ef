#include "execute/cuda/device_executor.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <semaphore>
#include <utility>

#include <fmt/format.h>

#include "execute/cuda/host_mirror.h"
#include "execute/launch_request.h"
#include "memory/canary.h"

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

namespace {

static_assert(kCanaryBytes == kCanaryPeriod);

constexpr int kSubmitters = 4;  // of 1, 2, 3, 4 and any number, the best on an H200 with 16 cores
constexpr std::size_t kAlign = 256;
constexpr std::size_t kBatchBytes = std::size_t{256} << 20;    // of runs and inputs, on the device
constexpr std::size_t kOutputBytes = std::size_t{2048} << 20;  // kept there until a judge asks

std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

std::size_t packed_bytes(const TensorShape& shape) {
  return static_cast<std::size_t>(shape.elements()) * size_of(shape.dtype);
}

// The device's part of a tensor's walk; addresses come later.
Walk walk_of(const Placed& placed, const Memory& memory) {
  Walk walk{};
  std::int64_t piece = 1;
  const std::vector<detail::Loop> loops = detail::loops_of(placed.layout, piece);
  std::int64_t elements = piece;
  for (const detail::Loop& loop : loops) {
    walk.stride[walk.loops] = loop.stride;
    walk.packed[walk.loops] = static_cast<std::uint32_t>(loop.packed);
    walk.count[walk.loops++] = static_cast<std::uint32_t>(loop.count);
    elements *= loop.count;
  }
  walk.base = placed.base;
  walk.at = static_cast<std::int64_t>(placed.at);
  walk.piece = static_cast<std::uint32_t>(piece);
  walk.elements = static_cast<std::uint32_t>(elements);
  walk.element_bytes = static_cast<std::uint32_t>(size_of(placed.layout.shape.dtype));
  walk.fill = static_cast<std::int32_t>(memory.guard);
  walk.prefill = static_cast<std::int32_t>(memory.prefill);
  return walk;
}

}  // namespace

DeviceExecutor::DeviceExecutor(int ordinal) : ordinal_(ordinal), sparse_(ordinal) {
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
}

void DeviceExecutor::execute(std::span<const RunOrder> orders) {
  while (!orders.empty()) {
    {
      const Stopwatch watch(stage_times().fill);
      orders = orders.subspan(choose_batch(orders));
      place_outputs();
      stage();
    }
    {
      const LaunchScope launching;
      submit_in_turn();
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
  inputs_.clear();
  input_order_.clear();
  input_bytes_ = 0;
  memory_.reset();
  sparse_.recycle();
  std::size_t used = 0;
  for (const RunOrder& order : orders) {
    Placement placement = place(lay_out(*order.problem, *order.memory), overrun_rows(*order.tiling));
    const std::size_t size = round_up(placement.bytes, kAlign);
    // Runs with sparse tensors go alone, so that each finds the memory of the one before it.
    const bool sparse = std::any_of(placement.tensors.begin(), placement.tensors.end(),
                                    [](const Placed& placed) { return placed.layout.sparse; });
    if (!batch_.empty() && (sparse || used + input_bytes_ + size > kBatchBytes)) {
      break;
    }
    used += size;
    Prepared& run = batch_.emplace_back();
    run.order = &order;
    run.placement = std::move(placement);
    run.memory = memory_.take(size);
    used += sparse_.place(run.placement.tensors);
    run.regions = 1;
    for (const Placed& placed : run.placement.tensors) {
      run.regions += placed.mapped.size();
    }
    for (Placed& placed : run.placement.tensors) {
      placed.base = placed.layout.sparse ? placed.base : run.memory + placed.at;
      const TensorShape& shape = placed.layout.shape;
      if (shape.spec->role != Role::in) {
        run.output_bytes += round_up(packed_bytes(shape), kAlign);
      }
      const HostTensor& input = (*order.inputs)[shape.index];
      if (shape.spec->role != Role::out && !input.bytes.empty() &&
          inputs_.emplace(input.bytes.data(), input_bytes_).second) {
        input_order_.emplace_back(&input, input_bytes_);
        input_bytes_ += round_up(input.bytes.size(), kAlign);
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
  DevicePool& pool = keep ? outputs_ : memory_;
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

// Writes descriptors and inputs into page-locked memory.
void DeviceExecutor::stage() {
  regions_.clear();
  walks_.clear();
  std::size_t most_walks = 0;
  std::size_t regions = 0;
  for (const Prepared& run : batch_) {
    most_walks += run.placement.tensors.size();
    regions += run.regions;
  }
  at_.verdicts = round_up(batch_.size() * sizeof(unsigned), kAlign);
  at_.regions = at_.verdicts + round_up(most_walks * sizeof(TensorVerdict), kAlign);
  at_.walks = at_.regions + round_up(regions * sizeof(Region), kAlign);
  at_.inputs = at_.walks + round_up(most_walks * sizeof(Walk), kAlign);
  at_.bytes = at_.inputs + input_bytes_;
  host_ = staging_.reserve(at_.bytes);
  device_ = memory_.take(at_.bytes);
  for (const auto& [tensor, at] : input_order_) {
    std::memcpy(host_ + at_.inputs + at, tensor->bytes.data(), tensor->bytes.size());
  }
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    Prepared& run = batch_[i];
    add_regions(run, i);
    add_walks(run, taken_[first_ticket_ + i]);
  }
  std::memset(host_ + at_.damaged, 0, at_.verdicts - at_.damaged);
  std::uninitialized_fill_n(reinterpret_cast<TensorVerdict*>(host_ + at_.verdicts), walks_.size(),
                            TensorVerdict{0, kUnchanged});
  std::memcpy(host_ + at_.regions, regions_.data(), regions_.size() * sizeof(Region));
  std::memcpy(host_ + at_.walks, walks_.data(), walks_.size() * sizeof(Walk));
}

void DeviceExecutor::add_regions(const Prepared& run, std::size_t index) {
  const auto fill = static_cast<std::int32_t>(run.order->memory->guard);
  const auto number = static_cast<std::int32_t>(index);
  regions_.push_back({run.memory, 0, static_cast<std::int64_t>(round_up(run.placement.bytes, kAlign)), fill, number});
  for (const Placed& placed : run.placement.tensors) {
    for (const auto& [from, to] : placed.mapped) {
      regions_.push_back({placed.base + from, static_cast<std::int64_t>(placed.at) + from, to - from, fill, number});
    }
  }
}

void DeviceExecutor::add_walks(Prepared& run, Taken& taken) {
  run.first_walk = walks_.size();
  std::size_t output = 0;
  for (const Placed& placed : run.placement.tensors) {
    const TensorShape& shape = placed.layout.shape;
    Walk walk = walk_of(placed, *run.order->memory);
    if (shape.spec->role != Role::out) {
      const auto input = inputs_.find((*run.order->inputs)[shape.index].bytes.data());
      walk.given = input == inputs_.end() ? nullptr : device_ + at_.inputs + input->second;
    }
    if (shape.spec->role != Role::in) {
      walk.taken = taken.memory + output;
      output += round_up(packed_bytes(shape), kAlign);
      taken.shapes.push_back(shape);
    }
    if (placed.layout.extent > 0) {
      walks_.push_back(walk);
    }
  }
}

void DeviceExecutor::mark(Mark which) { TILEPROOF_CUDA(cudaEventRecord(marks_[which], stream_)); }

// The driver takes one launch at a time. Threads that meet at its lock cost each other more than they gain, so only a
// few submit at once; the others make inputs, judge, or wait here.
void DeviceExecutor::submit_in_turn() {
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

void DeviceExecutor::submit() {
  std::int64_t largest_region = 0;
  for (const Region& region : regions_) {
    largest_region = std::max(largest_region, region.bytes);
  }
  std::int64_t most_elements = 0;
  for (const Walk& walk : walks_) {
    most_elements = std::max(most_elements, static_cast<std::int64_t>(walk.elements));
  }
  const auto* regions = reinterpret_cast<const Region*>(device_ + at_.regions);
  const auto* walks = reinterpret_cast<const Walk*>(device_ + at_.walks);
  auto* verdicts = reinterpret_cast<TensorVerdict*>(device_ + at_.verdicts);
  auto* damaged = reinterpret_cast<unsigned*>(device_ + at_.damaged);
  const int region_count = static_cast<int>(regions_.size());
  const int walk_count = static_cast<int>(walks_.size());

  mark(kStart);
  TILEPROOF_CUDA(cudaMemcpyAsync(device_, host_, at_.bytes, cudaMemcpyHostToDevice, stream_));
  paint(canary_, regions, region_count, largest_region, stream_);
  scatter(canary_, walks, walk_count, most_elements, stream_);
  TILEPROOF_CUDA(cudaGetLastError());
  mark(kFilled);
  {
    const Stopwatch watch(stage_times().kernel);
    for (Prepared& run : batch_) {
      LaunchRequest request(*run.order->problem, *run.order->tiling, run.placement.tensors, stream_, ordinal_);
      request.submit(*run.order->subject->raw, *run.order->result);
    }
  }
  mark(kLaunched);
  take(canary_, walks, verdicts, walk_count, most_elements, stream_);
  check_guards(canary_, regions, damaged, region_count, largest_region, stream_);
  TILEPROOF_CUDA(cudaGetLastError());
  mark(kCompared);
  std::byte* const downloads = downloads_.reserve(wanted_bytes_);
  TILEPROOF_CUDA(cudaMemcpyAsync(host_, device_, at_.regions, cudaMemcpyDeviceToHost, stream_));
  if (wanted_bytes_ > 0) {
    TILEPROOF_CUDA(cudaMemcpyAsync(downloads, wanted_, wanted_bytes_, cudaMemcpyDeviceToHost, stream_));
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
  const std::byte* download = downloads_.reserve(wanted_bytes_);
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    Prepared& run = batch_[i];
    const Taken& taken = taken_[first_ticket_ + i];
    if (run.order->result->status == RunResult::Status::ok) {
      take_over_run(run, i);
      if (run.wanted) {
        unpack(taken, download + (taken.memory - wanted_), *run.order->result);
      }
    }
  }
}

void DeviceExecutor::take_over_run(Prepared& run, std::size_t index) {
  const auto* damaged = reinterpret_cast<const unsigned*>(host_ + at_.damaged);
  const auto* verdict = reinterpret_cast<const TensorVerdict*>(host_ + at_.verdicts) + run.first_walk;
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
  if (damaged[index] != 0) {
    find_damage(run);
  }
}

// Looks closer at a run whose guards did not hold: rare, so its memory comes to the host, sparse tensors as sparse.
void DeviceExecutor::find_damage(Prepared& run) {
  std::vector<std::byte> copy(run.placement.bytes);
  TILEPROOF_CUDA(cudaMemcpyAsync(copy.data(), run.memory, copy.size(), cudaMemcpyDeviceToHost, stream_));
  std::vector<HostMirror> mirrors;
  mirrors.reserve(run.placement.tensors.size());
  for (Placed& placed : run.placement.tensors) {
    if (!placed.layout.sparse) {
      placed.base = copy.data() + placed.at;
      continue;
    }
    const auto reach = static_cast<std::size_t>(placed.mapped.back().second - placed.mapped.front().first);
    std::byte* const here = mirrors.emplace_back(reach).memory() - placed.mapped.front().first;
    for (const auto& [from, to] : placed.mapped) {
      TILEPROOF_CUDA(cudaMemcpyAsync(here + from, placed.base + from, static_cast<std::size_t>(to - from),
                                     cudaMemcpyDeviceToHost, stream_));
    }
    placed.base = here;
  }
  TILEPROOF_CUDA(cudaStreamSynchronize(stream_));
  run.order->result->damage = guard_damage(run.placement.tensors, run.order->memory->guard);
}

void DeviceExecutor::unpack(const Taken& taken, const std::byte* from, RunResult& result) const {
  result.outputs.resize(taken.tensors);
  for (const TensorShape& shape : taken.shapes) {
    HostTensor& out = result.outputs[shape.index];
    out.shape = shape;
    out.bytes.assign(from, from + packed_bytes(shape));
    from += round_up(packed_bytes(shape), kAlign);
  }
}

void DeviceExecutor::fetch(RunResult& result) {
  const Taken& taken = taken_[result.ticket];
  std::byte* const here = downloads_.reserve(taken.bytes);
  if (taken.bytes > 0) {
    TILEPROOF_CUDA(cudaMemcpyAsync(here, taken.memory, taken.bytes, cudaMemcpyDeviceToHost, stream_));
    TILEPROOF_CUDA(cudaStreamSynchronize(stream_));
  }
  unpack(taken, here, result);
}

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME
