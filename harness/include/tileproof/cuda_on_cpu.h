// tileproof/cuda_on_cpu.h: ordinary CUDA C++ kernel source on the host.
//
// Threads of a block run one after another in plain loops. Only when a thread reaches a barrier or a warp operation is
// it suspended, on a fiber of its own, while the others go on; a kernel without barriers costs one context switch a
// launch. The order of threads and blocks is part of the request (tileproof/plugin.h): between two barriers, a
// conflict between two threads shows in forward or in reverse order.
//
// Promises: blockDim up to 1024 threads, grid limits of CUDA, dynamic shared memory up to 227 KiB; beyond them a launch
// fails by name through cudaGetLastError(), as on a GPU. A barrier or warp operation that can never be passed ends the
// launch with an error, never with a hang. Threads that have returned count as arrived. A lane that asks for the value
// of one that takes no part gets all bits set. One launch at a time in a process; a thread has 60 KiB of stack.
//
// The kernel source includes <cuda_runtime.h>, <cuda_fp16.h> and <cuda_bf16.h>; host builds find those of
// tileproof/shims first, with or without a CUDA toolkit. Two spellings are rewritten by the build before the host
// compiler sees them: kernel<<<...>>>(...) and extern __shared__ arrays.
//
// Everything that is compiled into kernels lies in an inline namespace named by TILEPROOF_CPU_FLAVOUR, so that objects
// built with different instrumentation can share a binary.
#ifndef TILEPROOF_CUDA_ON_CPU_H
#define TILEPROOF_CUDA_ON_CPU_H

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tileproof/plugin.h"

#ifndef TILEPROOF_CPU_FLAVOUR
#define TILEPROOF_CPU_FLAVOUR fast
#endif

#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__  // nothing, since system headers say __attribute__((__noinline__))
#define __align__(bytes) alignas(bytes)
#define __launch_bounds__(...)
#ifdef TILEPROOF_SANITIZING
// A frame of its own, in which the calls of a report end; in it everything that can be, so that locals are registers.
#define __global__ __attribute__((noinline, flatten))
#define __shared__ static thread_local  // so that the sanitizer knows its addresses; a launch has one host thread
#define TILEPROOF_FENCE() tileproof::cpu::note_fence()
#define TILEPROOF_ATOMIC(address) tileproof::cpu::note_atomic(address, sizeof *(address))
#define TILEPROOF_UNSEEN __attribute__((noinline, no_sanitize("thread")))  // what was noted is not seen once more
#else
#define __global__
#define __shared__ static
#define TILEPROOF_FENCE() static_cast<void>(0)
#define TILEPROOF_ATOMIC(address) static_cast<void>(0)
#define TILEPROOF_UNSEEN
#endif
// Part of the kernel that calls it, so that what it calls sees where in the kernel that is.
#define TILEPROOF_IN_KERNEL inline __attribute__((always_inline))

using std::max;
using std::min;

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

// Of the thread that runs now.
#ifdef TILEPROOF_SANITIZING
// While a thread runs they do not change: as constants without a constructor, reading them is not watched.
struct ConstantDim {
  unsigned x, y, z;
  operator dim3() const { return {x, y, z}; }
};
extern const uint3 threadIdx;
extern const uint3 blockIdx;
extern const ConstantDim blockDim;
extern const ConstantDim gridDim;
#else
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
#endif
constexpr int warpSize = 32;

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidConfiguration = 9, cudaErrorLaunchFailure = 719 };
cudaError_t cudaGetLastError();  // and forgets it
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorString(cudaError_t error);  // of the last error: what was wrong, in words

namespace tileproof::cpu {

// Suspends the running thread until every thread of the block that has not returned is here too.
void block_barrier();

// Suspend the running thread until every member of `mask` in its warp that has not returned is here too.
// The value that lane `source_lane` brought:
std::uint64_t warp_shuffle(unsigned mask, std::uint64_t value, unsigned source_lane);
// One bit for each member that voted true:
unsigned warp_vote(unsigned mask, bool vote);
void warp_sync(unsigned mask);

// To the sanitizer, of the running thread.
void note_fence();
void note_atomic(const void* address, std::size_t bytes);

unsigned lane_id();
void* dynamic_shared();    // aligned to 1024 bytes
const char* last_error();  // of this process; "" when there was none

using Body = void (*)(void* closure);
// Runs body once per thread of every block. Errors are left for cudaGetLastError().
void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, Body body, void* closure);

// While it lives, launches run in these orders (tileproof_order); then in those before.
class Schedule {
 public:
  Schedule(int thread_order, int block_order, std::uint64_t seed = 0);
  ~Schedule();
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

 private:
  int thread_order_;
  int block_order_;
  std::uint64_t seed_;
};

inline namespace TILEPROOF_CPU_FLAVOUR {

// launcher([&](auto&... arguments) { kernel(arguments...); }, grid, block[, shared_bytes[, stream]])(arguments...):
// what the build makes of a launch. The arguments are evaluated once and copied for every thread, as on a GPU.
template <typename Kernel>
auto launcher(Kernel kernel, dim3 grid, dim3 block, std::size_t shared_bytes = 0, cudaStream_t = nullptr) {
  return [=](auto... arguments) {
    auto call = [&] { kernel(arguments...); };
    run_grid(
        grid, block, shared_bytes, [](void* closure) { (*static_cast<decltype(call)*>(closure))(); }, &call);
  };
}

template <typename T>
TILEPROOF_IN_KERNEL T shuffle_value(unsigned mask, T value, unsigned source_lane) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_shuffle(mask, bits, source_lane);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename T, typename Change>
TILEPROOF_UNSEEN T change(T* address, Change change_value) {
  const T old = *address;
  *address = change_value(old);
  return old;
}

}  // namespace TILEPROOF_CPU_FLAVOUR

}  // namespace tileproof::cpu

