// What lies where in this process, beside the memory of a launch.
#ifndef TILEPROOF_SANITIZE_ADDRESS_SPACE_H
#define TILEPROOF_SANITIZE_ADDRESS_SPACE_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tileproof::sanitize {

// The thread-local variables of the program, of the calling thread: in a sanitizing build, its __shared__ arrays.
std::span<const std::byte> static_shared_memory();

// One of them. Empty where the program has no table of symbols: then they are one piece.
struct SharedArray {
  std::string name;
  std::size_t offset = 0;  // in static_shared_memory()
  std::size_t bytes = 0;
};
const std::vector<SharedArray>& static_shared_arrays();

// Whether the address is code, constant or variable of a loaded object, and may be stored to where `store`.
bool in_program(std::uintptr_t address, bool store);

// Whether an access of that byte does not fault.
bool is_accessible(std::uintptr_t address, bool store);

}  // namespace tileproof::sanitize

#endif
