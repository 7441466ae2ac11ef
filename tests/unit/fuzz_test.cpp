// What a campaign is made of: cases as bytes, cells, and what its processes share in its directory.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fmt/format.h>

#include "fuzz/campaign.h"
#include "fuzz/case_bytes.h"
#include "fuzz/cells.h"
#include "generate/rapidcheck.h"
#include "memory/arena.h"

namespace tileproof {
namespace {

namespace fs = std::filesystem;

const std::vector<const Subject*>& clean() {
  static const std::vector<const Subject*> subjects = matching_subjects({"cpu/*"});
  return subjects;
}

SubjectCase drawn(std::uint64_t subject, std::uint64_t index) {
  const std::size_t which = subject % clean().size();
  return {which, generate_case(*clean()[which], 5, index)};
}

bool is_taken(const SubjectCase& one) {
  return is_legal(one.the_case.problem) && !outside_limits(*clean()[one.subject], one.the_case) &&
         elements_of(one.the_case.problem) <= CaseBytes::kMostElements;
}

class CaseBytesTest : public ::testing::Test {
 protected:
  CaseBytes bytes_{clean(), 9};
};

RC_GTEST_FIXTURE_PROP(CaseBytesTest, AnyBytesAreACaseThatItsSubjectTakes, (const std::string& any)) {
  const SubjectCase one = bytes_.decode(any);
  RC_ASSERT(is_taken(one));
  RC_ASSERT(bytes_.decode(any) == one);
}

RC_GTEST_FIXTURE_PROP(CaseBytesTest, WhatWasEncodedIsThatVeryCase, (std::uint64_t subject, std::uint64_t index)) {
  const SubjectCase one = drawn(subject, index);
  RC_PRE(is_taken(one));
  RC_ASSERT(bytes_.decode(bytes_.encode(one)) == one);
}

// Bytes as libFuzzer leaves them when it cuts and splices without knowing what they are.
RC_GTEST_FIXTURE_PROP(CaseBytesTest, MangledCasesAreCasesToo,
                      (std::uint64_t subject, std::uint64_t index, std::uint16_t at, const std::string& noise)) {
  std::string text = bytes_.encode(drawn(subject, index));
  const std::size_t place = at % text.size();
  text = text.substr(0, place) + noise + text.substr(std::min(text.size(), place + noise.size() / 2));
  RC_ASSERT(is_taken(bytes_.decode(text)));
}

TEST_F(CaseBytesTest, EveryWordThatCanBeReadCounts) {
  const SubjectCase one =
      bytes_.decode("cpu/mla_rope_q_fwd nonsense head_num=7 dtype=\xff emb_dim=6x nope_dim=5 | block_h=3 num_warps=x");
  EXPECT_EQ(clean()[one.subject]->name, "cpu/mla_rope_q_fwd");
  EXPECT_EQ(one.the_case.problem.integer("head_num"), 7);
  EXPECT_EQ(one.the_case.problem.integer("nope_dim"), 5);
  ASSERT_EQ(one.the_case.tilings.size(), 1U);
  EXPECT_EQ(one.the_case.tilings.front().values.front(), 3);
}

TEST_F(CaseBytesTest, WhatASubjectDoesNotTakeIsReplacedWhole) {
  const SubjectCase one = bytes_.decode("cpu/mla_rope_q_fwd head_num=256 nope_dim=4096 layout=sbhd seq=4096 batch=64");
  EXPECT_TRUE(is_taken(one));
  EXPECT_EQ(clean()[one.subject]->name, "cpu/mla_rope_q_fwd");
}

RC_GTEST_FIXTURE_PROP(CaseBytesTest, MutantsAreCasesAndTheSameForTheSameDraw,
                      (std::uint64_t subject, std::uint64_t index, std::uint64_t draw)) {
  const SubjectCase one = drawn(subject, index);
  const SubjectCase mutant = bytes_.mutate(one, draw);
  RC_ASSERT(is_taken(mutant));
  RC_ASSERT(bytes_.mutate(one, draw) == mutant);
}

TEST_F(CaseBytesTest, MutationChangesFewParametersOrDrawsAnew) {
  int near = 0;
  int anew = 0;
  for (std::uint64_t draw = 0; draw < 400; ++draw) {
    const SubjectCase one = drawn(0, draw);
    const SubjectCase mutant = bytes_.mutate(one, draw);
    EXPECT_FALSE(mutant == one) << bytes_.encode(one);
    int same = 0;
    for (const Parameter& parameter : one.the_case.problem.operation().parameters()) {
      same += mutant.subject == one.subject &&
                      one.the_case.problem.value(parameter.key) == mutant.the_case.problem.value(parameter.key)
                  ? 1
                  : 0;
    }
    const auto parameters = static_cast<int>(one.the_case.problem.operation().parameters().size());
    near += same >= parameters - 6 ? 1 : 0;
    anew += mutant.subject != one.subject ? 1 : 0;
  }
  EXPECT_GT(near, 120);
  EXPECT_GT(anew, 80);
}

RC_GTEST_FIXTURE_PROP(CaseBytesTest, CrossingTakesEveryParameterFromOneOfBoth,
                      (std::uint64_t subject, std::uint64_t index, std::uint64_t draw)) {
  const SubjectCase a = drawn(subject, index);
  const SubjectCase b = drawn(subject, index + 1);
  const SubjectCase child = bytes_.cross(a, b, draw);
  RC_ASSERT(is_taken(child));
  RC_ASSERT(bytes_.cross(a, b, draw) == child);
}

TEST_F(CaseBytesTest, CrossingMixesBoth) {
  int mixed = 0;
  for (std::uint64_t draw = 0; draw < 200; ++draw) {
    const SubjectCase a = drawn(0, draw);
    const SubjectCase b = drawn(0, draw + 1000);
    const SubjectCase child = bytes_.cross(a, b, draw);
    const auto is_of = [&](const SubjectCase& parent, const char* key) {
      return parent.the_case.problem.value(key) == child.the_case.problem.value(key);
    };
    const bool heads_of_a = is_of(a, "head_num") && !is_of(b, "head_num");
    const bool dim_of_b = is_of(b, "emb_dim") && !is_of(a, "emb_dim");
    mixed += heads_of_a && dim_of_b ? 1 : 0;
  }
  EXPECT_GT(mixed, 15);
}

class CellsTest : public ::testing::Test {
 protected:
  std::set<std::string> names_of(const SubjectCase& one) const {
    std::vector<std::uint32_t> covered;
    cells_.covered(one.subject, one.the_case, covered);
    std::set<std::string> names;
    for (const std::uint32_t cell : covered) {
      names.insert(cells_.name(cell));
    }
    EXPECT_EQ(names.size(), covered.size()) << "two cells of one name";
    return names;
  }
  Cells cells_{clean()};
};

TEST_F(CellsTest, ACaseCoversThePairsOfItsFeatures) {
  const CaseBytes bytes(clean(), 9);
  const std::string start =
      "cpu/mla_rope_q_fwd mla_rope_q_fwd dtype=bf16 layout=sbhd seq=3 batch=1 nope_dim=0 emb_dim=8 ";
  const std::set<std::string> names =
      names_of(bytes.decode(start + "head_num=12 inverse=1 remove_interleaving=0 data=normal:1 | block_h=8"));
  for (const char* name :
       {"cpu/mla_rope_q_fwd: dtype=bf16, layout=sbhd", "cpu/mla_rope_q_fwd: nope_dim=0, emb_dim=power of two",
        "cpu/mla_rope_q_fwd: block_h=power of two, heads in tiles of block_h=a part over"}) {
    EXPECT_TRUE(names.contains(name)) << name << " is not among " << *names.begin() << " ...";
  }
  const std::set<std::string> others =
      names_of(bytes.decode(start + "head_num=16 inverse=1 remove_interleaving=0 data=normal:1 | block_h=8"));
  EXPECT_TRUE(others.contains("cpu/mla_rope_q_fwd: block_h=power of two, heads in tiles of block_h=whole ones"));
}

// The classes of a length against a tile, by the edges between them.
TEST_F(CellsTest, TailsAreToldApart) {
  const std::pair<std::pair<int, int>, const char*> expected[] = {{{3, 4}, "less than one"}, {{4, 4}, "one"},
                                                                  {{8, 4}, "whole ones"},    {{5, 4}, "one over"},
                                                                  {{7, 4}, "one short"},     {{6, 4}, "a part over"}};
  const CaseBytes bytes(clean(), 9);
  for (const auto& [numbers, tail] : expected) {
    const SubjectCase one = bytes.decode(fmt::format(
        "cpu/mla_rope_q_fwd mla_rope_q_fwd dtype=f32 layout=sbhd seq=3 batch=1 nope_dim=0 emb_dim=8 head_num={} "
        "inverse=0 remove_interleaving=0 data=normal:1 | block_h={}",
        numbers.first, numbers.second));
    EXPECT_TRUE(
        names_of(one).contains(fmt::format("cpu/mla_rope_q_fwd: dtype=f32, heads in tiles of block_h={}", tail)))
        << numbers.first << " " << numbers.second;
  }
}

TEST_F(CellsTest, WhatCasesCoverIsReachableAndWhatExcludesItselfIsNot) {
  const std::vector<bool> reachable = cells_.reachable();
  std::set<std::string> out_of_reach;
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    if (!reachable[cell]) {
      out_of_reach.insert(cells_.name(cell));
    }
  }
  for (const Subject* subject : clean()) {
    EXPECT_TRUE(out_of_reach.contains(subject->name + ": data=exact, broadcast=head") ||
                out_of_reach.contains(subject->name + ": broadcast=head, data=exact"))
        << subject->name;
  }
  std::vector<std::uint32_t> covered;
  for (std::uint64_t i = 0; i < 12'000; ++i) {
    const SubjectCase one = drawn(i, i);
    cells_.covered(one.subject, one.the_case, covered);
    for (const std::uint32_t cell : covered) {
      ASSERT_TRUE(reachable[cell]) << cells_.name(cell) << " by " << text(one.the_case);
    }
  }
}

class CampaignTest : public ::testing::Test {
 protected:
  CampaignTest() {
    std::string name = (fs::temp_directory_path() / "tileproof_campaign_XXXXXX").string();
    directory_ = mkdtemp(name.data());
    fs::create_directory(directory_ + "/flights");
    fs::create_directory(directory_ + "/lost");
  }
  ~CampaignTest() override { fs::remove_all(directory_); }

