#include "sanitize/address_space.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
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

// The file of the program, while it is looked at.
class ProgramFile {
 public:
  ProgramFile() : file_(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)) {
    struct stat about {};
    if (file_ < 0 || fstat(file_, &about) != 0) {
      return;
    }
    void* const memory = mmap(nullptr, static_cast<std::size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file_, 0);
    if (memory != MAP_FAILED) {
      bytes_ = {static_cast<const std::byte*>(memory), static_cast<std::size_t>(about.st_size)};
    }
  }
  ~ProgramFile() {
    if (!bytes_.empty()) {
      munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    }
    if (file_ >= 0) {
      close(file_);
    }
  }
  ProgramFile(const ProgramFile&) = delete;
  ProgramFile& operator=(const ProgramFile&) = delete;

  // `count` entries of a type at an offset; none where the file is too short.
  template <typename T>
  std::span<const T> at(std::size_t offset, std::size_t count) const {
    const bool inside = offset <= bytes_.size() && count <= (bytes_.size() - offset) / sizeof(T);
    return inside ? std::span(reinterpret_cast<const T*>(bytes_.data() + offset), count) : std::span<const T>();
  }

 private:
  int file_;
  std::span<const std::byte> bytes_;
};

// "transpose_kernel(Matrix, Matrix)::tile" of a mangled name, without the function.
std::string short_name(const char* mangled) {
  int status = 0;
  char* const text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? text : mangled;
  std::free(text);
  name.resize(std::min(name.size(), name.find(" [")));  // what separates builds
  const std::size_t colons = name.rfind("::");
  return colons == std::string::npos ? name : name.substr(colons + 2);
}

std::vector<SharedArray> find_shared_arrays() {
  const ProgramFile file;
  std::vector<SharedArray> arrays;
  for (const ElfW(Ehdr) & header : file.at<ElfW(Ehdr)>(0, 1)) {
    const auto sections = file.at<ElfW(Shdr)>(header.e_shoff, header.e_shnum);
    for (const ElfW(Shdr) & section : sections) {
      if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) {
        continue;
      }
      const auto names = file.at<char>(sections[section.sh_link].sh_offset, sections[section.sh_link].sh_size);
      for (const ElfW(Sym) & symbol : file.at<ElfW(Sym)>(section.sh_offset, section.sh_size / sizeof(ElfW(Sym)))) {
        if (ELF64_ST_TYPE(symbol.st_info) == STT_TLS && symbol.st_shndx != SHN_UNDEF && symbol.st_name < names.size()) {
          arrays.push_back({short_name(names.data() + symbol.st_name), symbol.st_value, symbol.st_size});
        }
      }
    }
  }
  return arrays;
}

}  // namespace

const std::vector<SharedArray>& static_shared_arrays() {
  static const std::vector<SharedArray> arrays = find_shared_arrays();
  return arrays;
}

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
