// The database of a campaign: nothing that was recorded is lost, and no file that is not ours is touched.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/arena.h"
#include "record/store.h"

namespace tileproof {
namespace {

namespace fs = std::filesystem;
using Mode = Database::Mode;

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    std::string name = (fs::temp_directory_path() / "tileproof_store_XXXXXX").string();
    directory_ = mkdtemp(name.data());
  }
  ~StoreTest() override {
    chmod(directory_.c_str(), 0755);
    fs::remove_all(directory_);
  }

  std::string file() const { return directory_ + "/" + kStoreFile; }

  std::string bytes() const {
    std::ifstream stream(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  // That opening it in both modes says `words`, and leaves the file as it is.
  void expect_refused(const std::string& words) const {
    const std::string before = bytes();
    for (const Mode mode : {Mode::create, Mode::read}) {
      try {
        const Store store(directory_, mode);
        ADD_FAILURE() << "opened";
      } catch (const InputError& error) {
        EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      }
    }
    EXPECT_EQ(bytes(), before);
  }

  std::string directory_;
};

// Its exit status, or 128 + the signal that ended it.
int status_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

pid_t in_child(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    bool good = false;
    try {
      good = work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    _exit(good ? 0 : 1);
  }
  return child;
}

Finding finding_named(const std::string& signature, std::int64_t elements = 100) {
  Finding finding;
  finding.subject = "cpu/some_kernel";
  finding.property = "guards";
  finding.signature = signature;
  finding.case_text = "case of " + std::to_string(elements);
  finding.message = "it's \"broken\"\nbadly \x01";
  finding.evidence = {"one", "two; drop table findings"};
  finding.count = 1;
  finding.first_case = 7;
  finding.case_number = 9;
  finding.elements = elements;
  return finding;
}

TEST_F(StoreTest, GivesBackWhatWasRecorded) {
  Finding finding = finding_named("guards/out/after/store");
  {
    Store store(directory_, Mode::create);
    EXPECT_TRUE(store.record(finding, 1000));
    finding.minimal = MinimalCase{"simplest", "guards/out/between/store", "message", {"a", "b"}, true, 42, 3, 8};
    finding.condition = "fails when block_h > 1";
    store.close(finding, "findings/one.cases");
    store.add(Sample{5, 1.5, 2, 3, 4, 5, 6, 7});
    store.add(Sample{4, 0.5, 1, 1, 1, 5, 1, 0});
    store.set_fact("seed", "1");
    store.set_fact("seed", "2");
  }
  const Store store(directory_, Mode::read);
  const std::vector<StoredFinding> findings = store.findings();
  ASSERT_EQ(findings.size(), 1U);
  const Finding& read = findings[0].finding;
  EXPECT_EQ(read.subject, finding.subject);
  EXPECT_EQ(read.property, finding.property);
  EXPECT_EQ(read.signature, finding.signature);
  EXPECT_EQ(read.case_text, finding.case_text);
  EXPECT_EQ(read.message, finding.message);
  EXPECT_EQ(read.evidence, finding.evidence);
  EXPECT_EQ(read.count, 1U);
  EXPECT_EQ(read.first_case, 7U);
  EXPECT_EQ(read.case_number, 9U);
  EXPECT_EQ(read.elements, 100);
  EXPECT_EQ(read.condition, finding.condition);
  ASSERT_TRUE(read.minimal);
  EXPECT_EQ(read.minimal->case_text, "simplest");
  EXPECT_EQ(read.minimal->signature, "guards/out/between/store");
  EXPECT_EQ(read.minimal->message, "message");
  EXPECT_EQ(read.minimal->evidence, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(read.minimal->complete);
  EXPECT_EQ(read.minimal->tried, 42U);
  EXPECT_EQ(read.minimal->failures, 3);
  EXPECT_EQ(read.minimal->launches, 8);
  EXPECT_EQ(findings[0].artifact, "findings/one.cases");
  EXPECT_EQ(store.fact("seed"), "2");
  EXPECT_EQ(store.fact("never set"), "");
  const std::vector<Sample> samples = store.samples();
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].at, 4);
  const Sample& last = samples[1];
  EXPECT_EQ(last.elapsed, 1.5);
  EXPECT_EQ(
      (std::vector<std::uint64_t>{last.cases, last.launches, last.cells, last.reachable, last.corpus, last.findings}),
      (std::vector<std::uint64_t>{2, 3, 4, 5, 6, 7}));
}

TEST_F(StoreTest, KeepsOneRowPerSignatureWithItsSmallestCase) {
  Store store(directory_, Mode::create);
  EXPECT_TRUE(store.record(finding_named("a", 100), 10));
  EXPECT_FALSE(store.record(finding_named("a", 200), 30));
  EXPECT_FALSE(store.record(finding_named("a", 50), 20));
  EXPECT_TRUE(store.record(finding_named("b"), 5));
  const std::vector<StoredFinding> findings = store.findings();
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].finding.signature, "b");  // the earlier one
  EXPECT_EQ(findings[1].finding.count, 3U);
  EXPECT_EQ(findings[1].finding.case_text, "case of 50");
  EXPECT_EQ(findings[1].finding.elements, 50);
  EXPECT_EQ(findings[1].first_seen, 10);
  EXPECT_EQ(findings[1].last_seen, 30);
}

