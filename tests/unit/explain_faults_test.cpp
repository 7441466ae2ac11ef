// Faults that look alike, and what holding a cause fixed tells of them. (Each fault by its condition: tests/e2e.)
#include <gtest/gtest.h>

#include <algorithm>

#include "execute/device.h"
#include "generate/generator.h"
#include "search/explain.h"
#include "search/minimize.h"

namespace tileproof {
namespace {

struct Explained {
  const Subject* subject = nullptr;
  const Property* property = nullptr;
  Case failing;  // the first generated one
};

std::optional<Explained> find_failure(const Subject& subject, const std::string& property_name) {
  const Property& property = *matching_properties({property_name}).at(0);
  for (std::uint64_t from = 0; from < 1000; from += 100) {
    std::vector<Attempts> cases;
    for (std::uint64_t i = from; i < from + 100; ++i) {
      cases.push_back({generate_case(subject, 1, i)});
    }
    const std::vector<Trial> trials = try_cases(subject, property, cases, {});
    const auto found = std::find_if(trials.begin(), trials.end(),
                                    [](const Trial& trial) { return trial.outcome == Trial::Outcome::fails; });
    if (found != trials.end()) {
      return Explained{&subject, &property, cases[static_cast<std::size_t>(found - trials.begin())].front()};
    }
  }
  return std::nullopt;
}

Explanation explained(const Explained& what, const std::vector<std::string>& hold = {}) {
  const Subject& subject = *what.subject;
  const Names names(*subject.operation);
  const std::string signature = try_case(subject, *what.property, what.failing, {}).signature;
  ExplainOptions options;
  for (const std::string& text : hold) {
    options.held.push_back(parse_held(*subject.operation, text));
  }
  const auto minimum =
      minimize(subject, what.failing, parse_signature(signature), {what.property}, 10, {.seconds = 60});
  EXPECT_TRUE(minimum && minimum->minimal) << subject.name;
  return explain_failure(names, subject, *what.property, minimum ? minimum->the_case : what.failing, signature, {},
                         options);
}

// Both show as wrong values: a wrong mask and a missing barrier. Without a partial block the mask cannot be the cause;
// where nothing moves within a head the barrier cannot.
TEST(ExplainFaults, TwoThatLookAlikeAreToldApartByHoldingTheOthersCause) {
  const auto mask = find_failure(*find_subject("cpu/mla_rope_q_fwd@head_mask_q_fwd"), "oracle");
  const auto race = find_failure(*find_subject("cpu/mla_rope_q_fwd@missing_barrier_q_fwd"), "oracle");
  ASSERT_TRUE(mask && race);
  EXPECT_EQ(explained(*mask, {"block_h=1"}).failing, 0U);
  EXPECT_EQ(explained(*race, {"remove_interleaving=1"}).failing, 0U);
  const Explanation still_race = explained(*race, {"block_h=1"});
  EXPECT_GT(still_race.failing, 100U);
  const Explanation still_mask = explained(*mask, {"remove_interleaving=1"});
  EXPECT_GT(still_mask.failing, 100U);
  const Names names(*mask->subject->operation);
  ASSERT_TRUE(still_race.separation);
  EXPECT_EQ(text(names, still_race.separation->condition),
            "remove_interleaving == 0 and emb_dim * size_of(dtype) > 32");
}

// With the size held, the exceptions of this fault are gone, and so is what the size implies.
TEST(ExplainFaults, WhatIsInexactOverAllIsExactWithACauseHeld) {
  const auto failing = find_failure(*find_subject("cpu/mla_rope_q_fwd@cp_floor_q_fwd"), "oracle");
  ASSERT_TRUE(failing);
  const Explanation found = explained(*failing, {"cp=1/2"});
  ASSERT_TRUE(found.separation);
  EXPECT_TRUE(found.separation->exact);
  EXPECT_EQ(text(Names(*failing->subject->operation), found.separation->condition),
            "position_ids == 0 and odd_local_lengths > 0");
}

}  // namespace
}  // namespace tileproof
