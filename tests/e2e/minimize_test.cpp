// The minimal case of every shipped fault, the command that finds it, and the test that it leaves behind.
#include <sys/wait.h>

#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "expect.h"
#include "process.h"

namespace tileproof::e2e {
namespace {

using nlohmann::json;

constexpr char kFault[] = "cpu/mla_rope_q_fwd@head_mask_q_fwd";
constexpr char kLarge[] =
    "mla_rope_q_fwd dtype=bf16 layout=thd seqlens=27,27,45 head_num=24 nope_dim=16 emb_dim=64 inverse=1 "
    "remove_interleaving=0 cp=1/2 data=normal:7 | block_h=16 ; block_h=5";
constexpr char kSmallest[] =
    "mla_rope_q_fwd dtype=f32 layout=sbhd seq=1 batch=1 head_num=3 nope_dim=0 emb_dim=4 inverse=0 "
    "remove_interleaving=0 data=exact:0 | block_h=2";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Known {
  const char* fault;
  const char* property;
  const char* minimal;
};

void PrintTo(const Known& known, std::ostream* out) { *out << known.fault; }

// By the first property that each patch names. Recorded, and each held against its patch: none smaller
// can show the fault.
const Known kKnown[] = {
    {"q_fwd@cp_floor_q_fwd", "oracle",
     "thd seqlens=2 head_num=1 nope_dim=0 emb_dim=4 inverse=0 remove_interleaving=0 cp=1/2 | block_h=1"},
    {"kv_split_fwd@cp_half_kv_fwd", "oracle",
     "thd seqlens=4 head_num=1 k_dim=0 v_dim=0 emb_dim=4 remove_interleaving=0 cp=0/2 | block_h=1"},
    {"kv_split_bwd@demb_accumulated", "outputs_written",
     "sbhd seq=1 batch=1 head_num=1 k_dim=0 v_dim=0 emb_dim=4 remove_interleaving=0 | block_h=1"},
    {"q_fwd@head_mask_all", "guards",
     "sbhd seq=1 batch=1 head_num=3 nope_dim=0 emb_dim=4 inverse=0 remove_interleaving=0 | block_h=2"},
    {"q_bwd@head_mask_all", "guards",
     "sbhd seq=1 batch=1 head_num=3 nope_dim=0 emb_dim=4 inverse=0 remove_interleaving=0 | block_h=2"},
    {"kv_split_fwd@head_mask_all", "guards",
     "sbhd seq=1 batch=1 head_num=3 k_dim=0 v_dim=0 emb_dim=4 remove_interleaving=0 | block_h=2"},
    {"kv_split_bwd@head_mask_all", "guards",
     "sbhd seq=1 batch=1 head_num=3 k_dim=0 v_dim=1 emb_dim=4 remove_interleaving=0 | block_h=2"},
    {"kv_split_bwd@head_mask_kv_bwd_copy", "guards",
     "sbhd seq=1 batch=1 head_num=3 k_dim=0 v_dim=1 emb_dim=4 remove_interleaving=0 | block_h=2"},
    {"kv_split_bwd@head_mask_kv_bwd_demb", "oracle",
     "sbhd seq=1 batch=1 head_num=3 k_dim=0 v_dim=0 emb_dim=4 remove_interleaving=0 | block_h=2"},
    {"kv_split_fwd@head_mask_kv_fwd", "guards",
     "sbhd seq=1 batch=1 head_num=3 k_dim=0 v_dim=0 emb_dim=4 remove_interleaving=0 | block_h=2"},
    {"q_bwd@head_mask_q_bwd", "guards",
     "sbhd seq=1 batch=1 head_num=3 nope_dim=0 emb_dim=4 inverse=0 remove_interleaving=0 | block_h=2"},
    {"q_fwd@head_mask_q_fwd", "guards",
     "sbhd seq=1 batch=1 head_num=3 nope_dim=0 emb_dim=4 inverse=0 remove_interleaving=0 | block_h=2"},
    {"q_bwd@missing_barrier_q_bwd", "schedule_invariance",
     "sbhd seq=1 batch=1 head_num=1 nope_dim=0 emb_dim=12 inverse=0 remove_interleaving=0 | block_h=1"},
    {"q_fwd@missing_barrier_q_fwd", "schedule_invariance",
     "sbhd seq=1 batch=1 head_num=1 nope_dim=0 emb_dim=12 inverse=0 remove_interleaving=0 | block_h=1"},
    {"q_fwd@offset32_q_fwd", "launch_valid",
     "sbhd seq=2 batch=1 head_num=1 nope_dim=0 emb_dim=4 inverse=0 remove_interleaving=0 sparse=token:31 | block_h=1"},
    {"q_bwd@sin_sign_q_bwd", "oracle",
     "sbhd seq=1 batch=1 head_num=1 nope_dim=0 emb_dim=4 inverse=0 remove_interleaving=0 | block_h=1"},
    {"kv_split_fwd@stride_of_key_for_value", "guards",
     "sbhd seq=1 batch=1 head_num=2 k_dim=0 v_dim=1 emb_dim=4 remove_interleaving=0 | block_h=2"},
    {"concat_fwd@unwritten_half_concat_fwd", "outputs_written",
     "sbhd seq=1 batch=1 head_num=1 nope_dim=0 emb_dim=4 | block_h=1"},
    {"kv_split_bwd@unwritten_row_kv_bwd", "outputs_written",
     "sbhd seq=1 batch=1 head_num=1 k_dim=0 v_dim=1 emb_dim=4 remove_interleaving=0 | block_h=1"},
};

class MinimalCase : public ::testing::TestWithParam<Known> {};

std::string line_of(const Known& known) {
  const std::string fault = known.fault;
  std::string line = known.minimal;
  line.replace(line.find(" | "), 0, " data=exact:0");
  return fmt::format("mla_rope_{} dtype=f32 layout={}", fault.substr(0, fault.find('@')), line);
}

TEST_P(MinimalCase, OfEveryFaultIsAtTheEndOfACheck) {
  const std::string subject = fmt::format("cpu/mla_rope_{}", GetParam().fault);
  const Outcome outcome = tileproof({"check", subject, "--property", GetParam().property, "--cases", "400", "--seed",
                                     "1", "--json", "-", "--minimize-time", "60s"});
  ASSERT_EQ(outcome.status, 1) << outcome.err;
  bool found = false;
  const json document = json::parse(outcome.out);
  for (const json& finding : document.at("subjects")[0].at("findings")) {
    ASSERT_TRUE(finding.contains("minimal")) << finding.dump(1);
    const json& minimal = finding.at("minimal");
    EXPECT_TRUE(minimal.at("complete")) << finding.dump(1);
    EXPECT_EQ(minimal.at("failures"), minimal.at("launches"));
    EXPECT_TRUE(contains(minimal.at("replay"), minimal.at("case").get<std::string>()));
    found = found || minimal.at("case") == line_of(GetParam());
  }
  EXPECT_TRUE(found) << line_of(GetParam()) << "\n" << outcome.out;
  const Outcome replayed = tileproof({"replay", line_of(GetParam()), "--subject", subject});
  EXPECT_EQ(replayed.status, 1) << replayed.out << replayed.err;
}

INSTANTIATE_TEST_SUITE_P(, MinimalCase, ::testing::ValuesIn(kKnown), [](const auto& info) {
  std::string name = info.param.fault;
  name[name.find('@')] = '_';
  return name;
});

TEST(Minimize, ShowsTheCaseTheMapThePredictionAndTheReplayLine) {
  const Outcome outcome = tileproof({"minimize", kLarge, "--subject", kFault, "--property", "guards"});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* part :
       {"guards/q/after/overrun\n", "\n  token 0    ...\n  token 1    #  (past the last)\n",
        "changed past the heads: 1 rows; cdiv(3 heads, block_h=2) * 2 - 3 = 1\n", "minimal: no simpler step fails"}) {
    EXPECT_TRUE(contains(outcome.out, part)) << part << "\n" << outcome.out;
  }
  EXPECT_TRUE(contains(outcome.out, fmt::format("\n{}\n", kSmallest))) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, fmt::format("\ntileproof replay '{}' --subject {}\n", kSmallest, kFault)))
      << outcome.out;
}

