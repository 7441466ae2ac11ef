// out [rows, cols] is the softmax of each row of in, by one warp a row; what the lanes found goes round by shuffles.
#include "small.cuh"

constexpr unsigned kAllLanes = 0xffffffffU;

__device__ inline float warp_max(float value) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  return value;
}

__device__ inline float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

__global__ void softmax_row_kernel(Matrix in, Matrix out) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= in.rows) return;  // a whole warp
  const float* const from = in.data + row * in.row_stride;
  float* const to = out.data + row * out.row_stride;
  const int lane = threadIdx.x;
  float largest = lane < in.cols ? from[lane] : -3.0e38F;
  for (int col = lane + 32; col < in.cols; col += 32) largest = fmaxf(largest, from[col]);
  largest = warp_max(largest);
  float sum = 0;
  for (int col = lane; col < in.cols; col += 32) sum += expf(from[col] - largest);
  sum = warp_sum(sum);
  for (int col = lane; col < in.cols; col += 32) to[col] = expf(from[col] - largest) / sum;
}

static int32_t launch_softmax_row(const tileproof_launch* launch) {
  const Matrix in = bind_matrix(launch, "in");
  const int warps = static_cast<int>(tileproof::tiling(launch, "num_warps"));
  softmax_row_kernel<<<(in.rows + warps - 1) / warps, dim3(32, warps)>>>(in, bind_matrix(launch, "out"));
  return finish(launch);
}

TILEPROOF_EXPORT_SUBJECT(softmax_row, launch_softmax_row, kLimits, kArithmetic)
