// The peer mix: the shapes on which other harnesses were measured. A check is two launches under two block sizes, the
// oracle on one of them, the guards of both (one pattern each), and block_invariance.
#include "app/bench.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "execute/runner.h"
#include "memory/arena.h"
#include "memory/counter_random.h"
#include "memory/recipes.h"
#include "record/record.h"
#include "search/results.h"

namespace tileproof {

namespace {

constexpr char kOperation[] = "mla_rope_q_fwd";
constexpr std::int64_t kHeads[] = {1, 2, 3, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128};
constexpr std::int64_t kEmb[] = {16, 32, 64};
constexpr std::int64_t kNope[] = {16, 32, 64, 128};

struct Share {
  std::uint64_t checks = 0;
  double total = 0, fill = 0, kernel = 0, gather = 0, reference = 0, inputs = 0;
  long peak_kib = 0;
  bool failed = false;
};

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

// Returns whether everything held.
bool check_once(Arena& arena, const Subject& subject, const Case& c, std::vector<HostTensors>& inputs, Share& share) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
  };
  const Clock::time_point start = Clock::now();
  make_inputs(c.problem, inputs[0]);
  share.inputs += seconds(start);
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
  share.reference += seconds(judging);
  return held;
}

void work(Share& share, int job, double seconds) {
  const Subject& subject = *clean_subject(kOperation, "cpu");
  CounterStream draw(1, static_cast<std::uint64_t>(job));
  Arena arena;
  std::vector<HostTensors> inputs(1);
  const auto start = std::chrono::steady_clock::now();
  while (share.total < seconds) {
    share.failed |= !check_once(arena, subject, peer_case(*subject.operation, draw), inputs, share);
    ++share.checks;
    share.total = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const StageTimes& times = stage_times();
  share.fill = times.fill;
  share.kernel = times.kernel;
  share.gather = times.judge;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  share.peak_kib = usage.ru_maxrss;
}

}  // namespace

int bench(const BenchArguments& arguments) {
  const std::size_t size = sizeof(Share) * static_cast<std::size_t>(arguments.jobs);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw EnvironmentError("cannot map shared memory for the bench");
  }
  auto* shares = static_cast<Share*>(memory);
  std::fflush(nullptr);
  for (int job = 0; job < arguments.jobs; ++job) {
    const pid_t pid = fork();
    if (pid < 0) {
      throw EnvironmentError("cannot start a worker process for the bench");
    }
    if (pid == 0) {
      work(shares[job], job, arguments.seconds);
      _exit(0);
    }
  }
  bool ended = true;
  for (int status = 0; wait(&status) > 0;) {
    ended = ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  Share sum;
  double rate = 0;
  for (int job = 0; job < arguments.jobs; ++job) {
    const Share& share = shares[job];
    rate += share.total > 0 ? static_cast<double>(share.checks) / share.total : 0;
    sum.checks += share.checks;
    sum.total += share.total;
    sum.inputs += share.inputs;
    sum.fill += share.fill;
    sum.kernel += share.kernel;
    sum.gather += share.gather;
    sum.reference += share.reference;
    sum.peak_kib = std::max(sum.peak_kib, share.peak_kib);
    ended = ended && !share.failed;
  }
  munmap(memory, size);
  if (!ended) {
    throw EnvironmentError("a check of the bench did not hold, or a worker died: its figures mean nothing");
  }
  const auto percent = [&sum](double part) { return 100 * part / sum.total; };
  const nlohmann::json root{{"schema", "tileproof.bench/1"},
                            {"checks_per_second", rate},
                            {"checks", sum.checks},
                            {"jobs", arguments.jobs},
                            {"peak_kib_per_job", sum.peak_kib},
                            {"percent",
                             {{"inputs", percent(sum.inputs)},
                              {"fill", percent(sum.fill)},
                              {"kernel", percent(sum.kernel)},
                              {"guards_and_gather", percent(sum.gather)},
                              {"reference_and_judge", percent(sum.reference)}}}};
  if (arguments.json == "-") {
    std::puts(root.dump(2).c_str());
    return 0;
  }
  if (!arguments.json.empty()) {
    OutputFile(arguments.json).commit(root.dump(2) + "\n");
  }
  fmt::print("peer mix: {:.0f} checks/s with {} jobs ({} checks, {} MiB a job)\n", rate, arguments.jobs, sum.checks,
             sum.peak_kib / 1024);
  fmt::print(
      "time: inputs {:.0f}%, fill {:.0f}%, kernel {:.0f}%, guards and gather {:.0f}%, reference and judge {:.0f}%\n",
      percent(sum.inputs), percent(sum.fill), percent(sum.kernel), percent(sum.gather), percent(sum.reference));
  return 0;
}

}  // namespace tileproof
