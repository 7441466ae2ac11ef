// The CPU executor runs CUDA source as a GPU would, in the order it is told, and says what is wrong with a launch.
#include "tileproof/cuda_on_cpu.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "executor_kernels.h"
#include "tileproof/shims/cuda_bf16.h"
#include "tileproof/shims/cuda_fp16.h"

namespace {

using executor_kernels::Dims;
using tileproof::cpu::last_error;
using tileproof::cpu::Schedule;

constexpr int kOrders[] = {TILEPROOF_FORWARD, TILEPROOF_REVERSE, TILEPROOF_SHUFFLED};

template <typename T>
std::vector<T> iota(std::size_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T{});
  return values;
}

bool mentions(const char* text) { return std::string(last_error()).find(text) != std::string::npos; }

// ---- barriers ----

TEST(Executor, BarriersMakeABlockSumInEveryOrder) {
  for (const int order : kOrders) {
    for (const unsigned threads : {1U, 2U, 32U, 256U}) {
      const Schedule schedule(order, order, 5);
      const auto in = iota<float>(std::size_t{3} * threads);
      std::vector<float> dynamic(3), fixed(3), expected(3);
      for (std::size_t i = 0; i < in.size(); ++i) expected[i / threads] += in[i];
      EXPECT_EQ(executor_kernels::block_sum(in.data(), dynamic.data(), 3, threads), 0);
      EXPECT_EQ(executor_kernels::block_sum_static(in.data(), fixed.data(), 3, threads), 0);
      EXPECT_EQ(dynamic, expected) << threads << " threads, order " << order;
      EXPECT_EQ(fixed, expected) << threads << " threads, order " << order;
    }
  }
}

TEST(Executor, ABlockOf1024ThreadsPassesBarriersAgainAndAgain) {
  const auto in = iota<float>(1024);
  for (int i = 0; i < 20; ++i) {
    float sum = 0;
    ASSERT_EQ(executor_kernels::block_sum(in.data(), &sum, 1, 1024), 0);
    ASSERT_EQ(sum, 1023.0F * 512.0F);
  }
}

TEST(Executor, ThreadsThatReturnedCountAsArrived) {
  for (const int order : kOrders) {
    for (const unsigned threads : {2U, 33U, 100U}) {
      const Schedule schedule(order, order, 3);
      std::vector<int> out(threads, -1);
      EXPECT_EQ(executor_kernels::exit_before_barrier(out.data(), threads), 0);
      for (unsigned i = 0; i < threads; ++i) {
        EXPECT_EQ(out[i], i % 2 == 1 ? -1 : static_cast<int>(threads - i));
      }
    }
  }
}

// ---- orders ----

TEST(Executor, ARaceShowsInForwardAgainstReverseAndABarrierHealsIt) {
  const auto run = [](int order, bool with_barrier) {
    const Schedule schedule(order, order);
    auto data = iota<float>(64);
    EXPECT_EQ(executor_kernels::reverse_in_place(data.data(), 64, with_barrier), 0);
    return data;
  };
  auto reversed = iota<float>(64);
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_NE(run(TILEPROOF_FORWARD, false), run(TILEPROOF_REVERSE, false));
  EXPECT_EQ(run(TILEPROOF_FORWARD, true), reversed);
  EXPECT_EQ(run(TILEPROOF_REVERSE, true), reversed);
}

std::vector<unsigned> logged(Dims grid, Dims block, unsigned segments, bool warp = false) {
  const unsigned threads = grid.x * grid.y * grid.z * block.x * block.y * block.z;
  std::vector<unsigned> log(std::size_t{threads} * segments);
  unsigned length = 0;
  EXPECT_EQ(executor_kernels::log_order(log.data(), &length, grid, block, segments, warp), 0);
  EXPECT_EQ(length, log.size());
  return log;
}

