#include "execute/cuda/damage.h"

#include "execute/cuda/checked.h"
#include "execute/cuda/host_mirror.h"

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

// Sparse tensors come as sparse as they are.
std::vector<GuardDamage> damage_on_device(const std::byte* memory, Placement& placement, GuardFill guard,
                                          cudaStream_t stream) {
  std::vector<std::byte> copy(placement.bytes);
  TILEPROOF_CUDA(cudaMemcpyAsync(copy.data(), memory, copy.size(), cudaMemcpyDeviceToHost, stream));
  std::vector<HostMirror> mirrors;
  mirrors.reserve(placement.tensors.size());
  for (Placed& placed : placement.tensors) {
    if (!placed.layout.sparse) {
      placed.base = copy.data() + placed.at;
      continue;
    }
    const auto reach = static_cast<std::size_t>(placed.mapped.back().second - placed.mapped.front().first);
    std::byte* const here = mirrors.emplace_back(reach).memory() - placed.mapped.front().first;
    for (const auto& [from, to] : placed.mapped) {
      TILEPROOF_CUDA(cudaMemcpyAsync(here + from, placed.base + from, static_cast<std::size_t>(to - from),
                                     cudaMemcpyDeviceToHost, stream));
    }
    placed.base = here;
  }
  TILEPROOF_CUDA(cudaStreamSynchronize(stream));
  return guard_damage(placement.tensors, guard);
}

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME
