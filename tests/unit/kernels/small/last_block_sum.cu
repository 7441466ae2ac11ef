// total [1, 1] is the sum of all elements of in [rows, cols]: one warp a row stores its part, and the block that is
// last sums the parts, in the order of rows. `counter` is zero before.
#include "small.cuh"

__global__ void last_block_sum_kernel(Matrix in, Matrix parts, unsigned* counter, Matrix total) {
  __shared__ float lanes[32];
  __shared__ bool is_last;
  float sum = 0;
  for (int col = threadIdx.x; col < in.cols; col += 32) sum += in.data[blockIdx.x * in.row_stride + col];
  lanes[threadIdx.x] = sum;
  __syncwarp();
  if (threadIdx.x == 0) {
    float part = 0;
    for (int lane = 0; lane < 32; ++lane) part += lanes[lane];
    parts.data[blockIdx.x * parts.row_stride] = part;
    __threadfence();
    is_last = atomicAdd(counter, 1U) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    float all = 0;
    for (int row = 0; row < in.rows; ++row) all += parts.data[row * parts.row_stride];
    total.data[0] = all;
  }
}

static int32_t launch_last_block_sum(const tileproof_launch* launch) {
  const Matrix in = bind_matrix(launch, "in");
  auto* const counter = static_cast<unsigned*>(tileproof::find_tensor(launch, "counter")->data);
  last_block_sum_kernel<<<in.rows, 32>>>(in, bind_matrix(launch, "out"), counter, bind_matrix(launch, "total"));
  return finish(launch);
}

TILEPROOF_EXPORT_SUBJECT(last_block_sum, launch_last_block_sum, kLimits, kArithmetic)
