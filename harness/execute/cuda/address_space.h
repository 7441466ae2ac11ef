// Address space of a device that is reserved whole and mapped in part; any access elsewhere in it is an illegal
// address.
#ifndef TILEPROOF_EXECUTE_CUDA_ADDRESS_SPACE_H
#define TILEPROOF_EXECUTE_CUDA_ADDRESS_SPACE_H

#include <cuda_runtime.h>

#include <cstddef>
#include <map>
#include <vector>

#include "execute/cuda/kernels.h"

namespace tileproof::TILEPROOF_CUDA_RUNTIME {

class AddressSpace {
 public:
  explicit AddressSpace(int ordinal) : ordinal_(ordinal) {}
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  std::size_t page();  // bytes; what can be mapped at least
  // These throw EnvironmentError. Sizes and addresses are multiples of page().
  std::byte* reserve(std::size_t bytes);
  void map(std::byte* from, std::size_t bytes);
  // Unmaps and gives back what reserve() returned; nothing may be using it.
  void release(std::byte* reserved);

 private:
  struct Piece {
    std::byte* memory;
    std::size_t bytes;
    unsigned long long handle;
  };
  unsigned long long memory_of(std::size_t bytes);

  int ordinal_;
  std::size_t page_ = 0;
  std::vector<Piece> reserved_;
  std::vector<Piece> mapped_;
  std::map<std::size_t, std::vector<unsigned long long>> spare_;  // physical memory by size: making it is slow
  std::size_t spare_bytes_ = 0;
};

}  // namespace tileproof::TILEPROOF_CUDA_RUNTIME

#endif
