// explain, compare and exposure as a user runs them: exit status, condition, replay line, documents.
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "expect.h"
#include "process.h"

namespace tileproof::e2e {
namespace {

using nlohmann::json;

constexpr char kMask[] = "cpu/mla_rope_q_fwd@head_mask_q_fwd";
constexpr char kRace[] = "cpu/mla_rope_q_fwd@missing_barrier_q_fwd";
constexpr char kClean[] = "cpu/mla_rope_q_fwd";
constexpr char kMaskCondition[] = "head_num mod block_h != 0 and head_num > block_h";
constexpr char kMaskCase[] =
    "mla_rope_q_fwd dtype=bf16 layout=thd seqlens=5,9 head_num=12 nope_dim=4 emb_dim=32 inverse=1 "
    "remove_interleaving=1 "
    "pad_head=3 data=normal:4 | block_h=8 num_warps=2 ; block_h=4";
constexpr char kRaceCase[] =
    "mla_rope_q_fwd dtype=f32 layout=sbhd seq=2 batch=2 head_num=3 nope_dim=4 emb_dim=64 inverse=0 "
    "remove_interleaving=0 data=normal:4 | block_h=4 ; block_h=2";

constexpr char kFarCase[] =
    "mla_rope_q_fwd dtype=bf16 layout=sbhd seq=3 batch=1 head_num=2 nope_dim=4 emb_dim=8 inverse=0 "
    "remove_interleaving=0 sparse=token:31 data=normal:1 | block_h=2";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The last line that holds `start`, from there on, as words of a shell.
std::vector<std::string> command_in(const std::string& text, const std::string& start) {
  const std::size_t at = text.rfind(start);
  EXPECT_NE(at, std::string::npos) << text;
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : text.substr(at, text.find('\n', at) - at)) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back().push_back(c);
    }
  }
  words.erase(words.begin());  // tileproof
  return words;
}

TEST(Explain, GivesTheConditionItsCountsAndALineThatReplays) {
  const Outcome outcome = tileproof({"explain", kMask, kMaskCase, "--property", "guards"});
  ASSERT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(contains(outcome.out, std::string("\nfails when ") + kMaskCondition + ": ")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "sampled; otherwise 0 of ")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "head_num=3 nope_dim=0 emb_dim=4")) << "minimal: " << outcome.out;
  EXPECT_EQ(tileproof(command_in(outcome.out, "tileproof replay ")).status, 1);
}

TEST(Explain, TakesTheWordsOfAReplayLineAndFindsTheProperty) {
  const Outcome outcome = tileproof({"explain", kRaceCase, "--subject", kRace});
  ASSERT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "fails when remove_interleaving == 0 and emb_dim * size_of(dtype) > 32: "))
      << outcome.out;
}

TEST(Explain, SameSeedSameWordsOnAnyNumberOfJobs) {
  const std::vector<std::string> words{"explain", kMask, kMaskCase, "--property", "guards", "--seed", "5", "--jobs"};
  std::vector<std::string> one = words;
  std::vector<std::string> three = words;
  one.emplace_back("1");
  three.emplace_back("3");
  EXPECT_EQ(tileproof(one).out, tileproof(three).out);
}

TEST(Explain, ACauseThatIsHeldAwayDoesNotFail) {
  const Outcome held = tileproof({"explain", kMask, kMaskCase, "--property", "guards", "--hold", "block_h=1"});
  EXPECT_EQ(held.status, 0) << held.out << held.err;
  EXPECT_TRUE(contains(held.out, "\n0 of ")) << held.out;
  const Outcome still = tileproof({"explain", kMask, kMaskCase, "--property", "guards", "--hold", "num_warps=1"});
  EXPECT_EQ(still.status, 1) << still.out << still.err;
  EXPECT_TRUE(contains(still.out, kMaskCondition)) << still.out;
}

TEST(Explain, ACrashIsExplainedToo) {
  const Outcome outcome = tileproof({"explain", "cpu/mla_rope_q_fwd@offset32_q_fwd", kFarCase});
  ASSERT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "fails when (token - 1) * q.token_stride >= 2^31: ")) << outcome.out;
}

TEST(Explain, RefusesWhatDoesNotFail) {
  expect_refusal(tileproof({"explain", kClean, kMaskCase}), 2, {"does not fail", kClean, "tileproof check"});
  expect_refusal(tileproof({"explain", kMask, kMaskCase, "--property", "inputs_preserved"}), 2, {"does not fail"});
}

TEST(Compare, AFixChangesNothingThatWorked) {
  const Outcome outcome = tileproof({"compare", kMask, kClean, "--cases", "400"});
  ASSERT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(contains(outcome.out, "identical, guards included, in ")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, std::string("\ndiffers when ") + kMaskCondition + ": ")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "sampled; otherwise 0 of ")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "\nidentical wherever head_num mod block_h == 0 or head_num <= block_h: "))
      << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "head_num=3 nope_dim=0 emb_dim=4")) << "minimal: " << outcome.out;
  EXPECT_EQ(tileproof(command_in(outcome.out, "tileproof compare ")).status, 1) << outcome.out;
}