TEST(Executor, ThreadsAndBlocksRunInTheScheduledOrder) {
  const Dims grid{2, 3, 2};
  const Dims block{4, 2, 2};
  auto expected = iota<unsigned>(192);
  EXPECT_EQ(logged(grid, block, 1), expected);
  {
    const Schedule schedule(TILEPROOF_REVERSE, TILEPROOF_REVERSE);
    std::reverse(expected.begin(), expected.end());
    EXPECT_EQ(logged(grid, block, 1), expected);
  }
  const Schedule schedule(TILEPROOF_SHUFFLED, TILEPROOF_SHUFFLED, 1);
  auto shuffled = logged(grid, block, 1);
  EXPECT_EQ(shuffled, logged(grid, block, 1));
  {
    const Schedule other(TILEPROOF_SHUFFLED, TILEPROOF_SHUFFLED, 2);
    EXPECT_NE(shuffled, logged(grid, block, 1));
  }
  EXPECT_EQ(shuffled, logged(grid, block, 1)) << "the outer schedule is back";
  EXPECT_FALSE(std::is_sorted(shuffled.begin(), shuffled.end()));
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, iota<unsigned>(192));
}

TEST(Executor, TheOrderHoldsAfterEveryBarrier) {
  for (const int order : kOrders) {
    const Schedule schedule(order, TILEPROOF_FORWARD, 9);
    const auto log = logged({}, {40, 2, 1}, 4);
    for (std::size_t i = 80; i < log.size(); ++i) {
      ASSERT_EQ(log[i], log[i - 80]) << "order " << order;
    }
  }
}

TEST(Executor, AWarpGoesOnInOrderBeforeLaterWarps) {
  const auto forward = logged({}, {64, 1, 1}, 3, true);
  for (unsigned i = 0; i < 192; ++i) {
    ASSERT_EQ(forward[i], i / 96 * 32 + i % 32);
  }
  const Schedule schedule(TILEPROOF_REVERSE, TILEPROOF_FORWARD);
  auto reverse = logged({}, {64, 1, 1}, 3, true);
  std::reverse(reverse.begin(), reverse.end());
  EXPECT_EQ(reverse, forward);
  const Schedule shuffled(TILEPROOF_SHUFFLED, TILEPROOF_FORWARD, 6);
  const auto log = logged({}, {32, 1, 1}, 3, true);
  for (std::size_t i = 32; i < log.size(); ++i) {
    ASSERT_EQ(log[i], log[i - 32]);
  }
}

TEST(Executor, IndicesCoverGridAndBlock) {
  std::vector<unsigned> ids(720);
  ASSERT_EQ(executor_kernels::thread_ids(ids.data(), {2, 3, 4}, {5, 3, 2}), 0);
  for (unsigned i = 0; i < ids.size(); ++i) {
    const unsigned t = i % 30;
    const unsigned b = i / 30;
    ASSERT_EQ(ids[i], t % 5 + 10 * (t / 5 % 3) + 100 * (t / 15) + 1000 * (b % 2 + 10 * (b / 2 % 3) + 100 * (b / 6)));
  }
}

// ---- warps ----

TEST(Executor, ShufflesMoveValuesBetweenLanes) {
  for (const int order : kOrders) {
    const Schedule schedule(order, order, 11);
    std::vector<int> out(512);
    ASSERT_EQ(executor_kernels::shuffles(out.data(), 64), 0);
    for (int i = 0; i < 64; ++i) {
      const int lane = i % 32;
      const int expected[] = {5,
                              lane / 4 * 4 + 1,
                              lane ^ 1,
                              lane ^ 16,
                              lane + 2 < 32 ? lane + 2 : lane,
                              lane % 8 + 2 < 8 ? lane + 2 : lane,
                              lane >= 3 ? lane - 3 : lane,
                              lane % 8 >= 3 ? lane - 3 : lane};
      for (int k = 0; k < 8; ++k) {
        ASSERT_EQ(out[8 * i + k], 100 + expected[k]) << "thread " << i << ", shuffle " << k;
      }
    }
  }
}

TEST(Executor, VotesCountTheLanesOfTheMask) {
  std::vector<unsigned> out(128);
  std::vector<std::uint64_t> wide(32);
  ASSERT_EQ(executor_kernels::votes(out.data(), wide.data()), 0);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[4 * lane], 0x49249249U);
    EXPECT_EQ(out[4 * lane + 1], 1U);
    EXPECT_EQ(out[4 * lane + 2], 1U);
    EXPECT_EQ(out[4 * lane + 3], 0U);
    EXPECT_EQ(wide[lane], 0x1f00000001ULL);
  }
}