  // In a process that ends there and then.
  void fly(const std::vector<std::string>& inputs, bool land) const {
    const pid_t child = fork();
    if (child == 0) {
      auto* flight = new Flight(directory_);
      flight->take_off(inputs);
      if (land) {
        flight->land();
      }
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  }
  std::vector<std::string> lost() const {
    std::vector<std::string> result;
    for (const LostInput& input : lost_inputs(directory_)) {
      result.push_back(input.input);
    }
    return result;
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream(directory_ + "/" + name) << text; }
  std::string directory_;
};

TEST_F(CampaignTest, SettingsAreReadAsTheyWereWritten) {
  const CampaignSettings settings{{"cpu/mla_rope_q_fwd"}, {"guards", "oracle"}, 18446744073709551615ULL, 3, 0.5};
  EXPECT_FALSE(has_settings(directory_));
  write_settings(directory_, settings);
  EXPECT_TRUE(has_settings(directory_));
  EXPECT_EQ(read_settings(directory_), settings);
  EXPECT_EQ(subjects_of(settings).front()->name, "cpu/mla_rope_q_fwd");
  EXPECT_EQ(properties_of(settings).size(), 2U);
}

TEST_F(CampaignTest, SettingsOfOthersAreRefused) {
  EXPECT_THROW(read_settings(directory_), InputError);
  constexpr char kSubjects[] =
      R"({"schema": "tileproof.campaign/1", "subjects": 3, "properties": [], "seed": 1,
          "sanitize_every": 1, "timeout": 1})";
  for (const std::string text :
       {"", "{", "[]", R"({"schema": "tileproof.campaign/2"})", R"({"schema": "tileproof.campaign/1"})", kSubjects}) {
    write("settings.json", text);
    EXPECT_THROW(read_settings(directory_), InputError) << text;
  }
  EXPECT_THROW(subjects_of({{"cpu/nothing"}, {}, 0, 0, 1}), InputError);
  EXPECT_THROW(properties_of({{}, {"nothing"}, 0, 0, 1}), InputError);
}

