// The little language of conditions: what it reads, refuses, prints and means.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "execute/device.h"
#include "generate/rapidcheck.h"
#include "search/condition.h"
#include "search/features.h"

namespace tileproof {
namespace {

const Operation& operation() { return *find_operation("mla_rope_q_fwd"); }

Case a_case(const std::string& more, const std::string& tilings = "block_h=8") {
  return parse_case("mla_rope_q_fwd dtype=f32 nope_dim=16 emb_dim=64 data=exact:1 " + more + " | " + tilings);
}

bool holds_on(const std::string& condition, const Case& c) {
  const Names names(c.problem.operation());
  return holds(parse_condition(names, condition), names, c);
}

struct Meaning {
  const char* condition;
  bool sbhd;  // on head_num 12, seq 3, batch 1, block_h 8
  bool thd;   // on head_num 16, seqlens 6,0,3, cp 1/2, pad_tokens 2, block_h 8
};

class Meanings : public ::testing::TestWithParam<Meaning> {};

TEST_P(Meanings, HoldWhereTheyShould) {
  const Case sbhd = a_case("layout=sbhd seq=3 batch=1 head_num=12 inverse=0 remove_interleaving=0");
  const Case thd = a_case(
      "layout=thd seqlens=6,0,3 head_num=16 inverse=1 remove_interleaving=0 cp=1/2 pad_tokens=2 pad_head=8,0,0,0,0");
  EXPECT_EQ(holds_on(GetParam().condition, sbhd), GetParam().sbhd) << GetParam().condition;
  EXPECT_EQ(holds_on(GetParam().condition, thd), GetParam().thd) << GetParam().condition;
}

INSTANTIATE_TEST_SUITE_P(
    Conditions, Meanings,
    ::testing::Values(
        Meaning{"always", true, true}, Meaning{"head_num % block_h != 0 and head_num > block_h", true, false},
        Meaning{"head_num mod block_h == 0", false, true}, Meaning{"layout == thd", false, true},
        Meaning{"layout != thd", true, false}, Meaning{"cp_size > 1", false, true},
        Meaning{"2 * cp_rank + 1 != cp_size", false, true}, Meaning{"cp_rank + 1 == cp_size", false, true},
        Meaning{"min(seqlens) == 0", false, true}, Meaning{"count(seqlens) >= 3", false, true},
        Meaning{"odd_local_lengths > 0", false, true}, Meaning{"longest_local_length == 3", false, true},
        Meaning{"power_of_two(head_num)", false, true}, Meaning{"not power_of_two(head_num)", true, false},
        Meaning{"inverse", false, true}, Meaning{"not inverse", true, false},
        Meaning{"nope_dim + emb_dim == 80", true, true}, Meaning{"emb_dim * size_of(dtype) > 255", true, true},
        Meaning{"emb_dim * (size_of(dtype) + 1) == 320", true, true}, Meaning{"max(pad_head) > 0", false, true},
        Meaning{"q.head_stride > 80", false, true}, Meaning{"(token - 1) * q.token_stride >= 2^31", false, false},
        Meaning{"min(head_num, block_h) == 8", true, true}, Meaning{"seq > 0", true, false},
        Meaning{"seq <= 0", false, false}, Meaning{"data == exact and broadcast == none", true, true},
        Meaning{"head_num mod (block_h - 8) == 0", false, false}));

TEST(Condition, HoldsWhenSomeTilingDoes) {
  const std::string problem = "layout=sbhd seq=1 batch=1 head_num=12 inverse=0 remove_interleaving=0";
  EXPECT_TRUE(holds_on("head_num % block_h != 0 and head_num > block_h", a_case(problem, "block_h=4 ; block_h=8")));
  // One tiling must fulfil every term.
  EXPECT_FALSE(holds_on("block_h == 4 and num_warps == 8", a_case(problem, "block_h=4 ; block_h=8 num_warps=8")));
}

struct Wrong {
  const char* condition;
  const char* column;
  const char* expected;
};

class WrongConditions : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongConditions, AreRefusedWithTheColumn) {
  const Names names(operation());
  try {
    parse_condition(names, GetParam().condition);
    FAIL() << GetParam().condition << " was taken";
  } catch (const InputError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find(std::string("column ") + GetParam().column + ":"), std::string::npos) << message;
    EXPECT_NE(message.find(GetParam().expected), std::string::npos) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(Conditions, WrongConditions,
                         ::testing::Values(Wrong{"", "1", "head_num"}, Wrong{"heads > 3", "1", "head_num"},
                                           Wrong{"head_num >", "11", "block_h"},
                                           Wrong{"head_num > 3 or block_h > 2", "14", "'and' or the end"},
                                           Wrong{"layout == tdh", "11", "sbhd"},
                                           Wrong{"layout > thd", "10", "== or !="}, Wrong{"layout", "7", "comparison"},
                                           Wrong{"(head_num > 3", "11", "')'"}, Wrong{"min(head_num) > 3", "13", "','"},
                                           Wrong{"median(seqlens) > 3", "1", "power_of_two"},
                                           Wrong{"head_num > 2^64", "16", "below 2^63 before it"},
                                           Wrong{"head_num > 99999999999999999999", "12", "below 2^63"},
                                           Wrong{"head_num = 3", "10", "'and' or the end"},
                                           Wrong{"head_num > 3 and", "17", "head_num"}));

// Every feature, alone and beside others, is printed as it is read.
TEST(Condition, TextAndBackIsTheIdentityForTheWholeVocabulary) {
  for (const Operation* each : operations()) {
    const Names names(*each);
    const Vocabulary vocabulary = vocabulary_of(names);
    EXPECT_GT(vocabulary.features.size(), 100U);
    EXPECT_GT(vocabulary.measures.size(), 30U);
    for (const Feature& feature : vocabulary.features) {
      const Condition condition{{feature.term, vocabulary.features.front().term}};
      EXPECT_EQ(parse_condition(names, text(names, condition)), condition) << text(names, condition);
    }
    for (const Measure& measure : vocabulary.measures) {
      const Condition condition{
          {{measure.expression, Comparison::greater, Expression::constant(std::int64_t{1} << 31)}}};
      EXPECT_EQ(parse_condition(names, text(names, condition)), condition) << text(names, condition);
    }
  }
}

TEST(Condition, OperatorsBindAsInArithmetic) {
  const Names names(operation());
  for (const char* words : {"head_num - (block_h - 1) > 0", "head_num * (block_h + 1) mod 3 == 0",
                            "head_num mod (block_h mod 3) != 0", "head_num - block_h - 1 > 0"}) {
    EXPECT_EQ(text(names, parse_condition(names, words)), words);
  }
}

TEST(Condition, TheOppositeHoldsWhereItDoesNot) {
  const Names names(operation());
  EXPECT_EQ(opposite_text(names, parse_condition(names, "head_num % block_h != 0 and head_num > block_h")),
            "head_num mod block_h == 0 or head_num <= block_h");
  const Vocabulary vocabulary = vocabulary_of(names);
  const Case c = a_case("layout=sbhd seq=3 batch=1 head_num=12 inverse=0 remove_interleaving=0");
  const Names::Facts facts = names.facts(c.problem, c.tilings.front());
  for (const Feature& feature : vocabulary.features) {
    const auto left = feature.term.left.value(facts);
    const auto right = feature.term.right.value(facts);
    if (left && right) {
      const std::string opposite = opposite_text(names, {{feature.term}});
      EXPECT_NE(parse_condition(names, opposite).holds(facts), feature.term.holds(facts)) << opposite;
    }
  }
}

RC_GTEST_PROP(ConditionProperty, EveryNameHasAFactInItsPlace, ()) {
  const Case c = *arbitrary_case();
  const Names names(c.problem.operation());
  const Names::Facts facts = names.facts(c.problem, c.tilings.front());
  RC_ASSERT(facts.size() == names.all().size());
  RC_ASSERT(facts[*names.find("head_num")] == c.problem.integer("head_num"));
  RC_ASSERT(facts[*names.find("block_h")] == c.tilings.front().values.front());
  RC_ASSERT(facts[*names.find("data.number")] == c.problem.value("data").second);
  RC_ASSERT(facts[*names.find("token")] == c.problem.operation().quantity(c.problem, "token"));
}

}  // namespace
}  // namespace tileproof