TEST(Executor, PartOfAWarpWorksTogetherWhileTheRestWaits) {
  for (const int order : kOrders) {
    const Schedule schedule(order, order, 2);
    std::vector<int> out(32);
    ASSERT_EQ(executor_kernels::odd_lanes_sum(out.data()), 0);
    for (int i = 0; i < 32; ++i) {
      EXPECT_EQ(out[static_cast<std::size_t>(i)], i % 2 == 1 ? 256 : i);
    }
  }
}

TEST(Executor, WarpsAndBarriersTogetherForEveryNumberOfWarps) {
  for (const int order : kOrders) {
    for (const unsigned warps : {1U, 2U, 4U, 8U, 32U}) {
      const Schedule schedule(order, order, 8);
      const int threads = static_cast<int>(warps) * 32;
      std::vector<int> out(static_cast<std::size_t>(threads));
      ASSERT_EQ(executor_kernels::warp_sum(out.data(), warps * 32), 0);
      EXPECT_EQ(out, std::vector<int>(out.size(), threads * (threads - 1) / 2)) << warps << " warps, order " << order;
    }
  }
}

TEST(Executor, ALaneThatReturnedGivesAllBitsSet) {
  std::vector<unsigned> out(32, 5);
  ASSERT_EQ(executor_kernels::shuffle_from_returned(out.data()), 0);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(out[i], i % 2 == 1 ? 5U : 0xffffffffU);
  }
}

// ---- errors ----

TEST(Executor, ADeadlockIsReportedAndTheNextLaunchIsWhole) {
  for (const int order : kOrders) {
    const Schedule schedule(order, order, 4);
    std::vector<int> out(64, 0);
    for (int i = 0; i < 300; ++i) {  // a stack lost each time would be noticed
      EXPECT_EQ(executor_kernels::mismatched(out.data(), 64), cudaErrorLaunchFailure);
      EXPECT_TRUE(mentions("deadlock in block (")) << last_error();
      EXPECT_TRUE(mentions("mask 0xffffffff")) << last_error();
      EXPECT_TRUE(mentions("2 threads wait at __syncthreads")) << last_error();
      EXPECT_EQ(out, std::vector<int>(64, 0));
      ASSERT_EQ(executor_kernels::warp_sum(out.data(), 64), 0);
      EXPECT_EQ(out, std::vector<int>(64, 2016));
      std::fill(out.begin(), out.end(), 0);
    }
  }
}

TEST(Executor, AMaskWithoutItsCallerIsReported) {
  std::vector<int> out(32, 0);
  EXPECT_EQ(executor_kernels::outside_mask(out.data()), cudaErrorLaunchFailure);
  EXPECT_TRUE(mentions("thread 1 calls a warp operation whose mask 0x00000001 leaves it out")) << last_error();
}

TEST(Executor, LimitsOfCudaAreErrorsByName) {
  struct Bad {
    Dims grid, block;
    std::size_t shared;
    const char* text;
  };
  const Bad bad[] = {{{0, 1, 1}, {}, 0, "a dimension is 0"},           {{}, {1, 0, 1}, 0, "a dimension is 0"},
                     {{0x80000000U, 1, 1}, {}, 0, "the grid exceeds"}, {{1, 65536, 1}, {}, 0, "the grid exceeds"},
                     {{1, 1, 65536}, {}, 0, "the grid exceeds"},       {{}, {1025, 1, 1}, 0, "the block exceeds"},
                     {{}, {1, 1, 65}, 0, "the block exceeds"},         {{}, {32, 33, 1}, 0, "more than 1024 threads"},
                     {{}, {}, 227 * 1024 + 1, "dynamic shared memory"}};
  for (const Bad& b : bad) {
    EXPECT_EQ(executor_kernels::configuration(b.grid, b.block, b.shared), cudaErrorInvalidConfiguration) << b.text;
    EXPECT_TRUE(mentions(b.text)) << last_error();
    EXPECT_EQ(std::string(cudaGetErrorString(cudaErrorInvalidConfiguration)), last_error());
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error is reported once";
  }
  EXPECT_EQ(executor_kernels::configuration({1, 65535, 1}, {}, 0), 0);
  EXPECT_EQ(executor_kernels::configuration({}, {32, 32, 1}, 232448), 0);
  EXPECT_EQ(executor_kernels::configuration({}, {2, 2, 64}, 0), 0);
}

// ---- memory and arithmetic ----

