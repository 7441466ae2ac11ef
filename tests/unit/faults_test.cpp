// Every shipped fault is found by the property that its patch names, and every clean kernel passes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include <fmt/format.h>

#include "execute/device.h"
#include "execute/runner.h"
#include "generate/generator.h"
#include "memory/arena.h"
#include "memory/recipes.h"
#include "search/check.h"

namespace tileproof {
namespace {

class Faults : public ::testing::Test {};

CheckReport check_cases(const Subject& subject, std::uint64_t cases, std::vector<Case> corpus = {}) {
  CheckOptions options;
  options.subjects = {&subject};
  options.properties = matching_properties({});
  options.seed = 1;
  options.cases = cases;
  options.corpus = std::move(corpus);
  return run_check(options);
}

std::vector<std::string> failed_properties(const CheckReport& report) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < report.properties.size(); ++i) {
    if (report.subjects[0].tallies[i].failed > 0) {
      names.emplace_back(report.properties[i]->name());
    }
  }
  return names;
}

TEST_F(Faults, EveryFaultIsFoundByThePropertyItsPatchNames) {
  int faults = 0;
  for (const Subject* entry : subjects_on("cpu", {"*", "*@*"})) {
    const Subject& subject = *entry;
    if (!subject.fault) {
      continue;
    }
    ++faults;
    ASSERT_FALSE(subject.expected.empty()) << subject.name;
    const std::vector<std::string> failed = failed_properties(check_cases(subject, 400));
    EXPECT_NE(std::find(failed.begin(), failed.end(), subject.expected.front()), failed.end())
        << subject.name << " expected " << subject.expected.front()
        << ", failed: " << fmt::format("{}", fmt::join(failed, " "));
  }
  EXPECT_EQ(faults, 32) << "a fault that is gone is a fault that nobody looks for";
}

// No pure output, and no inverse of a sum over heads.
const std::set<std::pair<std::string_view, std::string_view>> kNeverApply = {
    {"outputs_written", "cpu/mla_rope_q_fwd"},
    {"outputs_written", "cpu/mla_rope_q_bwd"},
    {"round_trip", "cpu/mla_rope_kv_split_bwd"}};

TEST_F(Faults, EveryCleanKernelHoldsWithPowerInEveryPropertyThatApplies) {
  for (const Subject* subject : subjects_on("cpu", {})) {
    const CheckReport report = check_cases(*subject, 400);
    for (const Finding& finding : report.subjects[0].findings) {
      ADD_FAILURE() << finding.signature << "\n" << finding.message << "\n" << finding.case_text;
    }
    for (std::size_t i = 0; i < report.properties.size(); ++i) {
      const Tally& tally = report.subjects[0].tallies[i];
      const std::pair<std::string_view, std::string_view> pair{report.properties[i]->name(), subject->name};
      EXPECT_EQ(tally.power > 0, kNeverApply.count(pair) == 0) << pair.first << " " << pair.second;
    }
  }
}

std::int32_t hangs(const tileproof_launch*) {
  while (true) {
    pause();
  }
}

TEST_F(Faults, AHangIsAFindingThatNamesTheLaunchAndNothingElse) {
  const Subject& honest = *find_subject("cpu/mla_rope_q_fwd");
  tileproof_subject raw = *honest.raw;
  raw.launch = hangs;
  Subject hanging = honest;
  hanging.raw = &raw;
  CheckOptions options;
  options.subjects = {&hanging};
  options.properties = matching_properties({"launch_valid"});
  options.corpus = {generate_case(honest, 1, 0)};
  options.cases = 0;
  options.timeout_seconds = 1;
  const CheckReport report = run_check(options);
  ASSERT_EQ(report.subjects[0].findings.size(), 1U);
  const Finding& finding = report.subjects[0].findings[0];
  EXPECT_EQ(finding.signature, "launch_valid//launch/timeout");
  EXPECT_EQ(finding.message, "the launch did not end within 1 s and was killed");
  EXPECT_TRUE(finding.evidence.empty());
}

