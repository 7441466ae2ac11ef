#include "app/peer_mix.h"

#include "search/results.h"

namespace tileproof {

namespace {

constexpr std::int64_t kHeads[] = {1, 2, 3, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128};
constexpr std::int64_t kEmb[] = {16, 32, 64};
constexpr std::int64_t kNope[] = {16, 32, 64, 128};

class PeerCheck : public Property {
 public:
  explicit PeerCheck(bool sanitize) : sanitize_(sanitize) {}
  std::string_view name() const override { return "peer_check"; }
  std::string_view holds_when() const override { return "oracle, guards and block_invariance hold"; }
  Expectation plan(const CaseContext& context, Plan& plan) const override {
    const ProblemId problem = plan.problem(context.the_case.problem);
    Expectation expectation{.applies = true, .power = true, .reason = {}, .runs = {}};
    for (std::size_t i = 0; i < 2; ++i) {
      const Memory memory{.guard = i == 0 ? GuardFill::finite : GuardFill::nan};
      expectation.runs.push_back(
          plan.run({&context.subject, problem, context.the_case.tilings[i], memory, {}, sanitize_}));
    }
    return expectation;
  }
  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    for (const RunId id : expectation.runs) {
      if (!results.run(id).damage.empty()) {
        return Failure{"", "guards", "overrun", results.run(id).damage.front().text, {}};
      }
      if (!results.run(id).reports.empty()) {
        return Failure{"", "sanitizer", "reported", results.run(id).reports.front().message, {}};
      }
    }
    auto failure = compare_with_reference(context, results, expectation.runs[0]);
    return failure ? failure : compare_runs(context, results, expectation.runs[0], expectation.runs[1], {}, "differs");
  }

 private:
  bool sanitize_;
};

}  // namespace

Case peer_case(const Operation& operation, CounterStream& draw) {
  const auto pick = [&draw](const auto& from) { return from[draw.below(std::size(from))]; };
  Case c{Problem(operation), {}};
  c.problem.set("dtype", draw.below(2) == 0 ? 0 : 2)
      .set("seq", 1 + static_cast<std::int64_t>(draw.below(8)))
      .set("batch", 1 + static_cast<std::int64_t>(draw.below(3)))
      .set("head_num", pick(kHeads))
      .set("emb_dim", pick(kEmb))
      .set("nope_dim", pick(kNope))
      .set("inverse", static_cast<std::int64_t>(draw.below(2)))
      .set("remove_interleaving", static_cast<std::int64_t>(draw.below(2)))
      .set("data", Value{.number = 1, .second = static_cast<std::int64_t>(draw.below(1000)), .items = {}});
  const std::uint64_t first = draw.below(8);
  const std::uint64_t second = (first + 1 + draw.below(7)) % 8;
  for (const std::uint64_t shift : {first, second}) {
    Tiling tiling = default_tiling(operation);
    tiling.values = {std::int64_t{1} << shift, 1};
    c.tilings.push_back(tiling);
  }
  return c;
}

const Property& peer_check() {
  static const PeerCheck property(false);
  return property;
}

const Property& sanitizing_peer_check() {
  static const PeerCheck property(true);
  return property;
}

}  // namespace tileproof
