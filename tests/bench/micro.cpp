// Where the time of a check goes, stage by stage, and that it grows with the elements touched and not faster.
//   build/release/tests/bench/tileproof_micro
#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include "app/peer_mix.h"
#include "execute/runner.h"
#include "memory/arena.h"
#include "memory/recipes.h"
#include "operations.h"
#include "search/engine.h"
#include "search/results.h"

namespace tileproof {
namespace {

const Subject& subject() { return *clean_subject(kPeerOperation, "cpu"); }

// 96 columns a head, 24 heads; `tokens` scales it.
Case case_of(std::int64_t tokens) {
  return parse_case(
      fmt::format("mla_rope_q_fwd dtype=bf16 layout=sbhd seq={} batch=1 head_num=24 nope_dim=64 emb_dim=32 inverse=0 "
                  "remove_interleaving=0 data=normal:1 | block_h=16 num_warps=1 ; block_h=8 num_warps=1",
                  tokens));
}

void report(benchmark::State& state) {
  const std::int64_t elements = state.range(0) * 24 * 96;
  state.SetComplexityN(elements);
  state.SetItemsProcessed(state.iterations() * elements);
}

void inputs(benchmark::State& state) {
  const Case c = case_of(state.range(0));
  HostTensors tensors;
  for (auto _ : state) {
    make_inputs(c.problem, tensors);
  }
  report(state);
}

void fill(benchmark::State& state) {
  const Case c = case_of(state.range(0));
  HostTensors tensors;
  make_inputs(c.problem, tensors);
  Arena arena;
  for (auto _ : state) {
    arena.prepare(lay_out(c.problem, {}), GuardFill::finite, 16);
    arena.scatter(arena.tensors().front(), tensors.front().bytes.data());
  }
  report(state);
}

void guards(benchmark::State& state) {
  Arena arena;
  arena.prepare(lay_out(case_of(state.range(0)).problem, {.strides = Strides::padded}), GuardFill::finite, 16);
  for (auto _ : state) {
    benchmark::DoNotOptimize(arena.damage(GuardFill::finite));
  }
  report(state);
}

void run(benchmark::State& state) {
  const Case c = case_of(state.range(0));
  HostTensors tensors;
  make_inputs(c.problem, tensors);
  Arena arena;
  for (auto _ : state) {
    benchmark::DoNotOptimize(execute_run(arena, subject(), c.problem, c.tilings[0], {}, tensors));
  }
  report(state);
}

void oracle(benchmark::State& state) {
  const Case c = case_of(state.range(0));
  std::vector<HostTensors> tensors(1);
  make_inputs(c.problem, tensors[0]);
  Plan plan;
  plan.run({&subject(), plan.problem(c.problem), c.tilings[0], {}, {}});
  Arena arena;
  std::vector<RunResult> runs{execute_run(arena, subject(), c.problem, c.tilings[0], {}, tensors[0])};
  const Results results(plan, tensors, runs);
  const CaseContext context{c, subject(), nullptr};
  for (auto _ : state) {
    benchmark::DoNotOptimize(compare_with_reference(context, results, 0));
  }
  report(state);
}

void check_of_all_properties(benchmark::State& state) {
  const Case c = case_of(state.range(0));
  Engine engine(make_cpu_executor());
  for (auto _ : state) {
    benchmark::DoNotOptimize(engine.check(subject(), {&c, 1}, all_properties(), false));
  }
  report(state);
}

void peer_check(benchmark::State& state) {
  CounterStream draw(1, 0);
  Engine engine(make_cpu_executor());
  const std::vector<const Property*> properties{&tileproof::peer_check()};
  for (auto _ : state) {
    const Case c = peer_case(*subject().operation, draw);
    if (engine.check(subject(), {&c, 1}, properties).front().front().verdict != Verdict::held) {
      state.SkipWithError("a check of the peer mix did not hold");
      return;
    }
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(inputs)->RangeMultiplier(4)->Range(4, 1024)->Complexity(benchmark::oN);
BENCHMARK(fill)->RangeMultiplier(4)->Range(4, 1024)->Complexity(benchmark::oN);
BENCHMARK(guards)->RangeMultiplier(4)->Range(4, 1024)->Complexity(benchmark::oN);
BENCHMARK(run)->RangeMultiplier(4)->Range(4, 1024)->Complexity(benchmark::oN);
BENCHMARK(oracle)->RangeMultiplier(4)->Range(4, 1024)->Complexity(benchmark::oN);
BENCHMARK(check_of_all_properties)->RangeMultiplier(4)->Range(4, 256)->Complexity(benchmark::oN);
BENCHMARK(peer_check);

}  // namespace
}  // namespace tileproof

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  tileproof::register_all_operations();
  tileproof::load_subjects();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
