// Graphs of the fake: the launch itself, done again.
#include "execute/cuda/launch_graph.h"

#include <utility>

namespace tileproof::fake_cuda {

LaunchGraph::~LaunchGraph() { delete static_cast<std::function<void()>*>(graph_); }

LaunchGraph::LaunchGraph(LaunchGraph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}

std::string LaunchGraph::capture(cudaStream_t, const std::function<void()>& launch) {
  graph_ = new std::function<void()>(launch);
  return {};
}

void LaunchGraph::replay(cudaStream_t) const { (*static_cast<std::function<void()>*>(graph_))(); }

}  // namespace tileproof::fake_cuda
