// Bad input to explain, compare and exposure: exit status 2, one line, nothing written.
#include <gtest/gtest.h>

#include "expect.h"

namespace tileproof::e2e {
namespace {

constexpr char kMask[] = "cpu/mla_rope_q_fwd@head_mask_q_fwd";
constexpr char kClean[] = "cpu/mla_rope_q_fwd";
constexpr char kCase[] =
    "mla_rope_q_fwd dtype=f32 layout=sbhd seq=2 batch=1 head_num=3 nope_dim=0 emb_dim=4 inverse=0 "
    "remove_interleaving=0 data=exact:1 | block_h=2";

struct Bad {
  const char* name;
  std::vector<std::string> arguments;  // %D: the test's own directory
  std::vector<std::string> parts;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class BadQuestion : public ::testing::TestWithParam<Bad> {};

TEST_P(BadQuestion, IsRefusedInOneLine) {
  const TemporaryDirectory directory;
  directory.write("list.json", "[1, 2]");
  directory.write("broken.json", "{\"num_attention_heads\": ");
  directory.write("words.json", R"({"num_attention_heads": "many", "qk_nope_head_dim": 16, "qk_rope_head_dim": 16})");
  const std::vector<std::string> before = directory.names();
  Start start;
  for (std::string argument : GetParam().arguments) {
    const std::size_t at = argument.find("%D");
    start.arguments.push_back(at == std::string::npos ? argument : argument.replace(at, 2, directory.path()));
  }
  const Outcome outcome = run(start);
  expect_refusal(outcome, 2, GetParam().parts);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(directory.names(), before);
}

INSTANTIATE_TEST_SUITE_P(
    Explain, BadQuestion,
    ::testing::Values(
        Bad{"no_case", {"explain"}, {"WORDS", "explain --help"}},
        Bad{"subject_twice", {"explain", kMask, kCase, "--subject", kMask}, {"expected the subject once"}},
        Bad{"subject_unknown", {"explain", "cpu/nothing", kCase}, {"'cpu/nothing'", "mla_rope_q_fwd"}},
        Bad{"property_unknown", {"explain", kMask, kCase, "--property", "orakle"}, {"'orakle'", "list properties"}},
        Bad{"hold_key", {"explain", kMask, kCase, "--hold", "warps=1"}, {"'warps=1'", "KEY=VALUE", "num_warps"}},
        Bad{"hold_value", {"explain", kMask, kCase, "--hold", "num_warps=many"}, {"'many'", "1..32"}},
        Bad{"hold_outside_limits", {"explain", kMask, kCase, "--hold", "num_warps=3"}, {"--hold", "num_warps", kMask}},
        Bad{"cases", {"explain", kMask, kCase, "--cases", "0"}, {"--cases '0'", "10.."}},
        Bad{"json", {"explain", kMask, kCase, "--json", "%D/none/x"}, {"--json '", "No such file"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Compare, BadQuestion,
    ::testing::Values(
        Bad{"one_subject", {"compare", kMask}, {"NEW", "compare --help"}},
        Bad{"unknown", {"compare", kMask, "cpu/nothing"}, {"'cpu/nothing'", "list subjects"}},
        Bad{"two_operations", {"compare", kMask, "cpu/mla_rope_q_bwd"}, {"one operation on one device"}},
        Bad{"condition_name", {"compare", kMask, kClean, "--allow", "heads > 3"}, {"column 1: 'heads'", "head_num"}},
        Bad{"condition_or", {"compare", kMask, kClean, "--allow", "seq > 1 or seq < 1"}, {"column 9: 'or'", "'and'"}},
        Bad{"condition_word",
            {"compare", kMask, kClean, "--allow", "layout == bshd"},
            {"column 11: 'bshd'", "sbhd, thd"}},
        Bad{"condition_empty", {"compare", kMask, kClean, "--allow", ""}, {"column 1: the end"}},
        Bad{"time_and_cases",
            {"compare", kMask, kClean, "--time", "1s", "--cases", "5"},
            {"--time '1s'", "--cases '5'"}},
        Bad{"case_of_another",
            {"compare", "cpu/mla_rope_q_bwd", "cpu/mla_rope_q_bwd", "--case", kCase},
            {"--case", "mla_rope_q_bwd"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Exposure, BadQuestion,
    ::testing::Values(
        Bad{"no_such_model", {"exposure", kMask, "--model", "%D/none.json"}, {"none.json", "one JSON object"}},
        Bad{"model_is_a_list", {"exposure", kMask, "--model", "%D/list.json"}, {"list.json", "one JSON object"}},
        Bad{"model_is_broken", {"exposure", kMask, "--model", "%D/broken.json"}, {"broken.json", "one JSON object"}},
        Bad{"model_with_words",
            {"exposure", kMask, "--model", "%D/words.json"},
            {"num_attention_heads=many", "1..256"}},
        Bad{"key_missing",
            {"exposure", kMask, "--config", "num_attention_heads=8"},
            {"'qk_nope_head_dim'", "nope_dim", "--set"}},
        Bad{"config_key", {"exposure", kMask, "--config", "heads=8"}, {"'heads=8'", "num_attention_heads"}},
        Bad{"set_key", {"exposure", kMask, "--set", "heads=8"}, {"'heads=8'", "head_num"}},
        Bad{"set_value", {"exposure", kMask, "--set", "head_num=0"}, {"'head_num'", "'0'", "1..256"}},
        Bad{"tp_does_not_divide",
            {"exposure", kMask, "--config", "num_attention_heads=96", "--config", "qk_nope_head_dim=8", "--config",
             "qk_rope_head_dim=8", "--tp", "7"},
            {"num_attention_heads=96", "--tp 7", "divides"}},
        Bad{"tp_without_a_model", {"exposure", kMask, "--tp", "8"}, {"without a model", "--model FILE"}},
        Bad{"tp_nonsense", {"exposure", kMask, "--set", "head_num=3", "--tp", "two"}, {"--tp 'two'"}},
        Bad{"tiling_key", {"exposure", kMask, "--tiling", "block=4"}, {"'block=4'", "block_h=N"}},
        Bad{"tiling_value", {"exposure", kMask, "--tiling", "block_h=4,x"}, {"'x'", "1..256"}},
        Bad{"tiling_empty", {"exposure", kMask, "--tiling", "block_h="}, {"at least one value"}},
        Bad{"exposure_time", {"exposure", kMask, "--time", "soon"}, {"--time", "'soon'"}},
        Bad{"tiling_outside_limits", {"exposure", kMask, "--tiling", "num_warps=3"}, {"inside the limits", kMask}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tileproof::e2e