TEST(Minimize, SaysHowAWrongValueCameAbout) {
  const Outcome outcome = tileproof({"minimize", kLarge, "--subject", kFault, "--property", "oracle"});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "it was changed twice, the second time as q[token=0, head=0] would be\n"))
      << outcome.out;
}

TEST(Minimize, SaysWhereNothingWasWritten) {
  constexpr char kRows[] =
      "mla_rope_kv_split_bwd dtype=f32 layout=sbhd seq=2 batch=1 head_num=2 k_dim=4 v_dim=4 "
      "emb_dim=8 remove_interleaving=0 data=exact:0 | block_h=2";
  const Outcome rows = tileproof(
      {"minimize", kRows, "--subject", "cpu/mla_rope_kv_split_bwd@unwritten_row_kv_bwd", "--property", "oracle"});
  EXPECT_TRUE(contains(rows.out, "a column per head; o was not written:\n  token 0    o\n")) << rows.out;
  EXPECT_TRUE(contains(rows.out, "1 of 1 wrong elements hold what was there before the launch")) << rows.out;
  // A row that was written in part.
  constexpr char kHalves[] =
      "mla_rope_concat_fwd dtype=f32 layout=sbhd seq=1 batch=1 head_num=1 nope_dim=0 emb_dim=8 data=exact:0 | "
      "block_h=1";
  const Outcome halves = tileproof(
      {"minimize", kHalves, "--subject", "cpu/mla_rope_concat_fwd@unwritten_half_concat_fwd", "--property", "oracle"});
  EXPECT_TRUE(contains(halves.out, "a column per head; x misses the reference:\n  token 0    x\n")) << halves.out;
  EXPECT_TRUE(contains(halves.out, "2 of 4 wrong elements hold what was there before the launch")) << halves.out;
  const Outcome written = tileproof({"minimize", kSmallest, "--subject", kFault, "--property", "guards"});
  EXPECT_FALSE(contains(written.out, "nothing was written")) << written.out;
}

