// What a check finds, says and replays, and that neither depends on the number of jobs.
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "expect.h"
#include "process.h"

namespace tileproof::e2e {
namespace {

using nlohmann::json;

constexpr char kFault[] = "cpu/mla_rope_q_fwd@head_mask_q_fwd";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

json checked(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "check");
  arguments.insert(arguments.end(), {"--json", "-"});
  const Outcome outcome = tileproof(arguments);
  EXPECT_TRUE(outcome.status == 0 || outcome.status == 1) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return json::parse(outcome.out);
}

// The words of a command as a shell would take them: blanks outside single quotes separate.
std::vector<std::string> shell_words(const std::string& command) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : command) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back().push_back(c);
    }
  }
  return words;
}

TEST(Check, CleanSubjectsHold) {
  const Outcome outcome = tileproof({"check", "--cases", "80", "--seed", "1"});
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(lines_of(outcome.out).front(), "seed 1");
  EXPECT_TRUE(contains(outcome.out, "all held: 480 cases")) << outcome.out;
  EXPECT_FALSE(contains(outcome.out, "FAILED")) << outcome.out;
}

TEST(Check, TimeEndsItAndDrawsASeed) {
  const Outcome outcome = tileproof({"check", "cpu/mla_rope_q_fwd", "--time", "300ms"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const std::string first = lines_of(outcome.out).front();
  EXPECT_EQ(first.rfind("seed ", 0), 0U) << first;
  EXPECT_GT(first.size(), 5U);
}

TEST(Check, APropertyOptionDoesNotSwallowTheSubjectBehindIt) {
  const json document = checked({"--property", "guards", "cpu/mla_rope_q_fwd", "--property", "ora*", "--cases", "20"});
  ASSERT_EQ(document.at("subjects").size(), 1U);
  ASSERT_EQ(document.at("subjects")[0].at("properties").size(), 2U);
}

TEST(Check, CorpusComesFirstAndOnItsOwnOperationOnly) {
  const std::string corpus = std::string(TILEPROOF_CORPUS_DIR) + "/regressions.cases";
  const json document = checked({"cpu/mla_rope_concat_*", kFault, "--cases", "0", "--corpus", corpus});
  ASSERT_EQ(document.at("subjects").size(), 3U);
  for (const json& subject : document.at("subjects")) {
    EXPECT_GT(subject.at("cases"), 0);
    EXPECT_EQ(subject.at("findings").empty(), subject.at("subject") != kFault);
  }
}

TEST(Check, ReadsACorpusFromStandardInput) {
  Start start;
  start.arguments = {"check", kFault, "--cases", "0", "--corpus", "-"};
  start.input =
      "# three heads in blocks of two\nmla_rope_q_fwd dtype=f32 layout=sbhd seq=2 batch=1 head_num=3 nope_dim=0 "
      "emb_dim=4 data=normal:1 | block_h=2 ; block_h=1\n";
  const Outcome outcome = run(start);
  EXPECT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "1 case,")) << outcome.out;
}

TEST(Check, AFindingFitsAScreenAndNamesWhatWhereAndHowToReplay) {
  const Outcome outcome = tileproof({"check", kFault, "--cases", "200", "--seed", "1"});
  ASSERT_EQ(outcome.status, 1) << outcome.err;
  std::size_t rows = 0;
  int replays = 0;
  for (const std::string& line : lines_of(outcome.out)) {
    rows += 1 + line.size() / 100;
    const std::size_t at = line.find("tileproof replay '");
    replays += at == std::string::npos ? 0 : 1;
    if (at != std::string::npos) {
      EXPECT_TRUE(contains(line, std::string("--subject ") + kFault)) << line;
    }
  }
  EXPECT_LE(rows, 60U) << outcome.out;
  EXPECT_GE(replays, 1);
  EXPECT_TRUE(contains(outcome.out, "guards/q/after/overrun")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "past the last token")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "FAILED")) << outcome.out;
}

// Known faults are wrong on purpose: a gate over all subjects of an operation must not trip over them.
TEST(Check, AGlobMatchesFaultsOnlyWithAnAt) {
  EXPECT_EQ(tileproof({"check", "*", "--cases", "5", "--seed", "1"}).status, 0);
  EXPECT_EQ(checked({"*", "--cases", "5"}).at("subjects").size(), 6U);
  EXPECT_GE(checked({"*@*", "--cases", "5"}).at("subjects").size(), 17U);
}

TEST(Check, StopsAtTheFirstFailureWhenAsked) {
  const json document = checked({kFault, "--cases", "100000", "--seed", "1", "--stop-on-failure"});
  EXPECT_FALSE(document.at("subjects")[0].at("findings").empty());
  EXPECT_LT(document.at("subjects")[0].at("cases"), 1000);
}

