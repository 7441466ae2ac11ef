// out [rows] is the sum of each row of in [rows, cols], by one block a row, through dynamic shared memory.
#include "small.cuh"

__global__ void block_sum_kernel(Matrix in, Matrix out) {
  extern __shared__ float part[];
  float sum = 0;
  for (int col = threadIdx.x; col < in.cols; col += blockDim.x) sum += in.data[blockIdx.x * in.row_stride + col];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out.data[blockIdx.x * out.row_stride] = part[0];
}

static int32_t launch_block_sum(const tileproof_launch* launch) {
  const Matrix in = bind_matrix(launch, "in");
  const int threads = 32 * static_cast<int>(tileproof::tiling(launch, "num_warps"));
  block_sum_kernel<<<in.rows, threads, threads * sizeof(float)>>>(in, bind_matrix(launch, "out"));
  return finish(launch);
}

TILEPROOF_EXPORT_SUBJECT(block_sum, launch_block_sum, kLimits, kArithmetic)