TEST_F(StoreTest, AddsUpPairsAndCells) {
  Store store(directory_, Mode::create);
  store.add(
      {TriedPair{"s", "p", "head_num", "block_h", 3, 2, 1, 0}, TriedPair{"s", "p", "head_num", "block_h", 2, 2, 1, 1}});
  store.add({TriedPair{"s", "p", "head_num", "block_h", 3, 2, 4, 5}});
  store.add({Cell{"b", 0}, Cell{"a", 50}});
  store.add({Cell{"b", 70}, Cell{"a", 60}});
  const std::vector<TriedPair> pairs = store.pairs();
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].across, 2);
  EXPECT_EQ(pairs[1].across, 3);
  EXPECT_EQ(pairs[1].down, 2);
  EXPECT_EQ(pairs[1].passed, 5U);
  EXPECT_EQ(pairs[1].failed, 5U);
  const std::vector<Cell> cells = store.cells();
  ASSERT_EQ(cells.size(), 2U);
  EXPECT_EQ(cells[0].first_seen, 50);
  EXPECT_EQ(cells[1].first_seen, 70);  // when it was first tried, not when it was named
}

TEST_F(StoreTest, KnowsWhichFindingsAreOpen) {
  Store store(directory_, Mode::create);
  EXPECT_EQ(store.finding_count(), 0U);
  EXPECT_FALSE(store.has_open_findings());
  store.record(finding_named("a"), 1);
  store.record(finding_named("b"), 2);
  store.record(finding_named("b"), 3);
  EXPECT_EQ(store.finding_count(), 2U);
  store.close(finding_named("a"), "findings/a.cases");
  EXPECT_TRUE(store.has_open_findings());
  store.close(finding_named("b"), "findings/b.cases");
  EXPECT_FALSE(store.has_open_findings());
  EXPECT_EQ(store.finding_count(), 2U);
}

TEST_F(StoreTest, RefusesWhatIsNoDatabase) {
  std::ofstream(file()) << std::string(10'000, 'x');
  expect_refused("damaged or no database");
}

TEST_F(StoreTest, RefusesADamagedDatabase) {
  {
    Store store(directory_, Mode::create);
    for (int i = 0; i < 300; ++i) {
      store.record(finding_named("signature " + std::to_string(i)), i);
    }
  }
  std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(fs::file_size(file()) / 2));
  stream << std::string(9000, '\x5a');
  stream.close();
  expect_refused("damaged or no database");
}

TEST_F(StoreTest, RefusesADatabaseThatEndsEarly) {
  { const Store store(directory_, Mode::create); }
  fs::resize_file(file(), fs::file_size(file()) - 4096);
  expect_refused("damaged or no database");
}

TEST_F(StoreTest, RefusesANewerSchema) {
  { const Store store(directory_, Mode::create); }
  Database(file(), Mode::create).execute("PRAGMA user_version=2");
  expect_refused("schema 2, which a newer tileproof wrote");
}

TEST_F(StoreTest, RefusesADatabaseOfAnotherProgram) {
  Database(file(), Mode::create).execute("CREATE TABLE theirs (x)");
  expect_refused("a database of another program");
}

