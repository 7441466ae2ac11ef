// Device memory of sparse tensors. Mapping takes longer than a run, and the runs of a case are laid out alike, so what
// earlier runs used is used again.
#ifndef TILEPROOF_EXECUTE_CUDA_SPARSE_MEMORY_H
#define TILEPROOF_EXECUTE_CUDA_SPARSE_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "execute/cuda/address_space.h"
#include "memory/arena.h"

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

class SparseMemory {
 public:
  explicit SparseMemory(int ordinal) : space_(ordinal) {}
  // Places and maps the sparse tensors of a run. Returns how many bytes are mapped for it. Throws EnvironmentError when
  // that is too much.
  std::size_t place(std::vector<Placed>& tensors);
  // No run uses any of it any more.
  void recycle();

 private:
  struct Reservation {
    std::byte* memory;
    std::size_t size;
    std::vector<std::pair<std::int64_t, std::int64_t>> pages;  // what is mapped, in bytes from its start
    std::size_t mapped;                                        // bytes of these
    bool in_use;
    std::uint64_t used_at;
  };
  void make_room(std::size_t bytes);
  std::byte* memory_for(std::size_t size, const Placed& placed);

  AddressSpace space_;
  std::vector<Reservation> reservations_;
  std::size_t bytes_ = 0;  // mapped in all of them
  std::uint64_t uses_ = 0;
};

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME

#endif
