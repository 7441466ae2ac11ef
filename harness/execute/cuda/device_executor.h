// Executes batches of runs on one GPU. Filling, guards, and digests of the outputs are the device's own work; the host
// uploads packed inputs once per problem and downloads digests, verdicts and the outputs that were asked for.
#ifndef TILEPROOF_EXECUTE_CUDA_DEVICE_EXECUTOR_H
#define TILEPROOF_EXECUTE_CUDA_DEVICE_EXECUTOR_H

#include <cuda_runtime.h>

#include <unordered_map>
#include <utility>
#include <vector>

#include "execute/cuda/checked.h"
#include "execute/cuda/kernels.h"
#include "execute/cuda/sparse_memory.h"
#include "execute/executor.h"
#include "memory/arena.h"

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

class DeviceExecutor : public Executor {
 public:
  explicit DeviceExecutor(int ordinal);  // of the calling thread, which alone may use it
  ~DeviceExecutor() override;
  DeviceExecutor(const DeviceExecutor&) = delete;
  DeviceExecutor& operator=(const DeviceExecutor&) = delete;

  void begin() override;
  void execute(std::span<const RunOrder> orders) override;
  void fetch(RunResult& result) override;

 private:
  enum Mark { kStart, kFilled, kLaunched, kCompared, kCopied, kMarks };

  // Where the outputs of a run are on the device, until begin().
  struct Taken {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
    std::size_t tensors = 0;          // of the operation
    std::vector<TensorShape> shapes;  // out and inout, in the order in which they lie there
  };
  // A run of the batch at hand.
  struct Prepared {
    const RunOrder* order = nullptr;
    Placement placement;
    std::byte* memory = nullptr;
    std::size_t output_bytes = 0;
    std::size_t first_walk = 0;
    bool wanted = false;  // its outputs come back at once
    std::size_t regions = 1;
  };
  // Offsets in staging: what comes back, then what only goes there.
  struct Staging {
    std::size_t damaged = 0, verdicts = 0, regions = 0, walks = 0, inputs = 0, bytes = 0;
  };

  void add_regions(const Prepared& run, std::size_t index);
  std::size_t choose_batch(std::span<const RunOrder> orders);
  void place_outputs();
  void stage();
  void add_walks(Prepared& run, Taken& taken);
  void submit_in_turn();
  void submit();
  void take_over();
  void take_over_run(Prepared& run, std::size_t index);
  void find_damage(Prepared& run);
  void unpack(const Taken& taken, const std::byte* from, RunResult& result) const;
  void mark(Mark which);
  void add_gpu_times();

  int ordinal_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t marks_[kMarks] = {};
  std::byte* canary_ = nullptr;
  DevicePool outputs_;   // kept until begin()
  DevicePool memory_;    // of one batch
  SparseMemory sparse_;  // too
  PinnedBuffer staging_;
  PinnedBuffer downloads_;
  std::vector<Taken> taken_;  // by ticket

  // The batch at hand.
  std::vector<Prepared> batch_;
  std::size_t first_ticket_ = 0;
  std::vector<Region> regions_;
  std::vector<Walk> walks_;
  std::unordered_map<const std::byte*, std::size_t> inputs_;  // packed input to its place behind Staging::inputs
  std::vector<std::pair<const HostTensor*, std::size_t>> input_order_;
  std::size_t input_bytes_ = 0;
  Staging at_;
  std::byte* host_ = nullptr;    // staging here
  std::byte* device_ = nullptr;  // and there
  std::byte* wanted_ = nullptr;  // outputs that come back at once, in one piece
  std::size_t wanted_bytes_ = 0;
};

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME

#endif
