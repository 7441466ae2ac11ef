// What -fsanitize=thread makes kernels call, the family of g++ and of clang. Names and parameters are the compilers'.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sanitize/access.h"

using tileproof::sanitize::sanitizer;
using tileproof::sanitize::Touch;

namespace {

std::uintptr_t number(const volatile void* address) { return reinterpret_cast<std::uintptr_t>(address); }

void touch(const volatile void* address, std::size_t bytes, bool store, bool atomic, void* frame) {
  sanitizer.access(Touch{number(address), bytes, store, atomic}, static_cast<void**>(frame));
}

}  // namespace

// Of the function that the kernel called: it must be taken there.
#define TILEPROOF_FRAME __builtin_frame_address(0)

// NOLINTBEGIN(bugprone-reserved-identifier): the names are the compilers'
#define TILEPROOF_PLAIN(bytes)                                                                                  \
  void __tsan_read##bytes(void* a) { sanitizer.access<bytes, false>(a, static_cast<void**>(TILEPROOF_FRAME)); } \
  void __tsan_write##bytes(void* a) { sanitizer.access<bytes, true>(a, static_cast<void**>(TILEPROOF_FRAME)); } \
  void __tsan_volatile_read##bytes(void* a) { touch(a, bytes, false, false, TILEPROOF_FRAME); }                 \
  void __tsan_volatile_write##bytes(void* a) { touch(a, bytes, true, false, TILEPROOF_FRAME); }                 \
  void __tsan_read_write##bytes(void* a) {                                                                      \
    touch(a, bytes, false, false, TILEPROOF_FRAME);                                                             \
    touch(a, bytes, true, false, TILEPROOF_FRAME);                                                              \
  }

#define TILEPROOF_UNALIGNED(bytes)                                                                        \
  void __tsan_unaligned_read##bytes(void* a) { touch(a, bytes, false, false, TILEPROOF_FRAME); }          \
  void __tsan_unaligned_write##bytes(void* a) { touch(a, bytes, true, false, TILEPROOF_FRAME); }          \
  void __tsan_unaligned_volatile_read##bytes(void* a) { touch(a, bytes, false, false, TILEPROOF_FRAME); } \
  void __tsan_unaligned_volatile_write##bytes(void* a) { touch(a, bytes, true, false, TILEPROOF_FRAME); } \
  void __tsan_unaligned_read_write##bytes(void* a) {                                                      \
    touch(a, bytes, false, false, TILEPROOF_FRAME);                                                       \
    touch(a, bytes, true, false, TILEPROOF_FRAME);                                                        \
  }

#define TILEPROOF_ATOMIC_CHANGE(bits, name)                                                                       \
  std::uint##bits##_t __tsan_atomic##bits##_##name(volatile std::uint##bits##_t* a, std::uint##bits##_t v, int) { \
    touch(a, sizeof v, true, true, TILEPROOF_FRAME);                                                              \
    return __atomic_##name(a, v, __ATOMIC_SEQ_CST);                                                               \
  }

