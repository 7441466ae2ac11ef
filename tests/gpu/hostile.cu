#include "hostile.h"

#include <signal.h>
#include <tileproof/plugin_binding.h>
#include <unistd.h>

#include <cassert>

extern "C" const tileproof_subject* tileproof_subject_mla_rope_q_fwd__clean_cuda();

namespace {

__global__ void read_unmapped(int* out) { *out = *reinterpret_cast<volatile int*>(uintptr_t{1} << 44); }
__global__ void trap() { __trap(); }
__global__ void fail_assertion(int zero) { assert(zero == 1); }
__global__ void hang(volatile int* zero) {
  while (*zero == 0) {
  }
}
__global__ void nothing() {}

// Launches the clean kernel, then `also` where the case is hostile.
template <typename Also>
int32_t launch_and(const tileproof_launch* launch, Also also) {
  const int32_t status = tileproof_subject_mla_rope_q_fwd__clean_cuda()->launch(launch);
  if (status != TILEPROOF_LAUNCHED || !is_hostile(tileproof::scalar(launch, "head_num"))) return status;
  also(static_cast<cudaStream_t>(launch->stream));
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? TILEPROOF_LAUNCHED : tileproof::fail(launch, cudaGetErrorName(error));
}

// A word of device memory that holds 0 and is never given back.
int* zero_word() {
  static int* word = [] {
    int* memory = nullptr;
    cudaMalloc(&memory, sizeof(int));
    cudaMemset(memory, 0, sizeof(int));
    cudaDeviceSynchronize();
    return memory;
  }();
  return word;
}

}  // namespace

int32_t hostile_read_unmapped(const tileproof_launch* launch) {
  return launch_and(launch, [](cudaStream_t stream) { read_unmapped<<<1, 1, 0, stream>>>(zero_word()); });
}
int32_t hostile_trap(const tileproof_launch* launch) {
  return launch_and(launch, [](cudaStream_t stream) { trap<<<1, 1, 0, stream>>>(); });
}
int32_t hostile_assert(const tileproof_launch* launch) {
  return launch_and(launch, [](cudaStream_t stream) { fail_assertion<<<1, 1, 0, stream>>>(0); });
}
int32_t hostile_hang(const tileproof_launch* launch) {
  return launch_and(launch, [](cudaStream_t stream) { hang<<<1, 1, 0, stream>>>(zero_word()); });
}
int32_t hostile_exhaust(const tileproof_launch* launch) {
  return launch_and(launch, [](cudaStream_t) {
    void* memory = nullptr;
    cudaMalloc(&memory, size_t{1} << 40);
  });
}
int32_t hostile_grid(const tileproof_launch* launch) {
  return launch_and(launch, [](cudaStream_t stream) { nothing<<<dim3(1, 70000), 1, 0, stream>>>(); });
}
int32_t hostile_killed(const tileproof_launch* launch) {
  return launch_and(launch, [](cudaStream_t) { kill(getpid(), SIGKILL); });
}
int32_t lost_in_graphs(const tileproof_launch* launch) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(static_cast<cudaStream_t>(launch->stream), &status);
  if (status != cudaStreamCaptureStatusNone) return TILEPROOF_LAUNCHED;
  return tileproof_subject_mla_rope_q_fwd__clean_cuda()->launch(launch);
}
int32_t unfit_for_graphs(const tileproof_launch* launch) {
  const int32_t status = tileproof_subject_mla_rope_q_fwd__clean_cuda()->launch(launch);
  cudaStreamSynchronize(static_cast<cudaStream_t>(launch->stream));
  cudaGetLastError();
  return status;
}
int64_t device_bytes_in_use() {
  size_t free = 0;
  size_t total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? static_cast<int64_t>(total - free) : 0;
}
