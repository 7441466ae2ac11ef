// Bad usage and bad input: exit status 2, one line that says what was given and what was expected, nothing on standard
// output and no file left behind.
#include <gtest/gtest.h>

#include "expect.h"

namespace tileproof::e2e {
namespace {

struct Bad {
  const char* name;
  std::vector<std::string> arguments;  // %D: the test's own directory
  std::vector<std::string> parts;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class BadInput : public ::testing::TestWithParam<Bad> {};

constexpr char kProblem[] = "mla_rope_q_fwd dtype=f32 layout=sbhd seq=2 batch=1 nope_dim=0 emb_dim=4 data=normal:1";

std::string with(const std::string& more) { return std::string(kProblem) + more; }

std::string expanded(const std::string& word, const TemporaryDirectory& directory) {
  std::string result = word;
  for (std::size_t at = result.find("%D"); at != std::string::npos; at = result.find("%D")) {
    result.replace(at, 2, directory.path());
  }
  return result;
}

TEST_P(BadInput, IsRefusedInOneLine) {
  const TemporaryDirectory directory;
  directory.write("regular", "# a file with no case\n");
  using namespace std::string_literals;
  directory.write("garbage", "\x7f\x45LF\x02\x01\0\0\x1b[31m\xff\xfe"s);
  directory.write("nul", "# fine\n" + with(" head_num=3 | block_h=2\n") + std::string("mla_rope\0q", 10));
  directory.write("bad_line", "# fine\n\n" + with(" head_num=3 | block_h=2\n") + with(" head_num=0 | block_h=2\n"));
  directory.write("long_line", std::string(100'000, 'x') + "\n");
  const std::vector<std::string> before = directory.names();
  Start start;
  for (const std::string& argument : GetParam().arguments) {
    start.arguments.push_back(expanded(argument, directory));
  }
  const Outcome outcome = run(start);
  std::vector<std::string> parts;
  for (const std::string& part : GetParam().parts) {
    parts.push_back(expanded(part, directory));
  }
  expect_refusal(outcome, 2, parts);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(directory.names(), before) << "something was left behind";
}

INSTANTIATE_TEST_SUITE_P(
    Usage, BadInput,
    ::testing::Values(Bad{"no_command",
                          {},
                          {"no command", "check, fuzz, replay, minimize, explain, compare, exposure, list", "--help"}},
                      Bad{"unknown_command", {"chek"}, {"'chek'", "expected one of check", "--help"}},
                      Bad{"empty_command", {""}, {"''", "expected one of check"}},
                      Bad{"unknown_option", {"check", "--tiem", "3s"}, {"--tiem", "tileproof check --help"}},
                      Bad{"option_twice", {"check", "--seed", "1", "--seed", "2"}, {"--seed", "At Most 1"}},
                      Bad{"value_missing", {"check", "--seed"}, {"--seed"}},
                      Bad{"list_of_what", {"list", "kernels"}, {"kernels", "subjects"}},
                      Bad{"device", {"check", "--device", "tpu"}, {"tpu", "cuda"}},
                      Bad{"replay_nothing", {"replay"}, {"CASE"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Numbers, BadInput,
    ::testing::Values(Bad{"time_0", {"check", "--time", "0"}, {"--time '0'", "above 0"}},
                      Bad{"time_negative", {"check", "--time", "-5s"}, {"--time '-5s'", "above 0"}},
                      Bad{"time_nonsense", {"check", "--time", "soon"}, {"--time 'soon'", "30s"}},
                      Bad{"time_unit", {"check", "--time", "3weeks"}, {"--time '3weeks'", "30s"}},
                      Bad{"time_1e99", {"check", "--time", "1e99"}, {"--time '1e99'", "1000h"}},
                      Bad{"time_1e999", {"check", "--time", "1e999"}, {"--time '1e999'", "1000h"}},
                      Bad{"time_nan", {"check", "--time", "nan"}, {"--time 'nan'"}},
                      Bad{"time_inf", {"check", "--time", "inf"}, {"--time 'inf'"}},
                      Bad{"time_empty", {"check", "--time", ""}, {"--time ''"}},
                      Bad{"time_and_cases", {"check", "--time", "5s", "--cases", "5"}, {"--time '5s'", "--cases '5'"}},
                      Bad{"timeout", {"check", "--timeout", "0s"}, {"--timeout '0s'"}},
                      Bad{"cases_0", {"check", "--cases", "0"}, {"--cases '0'", "1.."}},
                      Bad{"cases_negative", {"check", "--cases", "-1"}, {"--cases '-1'"}},
                      Bad{"jobs_0", {"check", "--jobs", "0"}, {"--jobs '0'", "1..1024"}},
                      Bad{"jobs_many", {"check", "--jobs", "5000"}, {"--jobs '5000'", "1..1024"}},
                      Bad{"seed_nonsense", {"check", "--seed", "lucky"}, {"--seed 'lucky'", "whole number"}},
                      Bad{"seed_negative", {"check", "--seed", "-1"}, {"--seed '-1'"}},
                      Bad{"seed_large", {"check", "--seed", "18446744073709551616"}, {"18446744073709551615"}},
                      Bad{"bench_time", {"bench", "--time", "x"}, {"--time 'x'"}},
                      Bad{"bench_jobs", {"bench", "--jobs", "0"}, {"--jobs '0'"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Campaigns, BadInput,
    ::testing::Values(Bad{"no_directory", {"fuzz"}, {"--dir"}},
                      Bad{"time", {"fuzz", "--dir", "%D/new", "--time", "0"}, {"--time '0'"}},
                      Bad{"jobs", {"fuzz", "--dir", "%D/new", "--jobs", "0"}, {"--jobs '0'"}},
                      Bad{"seed", {"fuzz", "--dir", "%D/new", "--seed", "x"}, {"--seed 'x'"}},
                      Bad{"sanitize", {"fuzz", "--dir", "%D/new", "--sanitize", "x"}, {"--sanitize 'x'"}},
                      Bad{"timeout", {"fuzz", "--dir", "%D/new", "--timeout", "x"}, {"--timeout 'x'"}},
                      Bad{"subject", {"fuzz", "gpu/*", "--dir", "%D/new"}, {"'gpu/*'"}},
                      Bad{"property", {"fuzz", "--dir", "%D/new", "--property", "orakle"}, {"'orakle'"}},
                      Bad{"a_file", {"fuzz", "--dir", "%D/regular"}, {"%D/regular", "no directory"}},
                      Bad{"in_a_file", {"fuzz", "--dir", "%D/regular/new"}, {"%D/regular/new", "cannot be written"}},
                      Bad{"other_things", {"fuzz", "--dir", "%D"}, {"%D", "other things"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Names, BadInput,
    ::testing::Values(
        Bad{"subject", {"check", "gpu/*"}, {"no subject matches 'gpu/*'", "list subjects"}},
        Bad{"one_subject_of_two", {"check", "cpu/*", "nothing*"}, {"'nothing*'"}},
        Bad{"property", {"check", "--property", "orakle"}, {"no property matches 'orakle'", "list properties"}},
        Bad{"replay_subject",
            {"replay", with(" head_num=3 | block_h=2"), "--subject", "cpu/nothing"},
            {"'cpu/nothing'", "mla_rope_q_fwd"}},
        Bad{"replay_subject_of_another_operation",
            {"replay", with(" head_num=3 | block_h=2"), "--subject", "cpu/mla_rope_q_bwd"},
            {"'cpu/mla_rope_q_bwd'", "expected one that implements mla_rope_q_fwd"}},
        Bad{"replay_property",
            {"replay", with(" head_num=3 | block_h=2"), "--property", "x"},
            {"no property matches 'x'"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Cases, BadInput,
    ::testing::Values(
        Bad{"operation", {"replay", "mla_rope_r_fwd dtype=f32 | block_h=1"}, {"'mla_rope_r_fwd'", "mla_rope_q_fwd"}},
        Bad{"neither_file_nor_case", {"replay", "no/such.cases"}, {"'no/such.cases'", "no file", "case"}},
        Bad{"empty", {"replay", ""}, {"no file"}},
        Bad{"key", {"replay", with(" heads=3 | block_h=2")}, {"'heads'", "head_num", "column"}},
        Bad{"value", {"replay", with(" head_num=three | block_h=2")}, {"'head_num'", "'three'", "1..256"}},
        Bad{"key_twice", {"replay", with(" head_num=3 head_num=3 | block_h=2")}, {"'head_num'", "twice"}},
        Bad{"key_missing", {"replay", with(" | block_h=2")}, {"'head_num' is missing"}},
        Bad{"head_num_0", {"replay", with(" head_num=0 | block_h=2")}, {"'head_num'", "'0'", "1..256"}},
        Bad{"block_h_0", {"replay", with(" head_num=3 | block_h=0")}, {"'block_h'", "'0'", "1..256"}},
        Bad{"tiling_missing", {"replay", with(" head_num=3")}, {"tiling"}},
        Bad{"outside_limits", {"replay", with(" head_num=3 | block_h=2 num_warps=3")}, {"num_warps in 1,2,4,8"}},
        Bad{"number_overflows", {"replay", with(" head_num=99999999999999999999 | block_h=2")}, {"'head_num'"}},
        Bad{"shape_overflows",
            {"replay",
             "mla_rope_q_fwd dtype=f32 layout=sbhd seq=1048576 batch=4096 head_num=256 nope_dim=4096 emb_dim=1024 "
             "data=normal:1 | block_h=1"},
            {"elements", "at most", "smaller shapes"}},
        Bad{"shape_too_large",
            {"replay",
             "mla_rope_q_fwd dtype=f32 layout=sbhd seq=4096 batch=1 head_num=128 nope_dim=128 emb_dim=64 "
             "data=normal:1 | block_h=1"},
            {"elements", "expected at most 33554432"}},
        Bad{"pads_too_large",
            {"replay", with(" head_num=256 pad_head=1048576 pad_seq=1048576 | block_h=1")},
            {"q spans", "expected at most 1073741824"}},
        Bad{"line_too_long", {"replay", with(" head_num=" + std::string(100'000, '9') + " | block_h=2")}, {"head_num"}},
        Bad{"control_characters", {"replay", with(" head_num=\x1b[31m | block_h=2")}, {"'head_num'", "?[31m"}},
        Bad{"two_lines", {"replay", with(" head_num=3 | block_h=2\nx")}, {"block_h"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Files, BadInput,
    ::testing::Values(
        Bad{"corpus_missing", {"check", "--corpus", "%D/none"}, {"%D/none", "No such file"}},
        Bad{"corpus_directory", {"check", "--corpus", "%D"}, {"a directory", "one case a line"}},
        Bad{"corpus_device", {"check", "--corpus", "/dev/zero"}, {"a device"}},
        Bad{"corpus_unreadable", {"check", "--corpus", "/proc/self/mem"}, {"/proc/self/mem"}},
        Bad{"corpus_without_case", {"check", "--corpus", "%D/regular"}, {"holds no case"}},
        Bad{"corpus_garbage", {"check", "--corpus", "%D/garbage"}, {"garbage:1: column 5", "0x02", "text"}},
        Bad{"corpus_nul", {"check", "--corpus", "%D/nul"}, {"nul:3: column 9", "0x00"}},
        Bad{"corpus_bad_line", {"check", "--corpus", "%D/bad_line"}, {"bad_line:4: ", "'head_num'", "'0'"}},
        Bad{"corpus_long_line", {"check", "--corpus", "%D/long_line"}, {"long_line:1: ", "longer than 65536"}},
        Bad{"replay_directory", {"replay", "%D"}, {"a directory"}},
        Bad{"replay_bad_line", {"replay", "%D/bad_line"}, {"bad_line:4: "}},
        Bad{"json_no_directory", {"check", "--json", "%D/none/x.json"}, {"--json '", "No such file or directory"}},
        Bad{"json_below_a_file", {"check", "--json", "%D/regular/x.json"}, {"--json '", "Not a directory"}},
        Bad{"json_a_directory", {"check", "--json", "%D"}, {"--json '", "a directory"}},
        Bad{"json_in_proc", {"check", "--json", "/proc/x.json"}, {"--json '/proc/x.json'"}},
        Bad{"json_empty", {"check", "--json", ""}, {"--json ''", "empty"}},
        Bad{"junit_below_a_file", {"check", "--junit", "%D/regular/x.xml"}, {"--junit '", "Not a directory"}},
        Bad{"junit_is_json", {"check", "--junit", "%D/x", "--json", "%D/x"}, {"two different files"}},
        Bad{"bench_json", {"bench", "--json", "%D/regular/x.json"}, {"--json '", "Not a directory"}}),
    [](const auto& info) { return info.param.name; });

// What is no fault of the kernel is no pass either.
TEST(NothingJudged, IsBadInput) {
  const Outcome outcome =
      tileproof({"check", "cpu/mla_rope_q_fwd", "--property", "outputs_written", "--cases", "3", "--seed", "1"});
  expect_refusal(outcome, 2, {"no property judged any case", "no pass"});
  EXPECT_NE(outcome.out.find("nothing judged"), std::string::npos) << outcome.out;
}

// A machine that cannot give what a case needs has judged nothing, and says what it could not give.
TEST(NothingJudged, SaysWhyTheCaseWasRefused) {
  const Outcome outcome =
      tileproof({"replay",
                 "mla_rope_q_fwd dtype=f32 layout=sbhd seq=64 batch=64 head_num=256 nope_dim=0 emb_dim=4 inverse=0 "
                 "remove_interleaving=0 sparse=head:33 data=normal:1 | block_h=4"});
  expect_refusal(outcome, 2, {"no property judged any case"});
  EXPECT_NE(outcome.out.find("refused, first because: cannot reserve"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace tileproof::e2e
