// Campaigns, as somebody runs them overnight: what they find, what they leave, and that nothing ends them for good.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "expect.h"
#include "process.h"

namespace tileproof::e2e {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kFault[] = "cpu/mla_rope_q_fwd@head_mask_q_fwd";

class Campaign : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef TILEPROOF_HOSTILE_BINARY
    GTEST_SKIP() << "this build has no libFuzzer (libclang-rt-14-dev), so no campaigns";
#endif
  }
  // Endless, unless `more` says otherwise.
  Start start(const std::vector<std::string>& more) const {
    Start start;
    start.arguments = {"fuzz", "--dir", directory(), "--time", "100h", "--jobs", "2"};
    start.arguments.insert(start.arguments.end(), more.begin(), more.end());
    return start;
  }
  std::string directory() const { return temporary_.file("campaign"); }
  std::vector<json> status_lines() const {
    std::vector<json> lines;
    std::ifstream file(directory() + "/status.jsonl");
    for (std::string line; std::getline(file, line);) {
      lines.push_back(json::parse(line, nullptr, false));
    }
    return lines;
  }
  std::set<std::string> files(const std::string& inside) const {
    std::set<std::string> names;
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator(directory() + "/" + inside, gone)) {
      if (entry.path().extension() != ".partial") {
        names.insert(entry.path().filename().string());
      }
    }
    return names;
  }
  // Ends an endless campaign when `enough` holds.
  Outcome interrupt_when(Process& process, const std::function<bool()>& enough) const {
    EXPECT_TRUE(eventually(enough));
    kill(process.pid(), SIGINT);
    return process.wait();
  }
  bool has_corpus() const { return files("corpus").size() > 100; }

 private:
  TemporaryDirectory temporary_;
};

std::string line_with(const std::string& text, const std::string& part) {
  const std::size_t at = text.find(part);
  const std::size_t begin = at == std::string::npos ? std::string::npos : text.rfind('\n', at);
  return at == std::string::npos ? "" : text.substr(begin + 1, text.find('\n', at) - begin - 1);
}

// The words of a line for a shell whose quotes are single and hold no other.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  std::erase(words, std::string());
  return words;
}

TEST_F(Campaign, FindsAFaultMinimisesItAndWritesItAsCases) {
  Process process(start({kFault, "--property", "guards", "--seed", "4"}));
  const Outcome outcome = interrupt_when(process, [this] { return !files("findings").empty(); });
  EXPECT_EQ(outcome.status, 1) << outcome.err << outcome.out;
  EXPECT_EQ(outcome.out.rfind("seed 4; campaign in '", 0), 0U) << outcome.out;
  EXPECT_NE(outcome.out.find("fails when head_num mod block_h"), std::string::npos) << outcome.out;
  std::vector<std::string> replay = words_of(line_with(outcome.out, "tileproof replay"));
  ASSERT_GT(replay.size(), 2U) << outcome.out;
  replay.erase(replay.begin());
  EXPECT_EQ(tileproof(replay).status, 1) << line_with(outcome.out, "tileproof replay");
  for (const std::string& name : files("findings")) {
    const std::string file = directory() + "/findings/" + name;
    EXPECT_EQ(tileproof({"check", kFault, "--cases", "0", "--no-minimize", "--corpus", file}).status, 1) << file;
    EXPECT_EQ(tileproof({"check", "cpu/mla_rope_q_fwd", "--cases", "0", "--corpus", file}).status, 0) << file;
  }
}

TEST_F(Campaign, OfACleanKernelFindsNothingAndEndsWhenTheTimeIsUp) {
  Start short_one = start({"cpu/mla_rope_q_fwd", "--property", "guards"});
  *std::find(short_one.arguments.begin(), short_one.arguments.end(), "100h") = "3s";
  const Outcome outcome = run(short_one);
  EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find("\n0 findings: "), std::string::npos) << outcome.out;
  const std::vector<json> lines = status_lines();
  ASSERT_FALSE(lines.empty());
  EXPECT_GT(lines.back().at("cases"), 0);
  EXPECT_GT(lines.back().at("cells"), 0);
  EXPECT_LE(lines.back().at("cells"), lines.back().at("reachable"));
  EXPECT_EQ(lines.back().at("corpus"), files("corpus").size());
  EXPECT_EQ(lines.back().at("findings"), 0);
}