// Each replay line, as printed, fails again with the signature of its finding; and the clean kernel holds on the case.
TEST(Replay, GivesTheSameSignatureAndHoldsOnTheCleanKernel) {
  const json document = checked({kFault, "--cases", "100", "--seed", "1"});
  const json& findings = document.at("subjects")[0].at("findings");
  ASSERT_GE(findings.size(), 3U);
  for (const json& finding : findings) {
    std::vector<std::string> words = shell_words(finding.at("replay"));
    ASSERT_EQ(words.front(), "tileproof");
    words.erase(words.begin());
    words.insert(words.end(), {"--json", "-"});
    const Outcome outcome = tileproof(words);
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    bool again = false;
    const json replayed = json::parse(outcome.out);
    for (const json& other : replayed.at("subjects")[0].at("findings")) {
      again = again || (other.at("signature") == finding.at("signature") && other.at("case") == finding.at("case") &&
                        other.at("message") == finding.at("message"));
    }
    EXPECT_TRUE(again) << finding.dump(1) << outcome.out;
    const Outcome clean = tileproof({"replay", finding.at("case")});
    EXPECT_EQ(clean.status, 0) << clean.out << clean.err;
  }
}

TEST(Replay, TakesFiles) {
  const Outcome outcome = tileproof({"replay", std::string(TILEPROOF_CORPUS_DIR) + "/regressions.cases"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "held")) << outcome.out;
}

// Editors of other systems put one in front.
TEST(Replay, TakesAFileWithAByteOrderMark) {
  const TemporaryDirectory directory;
  const std::string path =
      directory.write("bom.cases",
                      "\xEF\xBB\xBFmla_rope_q_fwd dtype=f32 layout=sbhd seq=2 batch=1 head_num=3 nope_dim=0 emb_dim=4 "
                      "data=normal:1 | block_h=2 ; block_h=1\n");
  EXPECT_EQ(tileproof({"replay", path}).status, 0);
}

class Jobs : public ::testing::TestWithParam<std::vector<std::string>> {};

// Crashes and lost workers included: the faults have them. All but those whose results are what memory or a register
// happened to hold.
TEST_P(Jobs, DoNotShowInTheDocument) {
  json expected;
  for (const char* jobs : {"1", "2", "3"}) {
    std::vector<std::string> arguments = GetParam();
    arguments.insert(arguments.end(), {"--cases", "60", "--seed", "7", "--jobs", jobs, "--no-minimize"});
    json document = checked(arguments);
    EXPECT_EQ(document.at("jobs"), std::stoi(jobs));
    document.erase("jobs");
    document.erase("seconds");
    if (expected.is_null()) {
      expected = document;
    }
    EXPECT_EQ(document, expected) << jobs << " jobs: " << json::diff(expected, document).dump(1);
  }
}

// As long as the time suffices, so that it is the probes that are counted.
TEST(Check, MinimalCasesAreTheSameForAnyNumberOfJobs) {
  const std::vector<std::string> words{kFault, "--cases", "100", "--seed", "7", "--minimize-time", "60s", "--jobs"};
  json expected;
  for (const char* jobs : {"1", "2"}) {
    std::vector<std::string> with = words;
    with.emplace_back(jobs);
    const json findings = checked(with).at("subjects")[0].at("findings");
    EXPECT_TRUE(findings[0].contains("minimal"));
    expected = expected.is_null() ? findings : expected;
    EXPECT_EQ(findings, expected) << json::diff(expected, findings).dump(1);
  }
}

INSTANTIATE_TEST_SUITE_P(Subjects, Jobs,
                         ::testing::Values(std::vector<std::string>{"cpu/mla_rope_?_?wd"},
                                           std::vector<std::string>{"cpu/mla_rope_kv_split_?wd"},
                                           std::vector<std::string>{"*@cp*", "*@demb*", "*@divergent*", "*@head*",
                                                                    "*@missing_barrier_q*", "*@offset*", "*@padded*",
                                                                    "*@sin*", "*@stride*", "*@unwritten*"}));

TEST(Faults, ACrashIsAFindingThatReplays) {
  const json document = checked({"cpu/mla_rope_q_fwd@offset32_q_fwd", "--cases", "300", "--seed", "1"});
  const json* crash = nullptr;
  for (const json& finding : document.at("subjects")[0].at("findings")) {
    crash = finding.at("signature") == "launch_valid//launch/SIGSEGV" ? &finding : crash;
  }
  ASSERT_NE(crash, nullptr) << document.dump(1);
  const Outcome outcome = tileproof({"replay", crash->at("case"), "--subject", "cpu/mla_rope_q_fwd@offset32_q_fwd"});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "launch_valid//launch/SIGSEGV")) << outcome.out;
}

}  // namespace
}  // namespace tileproof::e2e
