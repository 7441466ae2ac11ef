// A launch captured in a CUDA graph, which is replayed on whatever its memory holds then.
#ifndef TILEPROOF_EXECUTE_CUDA_LAUNCH_GRAPH_H
#define TILEPROOF_EXECUTE_CUDA_LAUNCH_GRAPH_H

#include <cuda_runtime.h>

#include <functional>
#include <string>

#include "execute/cuda/kernels.h"

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

class LaunchGraph {
 public:
  LaunchGraph() = default;
  ~LaunchGraph();
  LaunchGraph(LaunchGraph&& other) noexcept;
  LaunchGraph(const LaunchGraph&) = delete;
  LaunchGraph& operator=(const LaunchGraph&) = delete;

  // Calls `launch`, which submits to `stream`, while the stream is captured. Returns why that cannot be captured; empty
  // when it was.
  std::string capture(cudaStream_t stream, const std::function<void()>& launch);
  void replay(cudaStream_t stream) const;  // once captured

 private:
  void* graph_ = nullptr;
};

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME

#endif
