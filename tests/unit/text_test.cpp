#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "generate/rapidcheck.h"

namespace tileproof {
namespace {

class Text : public ::testing::Test {};

const char kDesignLine[] =
    "mla_rope_q_fwd dtype=bf16 layout=thd seqlens=27,27,45,29 head_num=12 nope_dim=128 emb_dim=64 inverse=0 "
    "remove_interleaving=1 cp=1/2 pad_seq=3 data=exact:7 | block_h=8 num_warps=1 ; block_h=4";

TEST_F(Text, TheCanonicalLineOfTheDesignIsItsOwnText) { EXPECT_EQ(text(parse_case(kDesignLine)), kDesignLine); }

RC_GTEST_FIXTURE_PROP(Text, CaseToTextToCaseIsTheIdentity, ()) {
  const Case c = *arbitrary_case();
  RC_ASSERT(parse_case(text(c)) == c);
}

RC_GTEST_FIXTURE_PROP(Text, TextToCaseToTextIsTheIdentityOnCanonicalLines, ()) {
  const std::string line = text(*arbitrary_case());
  RC_ASSERT(text(parse_case(line)) == line);
}

// One damaged character never crashes the parser: the line is a case (whose text parses again) or an InputError.
RC_GTEST_FIXTURE_PROP(Text, ADamagedLineIsACaseOrAClearRefusal, ()) {
  std::string line = text(*arbitrary_case());
  const auto at = *rc::gen::inRange<std::size_t>(0, line.size());
  line[at] = *rc::gen::inRange<char>(32, 127);
  try {
    const Case c = parse_case(line);
    RC_ASSERT(parse_case(text(c)) == c);
  } catch (const InputError& error) {
    RC_ASSERT(std::string(error.what()).find('\n') == std::string::npos);
  }
}

struct BadLine {
  const char* from;  // replaced in the design line
  const char* to;
  std::vector<std::string> said;
};

void PrintTo(const BadLine& bad, std::ostream* out) { *out << '"' << bad.to << '"'; }

class BadLines : public ::testing::TestWithParam<BadLine> {};

TEST_P(BadLines, AreRefusedWithKeyValueExpectationAndPlace) {
  std::string line = kDesignLine;
  const std::string from = GetParam().from;
  line.replace(line.find(from), from.size(), GetParam().to);
  try {
    parse_case(line);
    FAIL() << "accepted: " << line;
  } catch (const InputError& error) {
    for (const std::string& part : GetParam().said) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadLines,
    ::testing::Values(BadLine{"head_num=12", "head_num=0", {"head_num", "'0'", "1..256", "column 58"}},
                      BadLine{"head_num=12", "head_num=twelve", {"head_num", "'twelve'", "whole number"}},
                      BadLine{"head_num=12", "heads=12", {"'heads'", "'12'", "expected one of", "head_num"}},
                      BadLine{"head_num=12", "head_num=12 head_num=12", {"head_num", "twice", "column 70"}},
                      BadLine{" head_num=12", "", {"head_num", "missing"}},
                      BadLine{"head_num=12", "head_num", {"KEY=VALUE", "column 58"}},
                      BadLine{"dtype=bf16", "dtype=f64", {"dtype", "'f64'", "f32, f16, bf16", "column 16"}},
                      BadLine{"cp=1/2", "cp=2/2", {"'cp'", "'2/2'", "0 <= A < B"}},
                      BadLine{"seqlens=27,27,45,29", "seqlens=27,,29", {"seqlens", "'27,,29'"}},
                      BadLine{"emb_dim=64", "emb_dim=62", {"emb_dim", "'62'", "multiple of 4"}},
                      BadLine{"data=exact:7", "data=exact", {"data", "'exact'", "exact, normal"}},
                      BadLine{"data=exact:7", "data=exact:-1", {"data", "'exact:-1'"}},
                      BadLine{"layout=thd", "layout=sbhd", {"seqlens", "does not apply"}},
                      BadLine{"block_h=8", "block_h=0", {"block_h", "'0'", "1..256"}},
                      BadLine{"block_h=8", "block_w=8", {"'block_w'", "tiling", "block_h, num_warps, threads, blocks"}},
                      BadLine{"block_h=4",
                              "block_h=4 threads=shuffled:1 blocks=shuffled:2",
                              {"'blocks'", "'shuffled:2'", "shuffled:1", "one seed"}},
                      BadLine{"| block_h=8 num_warps=1 ; block_h=4", "", {"expected '|'"}},
                      BadLine{"; block_h=4", "; ", {"tiling is missing"}},
                      BadLine{"; block_h=4", "| block_h=4", {"'|' given", "expected ';'"}},
                      BadLine{"mla_rope_q_fwd", "mla_rope", {"'mla_rope'", "unknown", "mla_rope_q_fwd"}}));

TEST_F(Text, AnEmptyLineIsRefused) { EXPECT_THROW(parse_case("  "), InputError); }

}  // namespace
}  // namespace tileproof
