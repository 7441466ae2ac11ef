// What a batch of runs needs on the device: put together in page-locked memory and brought there in one copy.
#ifndef TILEPROOF_EXECUTE_CUDA_BATCH_IMAGE_H
#define TILEPROOF_EXECUTE_CUDA_BATCH_IMAGE_H

#include <cuda_runtime.h>

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "execute/cuda/checked.h"
#include "execute/cuda/kernels.h"
#include "tileproof/property.h"

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

class BatchImage {
 public:
  void clear();
  // Once for all runs that are given this tensor; it is to outlive write().
  void add_input(const HostTensor& tensor);
  void add_region(const Region& region);
  // `given`: the tensor whose bytes it starts from, added before; null where none is.
  void add_walk(const Walk& walk, const HostTensor* given);
  std::size_t walks() const { return walks_.size(); }
  std::size_t input_bytes() const { return input_bytes_; }

  // Places everything in `host` and in `device`, and writes it into `host`.
  void write(std::size_t runs, Pool<PinnedMemory>& host, Pool<DeviceMemory>& device);
  // Submits the copies of it there, and of what the device said of it back.
  void upload(cudaStream_t stream) const;
  void download(cudaStream_t stream) const;

  // As kernels see it, without canary and recipes.
  Batch on_device() const;
  // After download() is done.
  const TensorVerdict* verdicts() const { return at<const TensorVerdict>(host_, at_.verdicts); }
  const unsigned* damaged() const { return at<const unsigned>(host_, at_.damaged); }

 private:
  // Offsets: what comes back, then what only goes there.
  struct Offsets {
    std::size_t damaged = 0, verdicts = 0, back = 0, regions = 0, walks = 0, region_tiles = 0, walk_tiles = 0,
                inputs = 0, bytes = 0;
  };
  template <typename T>
  static T* at(std::byte* memory, std::size_t offset) {
    return reinterpret_cast<T*>(memory + offset);
  }
  template <typename T>
  void put(std::size_t offset, const std::vector<T>& items) const;

  std::vector<Region> regions_;
  std::vector<Walk> walks_;
  std::vector<const HostTensor*> given_;  // of each walk
  std::vector<Tile> region_tiles_;
  std::vector<Tile> walk_tiles_;
  std::unordered_map<const HostTensor*, std::size_t> inputs_;  // to their places behind Offsets::inputs
  std::size_t input_bytes_ = 0;
  Offsets at_;
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;
};

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME

#endif