TEST(Executor, AtomicsLoseNothing) {
  std::vector<int> words(8, 0);
  float total = 0;
  ASSERT_EQ(executor_kernels::atomics(words.data(), &total, 5, 40), 0);
  EXPECT_EQ(words, (std::vector<int>{400, 199, -199, 7, 200, 0, 0, 0}));
  EXPECT_EQ(total, 100.0F);
}

TEST(Executor, SmallTypesAndVectorsReachTheKernel) {
  std::vector<std::uint16_t> half = {0x3c00, 0xc000, 0x0001};
  std::vector<std::uint16_t> bf16 = {0x3f80, 0xc000, 0x0001};
  alignas(16) float four[12];
  std::iota(std::begin(four), std::end(four), 0.0F);
  ASSERT_EQ(executor_kernels::elements(half.data(), bf16.data(), four, 3), 0);
  EXPECT_EQ(half, (std::vector<std::uint16_t>{0x4000, 0xc400, 0x0002}));
  EXPECT_EQ(bf16, (std::vector<std::uint16_t>{0x4000, 0xc080, 0x0002}));
  for (int i = 0; i < 12; ++i) EXPECT_EQ(four[i], static_cast<float>((i | 3) - i % 4));
}

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// Ours against Eigen's on one float: the same bits, or both NaN.
void expect_rounds_as_eigen(float value) {
  const std::uint16_t half = __half_as_ushort(__float2half_rn(value));
  const std::uint16_t bf16 = __bfloat16_as_ushort(__float2bfloat16_rn(value));
  if (std::isnan(value)) {
    ASSERT_EQ(half, 0x7fff);
    ASSERT_EQ(bf16, 0x7fff);
  } else {
    ASSERT_EQ(half, Eigen::half(value).x) << std::hexfloat << value;
    ASSERT_EQ(bf16, Eigen::bfloat16(value).value) << std::hexfloat << value;
  }
}

TEST(SmallTypes, Every16BitValueComesBackAndMeansWhatEigenSays) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto raw = static_cast<std::uint16_t>(bits);
    const float half = __half2float(__ushort_as_half(raw));
    const float bf16 = __bfloat162float(__ushort_as_bfloat16(raw));
    const auto eigen_half = static_cast<float>(Eigen::half(Eigen::half_impl::raw_uint16_to_half(raw)));
    const auto eigen_bf16 = static_cast<float>(Eigen::bfloat16(Eigen::bfloat16_impl::raw_uint16_to_bfloat16(raw)));
    ASSERT_EQ(std::isnan(half), std::isnan(eigen_half));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(bf16), std::bit_cast<std::uint32_t>(eigen_bf16));
    if (!std::isnan(half)) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(half), std::bit_cast<std::uint32_t>(eigen_half));
      ASSERT_EQ(__half_as_ushort(__float2half_rn(half)), raw);
    }
    if (!std::isnan(bf16)) {
      ASSERT_EQ(__bfloat16_as_ushort(__float2bfloat16_rn(bf16)), raw);
    }
  }
}

TEST(SmallTypes, TiesAndTheirNeighboursRoundToEven) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = std::bit_cast<std::uint32_t>(__half2float(__ushort_as_half(static_cast<std::uint16_t>(bits))));
    for (const std::uint32_t around : {bits << 16 | 0x8000U, half + 0x1000U, half + 0x800U}) {
      for (const std::uint32_t step : {0U, 1U, 0xffffffffU}) {
        expect_rounds_as_eigen(from_bits(around + step));
      }
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 1000000; ++i) {
    expect_rounds_as_eigen(from_bits(static_cast<std::uint32_t>(random())));
  }
}

// ---- stacks ----

TEST(Executor, OnlyThreadsThatWaitGetStacksOfTheirOwn) {
#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
  GTEST_SKIP() << "clang and AddressSanitizer move locals, so that addresses do not tell one stack from another";
#endif
  const auto stacks = [](bool wait) {
    std::vector<std::uint64_t> where(256);
    EXPECT_EQ(executor_kernels::stack_addresses(where.data(), 4, 64, wait), 0);
    return std::set<std::uint64_t>(where.begin(), where.end()).size();
  };
  EXPECT_EQ(stacks(false), 1U);
  EXPECT_EQ(stacks(true), 64U) << "and blocks use the same ones";
}

}  // namespace
