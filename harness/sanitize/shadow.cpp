#include "sanitize/shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace tileproof::sanitize {

Mapping::Mapping(std::size_t bytes) : bytes_(bytes) {
  data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data_ == MAP_FAILED) {
    data_ = nullptr;
    throw EnvironmentError(
        fmt::format("cannot map {} bytes of shadow memory for the sanitizing build (ulimit -v?); --sanitize 0 leaves "
                    "it out",
                    bytes));
  }
}

Mapping::~Mapping() {
  if (data_ != nullptr) {
    munmap(data_, bytes_);
  }
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void Mapping::clear() {
  if (data_ != nullptr) {
    madvise(data_, bytes_, MADV_DONTNEED);
  }
}

void Shadow::place(Piece& piece, std::uintptr_t low, std::size_t bytes, unsigned shift) {
  const std::size_t granules = (bytes >> shift) + 1;
  if (granules > piece.owners.bytes()) {
    const std::size_t room = granules + granules / 2;
    piece.stores = Mapping(room * sizeof(Stamp));
    piece.loads = Mapping(room * sizeof(Stamp));
    piece.owners = Mapping(room * sizeof(Owner));
  }
  Region& region = piece.region;
  region.low = low;
  region.bytes = bytes;
  region.shift = shift;
  region.stores = static_cast<Stamp*>(piece.stores.data());
  region.loads = static_cast<Stamp*>(piece.loads.data());
  region.owners = static_cast<Owner*>(piece.owners.data());
}

namespace {

std::uintptr_t number_of(const std::byte* address) { return reinterpret_cast<std::uintptr_t>(address); }

std::size_t bytes_of(const Placed& placed, std::int64_t elements) {
  return static_cast<std::size_t>(elements) * size_of(placed.layout.shape.dtype);
}

// Marks the elements of a tensor as its own.
void paint(const Region& region, const Placed& placed, std::size_t number) {
  const Role role = placed.layout.shape.spec->role;
  const auto owner = static_cast<Owner>((number + 1) | (role == Role::out  ? kUnwritten
                                                        : role == Role::in ? kReadOnly
                                                                           : 0));
  const std::size_t base = number_of(placed.base) - region.low;
  for_each_piece(placed.layout, [&](std::int64_t offset, std::int64_t, std::int64_t count) {
    const std::size_t first = (base + bytes_of(placed, offset)) >> region.shift;
    std::memset(region.owners + first, owner, bytes_of(placed, count) >> region.shift);
  });
}

}  // namespace

void Shadow::prepare(const std::vector<Placed>& tensors) {
  // A granule is the smallest element.
  const bool wide = std::all_of(tensors.begin(), tensors.end(),
                                [](const Placed& placed) { return size_of(placed.layout.shape.dtype) == 4; });
  const unsigned shift = wide ? 2 : 1;
  sparse_.clear();
  std::uintptr_t low = UINTPTR_MAX;
  std::uintptr_t high = 0;
  for (const Placed& placed : tensors) {
    if (!placed.layout.sparse) {
      low = std::min(low, number_of(placed.base) - placed.before);
      high = std::max(high, number_of(placed.base) + bytes_of(placed, placed.layout.extent) + placed.after);
    }
  }
  low = std::min(low, high) & ~std::uintptr_t{15};  // so that wide accesses begin at a granule where elements do
  place(dense_piece_, low, high - low, shift);
  std::memset(dense_piece_.region.owners, 0, ((high - low) >> shift) + 1);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Placed& placed = tensors[i];
    if (!placed.layout.sparse) {
      paint(dense_piece_.region, placed, i);
      continue;
    }
    Piece& piece = sparse_.emplace_back();
    const std::uintptr_t from = number_of(placed.base) + static_cast<std::uintptr_t>(placed.mapped.front().first);
    const std::uintptr_t to = number_of(placed.base) + static_cast<std::uintptr_t>(placed.mapped.back().second);
    place(piece, from, to - from, shift);
    for (const auto& [begin, end] : placed.mapped) {
      piece.used.emplace_back(static_cast<std::size_t>(begin - placed.mapped.front().first) >> shift,
                              static_cast<std::size_t>(end - placed.mapped.front().first) >> shift);
    }
    paint(piece.region, placed, i);
  }
  dense_ = dense_piece_.region;
}

void Shadow::follow_shared(const void* low, std::size_t bytes,
                           std::span<const std::pair<std::size_t, std::size_t>> pieces) {
  const auto address = reinterpret_cast<std::uintptr_t>(low);
  auto piece = std::find_if(shared_.begin(), shared_.end(), [&](const Piece& p) { return p.region.low == address; });
  if (piece == shared_.end()) {
    piece = shared_.insert(shared_.end(), Piece());
  } else if (piece->region.bytes == bytes) {
    return;
  }
  place(*piece, address, bytes, 0);
  piece->region.of_block = true;
  std::memset(piece->region.owners, pieces.empty() ? kSharedMemory : 0, bytes);
  for (const auto& [offset, count] : pieces) {
    if (offset <= bytes) {
      std::memset(piece->region.owners + offset, kSharedMemory, std::min(count, bytes - offset));
    }
  }
}

const Region* Shadow::find(std::uintptr_t address) const {
  if (dense_.contains(address)) {
    return &dense_;
  }
  for (const auto* pieces : {&shared_, &sparse_}) {
    for (const Piece& piece : *pieces) {
      if (piece.region.contains(address)) {
        return &piece.region;
      }
    }
  }
  return nullptr;
}

void Shadow::clear() {
  dense_piece_.stores.clear();
  dense_piece_.loads.clear();
  for (auto* pieces : {&shared_, &sparse_}) {
    for (Piece& piece : *pieces) {
      piece.stores.clear();
      piece.loads.clear();
    }
  }
}

void Shadow::restart(Stamp launch_first, Stamp block_first) {
  const auto sweep = [&](Stamp* stamps, std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      const Stamp stamp = stamps[i];
      const Stamp rest = stamp & ((Stamp{1} << kTickAt) - 1);
      const Tick tick = stamp < launch_first ? 0 : stamp < block_first ? 1 : 2;
      stamps[i] = tick == 0 ? 0 : tick << kTickAt | rest;
    }
  };
  const auto sweep_piece = [&](const Piece& piece) {
    const std::pair<std::size_t, std::size_t> whole{0, (piece.region.bytes >> piece.region.shift) + 1};
    for (const auto& [from, to] : piece.used.empty() ? std::vector{whole} : piece.used) {
      sweep(piece.region.stores, from, to);
      sweep(piece.region.loads, from, to);
    }
  };
  sweep_piece(dense_piece_);
  for (const auto* pieces : {&shared_, &sparse_}) {
    for (const Piece& piece : *pieces) {
      sweep_piece(piece);
    }
  }
}

}  // namespace tileproof::sanitize