#define TILEPROOF_ATOMIC_OF(bits)                                                                                   \
  std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* a, int) {                      \
    touch(a, sizeof *a, false, true, TILEPROOF_FRAME);                                                              \
    return __atomic_load_n(a, __ATOMIC_SEQ_CST);                                                                    \
  }                                                                                                                 \
  void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* a, std::uint##bits##_t v, int) {                   \
    touch(a, sizeof v, true, true, TILEPROOF_FRAME);                                                                \
    __atomic_store_n(a, v, __ATOMIC_SEQ_CST);                                                                       \
  }                                                                                                                 \
  std::uint##bits##_t __tsan_atomic##bits##_exchange(volatile std::uint##bits##_t* a, std::uint##bits##_t v, int) { \
    touch(a, sizeof v, true, true, TILEPROOF_FRAME);                                                                \
    return __atomic_exchange_n(a, v, __ATOMIC_SEQ_CST);                                                             \
  }                                                                                                                 \
  TILEPROOF_ATOMIC_CHANGE(bits, fetch_add)                                                                          \
  TILEPROOF_ATOMIC_CHANGE(bits, fetch_sub)                                                                          \
  TILEPROOF_ATOMIC_CHANGE(bits, fetch_and)                                                                          \
  TILEPROOF_ATOMIC_CHANGE(bits, fetch_or)                                                                           \
  TILEPROOF_ATOMIC_CHANGE(bits, fetch_xor)                                                                          \
  TILEPROOF_ATOMIC_CHANGE(bits, fetch_nand)                                                                         \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile std::uint##bits##_t* a, std::uint##bits##_t* e,        \
                                                    std::uint##bits##_t v, int, int) {                              \
    touch(a, sizeof v, true, true, TILEPROOF_FRAME);                                                                \
    return __atomic_compare_exchange_n(a, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ? 1 : 0;                 \
  }                                                                                                                 \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile std::uint##bits##_t* a, std::uint##bits##_t* e,          \
                                                  std::uint##bits##_t v, int, int) {                                \
    touch(a, sizeof v, true, true, TILEPROOF_FRAME);                                                                \
    return __atomic_compare_exchange_n(a, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ? 1 : 0;                 \
  }                                                                                                                 \
  std::uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                                   \
      volatile std::uint##bits##_t* a, std::uint##bits##_t e, std::uint##bits##_t v, int, int) {                    \
    touch(a, sizeof v, true, true, TILEPROOF_FRAME);                                                                \
    __atomic_compare_exchange_n(a, &e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                               \
    return e;                                                                                                       \
  }

extern "C" {

TILEPROOF_PLAIN(1)
TILEPROOF_PLAIN(2)
TILEPROOF_PLAIN(4)
TILEPROOF_PLAIN(8)
TILEPROOF_PLAIN(16)
TILEPROOF_UNALIGNED(2)
TILEPROOF_UNALIGNED(4)
TILEPROOF_UNALIGNED(8)
TILEPROOF_UNALIGNED(16)
TILEPROOF_ATOMIC_OF(8)
TILEPROOF_ATOMIC_OF(16)
TILEPROOF_ATOMIC_OF(32)
TILEPROOF_ATOMIC_OF(64)

void __tsan_read_range(void* a, std::size_t bytes) { touch(a, bytes, false, false, TILEPROOF_FRAME); }
void __tsan_write_range(void* a, std::size_t bytes) { touch(a, bytes, true, false, TILEPROOF_FRAME); }
void __tsan_vptr_read(void** a) { touch(a, sizeof *a, false, false, TILEPROOF_FRAME); }
void __tsan_vptr_update(void** a, void*) { touch(a, sizeof *a, true, false, TILEPROOF_FRAME); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_atomic_thread_fence(int) { sanitizer.fence(); }
void __tsan_atomic_signal_fence(int) {}

// What the build makes of calls of memcpy() and its like in a kernel; __tsan_ where clang names them itself.
void* tileproof_watched_memcpy(void* to, const void* from, std::size_t bytes) {
  touch(from, bytes, false, false, TILEPROOF_FRAME);
  touch(to, bytes, true, false, TILEPROOF_FRAME);
  return std::memcpy(to, from, bytes);
}
void* tileproof_watched_memmove(void* to, const void* from, std::size_t bytes) {
  touch(from, bytes, false, false, TILEPROOF_FRAME);
  touch(to, bytes, true, false, TILEPROOF_FRAME);
  return std::memmove(to, from, bytes);
}
void* tileproof_watched_memset(void* to, int value, std::size_t bytes) {
  touch(to, bytes, true, false, TILEPROOF_FRAME);
  return std::memset(to, value, bytes);
}
void* __tsan_memcpy(void* to, const void* from, std::size_t bytes) {
  touch(from, bytes, false, false, TILEPROOF_FRAME);
  touch(to, bytes, true, false, TILEPROOF_FRAME);
  return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, std::size_t bytes) {
  touch(from, bytes, false, false, TILEPROOF_FRAME);
  touch(to, bytes, true, false, TILEPROOF_FRAME);
  return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, std::size_t bytes) {
  touch(to, bytes, true, false, TILEPROOF_FRAME);
  return std::memset(to, value, bytes);
}
}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)

namespace tileproof::cpu {

void note_fence() { sanitizer.fence(); }

void note_atomic(const void* address, std::size_t bytes) { sanitizer.atomic(address, bytes, TILEPROOF_FRAME); }

}  // namespace tileproof::cpu
