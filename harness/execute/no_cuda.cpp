// Of a build without a CUDA toolkit.
#include "execute/device.h"
#include "memory/arena.h"

namespace tileproof::cuda {

namespace {
constexpr char kReason[] = "this build has no cuda device: there was no CUDA toolkit when it was built";
}

CudaReport look() { return {0, kReason, {"gpu      not looked for"}}; }

std::unique_ptr<Executor> make_executor(int) { throw EnvironmentError(kReason); }

}  // namespace tileproof::cuda
