// CUDA calls that may fail, and the memory they hand out.
#ifndef TILEPROOF_EXECUTE_CUDA_CHECKED_H
#define TILEPROOF_EXECUTE_CUDA_CHECKED_H

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "execute/cuda/kernels.h"

// Every call of the runtime goes through this: no error is swallowed.
#define TILEPROOF_CUDA(call) ::tileproof::TILEPROOF_CUDA_RUNTIME::check((call), #call)

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

// Throws DeviceLost when the device is broken for this process, and EnvironmentError naming the call otherwise.
void check(cudaError_t error, const char* call);

struct DeviceMemory {
  static std::byte* allocate(std::size_t bytes);
  static void free(std::byte* memory);
};
struct PinnedMemory {  // of the host, page-locked
  static std::byte* allocate(std::size_t bytes);
  static void free(std::byte* memory);
};

// Bump allocation, aligned to 256 bytes. What was allocated from the runtime is kept until the end.
template <typename Memory>
class Pool {
 public:
  explicit Pool(std::size_t least_piece) : least_piece_(least_piece) {}
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  std::byte* take(std::size_t bytes);
  void reset();  // everything taken is free again
  std::size_t used() const { return used_before_ + used_; }

 private:
  struct Piece {
    std::byte* memory;
    std::size_t bytes;
  };
  std::size_t least_piece_;
  std::vector<Piece> pieces_;
  std::size_t current_ = 0;
  std::size_t used_ = 0;         // of the current piece
  std::size_t used_before_ = 0;  // of those before it
};

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME

#endif
