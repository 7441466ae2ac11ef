// Minimising: the steps, the order, the process that tries a case, and the minima of the shipped faults.
#include "search/minimize.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include <fmt/format.h>

#include "execute/device.h"
#include "generate/generator.h"
#include "generate/rapidcheck.h"
#include "search/interrupt.h"
#include "search/shrink_steps.h"
#include "search/simplicity.h"

namespace tileproof {
namespace {

const Subject& clean(const Case& c) { return *find_subject(fmt::format("cpu/{}", c.problem.operation().name())); }

// The first `count` generated cases that fail under `property`.
std::vector<std::pair<Case, Signature>> failing_cases(const Subject& subject, std::string_view property,
                                                      std::size_t count) {
  const std::vector<const Property*> properties = matching_properties({std::string(property)});
  Prober prober(subject, properties, 10);
  std::vector<std::pair<Case, Signature>> found;
  for (std::uint64_t index = 0; index < 20'000 && found.size() < count; ++index) {
    const Case c = generate_case(subject, 7, index);
    const Probe probe = prober.probe(c);
    if (!probe.failures.empty()) {
      found.emplace_back(c, parse_signature(probe.failures.front().signature));
    }
  }
  return found;
}

Minimum minimum_of(const Subject& subject, const std::pair<Case, Signature>& start) {
  const auto minimum =
      minimize(subject, start.first, start.second, matching_properties({start.second.property}), 10, {.seconds = 60});
  if (!minimum) {
    throw std::runtime_error("it does not fail again: " + text(start.first));
  }
  return *minimum;
}

RC_GTEST_PROP(Minimize, EveryStepIsAValidSimplerCase, ()) {
  const Case c = *arbitrary_case();
  for (const Case& step : shrink_steps(clean(c), c)) {
    RC_ASSERT(simplicity(step) < simplicity(c));
    RC_ASSERT(parse_case(text(step)) == step);
    RC_ASSERT(!outside_limits(clean(c), step).has_value());
  }
}

RC_GTEST_PROP(Minimize, WhateverFailsForAllShrinksToTheSimplestOfAll, ()) {
  const Case c = *arbitrary_case();
  const Descent descent = descend(clean(c), c, [](const Case&) { return true; }, {.seconds = 60});
  RC_ASSERT(descent.minimal);
  RC_ASSERT(shrink_steps(clean(c), descent.the_case).empty());
  RC_ASSERT(simplicity(descent.the_case).front() == 0);
}

// A conjunction of two values that no single step keeps.
TEST(Minimize, StepsOfTwoValuesLeadOutOfALocalMinimum) {
  const Case start = parse_case(
      "mla_rope_q_fwd dtype=f32 layout=sbhd seq=1 batch=1 head_num=4 nope_dim=0 emb_dim=4 inverse=0 "
      "remove_interleaving=0 data=exact:0 | block_h=3");
  const auto fails = [](const Case& c) {
    const std::int64_t heads = c.problem.integer("head_num");
    const std::int64_t block = tiling_value(c.problem.operation(), c.tilings.front(), "block_h");
    return heads > block && heads % block != 0;
  };
  const Descent descent = descend(clean(start), start, fails, {.seconds = 60});
  EXPECT_EQ(descent.the_case.problem.integer("head_num"), 3) << text(descent.the_case);
  EXPECT_EQ(descent.the_case.tilings.front().values.front(), 2) << text(descent.the_case);
}

class KnownMinimum : public ::testing::TestWithParam<std::pair<const char*, std::int64_t>> {};

// The whole line, not only its numbers: from wherever one starts, one gets the same answer.
TEST_P(KnownMinimum, OfTheHeadMaskIsReachedFromAHundredStarts) {
  const Subject& subject = *find_subject("cpu/mla_rope_q_fwd@head_mask_q_fwd");
  const auto [property, tokens] = GetParam();
  const auto starts = failing_cases(subject, property, 100);
  ASSERT_EQ(starts.size(), 100U);
  std::set<std::string> minima;
  for (const auto& start : starts) {
    const Minimum minimum = minimum_of(subject, start);
    const Problem& problem = minimum.the_case.problem;
    EXPECT_TRUE(minimum.minimal);
    EXPECT_EQ(problem.integer("head_num"), 3);
    EXPECT_EQ(minimum.the_case.tilings.back().values.front(), 2);
    EXPECT_EQ(simplicity(minimum.the_case).front(), tokens) << text(start.first);
    EXPECT_TRUE(same_failure(parse_signature(minimum.failure.signature), start.second));
    minima.insert(text(minimum.the_case));
  }
  EXPECT_EQ(minima.size(), 1U) << fmt::format("{}", fmt::join(minima, "\n"));
}

INSTANTIATE_TEST_SUITE_P(, KnownMinimum,
                         ::testing::Values(std::pair{"guards", 1}, std::pair{"block_invariance", 2},
                                           std::pair{"oracle", 2}),
                         [](const auto& info) { return std::string(info.param.first); });

class EveryFault : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryFault, HasAMinimumFromWhichNoStepFails) {
  const Subject& subject = *find_subject(GetParam());
  const std::string& property = subject.expected.front();
  std::vector<std::pair<Case, Signature>> starts;
  if (property == "launch_valid") {
    starts = failing_cases(subject, property, 1);
  } else {
    starts = failing_cases(subject, property, 3);
  }
  ASSERT_FALSE(starts.empty());
  for (const auto& start : starts) {
    const Minimum minimum = minimum_of(subject, start);
    EXPECT_TRUE(minimum.minimal);
    Prober fresh(subject, matching_properties({property}), 10);
    EXPECT_NE(fresh.probe(minimum.the_case).find(start.second), nullptr) << text(minimum.the_case);
    for (const Case& step : shrink_steps(subject, minimum.the_case)) {
      EXPECT_EQ(fresh.probe(step).find(start.second), nullptr)
          << text(step) << " still fails and is simpler than " << text(minimum.the_case);
    }
  }
}

std::vector<std::string> cpu_faults() {
  std::vector<std::string> names;
  for (const Subject* subject : subjects_on("cpu", {"*@*"})) {
    names.push_back(subject->name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(, EveryFault, ::testing::ValuesIn(cpu_faults()), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == '@'; }, '_');
  return name;
});

// Subjects that misbehave: the clean one with another launch.
class Strange {
 public:
  explicit Strange(std::int32_t (*launch)(const tileproof_launch*))
      : raw_(*find_subject("cpu/mla_rope_q_fwd")->raw), subject_(*find_subject("cpu/mla_rope_q_fwd")) {
    raw_.launch = launch;
    subject_.raw = &raw_;
  }
  const Subject& subject() const { return subject_; }

