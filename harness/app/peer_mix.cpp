#include "app/peer_mix.h"

#include <chrono>

#include "execute/runner.h"
#include "memory/recipes.h"
#include "search/results.h"

namespace tileproof {

namespace {

constexpr std::int64_t kHeads[] = {1, 2, 3, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128};
constexpr std::int64_t kEmb[] = {16, 32, 64};
constexpr std::int64_t kNope[] = {16, 32, 64, 128};

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

bool peer_check_holds(Arena& arena, const Subject& subject, const Case& c, std::vector<HostTensors>& inputs,
                      PeerTimes& times) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
  };
  const Clock::time_point start = Clock::now();
  make_inputs(c.problem, inputs[0]);
  times.inputs += seconds(start);
  Plan plan;
  std::vector<RunResult> runs;
  for (std::size_t i = 0; i < 2; ++i) {
    const Memory memory{.guard = i == 0 ? GuardFill::finite : GuardFill::nan};
    plan.run({&subject, plan.problem(c.problem), c.tilings[i], memory, {}});
    runs.push_back(execute_run(arena, subject, c.problem, c.tilings[i], memory, inputs[0]));
  }
  const Clock::time_point judging = Clock::now();
  const Results results(plan, inputs, runs);
  const CaseContext context{c, subject, nullptr};
  const bool held = runs[0].damage.empty() && runs[1].damage.empty() && !compare_with_reference(context, results, 0) &&
                    !compare_runs(context, results, 0, 1, {}, "differs");
  times.reference += seconds(judging);
  return held;
}

}  // namespace tileproof