TEST_F(StoreTest, RefusesToReadWhatIsNotThere) {
  EXPECT_THROW(Store(directory_, Mode::read), InputError);
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(StoreTest, BeginsWhereItsMakerWasEndedAtOnce) {
  std::ofstream(file()).close();
  Store store(directory_, Mode::create);
  EXPECT_TRUE(store.record(finding_named("a"), 1));
}

TEST_F(StoreTest, RefusesToReadAFindingThatWasTamperedWith) {
  {
    Store store(directory_, Mode::create);
    store.record(finding_named("a"), 1);
  }
  Database(file(), Mode::create).execute("UPDATE findings SET minimal = '{\"case\": 3'");
  EXPECT_THROW(Store(directory_, Mode::read).findings(), InputError);
}

TEST_F(StoreTest, IsSharedByProcessesAndLosesNothingWhenTheyAreKilled) {
  { const Store store(directory_, Mode::create); }
  // A process says each record that returned; one is killed in the middle of its work, three times over.
  std::size_t said = 0;
  for (int round = 0; round < 3; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const auto record_many = [&](const std::string& who, int count, bool say) {
      return in_child([&, who, count, say] {
        Store store(directory_, Mode::create);
        for (int i = 0; i < count; ++i) {
          store.record(finding_named(who + std::to_string(i)), i);
          store.record(finding_named("common"), i);
          if (say && write(pipe_ends[1], "x", 1) != 1) {
            return false;
          }
        }
        return true;
      });
    };
    const std::string name = "round " + std::to_string(round);
    const pid_t killed = record_many(name + " killed ", 1'000'000, true);
    const pid_t other = record_many(name + " other ", 20, false);
    char letter = 0;
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(read(pipe_ends[0], &letter, 1), 1);
    }
    kill(killed, SIGKILL);
    EXPECT_EQ(status_of(killed), 128 + SIGKILL);
    EXPECT_EQ(status_of(other), 0);
    ::close(pipe_ends[1]);
    for (said += 10; read(pipe_ends[0], &letter, 1) == 1; ++said) {
    }
    ::close(pipe_ends[0]);
  }
  std::size_t common = 0;
  std::size_t killed = 0;
  std::size_t other = 0;
  for (const StoredFinding& stored : Store(directory_, Mode::read).findings()) {
    const std::string& signature = stored.finding.signature;
    common += signature == "common" ? stored.finding.count : 0;
    killed += signature.find("killed") != std::string::npos ? 1 : 0;
    other += signature.find("other") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(other, 60U);
  EXPECT_GE(killed, said);
  EXPECT_LE(killed, said + 3);  // in each round one may have been recorded and not said
  EXPECT_GE(common, said + 60);
  EXPECT_LE(common, said + 60 + 3);
}

TEST_F(StoreTest, SaysThatTheDiskIsFullAndKeepsWhatWasRecorded) {
  const pid_t child = in_child([&] {
    Store store(directory_, Mode::create);
    store.record(finding_named("kept"), 1);
    // Files of this process cannot grow any further, as on a full disk.
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{fs::file_size(file() + "-wal"), RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      for (int i = 0; i < 1000; ++i) {
        store.record(finding_named("lost" + std::to_string(i)), 2);
      }
    } catch (const EnvironmentError& error) {
      const std::string words = error.what();
      return words.find("free space") != std::string::npos && words.find('\n') == std::string::npos;
    }
    return false;
  });
  EXPECT_EQ(status_of(child), 0);
  const std::vector<StoredFinding> findings = Store(directory_, Mode::create).findings();
  ASSERT_GE(findings.size(), 1U);
  EXPECT_EQ(findings[0].finding.signature, "kept");
}

TEST_F(StoreTest, ReadsInADirectoryThatCannotBeWritten) {
  {
    Store store(directory_, Mode::create);
    store.record(finding_named("a"), 1);
  }
  chmod(directory_.c_str(), 0555);
  const pid_t child = in_child([&] {
    if (geteuid() == 0 && setuid(65534) != 0) {
      return false;
    }
    return Store(directory_, Mode::read).findings().size() == 1;
  });
  EXPECT_EQ(status_of(child), 0);
}

}  // namespace
}  // namespace tileproof
