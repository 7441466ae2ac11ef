#include "execute/cuda/checked.h"

#include <algorithm>

#include <fmt/format.h>

#include "execute/executor.h"
#include "memory/arena.h"

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

namespace {

constexpr std::size_t kAlign = 256;
// Allocation waits for everything that runs on the device, so there is to be little of it.
constexpr std::size_t kSmallestPiece = std::size_t{64} << 20;
constexpr std::size_t kSmallestPinned = std::size_t{8} << 20;

std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

}  // namespace

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) {
    return;
  }
  cudaGetLastError();  // what it says is in `error`
  // After a kernel broke the context, every later call fails too; other errors are those of one call.
  if (error != cudaErrorMemoryAllocation && cudaDeviceSynchronize() != cudaSuccess) {
    throw DeviceLost(cudaGetErrorName(error));
  }
  throw EnvironmentError(
      fmt::format("{} failed with {}: {}", call, cudaGetErrorName(error), cudaGetErrorString(error)));
}

// Destructors run when a worker ends or its device is lost: there is nobody left to tell about errors.
DevicePool::~DevicePool() {
  for (const Piece& piece : pieces_) {
    static_cast<void>(cudaFree(piece.memory));
  }
}

std::byte* DevicePool::take(std::size_t bytes) {
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), kAlign);
  while (current_ < pieces_.size() && pieces_[current_].bytes - used_ < size) {
    used_before_ += used_;
    used_ = 0;
    ++current_;
  }
  if (current_ == pieces_.size()) {
    void* memory = nullptr;
    const std::size_t wanted = std::max(size, kSmallestPiece);
    TILEPROOF_CUDA(cudaMalloc(&memory, wanted));
    // Downloads take padding along, which checkers of uninitialised memory would report.
    TILEPROOF_CUDA(cudaMemset(memory, 0, wanted));
    TILEPROOF_CUDA(cudaStreamSynchronize(nullptr));  // the streams of executors do not wait for the default stream
    pieces_.push_back({static_cast<std::byte*>(memory), wanted});
  }
  std::byte* const result = pieces_[current_].memory + used_;
  used_ += size;
  return result;
}

void DevicePool::reset() {
  current_ = 0;
  used_ = 0;
  used_before_ = 0;
}

PinnedBuffer::~PinnedBuffer() {
  if (memory_ != nullptr) {
    static_cast<void>(cudaFreeHost(memory_));
  }
}

std::byte* PinnedBuffer::reserve(std::size_t bytes) {
  if (bytes > capacity_) {
    if (memory_ != nullptr) {
      TILEPROOF_CUDA(cudaFreeHost(memory_));
      memory_ = nullptr;
      capacity_ = 0;
    }
    void* memory = nullptr;
    const std::size_t wanted = std::max(round_up(2 * bytes, kAlign), kSmallestPinned);
    TILEPROOF_CUDA(cudaHostAlloc(&memory, wanted, cudaHostAllocDefault));
    memory_ = static_cast<std::byte*>(memory);
    capacity_ = wanted;
  }
  return memory_;
}

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME
