// What lies where in this process, beside the memory of a launch.
#ifndef TILEPROOF_SANITIZE_ADDRESS_SPACE_H
#define TILEPROOF_SANITIZE_ADDRESS_SPACE_H

#include <cstddef>
#include <cstdint>
#include <span>

namespace tileproof::sanitize {

// The thread-local variables of the program, of the calling thread: in a sanitizing build, its __shared__ arrays.
std::span<const std::byte> static_shared_memory();

// Whether the address is code, constant or variable of a loaded object, and may be stored to where `store`.
bool in_program(std::uintptr_t address, bool store);

// Whether an access of that byte does not fault.
bool is_accessible(std::uintptr_t address, bool store);

}  // namespace tileproof::sanitize

#endif
