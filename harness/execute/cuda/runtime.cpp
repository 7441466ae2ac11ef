// What the CUDA runtime says of this machine, and the way in to the executor.
#include <cuda_runtime.h>
#include <malloc.h>

#include <fmt/format.h>

#include "execute/cuda/device_executor.h"
#include "execute/device.h"

namespace tileproof::cuda {

namespace {

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string describe(int ordinal) {
  cudaDeviceProp properties{};
  const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);
  if (error != cudaSuccess) {
    return fmt::format("gpu {}    {} ({})", ordinal, cudaGetErrorName(error), cudaGetErrorString(error));
  }
  return fmt::format("gpu {}    {}, compute capability {}.{}, {} MiB, {} multiprocessors", ordinal, properties.name,
                     properties.major, properties.minor, properties.totalGlobalMem >> 20,
                     properties.multiProcessorCount);
}

}  // namespace

CudaReport look() {
  CudaReport report;
  int driver = 0;
  int runtime = 0;
  cudaError_t error = cudaDriverGetVersion(&driver);
  error = error == cudaSuccess ? cudaRuntimeGetVersion(&runtime) : error;
  report.lines.emplace_back(fmt::format("driver   {}; {} is linked into this binary",
                                        driver == 0 ? "none" : "CUDA " + version_text(driver),
                                        "CUDA " + version_text(CUDART_VERSION)));
  error = error == cudaSuccess ? cudaGetDeviceCount(&report.gpus) : error;
  if (error != cudaSuccess || report.gpus == 0) {
    report.gpus = 0;
    report.lines.emplace_back("gpu      none");
    report.reason = error == cudaSuccess ? "the CUDA driver sees no GPU"
                    : driver == 0        ? "there is no CUDA driver (libcuda.so.1) on this machine"
                                         : fmt::format("{} ({})", cudaGetErrorName(error), cudaGetErrorString(error));
    return report;
  }
  for (int i = 0; i < report.gpus; ++i) {
    report.lines.push_back(describe(i));
  }
  error = cudaFree(nullptr);  // makes a context
  if (error != cudaSuccess) {
    report.reason = fmt::format("{} ({})", cudaGetErrorName(error), cudaGetErrorString(error));
  }
  return report;
}

std::unique_ptr<Executor> make_executor(int ordinal) {
  // Many threads here allocate and free tensors all the time. Memory that went back to the system each time would be
  // mapped and cleared again under the one lock of the process's address space.
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  // Waiting threads leave their core to the others, which have references to compute.
  TILEPROOF_CUDA(cudaSetDevice(ordinal));
  TILEPROOF_CUDA(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  return std::make_unique<DeviceExecutor>(ordinal);
}

}  // namespace tileproof::cuda
