// out [cols, rows] is in [rows, cols] transposed, tile by tile through static shared memory.
#include "small.cuh"

constexpr int kTile = 16;

__global__ void transpose_kernel(Matrix in, Matrix out) {
  __shared__ float tile[kTile][kTile + 1];
  const int col = blockIdx.x * kTile + threadIdx.x;
  const int row = blockIdx.y * kTile + threadIdx.y;
  if (row < in.rows && col < in.cols) tile[threadIdx.y][threadIdx.x] = in.data[row * in.row_stride + col];
  __syncthreads();
  const int out_col = blockIdx.y * kTile + threadIdx.x;
  const int out_row = blockIdx.x * kTile + threadIdx.y;
  if (out_row < out.rows && out_col < out.cols) {
    out.data[out_row * out.row_stride + out_col] = tile[threadIdx.x][threadIdx.y];
  }
}

static int32_t launch_transpose(const tileproof_launch* launch) {
  const Matrix in = bind_matrix(launch, "in");
  const dim3 grid((in.cols + kTile - 1) / kTile, (in.rows + kTile - 1) / kTile);
  transpose_kernel<<<grid, dim3(kTile, kTile)>>>(in, bind_matrix(launch, "out"));
  return finish(launch);
}

TILEPROOF_EXPORT_SUBJECT(transpose, launch_transpose, kLimits, kArithmetic)