// Fails on every case, and cannot judge the one with this many heads at all.
class GivesUp : public Property {
 public:
  explicit GivesUp(std::int64_t head_num) : head_num_(head_num) {}
  std::string_view name() const override { return "gives_up"; }
  std::string_view holds_when() const override { return "never"; }
  Expectation plan(const CaseContext&, Plan&) const override { return {true, true, {}, {}}; }
  std::optional<Failure> judge(const CaseContext& context, const Expectation&, const Results&) const override {
    if (context.the_case.problem.integer("head_num") == head_num_) {
      throw HarnessError("cannot judge this");
    }
    return Failure{"q", "row", "differs", "as always", {}};
  }

 private:
  std::int64_t head_num_;
};

TEST_F(Faults, WhatWasFoundBeforeTheHarnessGaveUpIsKept) {
  const GivesUp property(3);
  const auto with_heads = [](int heads) {
    return parse_case(
        fmt::format("mla_rope_q_fwd dtype=f32 layout=sbhd seq=1 batch=1 head_num={} nope_dim=0 emb_dim=4 "
                    "inverse=0 remove_interleaving=0 data=exact:0 | block_h=1",
                    heads));
  };
  CheckOptions options;
  options.subjects = {find_subject("cpu/mla_rope_q_fwd")};
  options.properties = {&property};
  options.corpus = {with_heads(1), with_heads(2), with_heads(3)};
  options.cases = 0;
  options.jobs = 1;
  const CheckReport report = run_check(options);
  ASSERT_EQ(report.subjects[0].findings.size(), 1U);
  EXPECT_EQ(report.subjects[0].findings[0].count, 2U);
  EXPECT_NE(report.gave_up.find("cannot judge this"), std::string::npos) << report.gave_up;
  EXPECT_NE(report.gave_up.find("head_num=3"), std::string::npos) << report.gave_up;
}

TEST_F(Faults, ACaseThatCouldNotHaveFailedIsHeldWithoutPower) {
  const Case whole_blocks = parse_case(
      "mla_rope_q_fwd dtype=f32 layout=sbhd seq=3 batch=1 head_num=4 nope_dim=8 emb_dim=8 inverse=0 "
      "remove_interleaving=0 data=normal:1 | block_h=4 ; block_h=2");
  const CheckReport report = check_cases(*find_subject("cpu/mla_rope_q_fwd"), 0, {whole_blocks});
  for (std::size_t i = 0; i < report.properties.size(); ++i) {
    const Tally& tally = report.subjects[0].tallies[i];
    if (report.properties[i]->name() == "guards" || report.properties[i]->name() == "block_invariance") {
      EXPECT_EQ(tally.held, 1U) << report.properties[i]->name();
      EXPECT_EQ(tally.power, 0U) << report.properties[i]->name();
    }
    if (report.properties[i]->name() == "oracle") {
      EXPECT_EQ(tally.power, 1U);
    }
  }
}

// The measurements of the real forward kernel: f32, emb_dim 64, three contiguous tokens, counted past the last token.
struct Row {
  int head_num;
  int block;
  int control;
  bool identical;
  std::size_t past_end;  // at `block`; none at `control`
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.head_num << " heads, block " << row.block; }

class MeasuredTable : public ::testing::TestWithParam<Row> {};

struct Outcome {
  std::set<std::int64_t> past_end;  // elements changed past the last token, over both canary patterns
  Bytes q;
};

Outcome run_both_patterns(const char* subject_name, int head_num, int block_h) {
  const Subject& subject = *find_subject(subject_name);
  const Case c = parse_case(
      fmt::format("mla_rope_q_fwd dtype=f32 layout=sbhd seq=3 batch=1 head_num={} nope_dim=128 emb_dim=64 inverse=0 "
                  "remove_interleaving=0 data=normal:1 | block_h={}",
                  head_num, block_h));
  HostTensors inputs;
  make_inputs(c.problem, inputs);
  Arena arena;
  Outcome outcome;
  for (const GuardFill guard : {GuardFill::finite, GuardFill::nan}) {
    Memory memory;
    memory.guard = guard;
    const RunResult run = execute_run(arena, subject, c.problem, c.tilings[0], memory, inputs);
    EXPECT_EQ(run.status, RunResult::Status::ok);
    for (const GuardDamage& damage : run.damage) {
      EXPECT_EQ(damage.where, "after");
      outcome.past_end.insert(damage.elements.begin(), damage.elements.end());
    }
    if (guard == GuardFill::finite) {
      outcome.q = run.outputs[c.problem.operation().tensor_index("q")].bytes;
    }
  }
  return outcome;
}

