#include "execute/launch_request.h"

#include <algorithm>

namespace tileproof {

namespace {

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

}  // namespace

LaunchRequest::LaunchRequest(const Problem& problem, const Tiling& tiling, const std::vector<Placed>& tensors,
                             void* stream, int device) {
  for (const Placed& placed : tensors) {
    tensors_.push_back(bind(placed));
  }
  for (const auto& [name, value] : problem.operation().scalars(problem)) {
    scalars_.push_back({name, value});
  }
  const auto& declared = problem.operation().tiling_parameters();
  for (std::size_t i = 0; i < declared.size(); ++i) {
    tiling_.push_back({declared[i].key.c_str(), tiling.values[i]});
  }
  request_.struct_size = sizeof request_;
  request_.device = device;
  request_.tensors = tensors_.data();
  request_.tensor_count = tensors_.size();
  request_.scalars = scalars_.data();
  request_.scalar_count = scalars_.size();
  request_.tiling = tiling_.data();
  request_.tiling_count = tiling_.size();
  request_.thread_order = static_cast<std::int32_t>(tiling.threads);
  request_.block_order = static_cast<std::int32_t>(tiling.blocks);
  request_.order_seed = tiling.order_seed;
  request_.stream = stream;
  request_.message = message_.data();
  request_.message_size = message_.size();
}

void LaunchRequest::submit(const tileproof_subject& build, RunResult& result) {
  const std::int32_t status = build.launch(&request_);
  result.status = status == TILEPROOF_LAUNCHED  ? RunResult::Status::ok
                  : status == TILEPROOF_REFUSED ? RunResult::Status::refused
                                                : RunResult::Status::failed;
  if (status != TILEPROOF_LAUNCHED) {
    result.message = message_.data();
  }
}

std::int64_t overrun_rows(const Tiling& tiling) {
  return tiling.values.empty()
             ? 1
             : std::max<std::int64_t>(1, *std::max_element(tiling.values.begin(), tiling.values.end()));
}

}  // namespace tileproof