// Every key that a dashboard reads is in the document, and no other.
TEST_F(Campaign, WritesTheStatusThatIsDocumented) {
  Process process(start({"cpu/mla_rope_q_fwd"}));
  interrupt_when(process, [this] { return status_lines().size() > 1; });
  const std::string document = read_file(TILEPROOF_JSON_DOCUMENT);
  const std::size_t section = document.find("tileproof.status/1");
  ASSERT_NE(section, std::string::npos);
  for (const json& line : status_lines()) {
    EXPECT_EQ(line.at("schema"), "tileproof.status/1");
    EXPECT_EQ(line.size(), 14U) << line.dump();
    for (const auto& [key, value] : line.items()) {
      EXPECT_NE(document.find("`" + key + "`", section), std::string::npos) << key << " is not documented";
    }
  }
}

TEST_F(Campaign, GoesOnWhereItWasWithWhatItBeganWith) {
  Process first(start({kFault, "--property", "guards", "--seed", "4"}));
  interrupt_when(first, [this] { return has_corpus() && !files("findings").empty(); });
  const json before = status_lines().back();
  const std::set<std::string> corpus = files("corpus");
  expect_refusal(run(start({kFault, "--seed", "5"})), 2, {"--seed 5", "began with 4", "--dir"});
  expect_refusal(run(start({"cpu/mla_rope_q_bwd"})), 2, {"'cpu/mla_rope_q_bwd'", kFault});
  expect_refusal(run(start({"--property", "oracle"})), 2, {"'oracle'", "guards"});
  expect_refusal(run(start({"--sanitize", "3"})), 2, {"--sanitize 3", "began with 8"});
  expect_refusal(run(start({"--timeout", "3s"})), 2, {"--timeout 3s", "10 s"});
  Process second(start({}));
  const Outcome outcome =
      interrupt_when(second, [&] { return status_lines().back().at("cases") > before.at("cases"); });
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_EQ(outcome.out.rfind("seed 4; ", 0), 0U) << outcome.out;
  const std::set<std::string> after = files("corpus");
  EXPECT_TRUE(std::includes(after.begin(), after.end(), corpus.begin(), corpus.end()));
  EXPECT_GT(status_lines().back().at("elapsed"), before.at("elapsed"));
}

TEST_F(Campaign, IsRunByOneProcessOnly) {
  Process process(start({"cpu/mla_rope_q_fwd"}));
  ASSERT_TRUE(eventually([this] { return !status_lines().empty(); }));
  expect_refusal(run(start({})), 2, {"where a campaign runs"});
}

TEST_F(Campaign, RefusesADirectoryThatWasDamaged) {
  Process process(start({"cpu/mla_rope_q_fwd"}));
  interrupt_when(process, [this] { return !status_lines().empty(); });
  const std::string settings = read_file(directory() + "/settings.json");
  std::ofstream(directory() + "/settings.json") << "{";
  expect_refusal(run(start({})), 2, {"settings.json", "cannot be read"});
  std::ofstream(directory() + "/settings.json") << settings;
  for (const char* file : {"/campaign.db-wal", "/campaign.db-shm"}) {
    fs::remove(directory() + file);
  }
  std::ofstream(directory() + "/campaign.db") << "something else";
  expect_refusal(run(start({})), 2, {"campaign.db"});
  EXPECT_EQ(read_file(directory() + "/campaign.db"), "something else");
}

class CampaignSignals : public Campaign, public ::testing::WithParamInterface<int> {};

TEST_P(CampaignSignals, EndItCleanlyWithTheReportAndWithAllItsProcesses) {
  Process process(start({"cpu/mla_rope_q_fwd"}));
  ASSERT_TRUE(eventually([this] { return has_corpus(); }));
  const std::vector<pid_t> processes = descendants_of(process.pid());
  EXPECT_GE(processes.size(), 3U);
  ASSERT_EQ(kill(process.pid(), GetParam()), 0);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 128 + GetParam()) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find("; interrupted\n"), std::string::npos) << outcome.out;
  for (const pid_t pid : processes) {
    EXPECT_FALSE(is_running(pid));
  }
  EXPECT_TRUE(files("flights").empty());
  EXPECT_TRUE(files("lost").empty());
}

INSTANTIATE_TEST_SUITE_P(All, CampaignSignals, ::testing::Values(SIGINT, SIGTERM, SIGHUP));

