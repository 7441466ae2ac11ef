// Kernels on which the CPU executor is tested: plain CUDA, also compiled by nvcc where there is one.
#include "executor_kernels.h"

#include "executor_common.cuh"

namespace {

using executor_kernels::Dims;

dim3 dims(Dims d) { return dim3(d.x, d.y, d.z); }

__device__ unsigned linear_thread() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
__device__ unsigned linear_block() { return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }

__global__ void block_sum_static_kernel(const float* __restrict__ in, float* __restrict__ sum) {
  __shared__ float part[256];
  part[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sum[blockIdx.x] = part[0];
}

__global__ void reverse_kernel(float* data, bool with_barrier) {
  const float value = data[blockDim.x - 1 - threadIdx.x];
  if (with_barrier) __syncthreads();
  data[threadIdx.x] = value;
}

__global__ void log_kernel(unsigned* log, unsigned* length, unsigned segments, bool warp) {
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  for (unsigned i = 0; i < segments; ++i) {
    if (i > 0 && warp) __syncwarp();
    if (i > 0 && !warp) __syncthreads();
    log[atomicAdd(length, 1U)] = linear_block() * threads + linear_thread();
  }
}

__global__ void thread_ids_kernel(unsigned* ids) {
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  ids[linear_block() * threads + linear_thread()] =
      threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z + 1000 * (blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z);
}

constexpr unsigned kAll = 0xffffffffU;

__global__ void shuffles_kernel(int* out) {
  const int v = 100 + static_cast<int>(threadIdx.x % warpSize);
  int* const mine = out + 8 * threadIdx.x;
  mine[0] = __shfl_sync(kAll, v, 5);
  mine[1] = __shfl_sync(kAll, v, 1, 4);
  mine[2] = __shfl_xor_sync(kAll, v, 1);
  mine[3] = __shfl_xor_sync(kAll, v, 16);
  mine[4] = __shfl_down_sync(kAll, v, 2);
  mine[5] = __shfl_down_sync(kAll, v, 2, 8);
  mine[6] = __shfl_up_sync(kAll, v, 3);
  mine[7] = __shfl_up_sync(kAll, v, 3, 8);
}

__global__ void votes_kernel(unsigned* out, unsigned long long* wide) {
  const unsigned lane = threadIdx.x;
  unsigned* const mine = out + 4 * lane;
  mine[0] = __ballot_sync(kAll, lane % 3 == 0);
  mine[1] = __any_sync(kAll, lane == 7);
  mine[2] = __all_sync(kAll, lane < 32);
  mine[3] = __all_sync(kAll, lane != 7);
  wide[lane] = __shfl_sync(kAll, 0x100000000ULL * lane + 1, 31);
}

__global__ void odd_lanes_sum_kernel(int* out) {
  int value = static_cast<int>(threadIdx.x);
  if (threadIdx.x % 2 == 1) {
    for (int step = 2; step < 32; step *= 2) value += __shfl_xor_sync(0xaaaaaaaaU, value, step);
  }
  __syncthreads();
  out[threadIdx.x] = value;
}

__global__ void warp_sum_kernel(int* out) {
  __shared__ int part[32];
  int value = static_cast<int>(threadIdx.x);
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAll, value, step);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  int total = 0;
  for (unsigned i = 0; i < blockDim.x / 32; ++i) total += part[i];
  __syncwarp();
  out[threadIdx.x] = total;
}

__global__ void shuffle_from_returned_kernel(unsigned* out) {
  if (threadIdx.x % 2 == 1) return;
  out[threadIdx.x] = __shfl_xor_sync(kAll, threadIdx.x, 1);
}

__global__ void exit_before_barrier_kernel(int* out) {
  __shared__ int written[1024];
  written[threadIdx.x] = static_cast<int>(threadIdx.x) + 1;
  if (threadIdx.x % 2 == 1) return;
  __syncthreads();
  out[threadIdx.x] = written[blockDim.x - 1 - threadIdx.x];
}

__global__ void mismatched_kernel(int* out) {
  if (threadIdx.x % 32 == 0) {
    __syncthreads();
  } else {
    __syncwarp();
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}

__global__ void outside_mask_kernel(int* out) { out[threadIdx.x] = __shfl_sync(0x1U, 3, 0); }

__global__ void nothing_kernel() {}

__global__ void stack_addresses_kernel(unsigned long long* where, bool wait) {
  volatile int local = 0;
  if (wait) __syncthreads();
  where[blockIdx.x * blockDim.x + threadIdx.x] = reinterpret_cast<unsigned long long>(&local);
}

__global__ void atomics_kernel(int* words, float* total) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(&words[0], 2);
  atomicMax(&words[1], i);
  atomicMin(&words[2], -i);
  atomicExch(&words[3], 7);
  int seen = words[4];
  int expected = 0;
  do {
    expected = seen;
    seen = atomicCAS(&words[4], expected, expected + 1);
  } while (seen != expected);
  atomicAdd(total, 0.5F);
}

__global__ void __launch_bounds__(256) elements_kernel(__half* half, __nv_bfloat16* bf16, float4* four) {
  const unsigned i = threadIdx.x;
  half[i] = __float2half_rn(2.0F * __half2float(half[i]));
  bf16[i] = __float2bfloat16_rn(__fmaf_rn(2.0F, static_cast<float>(bf16[i]), 0.0F));
  const float4 v = __ldg(four + i);
  four[i] = make_float4(v.w, v.z, v.y, v.x);
}

}  // namespace

