#include "execute/cuda/launch_graph.h"

#include <utility>

#include <fmt/format.h>

#include "execute/cuda/checked.h"

namespace tileproof::cuda {

namespace {

cudaGraphExec_t executable(void* graph) { return static_cast<cudaGraphExec_t>(graph); }

}  // namespace

// Nobody is left to tell about errors.
LaunchGraph::~LaunchGraph() {
  if (graph_ != nullptr) {
    static_cast<void>(cudaGraphExecDestroy(executable(graph_)));
  }
}

LaunchGraph::LaunchGraph(LaunchGraph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}

std::string LaunchGraph::capture(cudaStream_t stream, const std::function<void()>& launch) {
  // What this thread does that no graph can hold is an error; other lanes go on with what they do.
  TILEPROOF_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  launch();
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &captured);
  if (ended != cudaSuccess) {
    cudaGetLastError();  // what it says is in `ended`
    return fmt::format("the launch cannot be captured in a CUDA graph: {} ({})", cudaGetErrorName(ended),
                       cudaGetErrorString(ended));
  }
  cudaGraphExec_t instance = nullptr;
  const cudaError_t instantiated = cudaGraphInstantiate(&instance, captured, 0);
  TILEPROOF_CUDA(cudaGraphDestroy(captured));
  TILEPROOF_CUDA(instantiated);
  graph_ = instance;
  return {};
}

void LaunchGraph::replay(cudaStream_t stream) const { TILEPROOF_CUDA(cudaGraphLaunch(executable(graph_), stream)); }

}  // namespace tileproof::cuda
