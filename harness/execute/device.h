// The devices of this machine, and their executors.
#ifndef TILEPROOF_EXECUTE_DEVICE_H
#define TILEPROOF_EXECUTE_DEVICE_H

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "execute/executor.h"

namespace tileproof {

struct CudaReport {
  int gpus = 0;
  std::string reason;              // why none can be used; empty when one can
  std::vector<std::string> lines;  // for a person: GPUs, driver, toolkit
  bool usable() const { return reason.empty(); }
};

// Found out in a child process, once: the calling process never initialises CUDA, so that it can fork workers that do.
const CudaReport& cuda_report();

// The subjects that match (matching_subjects()) of one device. "auto": cuda where a GPU is usable and some match, else
// cpu. Throws EnvironmentError with the reason when cuda is asked for, by name or by globs that match nothing else, and
// cannot be used.
std::vector<const Subject*> subjects_on(std::string_view device, const std::vector<std::string>& globs);

// `device`: "cpu" or "cuda". `ordinal`: which GPU. Throws EnvironmentError when it cannot be used.
std::unique_ptr<Executor> make_executor(std::string_view device, int ordinal = 0);

// Of this build's CUDA runtime, or of none (execute/cuda/).
namespace cuda {
CudaReport look();  // initialises CUDA
std::unique_ptr<Executor> make_executor(int ordinal);
}  // namespace cuda

}  // namespace tileproof

#endif
