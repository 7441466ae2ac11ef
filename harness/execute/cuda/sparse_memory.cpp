#include "execute/cuda/sparse_memory.h"

#include <fmt/format.h>

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

namespace {

constexpr std::size_t kLargestRun = std::size_t{1} << 30;
constexpr std::size_t kKept = std::size_t{512} << 20;

std::size_t bytes_of(const Placed& placed) {
  std::size_t bytes = 0;
  for (const auto& [from, to] : placed.mapped) {
    bytes += static_cast<std::size_t>(to - from);
  }
  return bytes;
}

}  // namespace

std::size_t SparseMemory::place(std::vector<Placed>& tensors) {
  std::size_t mapped = 0;
  for (Placed& placed : tensors) {
    if (!placed.layout.sparse) {
      continue;
    }
    const std::size_t size = place_sparse(placed, space_.page());
    mapped += bytes_of(placed);
    if (mapped > kLargestRun) {
      throw EnvironmentError(fmt::format("a sparse run maps more than {} MiB in pages of {} KiB; use fewer rows",
                                         kLargestRun >> 20, space_.page() >> 10));
    }
    placed.base = memory_for(size, placed) + placed.at;
  }
  return mapped;
}

std::byte* SparseMemory::memory_for(std::size_t size, const Placed& placed) {
  // Ranges from the start of the reservation: runs whose bases are a few elements apart need the same pages.
  std::vector<std::pair<std::int64_t, std::int64_t>> pages;
  for (const auto& [from, to] : placed.mapped) {
    const auto at = static_cast<std::int64_t>(placed.at);
    pages.emplace_back(at + from, at + to);
  }
  for (Reservation& known : reservations_) {
    if (!known.in_use && known.size >= size && known.pages == pages) {
      known.in_use = true;
      known.used_at = ++uses_;
      return known.memory;
    }
  }
  const std::size_t mapped = bytes_of(placed);
  make_room(mapped);
  std::byte* const memory = space_.reserve(size);
  for (const auto& [from, to] : pages) {
    space_.map(memory + from, static_cast<std::size_t>(to - from));
  }
  bytes_ += mapped;
  reservations_.push_back({memory, size, std::move(pages), mapped, true, ++uses_});
  return memory;
}

// Gives up what was not used for longest.
void SparseMemory::make_room(std::size_t bytes) {
  while (bytes_ + bytes > kKept) {
    auto oldest = reservations_.end();
    for (auto known = reservations_.begin(); known != reservations_.end(); ++known) {
      if (!known->in_use && (oldest == reservations_.end() || known->used_at < oldest->used_at)) {
        oldest = known;
      }
    }
    if (oldest == reservations_.end()) {
      return;
    }
    const Reservation given_up = *oldest;
    reservations_.erase(oldest);
    bytes_ -= given_up.mapped;
    space_.release(given_up.memory);
  }
}

void SparseMemory::recycle() {
  for (Reservation& known : reservations_) {
    known.in_use = false;
  }
}

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME
