// Signals: a check ends cleanly with what it has, and no worker outlives it, however it ends.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <regex>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"

namespace tileproof::e2e {
namespace {

Start endless(std::vector<std::string> more) {
  Start start;
  start.arguments = {"check", "--time", "100h", "--jobs", "2"};
  start.arguments.insert(start.arguments.end(), more.begin(), more.end());
  return start;
}

std::vector<pid_t> workers_of(const Process& process) {
  std::vector<pid_t> workers;
  EXPECT_TRUE(eventually([&] {
    workers = process.children();
    return workers.size() == 2;
  }));
  return workers;
}

void expect_gone(const std::vector<pid_t>& workers) {
  for (const pid_t worker : workers) {
    EXPECT_TRUE(eventually([worker] { return !is_running(worker); })) << "an orphan: " << worker;
  }
}

bool ignores(pid_t pid, int signal) {
  const std::string status = read_file("/proc/" + std::to_string(pid) + "/status");
  const std::size_t at = status.find("SigIgn:");
  const std::uint64_t mask = at == std::string::npos ? 0 : std::stoull(status.substr(at + 7), nullptr, 16);
  return (mask >> (signal - 1) & 1) != 0;
}

class Signals : public ::testing::TestWithParam<int> {};

TEST_P(Signals, EndAnExposureWithTheTableSoFar) {
  Start start;
  start.arguments = {"exposure",
                     "--config",
                     "num_attention_heads=128",
                     "--config",
                     "qk_nope_head_dim=512",
                     "--config",
                     "qk_rope_head_dim=512",
                     "--config",
                     "v_head_dim=512",
                     "--cp",
                     "1,2,4,8",
                     "--jobs",
                     "2"};
  Process process(start);
  workers_of(process);
  ASSERT_EQ(kill(process.pid(), GetParam()), 0);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 128 + GetParam()) << outcome.err;
  EXPECT_NE(outcome.out.find("  ?  "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("safe: none\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("not judged to the end: block_h=1;"), std::string::npos) << outcome.out;
}

TEST_P(Signals, EndTheCheckWithTheTableAndTheFiles) {
  const TemporaryDirectory directory;
  Process process(endless({"cpu/mla_rope_q_fwd", "--seed", "5", "--json", directory.file("r.json")}));
  const std::vector<pid_t> workers = workers_of(process);
  ASSERT_EQ(kill(process.pid(), GetParam()), 0);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 128 + GetParam()) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out.rfind("seed 5\n", 0), 0U) << outcome.out;
  EXPECT_NE(outcome.out.find("interrupted, nothing failed so far"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("FAILED"), std::string::npos) << outcome.out;
  EXPECT_EQ(directory.names(), std::vector<std::string>{"r.json"});
  EXPECT_EQ(nlohmann::json::parse(read_file(directory.file("r.json"))).at("interrupted"), true);
  expect_gone(workers);
}

// A terminal signals every process of the group on Ctrl-C. A worker that died of it would look like a crash.
TEST_P(Signals, ToTheWholeGroupAreNoFindings) {
  Process process(endless({"cpu/mla_rope_q_fwd"}));
  const std::vector<pid_t> workers = workers_of(process);
  for (const pid_t worker : workers) {
    EXPECT_TRUE(eventually([worker] { return ignores(worker, GetParam()); }));
  }
  ASSERT_EQ(kill(-process.pid(), GetParam()), 0);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 128 + GetParam()) << outcome.err;
  EXPECT_EQ(outcome.out.find("FAILED"), std::string::npos) << outcome.out;
  expect_gone(workers);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Signals, ::testing::Values(SIGINT, SIGTERM, SIGHUP));

TEST(Interrupted, CheckThatHasFailedSaysSo) {
  if (!has_terminals()) {
    GTEST_SKIP() << "this machine has no pseudo terminals (/dev/pts)";
  }
  Start start = endless({"cpu/mla_rope_q_fwd@head_mask_q_fwd"});
  start.err = Sink::terminal;
  Process process(start);
  const std::regex found("[1-9][0-9]* findings");
  ASSERT_TRUE(process.read_until([&](const Outcome& so_far) { return std::regex_search(so_far.err, found); }));
  ASSERT_EQ(kill(process.pid(), SIGINT), 0);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 1) << outcome.out;
  EXPECT_NE(outcome.out.find("tileproof replay '"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("; interrupted"), std::string::npos) << outcome.out;
}

TEST(Killed, SupervisorTakesItsWorkersAlong) {
  const TemporaryDirectory directory;
  Process process(endless({"--junit", directory.file("r.xml")}));
  const std::vector<pid_t> workers = workers_of(process);
  ASSERT_EQ(kill(process.pid(), SIGKILL), 0);
  EXPECT_EQ(process.wait().signal, SIGKILL);
  expect_gone(workers);
  EXPECT_TRUE(directory.names().empty()) << "half a file";
}

TEST(Killed, BenchTakesItsWorkersAlong) {
  Start start;
  start.arguments = {"bench", "--time", "100h", "--jobs", "2"};
  Process process(start);
  const std::vector<pid_t> workers = workers_of(process);
  ASSERT_EQ(kill(process.pid(), SIGTERM), 0);
  EXPECT_EQ(process.wait().signal, SIGTERM);
  expect_gone(workers);
}

// A worker that somebody kills costs one case, and is a finding.
// Clock ticks that the process has computed: a worker with some is past its start, in one case or the next.
long ticks(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t after_name = stat.rfind(')');
  long user = 0;
  if (after_name != std::string::npos) {
    std::sscanf(stat.c_str() + after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld", &user);
  }
  return user;
}

// A kill between two cases is no case's fault and no finding, so one kill may show nothing; three in a row do not.
TEST(Killed, WorkerIsReplacedAndItsCaseReported) {
  Process process(endless({"cpu/mla_rope_q_fwd"}));
  for (int round = 0; round < 3; ++round) {
    const pid_t worker = workers_of(process).front();
    EXPECT_TRUE(eventually([worker] { return ticks(worker) >= 2; }));
    ASSERT_EQ(kill(worker, SIGKILL), 0);
    EXPECT_TRUE(eventually([&] {
      const std::vector<pid_t> now = process.children();
      return now.size() == 2 && std::find(now.begin(), now.end(), worker) == now.end();
    }));
  }
  ASSERT_EQ(kill(process.pid(), SIGTERM), 0);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 1) << outcome.out;
  EXPECT_NE(outcome.out.find("SIGKILL"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace tileproof::e2e
