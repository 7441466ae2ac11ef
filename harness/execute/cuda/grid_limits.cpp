// The linker sends calls of both entries of the runtime here (--wrap, harness/CMakeLists.txt).
#include "execute/cuda/grid_limits.h"

#include <cuda_runtime.h>

#include <array>
#include <utility>

#include <fmt/format.h>

#include "execute/cuda/checked.h"

namespace tileproof::cuda {

namespace {

struct Limits {
  bool known = false;
  std::array<unsigned, 3> grid{};
  std::array<unsigned, 3> block{};
  unsigned threads = 0;
  std::size_t shared_bytes = 0;
};

thread_local Limits limits;
thread_local std::string refusal;

unsigned attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  TILEPROOF_CUDA(cudaDeviceGetAttribute(&value, which, ordinal));
  return static_cast<unsigned>(value);
}

bool has_none(dim3 size) { return size.x == 0 || size.y == 0 || size.z == 0; }

bool exceeds(dim3 size, const std::array<unsigned, 3>& most) {
  return size.x > most[0] || size.y > most[1] || size.z > most[2];
}

std::string text_of(const std::array<unsigned, 3>& size) {
  return fmt::format("({},{},{})", size[0], size[1], size[2]);
}

// In the words of the cpu device (execute/cpu_executor.cpp). Empty: it may be launched.
std::string reason_against(dim3 grid, dim3 block, std::size_t shared_bytes) {
  if (!limits.known) {
    return {};
  }
  if (has_none(grid) || has_none(block)) {
    return "a dimension is 0";
  }
  if (exceeds(grid, limits.grid)) {
    return "the grid exceeds " + text_of(limits.grid);
  }
  if (exceeds(block, limits.block)) {
    return "the block exceeds " + text_of(limits.block);
  }
  if (std::uint64_t{block.x} * block.y * block.z > limits.threads) {
    return fmt::format("the block has more than {} threads", limits.threads);
  }
  return shared_bytes > limits.shared_bytes
             ? fmt::format("more than {} bytes of dynamic shared memory", limits.shared_bytes)
             : std::string();
}

bool refuses(dim3 grid, dim3 block, std::size_t shared_bytes) {
  const std::string reason = reason_against(grid, block, shared_bytes);
  if (!reason.empty() && refusal.empty()) {
    refusal = fmt::format("invalid configuration: {} (grid ({},{},{}), block ({},{},{}), {} bytes of shared memory)",
                          reason, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes);
  }
  return !reason.empty();
}

}  // namespace

void hold_to_limits_of(int ordinal) {
  limits.grid = {attribute(cudaDevAttrMaxGridDimX, ordinal), attribute(cudaDevAttrMaxGridDimY, ordinal),
                 attribute(cudaDevAttrMaxGridDimZ, ordinal)};
  limits.block = {attribute(cudaDevAttrMaxBlockDimX, ordinal), attribute(cudaDevAttrMaxBlockDimY, ordinal),
                  attribute(cudaDevAttrMaxBlockDimZ, ordinal)};
  limits.threads = attribute(cudaDevAttrMaxThreadsPerBlock, ordinal);
  limits.shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal);
  limits.known = true;
}

std::string take_refusal() { return std::exchange(refusal, {}); }

}  // namespace tileproof::cuda

// NOLINTBEGIN(bugprone-reserved-identifier): the names are the linker's
extern "C" {

unsigned __real___cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream);
cudaError_t __real_cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                    std::size_t shared_bytes, cudaStream_t stream);

// <<<>>> launches nothing when this returns anything but 0.
unsigned __wrap___cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream) {
  return tileproof::cuda::refuses(grid, block, shared_bytes)
             ? 1U
             : __real___cudaPushCallConfiguration(grid, block, shared_bytes, stream);
}

cudaError_t __wrap_cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                    std::size_t shared_bytes, cudaStream_t stream) {
  return tileproof::cuda::refuses(grid, block, shared_bytes)
             ? cudaErrorInvalidConfiguration
             : __real_cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)
