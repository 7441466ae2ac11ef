// Every planted race, bounds, lane and barrier fault is reported by its property, with the line that does it.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "sanitize/clock.h"
#include "sanitize/shadow.h"
#include "search/check.h"

namespace tileproof {
namespace {

struct Planted {
  const char* subject;
  const char* property;
  const char* tensor;
  const char* where;  // of one of its findings
  std::uint64_t cases = 150;
};

constexpr Planted kPlanted[] = {
    // races: in place, through shared memory, and between blocks
    {"mla_rope_q_fwd@missing_barrier_q_fwd", "race_free", "q", "q_fwd.cu:35+q_fwd.cu:39"},
    {"mla_rope_q_bwd@missing_barrier_q_bwd", "race_free", "dq", "q_bwd.cu:36+q_bwd.cu:41"},
    {"mla_rope_kv_split_bwd@missing_barrier_kv_bwd", "race_free", "shared", "kv_split_bwd.cu:34+kv_split_bwd.cu:53"},
    {"mla_rope_kv_split_fwd@head_mask_kv_fwd", "race_free", "key", "kv_split_fwd.cu:43+kv_split_fwd.cu:44"},
    {"mla_rope_kv_split_fwd@head_mask_kv_fwd", "single_writer", "key", "kv_split_fwd.cu:43+kv_split_fwd.cu:44"},
    {"mla_rope_q_fwd@head_mask_q_fwd", "single_writer", "q", "q_fwd.cu:41+q_fwd.cu:41"},
    {"mla_rope_kv_split_bwd@head_mask_kv_bwd_copy", "single_writer", "dkv", "kv_split_bwd.cu:75+kv_split_bwd.cu:75"},
    // bounds: the head mask, the padded half, the stride of another tensor
    {"mla_rope_q_fwd@head_mask_q_fwd", "memory_safe", "q", "q_fwd.cu:35"},
    {"mla_rope_q_bwd@head_mask_q_bwd", "memory_safe", "dq", "q_bwd.cu:36"},
    {"mla_rope_kv_split_fwd@head_mask_kv_fwd", "memory_safe", "kv", "kv_split_fwd.cu:43"},
    {"mla_rope_kv_split_bwd@head_mask_kv_bwd_copy", "memory_safe", "dkey", "kv_split_bwd.cu:75"},
    {"mla_rope_kv_split_bwd@head_mask_kv_bwd_demb", "memory_safe", "dkey", "kv_split_bwd.cu:53"},
    {"mla_rope_q_fwd@padded_half", "memory_safe", "cos", "q_fwd.cu:28"},
    {"mla_rope_q_bwd@padded_half", "memory_safe", "cos", "q_bwd.cu:28"},
    {"mla_rope_concat_fwd@padded_half", "memory_safe", "out", "concat_fwd.cu:41"},
    {"mla_rope_kv_split_fwd@stride_of_key_for_value", "memory_safe", "value", "kv_split_fwd.cu:45"},
    {"mla_rope_q_fwd@offset32_q_fwd", "memory_safe", "q", "q_fwd.cu:36", 600},
    // lanes without a value, and outputs that nobody wrote
    {"mla_rope_q_bwd@masked_lane", "initialized", "dq", "q_bwd.cu:44"},
    {"mla_rope_kv_split_bwd@masked_lane", "initialized", "demb", "kv_split_bwd.cu:63"},
    {"mla_rope_concat_fwd@masked_lane", "initialized", "out", "concat_fwd.cu:42"},
    {"mla_rope_kv_split_bwd@demb_accumulated", "initialized", "demb", "kv_split_bwd.cu:58"},
    // barriers and warp operations in divergent flow
    {"mla_rope_q_fwd@divergent_barrier", "barriers", "", "q_fwd.cu:39"},
    {"mla_rope_q_bwd@divergent_barrier", "barriers", "", "q_bwd.cu:41"},
    {"mla_rope_kv_split_bwd@divergent_barrier", "barriers", "", "kv_split_bwd.cu:56"},
    {"mla_rope_concat_fwd@divergent_shuffle", "barriers", "", "concat_fwd.cu:36"},
    {"mla_rope_kv_split_fwd@divergent_shuffle", "barriers", "", "kv_split_fwd.cu:37"},
    {"mla_rope_concat_bwd@divergent_shuffle", "barriers", "", "concat_bwd.cu:36"},
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.subject << " " << planted.property; }

class PlantedFaults : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedFaults, AreReportedWithTheirLines) {
  const Planted& planted = GetParam();
  CheckOptions options;
  options.subjects = {find_subject(fmt::format("cpu/{}", planted.subject))};
  ASSERT_NE(options.subjects.front(), nullptr);
  options.properties = matching_properties({planted.property});
  options.seed = 1;
  options.cases = planted.cases;
  options.sanitize_every = 1;
  const CheckReport report = run_check(options);
  std::string all;
  bool found = false;
  for (const Finding& finding : report.subjects.front().findings) {
    const std::string start = fmt::format("{}/{}/{}/", planted.property, planted.tensor, planted.where);
    found = found || finding.signature.compare(0, start.size(), start) == 0;
    all += finding.signature + "\n";
  }
  EXPECT_TRUE(found) << "expected " << planted.where << ", found\n" << all;
}

INSTANTIATE_TEST_SUITE_P(All, PlantedFaults, ::testing::ValuesIn(kPlanted));

TEST(TheSanitizingBuild, IsRunOnAShareOfTheCasesAndOnAllOfTheCorpus) {
  CheckOptions options;
  options.subjects = {find_subject("cpu/mla_rope_q_fwd")};
  options.properties = matching_properties({"race_free", "launch_valid"});
  options.seed = 1;
  options.cases = 16;
  options.corpus = {
      parse_case("mla_rope_q_fwd dtype=f32 layout=sbhd seq=3 batch=1 head_num=4 nope_dim=8 emb_dim=8 "
                 "inverse=0 remove_interleaving=0 data=normal:1 | block_h=4")};
  const std::pair<std::uint64_t, std::uint64_t> shares[] = {{0, 0}, {1, 17}, {4, 5}, {8, 3}};
  for (const auto& [every, judged] : shares) {
    options.sanitize_every = every;
    const CheckReport report = run_check(options);
    const Tally& race_free = report.subjects.front().tallies[1];
    EXPECT_EQ(race_free.cases, judged) << every;
    EXPECT_EQ(race_free.not_applicable, 17 - judged) << every;
    EXPECT_EQ(report.subjects.front().tallies[0].cases, 17U);
    EXPECT_EQ(report.sanitize_every, every);
  }
}

using sanitize::Clock;

TEST(TheClock, OrdersByBarriersAndByWarpsThatWaited) {
  auto clock = std::make_unique<Clock>();
  clock->begin_launch();
  clock->begin_block();
  const sanitize::Tick before = clock->now;
  EXPECT_TRUE(clock->ordered(before, 5, 5)) << "a thread and itself";
  EXPECT_FALSE(clock->ordered(before, 5, 6));
  clock->sync_warp(0, 0x60);  // lanes 5 and 6
  EXPECT_TRUE(clock->ordered(before, 5, 6));
  EXPECT_FALSE(clock->ordered(before, 5, 7)) << "lane 7 did not wait";
  EXPECT_FALSE(clock->ordered(clock->now, 5, 6)) << "what comes after it";
  clock->sync_warp(0, 0xc0);  // lanes 6 and 7: 7 knows of 5 through 6
  EXPECT_TRUE(clock->ordered(before, 5, 7));
  EXPECT_FALSE(clock->ordered(before, 5, 40)) << "another warp";
  clock->pass_barrier();
  EXPECT_TRUE(clock->ordered(before, 5, 40));
  clock->begin_block();
  EXPECT_FALSE(clock->ordered(before, 5, 5)) << "the same index in another block";
}

TEST(TheClock, OrdersBlocksByAFenceAndAnAtomic) {
  auto clock = std::make_unique<Clock>();
  int counter = 0;
  clock->begin_launch();
  clock->begin_block();
  const sanitize::Tick fenced = clock->now;
  clock->fence(3);
  clock->atomic(3, &counter);
  const sanitize::Tick later = clock->now;
  clock->begin_block();
  EXPECT_FALSE(clock->ordered(fenced, 3, 0));
  clock->atomic(0, &counter);
  EXPECT_TRUE(clock->ordered(fenced, 3, 0));
  EXPECT_FALSE(clock->ordered(fenced, 4, 0)) << "a thread whose stores no fence covers";
  EXPECT_FALSE(clock->ordered(later, 3, 0)) << "what came after the fence";
  EXPECT_FALSE(clock->ordered(fenced, 3, 1)) << "a thread that took over nothing";
  clock->pass_barrier();
  EXPECT_TRUE(clock->ordered(fenced, 3, 1)) << "until the block has waited";
}

// Ticks run out in the middle of a launch: nothing may be forgotten, and nothing invented.
TEST(TheClock, StartsAnewWithinALaunch) {
  auto clock = std::make_unique<Clock>();
  clock->begin_launch();
  clock->begin_block();
  clock->begin_block();
  clock->restart();
  EXPECT_FALSE(clock->ordered(1, 0, 0)) << "an earlier block";
  EXPECT_TRUE(clock->ordered(2, 7, 0)) << "this block, before";
  EXPECT_FALSE(clock->ordered(clock->now, 7, 0));
  EXPECT_GE(1U, clock->launch_first) << "tick 1 is of this launch";
}

}  // namespace
}  // namespace tileproof
