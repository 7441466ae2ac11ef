// Executes batches of runs on one GPU. Filling, guards, and digests of the outputs are the device's own work; the host
// uploads what no recipe gives, once per problem, and downloads digests, verdicts and the outputs that were asked for.
#ifndef TILEPROOF_EXECUTE_CUDA_DEVICE_EXECUTOR_H
#define TILEPROOF_EXECUTE_CUDA_DEVICE_EXECUTOR_H

#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "execute/cuda/batch_image.h"
#include "execute/cuda/checked.h"
#include "execute/cuda/kernels.h"
#include "execute/cuda/launch_graph.h"
#include "execute/cuda/sparse_memory.h"
#include "execute/executor.h"
#include "execute/launch_request.h"
#include "memory/arena.h"

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

class DeviceExecutor : public Executor {
 public:
  explicit DeviceExecutor(int ordinal);  // of the calling thread, which alone may use it
  ~DeviceExecutor() override;
  DeviceExecutor(const DeviceExecutor&) = delete;
  DeviceExecutor& operator=(const DeviceExecutor&) = delete;

  bool makes_data() const override { return true; }
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
  };
  // Page-locked memory that outputs were brought to.
  struct Download {
    std::byte* memory = nullptr;
    bool lasts = false;  // until begin()
  };

  void add_regions(const Prepared& run, std::size_t index);
  std::size_t choose_batch(std::span<const RunOrder> orders);
  void place_outputs();
  void stage(bool captured);
  void add_walks(Prepared& run, const Problem& problem, const HostTensors& inputs, Taken& taken);
  void capture();
  template <typename Submit>
  void in_turn(Submit submit);
  Batch fill(Batch batch);
  void submit();
  void take_over();
  void take_over_run(Prepared& run, std::size_t index);
  Download room_for(std::size_t bytes);
  // Takes the outputs of a run, which lie `at` bytes behind the start.
  static void unpack(const Taken& taken, const Download& download, std::ptrdiff_t at, RunResult& result);
  void mark(Mark which);
  void add_gpu_times();

  int ordinal_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t marks_[kMarks] = {};
  std::byte* canary_ = nullptr;
  RecipeSource recipes_{};
  Pool<DeviceMemory> outputs_;    // kept until begin()
  Pool<DeviceMemory> memory_;     // of one batch
  SparseMemory sparse_;           // too
  Pool<PinnedMemory> staging_;    // too
  Pool<PinnedMemory> downloads_;  // kept until begin()
  std::vector<Taken> taken_;      // by ticket

  // The batch at hand.
  std::vector<Prepared> batch_;
  std::size_t first_ticket_ = 0;
  BatchImage image_;
  std::vector<std::unique_ptr<LaunchRequest>> requests_;
  // Of a batch of replays: the launches, and what they were captured from.
  std::vector<LaunchGraph> graphs_;
  std::vector<std::unique_ptr<LaunchRequest>> captured_;
  std::byte* wanted_ = nullptr;  // outputs that come back at once, in one piece
  std::size_t wanted_bytes_ = 0;
  Download download_;  // where they come to
};

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME

#endif