TEST(Minimize, SaysWhenACaseDoesNotFail) {
  const Outcome outcome = tileproof({"minimize", kLarge});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "it does not fail\n");
}

TEST(Minimize, GivesTheBestSoFarWhenTheTimeIsUp) {
  const Outcome outcome = tileproof({"minimize", kLarge, "--subject", kFault, "--time", "0.001"});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "the best so far: stopped after")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "tileproof replay '")) << outcome.out;
}

TEST(Minimize, RefusesWhatItCannotWorkOn) {
  const TemporaryDirectory directory;
  const std::string two = directory.write("two.cases", std::string(kLarge) + "\n" + kSmallest + "\n");
  expect_refusal(tileproof({"minimize", two}), 2, {"2 cases", "expected one"});
  expect_refusal(tileproof({"minimize", kLarge, "--property", "nothing"}), 2, {"'nothing'"});
  expect_refusal(tileproof({"minimize", kLarge, "--subject", "cpu/none"}), 2, {"'cpu/none'"});
  expect_refusal(tileproof({"minimize", kLarge, "--time", "soon"}), 2, {"--time", "'soon'"});
  expect_refusal(tileproof({"minimize", kLarge, "--emit-test", "pytest"}), 2, {"pytest", "gtest"});
  expect_refusal(tileproof({"minimize", kLarge, "--test-file", "x.cpp"}), 2, {"--emit-test"});
  expect_refusal(
      tileproof({"minimize", kLarge, "--subject", kFault, "--emit-test", "gtest", "--test-file", "/nowhere/x.cpp"}), 2,
      {"/nowhere/x.cpp"});
}