namespace executor_kernels {

int block_sum(const float* in, float* sum, unsigned blocks, unsigned threads) {
  launch_block_sum(in, sum, blocks, threads);
  return finish();
}
int block_sum_static(const float* in, float* sum, unsigned blocks, unsigned threads) {
  const auto kernel = block_sum_static_kernel;
  kernel<<<blocks, threads>>>(in, sum);
  return finish();
}
int reverse_in_place(float* data, unsigned threads, bool with_barrier) {
  reverse_kernel<<<1, threads>>>(data, with_barrier);
  return finish();
}
int log_order(unsigned* log, unsigned* length, Dims grid, Dims block, unsigned segments, bool warp) {
  log_kernel<<<dims(grid), dims(block), 0, nullptr>>>(log, length, segments, warp);
  return finish();
}
int thread_ids(unsigned* ids, Dims grid, Dims block) {
  thread_ids_kernel<<<dims(grid), dims(block)>>>(ids);
  return finish();
}
int shuffles(int* out, unsigned threads) {
  shuffles_kernel<<<1, threads>>>(out);
  return finish();
}
int votes(unsigned* out, std::uint64_t* wide) {
  votes_kernel<<<1, 32>>>(out, reinterpret_cast<unsigned long long*>(wide));
  return finish();
}
int odd_lanes_sum(int* out) {
  odd_lanes_sum_kernel<<<1, 32>>>(out);
  return finish();
}
int warp_sum(int* out, unsigned threads) {
  warp_sum_kernel<<<1, threads>>>(out);
  return finish();
}
int shuffle_from_returned(unsigned* out) {
  shuffle_from_returned_kernel<<<1, 32>>>(out);
  return finish();
}
int exit_before_barrier(int* out, unsigned threads) {
  exit_before_barrier_kernel<<<1, threads>>>(out);
  return finish();
}
int mismatched(int* out, unsigned threads) {
  mismatched_kernel<<<2, threads>>>(out);
  return finish();
}
int outside_mask(int* out) {
  outside_mask_kernel<<<1, 32>>>(out);
  return finish();
}
int configuration(Dims grid, Dims block, std::size_t shared_bytes) {
  nothing_kernel<<<dims(grid), dims(block), shared_bytes>>>();
  return finish();
}
int stack_addresses(std::uint64_t* where, unsigned blocks, unsigned threads, bool wait) {
  stack_addresses_kernel<<<blocks, threads>>>(reinterpret_cast<unsigned long long*>(where), wait);
  return finish();
}
int atomics(int* words, float* total, unsigned blocks, unsigned threads) {
  atomics_kernel<<<blocks, threads>>>(words, total);
  return finish();
}
int elements(std::uint16_t* half, std::uint16_t* bf16, float* four, unsigned count) {
  elements_kernel<<<1, count>>>(reinterpret_cast<__half*>(half), reinterpret_cast<__nv_bfloat16*>(bf16),
                                reinterpret_cast<float4*>(four));
  return finish();
}

}  // namespace executor_kernels
