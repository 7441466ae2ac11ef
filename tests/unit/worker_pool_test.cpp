// Workers of several lanes lose exactly the unit that costs them, and nothing else.
#include "search/worker_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <new>
#include <thread>
#include <vector>

namespace tileproof {
namespace {

constexpr std::uint64_t kUnits = 200;
constexpr std::uint64_t kBatch = 8;
constexpr int kLanes = 4;

// Shared with the workers.
struct Shared {
  std::atomic<std::uint64_t> next{0};
  std::atomic<int> deaths{0};
  std::array<std::atomic<int>, kUnits> recorded{};
};

[[noreturn]] void wait_to_be_killed() {
  for (;;) {
    pause();
  }
}

class Pool : public ::testing::Test {
 protected:
  Pool() {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (memory) Shared;
  }
  ~Pool() override { munmap(shared_, sizeof(Shared)); }

  // `launch(slot, first, last)`: what happens while those units are in flight.
  template <typename Launch>
  void run(int workers, Launch launch, double timeout_seconds = 60) {
    PoolCallbacks callbacks;
    callbacks.work = [&](const WorkerSide& side) {
      for (const Range& range : side.suspects) {
        units(*side.alone, range.from, range.to, 1, launch);
      }
      side.alone->stage = side.suspects.empty() ? 0 : 3;
      std::vector<std::thread> threads;
      for (Slot& slot : side.lanes) {
        threads.emplace_back([&] {
          units(slot, slot.unit, slot.claimed_to, kBatch, launch);
          for (std::uint64_t from = 0; (from = shared_->next.fetch_add(kBatch)) < kUnits;) {
            units(slot, from, std::min(from + kBatch, kUnits), kBatch, launch);
          }
        });
      }
      for (std::thread& thread : threads) {
        thread.join();
      }
    };
    callbacks.message = [](const std::string&) {};
    callbacks.death = [this](const Death& death) { deaths_.push_back(death); };
    callbacks.tick = [] {};
    callbacks.stop = [] { return false; };
    run_pool(workers, kLanes, timeout_seconds, callbacks);
  }

  template <typename Launch>
  void units(Slot& slot, std::uint64_t from, std::uint64_t to, std::uint64_t batch, Launch launch) {
    slot.unit = from;
    slot.claimed_to = to;
    for (; from < to; from = slot.batch_to) {
      slot.batch_to = std::min(from + batch, to);
      slot.since_ns = steady_ns();
      slot.stage = 2;
      launch(slot, from, slot.batch_to - 1);
      for (std::uint64_t unit = from; unit < slot.batch_to; ++unit) {
        ++shared_->recorded[unit];
        slot.unit = unit + 1;
      }
      slot.stage = 0;
    }
  }

  void expect_all_recorded_but(const std::vector<std::uint64_t>& lost) const {
    for (std::uint64_t unit = 0; unit < kUnits; ++unit) {
      const bool is_lost = std::find(lost.begin(), lost.end(), unit) != lost.end();
      // Recording and moving on are two steps: a worker that dies between them leaves a unit that is done again.
      EXPECT_TRUE(is_lost ? shared_->recorded[unit] == 0 : shared_->recorded[unit] >= 1) << unit;
    }
  }

  Shared* shared_;
  std::vector<Death> deaths_;
};

TEST_F(Pool, AUnitThatCostsTheWorkerIsNamedAndNothingElseIsLost) {
  run(2, [](Slot& slot, std::uint64_t first, std::uint64_t last) {
    for (const std::uint64_t bad : {17, 18, 101}) {
      if (first <= bad && bad <= last) {
        end_with_lost_device(slot, "cudaErrorIllegalAddress");
      }
    }
  });
  ASSERT_EQ(deaths_.size(), 3U);
  std::vector<std::uint64_t> lost;
  for (const Death& death : deaths_) {
    lost.push_back(death.unit);
    EXPECT_EQ(death.how, "cudaErrorIllegalAddress");
    EXPECT_EQ(death.in_flight, 1U);
    EXPECT_TRUE(death.inside_launch);
  }
  std::sort(lost.begin(), lost.end());
  EXPECT_EQ(lost, (std::vector<std::uint64_t>{17, 18, 101}));
  expect_all_recorded_but(lost);
}

// What is late waits for ever here, until it is killed.
TEST_F(Pool, AHangIsNamedAndNothingElseIsLost) {
  const auto launch = [](Slot&, std::uint64_t first, std::uint64_t last) {
    if (first <= 101 && 101 <= last) {
      wait_to_be_killed();
    }
  };
  run(1, launch, 1);
  ASSERT_EQ(deaths_.size(), 1U);
  EXPECT_EQ(deaths_[0].how, "timeout");
  EXPECT_EQ(deaths_[0].unit, 101U);
  EXPECT_EQ(deaths_[0].in_flight, 1U);
  expect_all_recorded_but({101});
}

TEST_F(Pool, UnitsThatAreOnlySlowTogetherAreNoDeath) {
  const auto launch = [](Slot&, std::uint64_t first, std::uint64_t last) {
    if (first <= 60 && 60 <= last && first != last) {
      wait_to_be_killed();
    }
  };
  run(1, launch, 1);
  EXPECT_TRUE(deaths_.empty());
  expect_all_recorded_but({});
}

TEST_F(Pool, AWorkerKilledFromOutsideIsOneDeathAndLosesNoUnit) {
  run(1, [this](Slot&, std::uint64_t first, std::uint64_t) {
    if (first >= 40 && shared_->deaths.fetch_add(1) == 0) {
      kill(getpid(), SIGKILL);
    }
  });
  ASSERT_EQ(deaths_.size(), 1U);
  EXPECT_EQ(deaths_[0].how, "SIGKILL");
  EXPECT_GE(deaths_[0].in_flight, kBatch);
  expect_all_recorded_but({});
}

}  // namespace
}  // namespace tileproof