TEST(Minimize, ReplacesNoFileWhoseNameNobodyChose) {
  const TemporaryDirectory directory;
  const std::string mine = directory.write("mla_rope_q_fwd_regression_test.cpp", "mine\n");
  const Outcome outcome = run({.arguments = {"minimize", kLarge, "--subject", kFault, "--emit-test", "gtest"},
                               .environment = {},
                               .input = {},
                               .directory = directory.path(),
                               .program = {}});
  expect_refusal(outcome, 2, {"mla_rope_q_fwd_regression_test.cpp", "--test-file"});
  EXPECT_EQ(read_file(mine), "mine\n");
}

TEST(Check, LeavesMinimisingOutWhenAsked) {
  const Outcome outcome = tileproof({"check", kFault, "--cases", "60", "--seed", "1", "--no-minimize", "--json", "-"});
  ASSERT_EQ(outcome.status, 1) << outcome.err;
  const json document = json::parse(outcome.out);
  ASSERT_FALSE(document.at("subjects")[0].at("findings").empty());
  for (const json& finding : document.at("subjects")[0].at("findings")) {
    EXPECT_FALSE(finding.contains("minimal"));
  }
}

// The emitted file, compiled as a stranger would, against the kernel that is wrong and the one that is right.
class EmittedTest : public ::testing::Test {
 protected:
  // Exit status of the compiled test; its output goes to `output`.
  int build_and_run(const std::string& build, std::string& output) {
    const std::string program = directory_.file(build);
    const std::string compile = fmt::format(
        "{0} -std=c++17 -Wall -Wextra -Werror -DTILEPROOF_SUBJECT=tileproof_subject_mla_rope_q_fwd__{1} "
        "-DTILEPROOF_ADJOINT_SUBJECT=tileproof_subject_mla_rope_q_bwd__{1} -I'{2}' '{3}' -o '{4}' {5} > '{4}.log' 2>&1",
        TILEPROOF_CXX, build, TILEPROOF_INCLUDE, source_, program, TILEPROOF_TEST_LIBRARIES);
    EXPECT_EQ(std::system(compile.c_str()), 0) << read_file(program + ".log");
    const int status = std::system(fmt::format("'{0}' > '{0}.out' 2>&1", program).c_str());
    output = read_file(program + ".out");
    return WEXITSTATUS(status);
  }
  TemporaryDirectory directory_;
  std::string source_ = directory_.file("emitted.cpp");
};

TEST_F(EmittedTest, FailsOnTheFaultByItsPinnedTilingOnlyAndHoldsOnTheCleanKernel) {
  const Outcome outcome = tileproof({"minimize", kLarge, "--subject", "cpu/mla_rope_q_fwd@head_mask_all", "--property",
                                     "oracle", "--emit-test", "gtest", "--test-file", source_});
  ASSERT_EQ(outcome.status, 1) << outcome.err;
  std::string output;
  EXPECT_EQ(build_and_run("clean", output), 0) << output;
  EXPECT_TRUE(contains(output, "[  PASSED  ] 4 tests.")) << output;
  EXPECT_EQ(build_and_run("head_mask_all", output), 1) << output;
  for (const char* part :
       {"[  FAILED  ] Tileproof_mla_rope_q_fwd.PinnedBlockH2NumWarps4",
        "[       OK ] Tileproof_mla_rope_q_fwd.ControlBlockH1NumWarps4",
        "[  FAILED  ] Tileproof_mla_rope_q_bwd.PinnedBlockH2NumWarps4",
        "[       OK ] Tileproof_mla_rope_q_bwd.ControlBlockH1NumWarps4", "its guard changed at byte"}) {
    EXPECT_TRUE(contains(output, part)) << part << "\n" << output;
  }
}

}  // namespace
}  // namespace tileproof::e2e
