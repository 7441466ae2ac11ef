// Host memory into which a sparse tensor is copied as sparse as it is.
#ifndef TILEPROOF_EXECUTE_CUDA_HOST_MIRROR_H
#define TILEPROOF_EXECUTE_CUDA_HOST_MIRROR_H

#include <sys/mman.h>

#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "memory/arena.h"

namespace tileproof {

// Host memory of which only the pages that are touched exist.
class HostMirror {
 public:
  explicit HostMirror(std::size_t bytes) : bytes_(bytes) {
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) {
      throw EnvironmentError(fmt::format("cannot map {} bytes of address space for a sparse tensor", bytes));
    }
  }
  ~HostMirror() {
    if (memory_ != nullptr) {
      munmap(memory_, bytes_);
    }
  }
  HostMirror(HostMirror&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
  HostMirror(const HostMirror&) = delete;
  HostMirror& operator=(const HostMirror&) = delete;
  std::byte* memory() const { return static_cast<std::byte*>(memory_); }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_;
};

}  // namespace tileproof

#endif
