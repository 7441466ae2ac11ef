// The fixed part of an emitted test: what it needs to hold a launch against what is right, by plugin.h alone. The parts
// in @...@ are filled in by gtest_source().
#ifndef TILEPROOF_RECORD_GTEST_HARNESS_H
#define TILEPROOF_RECORD_GTEST_HARNESS_H

namespace tileproof {

inline constexpr char kGtestHostMemory[] = R"(
std::uint8_t* allocate(std::size_t bytes) { return static_cast<std::uint8_t*>(std::aligned_alloc(256, bytes)); }
void release(std::uint8_t* memory) { std::free(memory); }
void wait() {}
)";

inline constexpr char kGtestCudaMemory[] = R"(
std::uint8_t* allocate(std::size_t bytes) {
  void* memory = nullptr;
  return cudaMallocManaged(&memory, bytes) == cudaSuccess ? static_cast<std::uint8_t*>(memory) : nullptr;
}
void release(std::uint8_t* memory) { cudaFree(memory); }
void wait() { ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess); }
)";

inline constexpr char kGtestHarness[] =
    R"(// Emitted by tileproof @VERSION@: @OPERATION@, which failed @SIGNATURE@ on @SUBJECT@.
//   @REPLAY@
// Needs GoogleTest and tileproof/plugin.h. Link your kernel, and build with
//   -DTILEPROOF_SUBJECT=FUNCTION  an extern "C" function without arguments that returns its tileproof_subject
@GRADIENTS@// The tilings are pinned: an autotuner may never pick the one that fails. @CONTROL@
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tileproof/plugin.h"
@INCLUDE@
extern "C" const tileproof_subject* TILEPROOF_SUBJECT();
#ifdef TILEPROOF_ADJOINT_SUBJECT
extern "C" const tileproof_subject* TILEPROOF_ADJOINT_SUBJECT();
#endif

namespace {

struct Tensor {
  const char* name;
  int dtype;  // tileproof_dtype
  int rank;
  std::int64_t shape[TILEPROOF_MAX_RANK];
  std::int64_t strides[TILEPROOF_MAX_RANK];  // in elements
  std::int64_t shift;                        // elements off 256-byte alignment
  std::int64_t extent;                       // elements from the first to one past the last
  bool read_only;
  std::vector<std::uint32_t> before;  // bits of the packed elements; none: the tensor is only written
  std::vector<double> right;          // what is right; none: the tensor must stay as it is
  std::vector<double> bound;          // how far from it a right kernel may be; negative: it must be that bit for bit
};

struct Problem {
  std::vector<Tensor> tensors;
  std::vector<tileproof_named_value> scalars;
};

constexpr std::size_t kGuard = 65536;  // bytes before and behind every tensor
@MEMORY@
std::size_t size_of(int dtype) { return dtype == TILEPROOF_F32 || dtype == TILEPROOF_I32 ? 4 : 2; }

double value_of(int dtype, std::uint32_t bits) {
  if (dtype == TILEPROOF_I32) return static_cast<std::int32_t>(bits);
  if (dtype == TILEPROOF_F16) {
    const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
    const int exponent = static_cast<int>(bits >> 10 & 31U);
    const double mantissa = bits & 1023U;
    if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
    return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
  }
  const std::uint32_t word = dtype == TILEPROOF_BF16 ? bits << 16 : bits;
  float value = 0;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

std::int64_t offset_of(const Tensor& tensor, std::int64_t packed) {
  std::int64_t offset = 0;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    offset += packed % tensor.shape[i] * tensor.strides[i];
    packed /= tensor.shape[i];
  }
  return offset;
}

std::int64_t elements_of(const Tensor& tensor) {
  std::int64_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
  return count;
}

// A tensor in memory, every byte that is no element of it a canary.
class Placed {
 public:
  Placed(const Tensor& tensor, std::uint8_t canary) : tensor_(tensor), size_(size_of(tensor.dtype)) {
    bytes_ = (2 * kGuard + static_cast<std::size_t>(tensor.shift + tensor.extent) * size_ + 255) / 256 * 256;
    memory_ = allocate(bytes_);
    std::memset(memory_, canary, bytes_);
    for (std::size_t i = 0; i < tensor.before.size(); ++i) {
      std::memcpy(base() + offset_of(tensor, static_cast<std::int64_t>(i)) * size_, &tensor.before[i], size_);
    }
    expected_.assign(memory_, memory_ + bytes_);
  }
  ~Placed() { release(memory_); }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