TEST_P(MeasuredTable, ThePatchedKernelShowsTheMeasuredNumbers) {
  const char* patched = "cpu/mla_rope_q_fwd@head_mask_q_fwd";
  const Outcome block = run_both_patterns(patched, GetParam().head_num, GetParam().block);
  const Outcome control = run_both_patterns(patched, GetParam().head_num, GetParam().control);
  EXPECT_EQ(block.past_end.size(), GetParam().past_end);
  EXPECT_EQ(control.past_end.size(), 0U);
  EXPECT_EQ(block.q == control.q, GetParam().identical);
}

TEST_P(MeasuredTable, TheCleanKernelIsIdenticalAndWritesNothingPastTheEnd) {
  const Outcome block = run_both_patterns("cpu/mla_rope_q_fwd", GetParam().head_num, GetParam().block);
  const Outcome control = run_both_patterns("cpu/mla_rope_q_fwd", GetParam().head_num, GetParam().control);
  EXPECT_TRUE(block.past_end.empty());
  EXPECT_TRUE(control.past_end.empty());
  EXPECT_EQ(block.q, control.q);
}

INSTANTIATE_TEST_SUITE_P(Design, MeasuredTable,
                         ::testing::Values(Row{12, 8, 4, false, 256}, Row{24, 16, 8, false, 512},
                                           Row{48, 32, 16, false, 1024}, Row{96, 64, 32, false, 2048},
                                           Row{16, 8, 4, true, 0}, Row{12, 16, 4, true, 0}));

std::vector<Case> read_cases(const std::string& name) {
  std::ifstream file(std::string(TILEPROOF_CORPUS_DIR) + "/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') {
      cases.push_back(parse_case(line));
    }
  }
  return cases;
}

TEST_F(Faults, CleanKernelsHoldOnTheCorpus) {
  for (const char* name : {"models.cases", "regressions.cases"}) {
    const std::vector<Case> cases = read_cases(name);
    EXPECT_GT(cases.size(), 10U);
    for (const Subject* subject : subjects_on("cpu", {})) {
      const CheckReport report = check_cases(*subject, 0, cases);
      EXPECT_GT(report.subjects[0].cases, 0U) << subject->name;
      for (const Tally& tally : report.subjects[0].tallies) {
        EXPECT_EQ(tally.refused, 0U) << subject->name << " " << name;
      }
      for (const Finding& finding : report.subjects[0].findings) {
        ADD_FAILURE() << finding.signature << "\n" << finding.message << "\n" << finding.case_text;
      }
    }
  }
}

// head_num 12, block_h 8 pinned, block_h 4 as control: each patched kernel fails on each of its cases, by the property
// that its patch names first (guards; for demb, which is read past the heads and not written, the oracle).
TEST_F(Faults, HeadMaskRegressionFailsOnEveryPatchedKernel) {
  int runs = 0;
  for (const Case& c : read_cases("regressions.cases")) {
    if (c.problem.integer("head_num") != 12) {
      continue;
    }
    for (const Subject* entry : subjects_on("cpu", {"*", "*@*"})) {
      const Subject& subject = *entry;
      if (subject.operation == &c.problem.operation() && subject.name.find("@head_mask_") != std::string::npos) {
        ++runs;
        const std::vector<std::string> failed = failed_properties(check_cases(subject, 0, {c}));
        EXPECT_NE(std::find(failed.begin(), failed.end(), subject.expected.front()), failed.end())
            << subject.name << " expected " << subject.expected.front() << "\n"
            << text(c);
      }
    }
  }
  EXPECT_GE(runs, 48);
}

}  // namespace
}  // namespace tileproof
