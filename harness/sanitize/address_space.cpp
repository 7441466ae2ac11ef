#include "sanitize/address_space.h"

#include <link.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace tileproof::sanitize {

namespace {

struct Segment {
  std::uintptr_t low;
  std::size_t bytes;
  bool writable;
};

int add_segments(dl_phdr_info* info, std::size_t, void* to) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type == PT_LOAD) {
      static_cast<std::vector<Segment>*>(to)->push_back(
          {info->dlpi_addr + header.p_vaddr, header.p_memsz, (header.p_flags & PF_W) != 0});
    }
  }
  return 0;
}

// The first object is the program.
int find_locals(dl_phdr_info* info, std::size_t, void* to) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_tls_data != nullptr) {
      *static_cast<std::span<const std::byte>*>(to) = {static_cast<const std::byte*>(info->dlpi_tls_data),
                                                       info->dlpi_phdr[i].p_memsz};
    }
  }
  return 1;
}

}  // namespace

std::span<const std::byte> static_shared_memory() {
  static thread_local const std::span<const std::byte> found = [] {
    std::span<const std::byte> locals;
    dl_iterate_phdr(find_locals, &locals);
    return locals;
  }();
  return found;
}

bool in_program(std::uintptr_t address, bool store) {
  static const std::vector<Segment> segments = [] {
    std::vector<Segment> found;
    dl_iterate_phdr(add_segments, &found);
    return found;
  }();
  return std::any_of(segments.begin(), segments.end(), [&](const Segment& segment) {
    return address - segment.low < segment.bytes && (segment.writable || !store);
  });
}

// The kernel looks for us: it fails instead of faulting.
bool is_accessible(std::uintptr_t address, bool store) {
  std::byte value{};
  auto* const place = reinterpret_cast<std::byte*>(address);
  const iovec here{&value, 1};
  const iovec there{place, 1};
  if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1) {
    return false;
  }
  return !store || process_vm_writev(getpid(), &here, 1, &there, 1, 0) == 1;
}

}  // namespace tileproof::sanitize