  std::uint8_t* base() const { return memory_ + kGuard + static_cast<std::size_t>(tensor_.shift) * size_; }

  tileproof_tensor bound() const {
    tileproof_tensor result{tensor_.name, base(), tensor_.dtype, tensor_.rank, {}, {}};
    std::memcpy(result.shape, tensor_.shape, sizeof result.shape);
    std::memcpy(result.strides, tensor_.strides, sizeof result.strides);
    return result;
  }

  // Elements first; then everything that is none.
  void check() {
    int wrong = 0;
    for (std::int64_t i = 0; i < elements_of(tensor_) && !tensor_.right.empty(); ++i) {
      const std::size_t at = static_cast<std::size_t>(base() - memory_) + offset_of(tensor_, i) * size_;
      std::uint32_t bits = 0;
      std::memcpy(&bits, memory_ + at, size_);
      std::memcpy(&expected_[at], memory_ + at, size_);
      const double held = value_of(tensor_.dtype, bits);
      const double right = tensor_.right[i];
      const double bound = std::fmax(0.0, tensor_.bound[i]);
      const bool same = std::isnan(right) ? std::isnan(held) : held == right || std::fabs(held - right) <= bound;
      if (!same && wrong++ < 5) {
        ADD_FAILURE() << tensor_.name << ": packed element " << i << " is " << held << ", expected " << right
                      << " within " << bound;
      }
    }
    EXPECT_LE(wrong, 5) << tensor_.name << ": elements wrong in all";
    for (std::size_t at = 0; at < bytes_; ++at) {
      if (memory_[at] != expected_[at]) {
        ADD_FAILURE() << tensor_.name << (tensor_.read_only ? " is read only, or its guard" : ": its guard")
                      << " changed at byte " << static_cast<std::int64_t>(at) - (base() - memory_) << " from its base";
        return;
      }
    }
  }

 private:
  const Tensor& tensor_;
  std::size_t size_;
  std::size_t bytes_ = 0;
  std::uint8_t* memory_ = nullptr;
  std::vector<std::uint8_t> expected_;
};

// Twice, since a stray store may happen to equal one canary.
void check(const tileproof_subject* subject, const Problem& problem, const std::vector<tileproof_named_value>& tiling) {
  for (const int canary : {0xa5, 0x5a}) {
    std::vector<Placed*> placed;
    std::vector<tileproof_tensor> tensors;
    for (const Tensor& tensor : problem.tensors) {
      placed.push_back(new Placed(tensor, static_cast<std::uint8_t>(canary)));
      tensors.push_back(placed.back()->bound());
    }
    char message[512] = "";
    tileproof_launch launch{};
    launch.struct_size = sizeof launch;
    launch.tensors = tensors.data();
    launch.tensor_count = tensors.size();
    launch.scalars = problem.scalars.data();
    launch.scalar_count = problem.scalars.size();
    launch.tiling = tiling.data();
    launch.tiling_count = tiling.size();
    launch.message = message;
    launch.message_size = sizeof message;
    EXPECT_EQ(subject->launch(&launch), TILEPROOF_LAUNCHED) << message;
    wait();
    for (Placed* one : placed) {
      one->check();
      delete one;
    }
  }
}

@FUNCTIONS@@TESTS@
}  // namespace
)";

}  // namespace tileproof

#endif