TEST_F(CampaignTest, WhatWasInFlightWhenAProcessDiedIsKept) {
  fly({"one", "two"}, false);
  fly({"three"}, true);
  collect_flights(directory_, Flights::of_the_dead);
  EXPECT_EQ(lost(), (std::vector<std::string>{"one", "two"}));
  EXPECT_TRUE(fs::is_empty(directory_ + "/flights"));
}

TEST_F(CampaignTest, FlightsOfTheLivingAreLeftAlone) {
  Flight flight(directory_);
  flight.take_off({"one"});
  collect_flights(directory_, Flights::of_the_dead);
  collect_flights(directory_, Flights::discard);
  EXPECT_TRUE(lost().empty());
  collect_flights(directory_, Flights::all);
  EXPECT_EQ(lost(), std::vector<std::string>{"one"});
}

TEST_F(CampaignTest, FlightsThatThisProgramEndedAreThrownAway) {
  fly({"one"}, false);
  collect_flights(directory_, Flights::discard);
  EXPECT_TRUE(lost().empty());
  EXPECT_TRUE(fs::is_empty(directory_ + "/flights"));
}

TEST_F(CampaignTest, AFlightThatWasCutShortIsNotBelieved) {
  write("flights/999999999", "one");
  collect_flights(directory_, Flights::of_the_dead);
  EXPECT_TRUE(lost().empty());
  EXPECT_TRUE(fs::is_empty(directory_ + "/flights"));
}

TEST_F(CampaignTest, TheBoardOutlivesItsProcesses) {
  {
    CampaignBoard board(directory_, 10);
    board.cases() += 5;
    board.first_seen(9) = 7;
    board.give_up("the first reason");
    board.give_up("the second one");
  }
  {
    CampaignBoard board(directory_, 10);
    EXPECT_EQ(board.cases(), 5U);
    EXPECT_EQ(board.first_seen(9), 7);
    EXPECT_EQ(board.gave_up(), "the first reason");
    board.forget_giving_up();
    EXPECT_EQ(board.gave_up(), "");
  }
  CampaignBoard other(directory_, 11);
  EXPECT_EQ(other.cases(), 0U) << "a board of other cells was taken for this one";
}

}  // namespace
}  // namespace tileproof
