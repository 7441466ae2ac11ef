// By the virtual memory API of the driver, found at run time: the binary does not need libcuda to start.
#include "execute/cuda/address_space.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>

#include <fmt/format.h>

#include "execute/cuda/checked.h"
#include "memory/arena.h"

namespace tileproof::cuda {

namespace {

constexpr unsigned kApiVersion = 12000;  // of the signatures below
constexpr std::size_t kSpareBytes = std::size_t{256} << 20;

template <typename Function>
Function entry(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  TILEPROOF_CUDA(cudaGetDriverEntryPointByVersion(name, &function, kApiVersion, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) {
    throw EnvironmentError(fmt::format("this CUDA driver has no {}: sparse cases cannot run", name));
  }
  return reinterpret_cast<Function>(function);
}

struct Driver {
  decltype(&cuGetErrorName) error_name = entry<decltype(&cuGetErrorName)>("cuGetErrorName");
  decltype(&cuMemGetAllocationGranularity) granularity =
      entry<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity");
  decltype(&cuMemAddressReserve) reserve = entry<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(&cuMemAddressFree) free = entry<decltype(&cuMemAddressFree)>("cuMemAddressFree");
  decltype(&cuMemCreate) create = entry<decltype(&cuMemCreate)>("cuMemCreate");
  decltype(&cuMemRelease) release = entry<decltype(&cuMemRelease)>("cuMemRelease");
  decltype(&cuMemMap) map = entry<decltype(&cuMemMap)>("cuMemMap");
  decltype(&cuMemUnmap) unmap = entry<decltype(&cuMemUnmap)>("cuMemUnmap");
  decltype(&cuMemSetAccess) set_access = entry<decltype(&cuMemSetAccess)>("cuMemSetAccess");
};

const Driver& driver() {
  static const Driver functions;
  return functions;
}

void check(CUresult result, const char* call, std::size_t bytes) {
  if (result != CUDA_SUCCESS) {
    const char* name = nullptr;
    const bool named = driver().error_name(result, &name) == CUDA_SUCCESS;
    throw EnvironmentError(
        fmt::format("{} of {} bytes failed with {}", call, bytes, named ? name : "an unknown error"));
  }
}

CUmemAllocationProp properties_of(int ordinal) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = ordinal;
  return properties;
}

CUdeviceptr address(const std::byte* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

}  // namespace

// Nobody is left to tell about errors.
AddressSpace::~AddressSpace() {
  for (const Piece& piece : mapped_) {
    static_cast<void>(driver().unmap(address(piece.memory), piece.bytes));
    static_cast<void>(driver().release(piece.handle));
  }
  for (const auto& [bytes, handles] : spare_) {
    for (const unsigned long long handle : handles) {
      static_cast<void>(driver().release(handle));
    }
  }
  for (const Piece& piece : reserved_) {
    static_cast<void>(driver().free(address(piece.memory), piece.bytes));
  }
}

std::size_t AddressSpace::page() {
  if (page_ == 0) {
    const CUmemAllocationProp properties = properties_of(ordinal_);
    check(driver().granularity(&page_, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "cuMemGetAllocationGranularity",
          0);
  }
  return page_;
}

std::byte* AddressSpace::reserve(std::size_t bytes) {
  CUdeviceptr memory = 0;
  check(driver().reserve(&memory, bytes, 0, 0, 0), "cuMemAddressReserve", bytes);
  reserved_.push_back({reinterpret_cast<std::byte*>(memory), bytes, 0});
  return reserved_.back().memory;
}

// Physical memory: what release() took out of the map before, where there is some of that size.
unsigned long long AddressSpace::memory_of(std::size_t bytes) {
  std::vector<unsigned long long>& spare = spare_[bytes];
  if (!spare.empty()) {
    const unsigned long long handle = spare.back();
    spare.pop_back();
    spare_bytes_ -= bytes;
    return handle;
  }
  const CUmemAllocationProp properties = properties_of(ordinal_);
  CUmemGenericAllocationHandle handle = 0;
  check(driver().create(&handle, bytes, &properties, 0), "cuMemCreate", bytes);
  return handle;
}

void AddressSpace::map(std::byte* from, std::size_t bytes) {
  const CUmemAllocationProp properties = properties_of(ordinal_);
  const CUmemGenericAllocationHandle handle = memory_of(bytes);
  const CUresult mapped = driver().map(address(from), bytes, 0, handle, 0);
  if (mapped != CUDA_SUCCESS) {
    static_cast<void>(driver().release(handle));  // the error to tell is the first
    check(mapped, "cuMemMap", bytes);
  }
  mapped_.push_back({from, bytes, handle});
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  check(driver().set_access(address(from), bytes, &access, 1), "cuMemSetAccess", bytes);
}

void AddressSpace::release(std::byte* reserved) {
  const auto whole = std::find_if(reserved_.begin(), reserved_.end(),
                                  [reserved](const Piece& piece) { return piece.memory == reserved; });
  const std::byte* const end = reserved + whole->bytes;
  const auto first_inside = std::partition(mapped_.begin(), mapped_.end(), [reserved, end](const Piece& piece) {
    return piece.memory < reserved || piece.memory >= end;
  });
  const std::vector<Piece> inside(first_inside, mapped_.end());
  mapped_.erase(first_inside, mapped_.end());
  for (const Piece& piece : inside) {
    check(driver().unmap(address(piece.memory), piece.bytes), "cuMemUnmap", piece.bytes);
    if (spare_bytes_ + piece.bytes <= kSpareBytes) {
      spare_[piece.bytes].push_back(piece.handle);
      spare_bytes_ += piece.bytes;
    } else {
      check(driver().release(piece.handle), "cuMemRelease", piece.bytes);
    }
  }
  const Piece given_back = *whole;
  reserved_.erase(whole);
  check(driver().free(address(given_back.memory), given_back.bytes), "cuMemAddressFree", given_back.bytes);
}

}  // namespace tileproof::cuda
