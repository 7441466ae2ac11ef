// What the launch functions of the small kernels share. in [rows, cols], out as the operation declares it, both f32.
#ifndef TILEPROOF_TESTS_SMALL_CUH
#define TILEPROOF_TESTS_SMALL_CUH

#include <cuda_runtime.h>
#include <tileproof/plugin_binding.h>

struct Matrix {
  float* data;
  int rows;
  int cols;
  int64_t row_stride;
};

inline Matrix bind_matrix(const tileproof_launch* launch, const char* name) {
  const tileproof_tensor* t = tileproof::find_tensor(launch, name);
  return {static_cast<float*>(t->data), static_cast<int>(t->shape[0]), t->rank == 2 ? static_cast<int>(t->shape[1]) : 1,
          t->strides[0]};
}

inline int32_t finish(const tileproof_launch* launch) {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? TILEPROOF_LAUNCHED : tileproof::fail(launch, cudaGetErrorString(error));
}

constexpr const char* kLimits[] = {"num_warps in 1,2,4,8"};
constexpr tileproof_arithmetic kArithmetic = {TILEPROOF_PRECISION_F32, 1, TILEPROOF_PRECISION_F32, 1, 0, 0};

#endif