inline namespace TILEPROOF_CPU_FLAVOUR {

TILEPROOF_IN_KERNEL void __syncthreads() { tileproof::cpu::block_barrier(); }
TILEPROOF_IN_KERNEL void __syncwarp(unsigned mask = 0xffffffffU) { tileproof::cpu::warp_sync(mask); }
TILEPROOF_IN_KERNEL void __threadfence() { TILEPROOF_FENCE(); }
TILEPROOF_IN_KERNEL void __threadfence_block() { TILEPROOF_FENCE(); }
TILEPROOF_IN_KERNEL void __threadfence_system() { TILEPROOF_FENCE(); }

template <typename T>
TILEPROOF_IN_KERNEL T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const unsigned lane = tileproof::cpu::lane_id();
  const unsigned base = lane & ~static_cast<unsigned>(width - 1);
  return tileproof::cpu::shuffle_value(mask, value,
                                       base + (static_cast<unsigned>(source) & static_cast<unsigned>(width - 1)));
}
template <typename T>
TILEPROOF_IN_KERNEL T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const unsigned lane = tileproof::cpu::lane_id();
  const unsigned target = lane ^ static_cast<unsigned>(lane_mask);
  const bool inside = (target & ~static_cast<unsigned>(width - 1)) <= (lane & ~static_cast<unsigned>(width - 1));
  return tileproof::cpu::shuffle_value(mask, value, inside ? target : lane);
}
template <typename T>
TILEPROOF_IN_KERNEL T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = tileproof::cpu::lane_id();
  const bool inside = (lane & static_cast<unsigned>(width - 1)) + delta < static_cast<unsigned>(width);
  return tileproof::cpu::shuffle_value(mask, value, inside ? lane + delta : lane);
}
template <typename T>
TILEPROOF_IN_KERNEL T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = tileproof::cpu::lane_id();
  const bool inside = (lane & static_cast<unsigned>(width - 1)) >= delta;
  return tileproof::cpu::shuffle_value(mask, value, inside ? lane - delta : lane);
}

TILEPROOF_IN_KERNEL unsigned __ballot_sync(unsigned mask, int predicate) {
  return tileproof::cpu::warp_vote(mask, predicate != 0);
}
TILEPROOF_IN_KERNEL int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0 ? 1 : 0; }
TILEPROOF_IN_KERNEL int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate == 0 ? 1 : 0) == 0 ? 1 : 0;
}

// One thread runs at a time, so read-modify-write is atomic as it is.
template <typename T>
TILEPROOF_IN_KERNEL T atomicAdd(T* address, std::type_identity_t<T> value) {
  TILEPROOF_ATOMIC(address);
  return tileproof::cpu::change(address, [value](T old) -> T { return old + value; });
}
template <typename T>
TILEPROOF_IN_KERNEL T atomicSub(T* address, std::type_identity_t<T> value) {
  TILEPROOF_ATOMIC(address);
  return tileproof::cpu::change(address, [value](T old) -> T { return old - value; });
}
template <typename T>
TILEPROOF_IN_KERNEL T atomicMax(T* address, std::type_identity_t<T> value) {
  TILEPROOF_ATOMIC(address);
  return tileproof::cpu::change(address, [value](T old) -> T { return old < value ? value : old; });
}
template <typename T>
TILEPROOF_IN_KERNEL T atomicMin(T* address, std::type_identity_t<T> value) {
  TILEPROOF_ATOMIC(address);
  return tileproof::cpu::change(address, [value](T old) -> T { return value < old ? value : old; });
}
template <typename T>
TILEPROOF_IN_KERNEL T atomicExch(T* address, std::type_identity_t<T> value) {
  TILEPROOF_ATOMIC(address);
  return tileproof::cpu::change(address, [value](T) -> T { return value; });
}
template <typename T>
TILEPROOF_IN_KERNEL T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  TILEPROOF_ATOMIC(address);
  return tileproof::cpu::change(address, [=](T old) -> T { return old == compare ? value : old; });
}

inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline unsigned __float_as_uint(float a) { return std::bit_cast<unsigned>(a); }
inline float __uint_as_float(unsigned a) { return std::bit_cast<float>(a); }
inline int __float_as_int(float a) { return std::bit_cast<int>(a); }
inline float __int_as_float(int a) { return std::bit_cast<float>(a); }
inline int __popc(unsigned a) { return std::popcount(a); }
inline int __clz(int a) { return std::countl_zero(static_cast<unsigned>(a)); }
inline int __ffs(int a) { return __builtin_ffs(a); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float a) { return 1.0F / std::sqrt(a); }
template <typename T>
T __ldg(const T* address) {
  return *address;
}

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

}  // namespace TILEPROOF_CPU_FLAVOUR

#endif
