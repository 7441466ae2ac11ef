#include "execute/cuda/checked.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "execute/executor.h"
#include "memory/arena.h"

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

namespace {

constexpr std::size_t kAlign = 256;

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

std::byte* DeviceMemory::allocate(std::size_t bytes) {
  void* memory = nullptr;
  TILEPROOF_CUDA(cudaMalloc(&memory, bytes));
  // Downloads take padding along, which checkers of uninitialised memory would report.
  TILEPROOF_CUDA(cudaMemset(memory, 0, bytes));
  TILEPROOF_CUDA(cudaStreamSynchronize(nullptr));  // the streams of executors do not wait for the default stream
  return static_cast<std::byte*>(memory);
}

std::byte* PinnedMemory::allocate(std::size_t bytes) {
  void* memory = nullptr;
  TILEPROOF_CUDA(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault));
  return static_cast<std::byte*>(memory);
}

// Memory is freed when a worker ends or its device is lost: there is nobody left to tell about errors.
void DeviceMemory::free(std::byte* memory) { static_cast<void>(cudaFree(memory)); }
void PinnedMemory::free(std::byte* memory) { static_cast<void>(cudaFreeHost(memory)); }

template <typename Memory>
Pool<Memory>::~Pool() {
  for (const Piece& piece : pieces_) {
    Memory::free(piece.memory);
  }
}

template <typename Memory>
std::byte* Pool<Memory>::take(std::size_t bytes) {
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), kAlign);
  while (current_ < pieces_.size() && pieces_[current_].bytes - used_ < size) {
    used_before_ += used_;
    used_ = 0;
    ++current_;
  }
  if (current_ == pieces_.size()) {
    const std::size_t wanted = std::bit_ceil(std::max(size, least_piece_));
    pieces_.push_back({Memory::allocate(wanted), wanted});
  }
  std::byte* const result = pieces_[current_].memory + used_;
  used_ += size;
  return result;
}

template <typename Memory>
void Pool<Memory>::reset() {
  current_ = 0;
  used_ = 0;
  used_before_ = 0;
}

template class Pool<DeviceMemory>;
template class Pool<PinnedMemory>;

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME
