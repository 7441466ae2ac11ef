// Elements of the three data types: conversion to and from f32, and packets of N elements moved in one access where
// the address allows it. Rows may start anywhere and hold any number of elements, so alignment is looked at per access.
#ifndef TILEPROOF_KERNELS_MLA_ROPE_ELEMENTS_CUH
#define TILEPROOF_KERNELS_MLA_ROPE_ELEMENTS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace {

constexpr size_t kVectorBytes = 16;  // the widest access of a thread

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__half value) { return __half2float(value); }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

// The one rounding to storage.
template <typename T>
__device__ inline T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline __half from_float<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// One vector, part of one, or several in a row.
template <typename T, int N>
struct alignas(N * sizeof(T) < kVectorBytes ? N * sizeof(T) : kVectorBytes) Packet {
  T lane[N];
};

template <typename P>
__device__ inline bool is_aligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % alignof(P) == 0;
}

// The first `count` of N elements that lie `stride` apart; the other lanes are zero.
template <int N, typename T>
__device__ inline Packet<T, N> load(const T* from, int64_t stride, int count) {
  using P = Packet<T, N>;
  if (count == N && stride == 1 && is_aligned<P>(from)) return *reinterpret_cast<const P*>(from);
  P packet{};
  for (int i = 0; i < N; ++i) {
    if (i < count) packet.lane[i] = from[i * stride];
  }
  return packet;
}

template <int N, typename T>
__device__ inline void store(T* to, int64_t stride, int count, const Packet<T, N>& packet) {
  using P = Packet<T, N>;
  if (count == N && stride == 1 && is_aligned<P>(to)) {
    *reinterpret_cast<P*>(to) = packet;
    return;
  }
  for (int i = 0; i < N; ++i) {
    if (i < count) to[i * stride] = packet.lane[i];
  }
}

// One tensor as a kernel sees it: rows of `dim` elements, one per token and head.
template <typename T>
struct Rows {
  T* data;
  int64_t token_stride;
  int64_t head_stride;

  __device__ T* at(int64_t token, int head) const { return data + token * token_stride + head * head_stride; }
};

// Rows of a tensor [seq, batch, head, dim] in which every axis has its own stride.
template <typename T>
struct StridedRows {
  T* data;
  int64_t seq_stride;
  int64_t batch_stride;
  int64_t head_stride;
  int64_t dim_stride;

  __device__ T* at(int64_t seq, int64_t batch, int head) const {
    return data + seq * seq_stride + batch * batch_stride + head * head_stride;
  }
};

// Copies `dim` elements bit by bit; the threads of one threadIdx.y share the row.
template <typename T>
__device__ inline void copy_row(T* to, int64_t to_stride, const T* from, int64_t from_stride, int dim) {
  constexpr int N = kVectorBytes / sizeof(T);
  for (int i = threadIdx.x * N; i < dim; i += blockDim.x * N) {
    const int count = dim - i < N ? dim - i : N;
    store<N>(to + i * to_stride, to_stride, count, load<N>(from + i * from_stride, from_stride, count));
  }
}

}  // namespace

#endif
