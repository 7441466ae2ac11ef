// What is inferred from samples whose labels are known: a condition comes back as it was, or it is said that none is
// exact.
#include <gtest/gtest.h>

#include <algorithm>

#include "execute/device.h"
#include "search/explain.h"

namespace tileproof {
namespace {

const Subject& subject() { return *find_subject("cpu/mla_rope_q_fwd"); }

// A fault that exists in the labels only.
Explanation explain_labels(const std::function<bool(const Case&)>& fails, const Case& start,
                           ExplainOptions options = {}) {
  const TryCases label = [&](std::span<const Attempts> cases) {
    std::vector<Trial> trials;
    for (const Attempts& attempts : cases) {
      trials.push_back({Trial::Outcome::holds, {}, {}});
      for (std::size_t i = 0; i < attempts.size() && trials.back().outcome == Trial::Outcome::holds; ++i) {
        if (fails(attempts[i])) {
          trials.back() = {Trial::Outcome::fails, "a/q/b/c", {}, i};
        }
      }
    }
    return trials;
  };
  const Names names(*subject().operation);
  return explain(
      names, subject(), start, label, [](const std::string&) { return true; }, options);
}

ExplainOptions with(std::uint64_t seed, std::uint64_t cases = 2000) {
  ExplainOptions options;
  options.seed = seed;
  options.cases = cases;
  return options;
}

Case start_of(const std::string& line) { return parse_case("mla_rope_q_fwd " + line); }

const char* const kStart =
    "dtype=f32 layout=thd seqlens=6 head_num=3 nope_dim=0 emb_dim=12 inverse=0 remove_interleaving=0 cp=1/2 "
    "pad_tokens=1 data=exact:1 | block_h=2 num_warps=2";

class KnownConditions : public ::testing::TestWithParam<const char*> {};

TEST_P(KnownConditions, ComeBackAsTheyWere) {
  const Names names(*subject().operation);
  const Condition truth = parse_condition(names, GetParam());
  const Case start = start_of(kStart);
  ASSERT_TRUE(holds(truth, names, start));
  const Explanation found = explain_labels([&](const Case& c) { return holds(truth, names, c); }, start);
  ASSERT_TRUE(found.separation);
  EXPECT_TRUE(found.separation->exact);
  EXPECT_EQ(text(names, found.separation->condition), text(names, truth));
  EXPECT_EQ(found.separation->inside_failing, found.failing);
  EXPECT_EQ(found.separation->inside + found.separation->outside, found.samples);
  EXPECT_EQ(found.separation->outside_failing, 0U);
}

INSTANTIATE_TEST_SUITE_P(Explain, KnownConditions,
                         ::testing::Values("always", "remove_interleaving == 0",
                                           "head_num mod block_h != 0 and head_num > block_h", "num_warps > 1",
                                           "layout == thd", "dtype == f32", "cp_size > 1", "not power_of_two(emb_dim)",
                                           "pad_tokens > 0", "position_ids == 0 and odd_local_lengths > 0",
                                           "inverse == 0 and head_num mod block_h != 0 and head_num > block_h",
                                           "emb_dim * size_of(dtype) > 32", "cp_rank > 0 and num_warps > 1"));

// What only other contents hide is no part of the condition; contents that the case needs are.
TEST(Explain, ContentsCountWhereTheyAreACauseAndNotWhereTheyHide) {
  const Names names(*subject().operation);
  const Condition seen = parse_condition(names, "head_num > 2 and tables != yarn");
  const auto seen_fails = [&](const Case& c) { return holds(seen, names, c); };
  const Explanation hidden = explain_labels(seen_fails, start_of(kStart));
  ASSERT_TRUE(hidden.separation);
  EXPECT_EQ(text(names, hidden.separation->condition), "head_num > 2");
  EXPECT_TRUE(hidden.separation->exact);
  EXPECT_GT(hidden.hidden, 10U);

  std::string special = kStart;
  special.replace(special.find("data=exact:1"), 12, "data=special:1");
  const Condition cause = parse_condition(names, "data == special and head_num > 2");
  const Explanation caused = explain_labels([&](const Case& c) { return holds(cause, names, c); }, start_of(special));
  ASSERT_TRUE(caused.separation);
  EXPECT_EQ(text(names, caused.separation->condition), "data == special and head_num > 2");
  EXPECT_TRUE(caused.separation->exact);
}

TEST(Explain, SaysWhenNoConditionIsExact) {
  const Names names(*subject().operation);
  const Case start = start_of(kStart);
  const Condition one = parse_condition(names, "head_num mod block_h != 0 and head_num > block_h and num_warps > 1");
  const Condition other = parse_condition(names, "inverse == 1 and token > 8");
  const Explanation found =
      explain_labels([&](const Case& c) { return holds(one, names, c) || holds(other, names, c); }, start);
  ASSERT_TRUE(found.separation);
  EXPECT_FALSE(found.separation->exact);
  EXPECT_EQ(text(names, found, "fail").rfind("no condition of at most 3 terms is exact; the best: fails when ", 0), 0U)
      << text(names, found, "fail");
  EXPECT_TRUE(found.failing_outside || found.holding_inside) << "an exception is shown";
  EXPECT_LT(found.separation->inside_failing + found.separation->outside - found.separation->outside_failing,
            found.samples);
}

TEST(Explain, SameSeedSameWordsOtherSeedOtherSamples) {
  const Names names(*subject().operation);
  const Condition truth = parse_condition(names, "head_num mod block_h != 0 and head_num > block_h");
  const auto fails = [&](const Case& c) { return holds(truth, names, c); };
  const Case start = start_of(kStart);
  const std::string first = text(names, explain_labels(fails, start, with(7)), "fail");
  EXPECT_EQ(first, text(names, explain_labels(fails, start, with(7)), "fail"));
  const std::string second = text(names, explain_labels(fails, start, with(8)), "fail");
  EXPECT_NE(first, second) << "the counts are those of other samples";
  EXPECT_EQ(first.substr(0, first.find(':')), second.substr(0, second.find(':'))) << "but the condition is the same";
}

TEST(Explain, WhatIsHeldHasItsValueInEverySample) {
  const Case start = start_of(kStart);
  ExplainOptions options;
  options.held = {parse_held(*subject().operation, "num_warps=1"), parse_held(*subject().operation, "layout=sbhd")};
  std::uint64_t tried = 0;
  const Explanation found = explain_labels(
      [&](const Case& c) {
        ++tried;
        EXPECT_EQ(c.problem.choice("layout"), "sbhd");
        EXPECT_EQ(tiling_value(*subject().operation, c.tilings.front(), "num_warps"), 1);
        return false;
      },
      start, options);
  EXPECT_GT(tried, 500U);
  EXPECT_FALSE(found.separation);
  EXPECT_EQ(found.failing, 0U);
  EXPECT_EQ(text(Names(*subject().operation), found, "fail"),
            "0 of " + std::to_string(found.samples) + " sampled fail");
}

TEST(Explain, StaysWithinItsNumberOfCases) {
  std::uint64_t labelled = 0;
  const Explanation found = explain_labels([&](const Case& c) { return ++labelled, c.problem.flag("inverse"); },
                                           start_of(kStart), with(1, 100));
  EXPECT_LE(found.samples, 100U);
}

TEST(Explain, HoldRefusesWhatIsNoKeyOrNoValue) {
  const Operation& operation = *subject().operation;
  for (const char* text : {"num_warps", "warps=1", "num_warps=x", "num_warps=0", "layout=tdh", "=1", ""}) {
    EXPECT_THROW(parse_held(operation, text), InputError) << text;
  }
}

}  // namespace
}  // namespace tileproof