 private:
  tileproof_subject raw_;
  Subject subject_;
};

const Case& some_case() {
  static const Case c = generate_case(*find_subject("cpu/mla_rope_q_fwd"), 1, 0);
  return c;
}

TEST(Prober, AProcessThatDiesIsAnAnswerAndTheNextCaseHasAFreshOne) {
  const Strange crashing([](const tileproof_launch*) -> std::int32_t {
    std::raise(SIGSEGV);
    return 0;
  });
  Prober prober(crashing.subject(), matching_properties({"launch_valid"}), 10);
  for (int i = 0; i < 3; ++i) {
    const Probe probe = prober.probe(some_case());
    ASSERT_EQ(probe.failures.size(), 1U);
    EXPECT_EQ(probe.failures[0].signature, "launch_valid//launch/SIGSEGV");
  }
}

TEST(Prober, AHangIsAnAnswer) {
  const Strange hanging([](const tileproof_launch*) -> std::int32_t {
    while (true) {
      pause();
    }
  });
  Prober prober(hanging.subject(), matching_properties({"launch_valid"}), 0.2);
  const Probe probe = prober.probe(some_case());
  ASSERT_EQ(probe.failures.size(), 1U);
  EXPECT_EQ(probe.failures[0].signature, "launch_valid//launch/timeout");
}

// The clean kernel, but the values of the last head are those of the first one.
std::int32_t mixes_heads_up(const tileproof_launch* launch) {
  const std::int32_t status = find_subject("cpu/mla_rope_kv_split_fwd")->raw->launch(launch);
  for (std::size_t i = 0; i < launch->tensor_count; ++i) {
    const tileproof_tensor& tensor = launch->tensors[i];
    if (std::string_view(tensor.name) != "value" || tensor.dtype != TILEPROOF_F32) {
      continue;
    }
    float* const data = static_cast<float*>(tensor.data);
    for (std::int64_t token = 0; token < tensor.shape[0]; ++token) {
      float* const first = data + token * tensor.strides[0];
      std::copy_n(first, tensor.shape[2], first + (tensor.shape[1] - 1) * tensor.strides[1]);
    }
  }
  return status;
}

TEST(Show, NamesTheElementWhoseValueIsInTheWrongPlace) {
  const Subject& honest = *find_subject("cpu/mla_rope_kv_split_fwd");
  tileproof_subject raw = *honest.raw;
  raw.launch = mixes_heads_up;
  Subject subject = honest;
  subject.raw = &raw;
  const Case start = parse_case(
      "mla_rope_kv_split_fwd dtype=f32 layout=thd seqlens=3 head_num=5 k_dim=2 v_dim=3 emb_dim=8 "
      "remove_interleaving=0 data=normal:1 | block_h=4");
  const auto minimum =
      minimize(subject, start, parse_signature("oracle/value/copied/wrong"), matching_properties({"oracle"}), 10, {});
  ASSERT_TRUE(minimum.has_value());
  EXPECT_EQ(minimum->the_case.problem.integer("head_num"), 2);
  const std::vector<std::string>& evidence = minimum->failure.evidence;
  ASSERT_FALSE(evidence.empty());
  EXPECT_NE(evidence.back().find("with index data value[token=0, head=1, dim=0] holds"), std::string::npos)
      << evidence.back();
  EXPECT_NE(evidence.back().find("the input kv[token=0, head=0, dim=0]"), std::string::npos) << evidence.back();
  EXPECT_NE(std::find(evidence.begin(), evidence.end(), "  token 0    .x"), evidence.end());
}

// Every other launch of a process is refused by the "device".
std::int32_t fails_now_and_then(const tileproof_launch*) {
  static int launches = 0;
  return ++launches % 4 == 0 ? 719 : 0;
}

TEST(Minimize, AFailureThatComesAndGoesIsMeasuredAndShrunkOnItsRate) {
  const Strange flaky(fails_now_and_then);
  const auto minimum = minimize(flaky.subject(), some_case(), parse_signature("launch_valid//launch/error"),
                                matching_properties({"launch_valid"}), 10, {.seconds = 60});
  ASSERT_TRUE(minimum.has_value());
  EXPECT_EQ(minimum->rate.launches, 20);
  EXPECT_EQ(minimum->rate.failures, 5);
  EXPECT_FALSE(minimum->rate.always());
  EXPECT_EQ(simplicity(minimum->the_case).front(), 0) << "it does not depend on the case, so the simplest one shows it";
}

TEST(Minimize, NoStepAsksForExactDataThatCannotBeExact) {
  Case start = some_case();
  start.problem.set(
      "broadcast",
      parse_value_of(start.problem.operation().parameters()[start.problem.operation().parameter_index("broadcast")],
                     "head"));
  start.problem.set("data", 1);
  ASSERT_TRUE(is_legal(start.problem));
  std::size_t steps = 0;
  for (const auto& make : {shrink_steps, double_steps}) {
    for (const Case& step : make(clean(start), start)) {
      EXPECT_TRUE(is_legal(step.problem)) << text(step);
      ++steps;
    }
  }
  EXPECT_GT(steps, 100U);
}

TEST(Minimize, ACaseThatDoesNotFailHasNoMinimum) {
  EXPECT_FALSE(minimize(*find_subject("cpu/mla_rope_q_fwd"), some_case(), parse_signature("guards/q/after/overrun"),
                        matching_properties({}), 10, {})
                   .has_value());
}

TEST(Minimize, TheBudgetEndsItWithTheBestSoFar) {
  const auto fails = [](const Case&) { return true; };
  const Descent cut = descend(clean(some_case()), some_case(), fails, {.seconds = 60, .probes = 1});
  EXPECT_FALSE(cut.minimal);
  EXPECT_EQ(cut.tried, 1U);
  EXPECT_LT(simplicity(cut.the_case), simplicity(some_case()));
  const Descent none = descend(clean(some_case()), some_case(), fails, {.seconds = 0});
  EXPECT_FALSE(none.minimal);
  EXPECT_EQ(none.the_case, some_case());
}

TEST(Minimize, ASignalEndsItWithTheBestSoFar) {
  const InterruptScope scope;
  const auto fails = [](const Case&) {
    std::raise(SIGINT);
    return true;
  };
  const Descent cut = descend(clean(some_case()), some_case(), fails, {.seconds = 60});
  EXPECT_FALSE(cut.minimal);
  EXPECT_EQ(cut.tried, 1U);
}

TEST(Signature, IsReadBackFromItsText) {
  const Signature signature = parse_signature("guards/q/after/overrun");
  EXPECT_EQ(signature.property, "guards");
  EXPECT_EQ(signature.tensor, "q");
  EXPECT_EQ(signature.where, "after");
  EXPECT_EQ(signature.kind, "overrun");
  EXPECT_EQ(parse_signature("launch_valid//launch/exit 3").kind, "exit 3");
  EXPECT_TRUE(same_failure(signature, parse_signature("guards/q/between_rows/overrun")));
  for (const char* other : {"oracle/q/after/overrun", "guards/k/after/overrun", "guards/q/after/differs"}) {
    EXPECT_FALSE(same_failure(signature, parse_signature(other))) << other;
  }
}

}  // namespace
}  // namespace tileproof
