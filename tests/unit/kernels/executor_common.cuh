// What the test kernels share: a launch and dynamic shared memory in a header.
#ifndef TILEPROOF_TESTS_EXECUTOR_COMMON_CUH
#define TILEPROOF_TESTS_EXECUTOR_COMMON_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

inline int finish() { return static_cast<int>(cudaGetLastError()); }

// Not a launch: kernel<<<1, 2>>>(x)
/* nor kernel<<<1, 2>>>(x) */
template <typename T>
__device__ __forceinline__ T tree_sum(T value) {
  extern __shared__ __align__(16) unsigned char raw[];
  T* const part = reinterpret_cast<T*>(raw);
  part[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  return part[0];
}

template <typename A, typename B>
struct Pair {
  A first;
  B second;
};

template <typename T>
__global__ void block_sum_kernel(T in, decltype(T::second) sum) {
  const float total = tree_sum(in.first[blockIdx.x * blockDim.x + threadIdx.x]);
  if (threadIdx.x == 0) sum[blockIdx.x] = total;
}

inline void launch_block_sum(const float* in, float* sum, unsigned blocks, unsigned threads) {
  const Pair<const float*, float*> pair{in, sum};
  block_sum_kernel<Pair<const float*, float*>><<<blocks, threads, threads * sizeof(float)>>>(pair, sum);
}

}  // namespace

#endif