TEST(Compare, AllowDecidesTheExitStatus) {
  const auto with = [](const char* condition) {
    return tileproof({"compare", kMask, kClean, "--cases", "200", "--allow", condition});
  };
  EXPECT_EQ(with("head_num % block_h != 0").status, 0);
  EXPECT_EQ(with("always").status, 0);
  const Outcome outside = with("head_num % block_h != 0 and layout == sbhd");
  EXPECT_EQ(outside.status, 1) << outside.out;
  EXPECT_TRUE(contains(outside.out, "smallest outside: compare/q/")) << outside.out;
}

TEST(Compare, ASubjectIsIdenticalToItself) {
  const Outcome outcome = tileproof({"compare", kMask, kMask, "--cases", "200"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "in 200 of 200 cases; different in 0")) << outcome.out;
}

TEST(Compare, ACrashOfOneIsADifference) {
  const Outcome outcome = tileproof({"compare", "cpu/mla_rope_q_fwd@offset32_q_fwd", kClean, "--case", kFarCase});
  EXPECT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "the old one ended its process with SIGSEGV, the other did not")) << outcome.out;
}

constexpr char kConfig[] =
    R"({"architectures": ["X"], "num_attention_heads": 96, "qk_nope_head_dim": 32, "qk_rope_head_dim": 64,
        "v_head_dim": 16, "torch_dtype": "bfloat16", "rope_scaling": {"factor": 40}})";

TEST(Exposure, TellsWhichShapesAModelReachesAndWhichBlocksAreSafe) {
  const TemporaryDirectory directory;
  const std::string model = directory.write("config.json", kConfig);
  const Outcome outcome = tileproof(
      {"exposure", kMask, "--model", model, "--tp", "2,8", "--set", "layout=sbhd", "--tiling", "block_h=4,8,16,32"});
  ASSERT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "live: 2 of 2 shapes")) << outcome.out;
  const std::size_t first = outcome.out.find("tp 2: head_num=48 nope_dim=32 emb_dim=64");
  const std::size_t second = outcome.out.find("tp 8: head_num=12 nope_dim=32 emb_dim=64");
  ASSERT_TRUE(first != std::string::npos && second != std::string::npos) << outcome.out;
  const auto cells = [&](std::size_t at) {
    std::istringstream words(outcome.out.substr(at, outcome.out.find('\n', at) - at));
    std::vector<std::string> result;
    for (std::string word; words >> word;) {
      result.push_back(word);
    }
    return std::vector<std::string>(result.end() - 4, result.end());
  };
  EXPECT_EQ(cells(first), (std::vector<std::string>{"ok", "ok", "ok", "FAIL"})) << outcome.out;   // 48 in blocks of 32
  EXPECT_EQ(cells(second), (std::vector<std::string>{"ok", "FAIL", "ok", "ok"})) << outcome.out;  // 12 in blocks of 8
  EXPECT_TRUE(contains(outcome.out, "\n  safe: block_h=4; block_h=16\n")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "\n  not safe: block_h=8; block_h=32\n")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "shipped recipes (corpus/models.cases): 1 of 5 shapes fail")) << outcome.out;
  EXPECT_EQ(tileproof(command_in(outcome.out, "tileproof replay ")).status, 1);
}

TEST(Exposure, ALatentFaultIsNotLive) {
  const Outcome outcome =
      tileproof({"exposure", kMask, "--config", "num_attention_heads=128", "--config", "qk_nope_head_dim=16",
                 "--config", "qk_rope_head_dim=16", "--tp", "4,8,16", "--cp", "2", "--set", "layout=thd"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "none of the model's 3 shapes fails under these tilings")) << outcome.out;
}

TEST(Exposure, WhatTheTimeWasTooShortForIsNoPass) {
  const Outcome outcome = tileproof({"exposure", kMask, "--set", "head_num=4", "--set", "nope_dim=8", "--set",
                                     "emb_dim=8", "--tiling", "block_h=2", "--time", "1ms"});
  EXPECT_EQ(outcome.status, 2) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "?")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "safe: none\n  not safe: none\n  not judged to the end: block_h=2\n"))
      << outcome.out;
  EXPECT_TRUE(contains(outcome.err, "the time was up before ")) << outcome.err;
}

TEST(Exposure, WithoutAModelTheShippedRecipesDecide) {
  EXPECT_EQ(tileproof({"exposure", "cpu/mla_rope_q_bwd"}).status, 0);
  EXPECT_EQ(tileproof({"exposure", "cpu/mla_rope_q_bwd@head_mask_q_bwd"}).status, 1);
}

}  // namespace
}  // namespace tileproof::e2e