TEST_F(Campaign, LeavesNoProcessBehindWhenItIsKilled) {
  Process process(start({kFault}));
  ASSERT_TRUE(eventually([this] { return has_corpus(); }));
  const std::vector<pid_t> processes = descendants_of(process.pid());
  ASSERT_EQ(kill(process.pid(), SIGKILL), 0);
  for (const pid_t pid : processes) {
    EXPECT_TRUE(eventually([pid] { return !is_running(pid); })) << "an orphan: " << pid;
  }
  process.wait();
}

// Any process of it, fifty times: what was there before is there afterwards, and it goes on.
TEST_F(Campaign, LosesNothingThatItReportedWhenItIsKilledFiftyTimes) {
  const std::vector<std::string> arguments{"cpu/*@head_mask_all", "cpu/mla_rope_q_bwd@*"};
  std::unique_ptr<Process> process;
  std::set<std::string> corpus;
  std::set<std::string> findings;
  json reported{{"cases", 0}, {"corpus", 0}, {"findings", 0}, {"launches", 0}};
  for (int round = 0; round < 50; ++round) {
    if (!process || !is_running(process->pid())) {
      process = std::make_unique<Process>(start(arguments));
    }
    ASSERT_TRUE(eventually([&] { return files("corpus").size() > corpus.size() || !is_running(process->pid()); }));
    ASSERT_TRUE(is_running(process->pid())) << "ended in round " << round << ": " << process->wait().err;
    const json now = status_lines().empty() ? reported : status_lines().back();
    ASSERT_FALSE(now.is_discarded()) << "a line that was cut";
    for (const char* total : {"cases", "corpus", "findings", "launches"}) {
      EXPECT_GE(now.at(total), reported.at(total)) << total << " in round " << round;
    }
    reported = now;
    for (const auto& [kept, name] : {std::pair(&corpus, "corpus"), std::pair(&findings, "findings")}) {
      const std::set<std::string> there = files(name);
      EXPECT_TRUE(std::includes(there.begin(), there.end(), kept->begin(), kept->end())) << name << " " << round;
      *kept = there;
    }
    std::vector<pid_t> targets = descendants_of(process->pid());
    targets.insert(targets.begin(), process->pid());
    const auto chosen = static_cast<std::size_t>(round) % (targets.size() + 1);
    if (chosen < targets.size()) {
      targets = {targets[chosen]};
    }
    for (const pid_t target : targets) {
      kill(target, SIGKILL);
    }
    EXPECT_TRUE(eventually([&] { return std::none_of(targets.begin(), targets.end(), is_running); }));
  }
  if (!is_running(process->pid())) {
    process = std::make_unique<Process>(start({}));
  }
  const Outcome outcome =
      interrupt_when(*process, [&] { return status_lines().back().at("cases") > reported.at("cases"); });
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_GE(status_lines().back().at("findings"), reported.at("findings"));
  EXPECT_GT(reported.at("findings"), 0);
  const std::set<std::string> there = files("findings");
  EXPECT_TRUE(std::includes(there.begin(), there.end(), findings.begin(), findings.end()));
}

#ifdef TILEPROOF_HOSTILE_BINARY
// A kernel that takes its process with it is found, minimised like any other, and the search goes on.
class HostileKernel : public Campaign, public ::testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(HostileKernel, IsAFindingAndNoEnd) {
  const auto [variant, how] = GetParam();
  const std::string subject = std::string("cpu/mla_rope_q_fwd") + variant;
  Start hostile = start({subject, "--timeout", "500ms", "--property", "launch_valid"});
  hostile.program = TILEPROOF_HOSTILE_BINARY;
  Process process(hostile);
  const Outcome outcome = interrupt_when(process, [this] { return !files("findings").empty() && has_corpus(); });
  EXPECT_EQ(outcome.status, 1) << outcome.err << outcome.out;
  const std::string name = *files("findings").begin();
  EXPECT_NE(name.find(how), std::string::npos) << name;
  EXPECT_NE(outcome.out.find("head_num=7 "), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.err, "");
}

INSTANTIATE_TEST_SUITE_P(All, HostileKernel,
                         ::testing::Values(std::pair("@hangs", "timeout"), std::pair("@crashes", "SIGSEGV"),
                                           std::pair("@exits", "exit"), std::pair("@dies", "SIGKILL")),
                         [](const auto& info) { return std::string(info.param.first + 1); });
#endif

}  // namespace
}  // namespace tileproof::e2e
