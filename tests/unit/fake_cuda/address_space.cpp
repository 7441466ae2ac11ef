// Address space of the fake: the process's own, in pages larger than the processor's.
#include "execute/cuda/address_space.h"

#include <sys/mman.h>

#include "memory/arena.h"

namespace tileproof::fake_cuda {

AddressSpace::~AddressSpace() {
  while (!reserved_.empty()) {
    release(reserved_.back().memory);
  }
}

std::size_t AddressSpace::page() { return std::size_t{64} << 10; }

std::byte* AddressSpace::reserve(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes + page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw EnvironmentError("cannot reserve address space");
  }
  auto* const start = static_cast<std::byte*>(memory);
  reserved_.push_back({start, bytes + page(), 0});
  const std::size_t past = reinterpret_cast<std::size_t>(start) % page();
  return start + (past == 0 ? 0 : page() - past);
}

void AddressSpace::map(std::byte* from, std::size_t bytes) {
  if (mprotect(from, bytes, PROT_READ | PROT_WRITE) != 0) {
    throw EnvironmentError("cannot map pages");
  }
}

// What was reserved starts less than a page before what reserve() returned.
void AddressSpace::release(std::byte* reserved) {
  for (std::size_t i = 0; i < reserved_.size(); ++i) {
    const Piece piece = reserved_[i];
    if (piece.memory <= reserved && reserved < piece.memory + page()) {
      munmap(piece.memory, piece.bytes);
      reserved_.erase(reserved_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
}

}  // namespace tileproof::fake_cuda
