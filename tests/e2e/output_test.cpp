// Standard output and error: closed, full, a terminal; help and doctor.
#include <algorithm>

#include <gtest/gtest.h>

#include "expect.h"
#include "process.h"

namespace tileproof::e2e {
namespace {

constexpr char kFault[] = "cpu/mla_rope_q_fwd@head_mask_q_fwd";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Start quick_check(std::vector<std::string> more = {}) {
  Start start;
  start.arguments = {"check", kFault, "--cases", "40", "--seed", "1"};
  start.arguments.insert(start.arguments.end(), more.begin(), more.end());
  return start;
}

class EveryCommand : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(EveryCommand, RefusesAClosedOutput) {
  Start start;
  start.arguments = GetParam();
  start.out = Sink::closed;
  expect_refusal(run(start), 3, {"standard output is closed"});
}

TEST_P(EveryCommand, SaysThatTheDeviceIsFull) {
  Start start;
  start.arguments = GetParam();
  start.out = Sink::full_device;
  expect_refusal(run(start), 3, {"standard output cannot be written", "No space left on device"});
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryCommand,
    ::testing::Values(std::vector<std::string>{"list"}, std::vector<std::string>{"list", "--json"},
                      std::vector<std::string>{"doctor"}, std::vector<std::string>{"--help"},
                      std::vector<std::string>{"--version"}, std::vector<std::string>{"check", "--cases", "5"},
                      std::vector<std::string>{"check", "--cases", "5", "--json", "-"},
                      std::vector<std::string>{"bench", "--jobs", "1", "--time", "100ms"},
                      std::vector<std::string>{"replay",
                                               "mla_rope_q_fwd dtype=f32 layout=sbhd seq=2 batch=1 head_num=3 "
                                               "nope_dim=0 emb_dim=4 data=normal:1 | block_h=2 ; block_h=1"}));

TEST(Output, ClosedErrorHarmsNothing) {
  const TemporaryDirectory directory;
  Start start = quick_check({"--json", directory.file("r.json")});
  start.err = Sink::closed;
  EXPECT_EQ(run(start).status, 1);
  EXPECT_EQ(read_file(directory.file("r.json")).front(), '{');
}

TEST(Output, FullDeviceForAFileStillPrintsTheTable) {
  const Outcome outcome = run(quick_check({"--json", "/dev/full"}));
  expect_refusal(outcome, 3, {"--json '/dev/full' could not be written", "No space left on device"});
  EXPECT_TRUE(contains(outcome.out, "tileproof replay '")) << outcome.out;
}

TEST(Output, ADeviceIsWrittenToAndNotReplaced) {
  EXPECT_EQ(run(quick_check({"--json", "/dev/null"})).status, 1);
  EXPECT_EQ(read_file("/dev/null"), "");
  Start start = quick_check({"--junit", "/dev/stderr"});
  EXPECT_EQ(run(start).err.rfind("<?xml", 0), 0U);
}

TEST(Output, AnExistingFileIsReplacedWhole) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("r.json", std::string(1 << 20, 'x'));
  EXPECT_EQ(run(quick_check({"--json", path})).status, 1);
  const std::string text = read_file(path);
  EXPECT_EQ(text.front(), '{');
  EXPECT_EQ(text.find('x' + std::string(10, 'x')), std::string::npos);
}

TEST(Output, NoColourAndNoProgressOutsideATerminal) {
  const Outcome outcome = run(quick_check());
  EXPECT_EQ(outcome.err, "");
  EXPECT_FALSE(contains(outcome.out, "\x1b")) << outcome.out;
}

TEST(Output, ColourOnATerminalUnlessToldNotTo) {
  if (!has_terminals()) {
    GTEST_SKIP() << "this machine has no pseudo terminals (/dev/pts)";
  }
  Start start = quick_check();
  start.out = Sink::terminal;
  EXPECT_TRUE(contains(run(start).out, "\x1b[31;1mFAILED"));
  start.environment = {"NO_COLOR=1"};
  EXPECT_FALSE(contains(run(start).out, "\x1b"));
  start.environment = {"NO_COLOR="};
  EXPECT_TRUE(contains(run(start).out, "\x1b"));
  start.environment = {"TERM=dumb"};
  EXPECT_FALSE(contains(run(start).out, "\x1b"));
}

TEST(Output, ProgressOnATerminalIsWipedAtTheEnd) {
  if (!has_terminals()) {
    GTEST_SKIP() << "this machine has no pseudo terminals (/dev/pts)";
  }
  Start start;
  start.arguments = {"check", "cpu/mla_rope_q_fwd", "--time", "1500ms"};
  start.err = Sink::terminal;
  const Outcome outcome = run(start);
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_TRUE(contains(outcome.err, " cases  ")) << outcome.err;
  ASSERT_GE(outcome.err.size(), 4U);
  EXPECT_EQ(outcome.err.substr(outcome.err.size() - 4), "\r\x1b[K");
  EXPECT_FALSE(contains(outcome.out, "\x1b"));
}

TEST(Output, HelpSaysWhatAndHow) {
  const Outcome top = tileproof({"--help"});
  EXPECT_EQ(top.status, 0);
  for (const char* command : {"check", "replay", "list", "bench", "doctor"}) {
    EXPECT_TRUE(contains(top.out, command)) << top.out;
    const Outcome help = tileproof({command, "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_EQ(help.err, "");
    EXPECT_TRUE(contains(help.out, "Example")) << help.out;
    EXPECT_TRUE(contains(help.out, std::string("tileproof ") + command)) << help.out;
  }
}

TEST(Output, Version) {
  const Outcome outcome = tileproof({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "tileproof " TILEPROOF_VERSION "\n");
}

TEST(Output, ListNamesWhatCheckTakes) {
  const Outcome outcome = tileproof({"list"});
  EXPECT_EQ(outcome.status, 0);
  for (const char* part : {"\nproperties\n", "\noperations\n", "\nfaults\n", kFault, "block_invariance"}) {
    EXPECT_TRUE(contains(outcome.out, part)) << part;
  }
  EXPECT_TRUE(contains(tileproof({"list", "operations"}).out, "head_num=")) << "parameters of operations";
}

TEST(Doctor, SaysWhatRunsAndWhyTheRestDoesNot) {
  const Outcome outcome = tileproof({"doctor"});
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  for (const char* part : {"cores", "avx2", "compiler", "fibers", "sparse", "toolkit", "gpu", "device cpu usable"}) {
    EXPECT_TRUE(contains(outcome.out, part)) << "no " << part << " in\n" << outcome.out;
  }
}

}  // namespace
}  // namespace tileproof::e2e
