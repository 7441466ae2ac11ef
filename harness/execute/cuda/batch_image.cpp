#include "execute/cuda/batch_image.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

namespace {

constexpr std::size_t kAlign = 256;

std::size_t round_up(std::size_t value) { return (value + kAlign - 1) / kAlign * kAlign; }

void add_tiles(std::size_t item, std::int64_t size, std::vector<Tile>& tiles) {
  for (std::int64_t first = 0; first < size; first += kTile) {
    tiles.push_back({static_cast<std::uint32_t>(item), static_cast<std::uint32_t>(first)});
  }
}

}  // namespace

void BatchImage::clear() {
  regions_.clear();
  walks_.clear();
  given_.clear();
  region_tiles_.clear();
  walk_tiles_.clear();
  inputs_.clear();
  input_bytes_ = 0;
}

void BatchImage::add_input(const HostTensor& tensor) {
  if (inputs_.emplace(&tensor, input_bytes_).second) {
    input_bytes_ += round_up(tensor.bytes.size());
  }
}

void BatchImage::add_region(const Region& region) {
  add_tiles(regions_.size(), region.bytes / 16, region_tiles_);
  regions_.push_back(region);
}

void BatchImage::add_walk(const Walk& walk, const HostTensor* given) {
  add_tiles(walks_.size(), walk.elements, walk_tiles_);
  walks_.push_back(walk);
  given_.push_back(given);
}

template <typename T>
void BatchImage::put(std::size_t offset, const std::vector<T>& items) const {
  if (!items.empty()) {
    std::memcpy(host_ + offset, items.data(), items.size() * sizeof(T));
  }
}

void BatchImage::write(std::size_t runs, Pool<PinnedMemory>& host, Pool<DeviceMemory>& device) {
  std::size_t next = 0;
  const auto room = [&next](std::size_t count, std::size_t size) {
    return std::exchange(next, next + round_up(count * size));
  };
  at_.damaged = room(runs, sizeof(unsigned));
  at_.verdicts = room(walks_.size(), sizeof(TensorVerdict));
  at_.back = next;
  at_.regions = room(regions_.size(), sizeof(Region));
  at_.walks = room(walks_.size(), sizeof(Walk));
  at_.region_tiles = room(region_tiles_.size(), sizeof(Tile));
  at_.walk_tiles = room(walk_tiles_.size(), sizeof(Tile));
  at_.inputs = room(input_bytes_, 1);
  at_.bytes = next;
  host_ = host.take(at_.bytes);
  device_ = device.take(at_.bytes);
  for (const auto& [tensor, place] : inputs_) {
    std::memcpy(host_ + at_.inputs + place, tensor->bytes.data(), tensor->bytes.size());
  }
  for (std::size_t i = 0; i < walks_.size(); ++i) {
    walks_[i].given = given_[i] == nullptr ? nullptr : device_ + at_.inputs + inputs_.at(given_[i]);
  }
  std::memset(host_ + at_.damaged, 0, at_.verdicts - at_.damaged);
  std::uninitialized_fill_n(at<TensorVerdict>(host_, at_.verdicts), walks_.size(), TensorVerdict{0, kUnchanged});
  put(at_.regions, regions_);
  put(at_.walks, walks_);
  put(at_.region_tiles, region_tiles_);
  put(at_.walk_tiles, walk_tiles_);
}

void BatchImage::upload(cudaStream_t stream) const {
  TILEPROOF_CUDA(cudaMemcpyAsync(device_, host_, at_.bytes, cudaMemcpyHostToDevice, stream));
}

void BatchImage::download(cudaStream_t stream) const {
  TILEPROOF_CUDA(cudaMemcpyAsync(host_, device_, at_.back, cudaMemcpyDeviceToHost, stream));
}

Batch BatchImage::on_device() const {
  Batch batch{};
  batch.regions = at<const Region>(device_, at_.regions);
  batch.walks = at<const Walk>(device_, at_.walks);
  batch.region_tiles = at<const Tile>(device_, at_.region_tiles);
  batch.walk_tiles = at<const Tile>(device_, at_.walk_tiles);
  batch.region_tile_count = static_cast<std::uint32_t>(region_tiles_.size());
  batch.walk_tile_count = static_cast<std::uint32_t>(walk_tiles_.size());
  batch.verdicts = at<TensorVerdict>(device_, at_.verdicts);
  batch.damaged = at<unsigned>(device_, at_.damaged);
  return batch;
}

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME
