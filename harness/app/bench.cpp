// The peer mix: the shapes on which other harnesses were measured. A check is two launches under two block sizes, the
// oracle on one of them, the guards of both (one pattern each), and block_invariance.
#include "app/bench.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <new>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "execute/device.h"
#include "memory/arena.h"
#include "memory/counter_random.h"
#include "record/record.h"
#include "search/engine.h"
#include "search/results.h"

namespace tileproof {

namespace {

constexpr char kOperation[] = "mla_rope_q_fwd";
constexpr std::int64_t kHeads[] = {1, 2, 3, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128};
constexpr std::int64_t kEmb[] = {16, 32, 64};
constexpr std::int64_t kNope[] = {16, 32, 64, 128};

constexpr std::size_t kBatch = 64;  // checks per synchronisation, on a GPU

struct Share {
  std::uint64_t checks = 0;
  std::uint64_t launches = 0;
  double total = 0;
  StageTimes times;
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

// Two launches under two block sizes, each over guards of its own pattern; the reference against the first.
class PeerCheck : public Property {
 public:
  std::string_view name() const override { return "peer_check"; }
  std::string_view holds_when() const override { return "oracle, guards and block_invariance hold"; }
  Expectation plan(const CaseContext& context, Plan& plan) const override {
    const ProblemId problem = plan.problem(context.the_case.problem);
    Expectation expectation{.applies = true, .power = true, .reason = {}, .runs = {}};
    for (std::size_t i = 0; i < 2; ++i) {
      const Memory memory{.guard = i == 0 ? GuardFill::finite : GuardFill::nan};
      expectation.runs.push_back(plan.run({&context.subject, problem, context.the_case.tilings[i], memory, {}}));
    }
    return expectation;
  }
  std::optional<Failure> judge(const CaseContext& context, const Expectation& expectation,
                               const Results& results) const override {
    for (const RunId id : expectation.runs) {
      if (!results.run(id).damage.empty()) {
        return Failure{"", "guards", "overrun", results.run(id).damage.front().text, {}};
      }
    }
    auto failure = compare_with_reference(context, results, expectation.runs[0]);
    return failure ? failure : compare_runs(context, results, expectation.runs[0], expectation.runs[1], {}, "differs");
  }
};

// One lane: a process of its own on the cpu, a thread beside others on a GPU.
void work(Share& share, int lane, const BenchArguments& arguments, int ordinal) {
  const Subject& subject = *clean_subject(kOperation, arguments.device);
  const PeerCheck peer_check;
  const std::vector<const Property*> properties{&peer_check};
  const std::size_t batch = arguments.device == "cuda" ? kBatch : 1;
  CounterStream draw(1, static_cast<std::uint64_t>(lane));
  Engine engine(make_executor(arguments.device, ordinal));
  std::vector<Case> cases;
  const auto one_batch = [&] {
    cases.clear();
    while (cases.size() < batch) {
      cases.push_back(peer_case(*subject.operation, draw));
    }
    for (const std::vector<Judged>& judged : engine.check(subject, cases, properties)) {
      share.failed = share.failed || judged.front().verdict != Verdict::held;
    }
  };
  one_batch();  // memory, and on a GPU modules, are had at first use
  stage_times() = {};
  const auto start = std::chrono::steady_clock::now();
  while (share.total < arguments.seconds) {
    one_batch();
    share.checks += batch;
    share.total = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  share.launches = 2 * share.checks;
  share.times = stage_times();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  share.peak_kib = usage.ru_maxrss;
}

// All lanes of one process.
void work_lanes(Share* shares, int first, int count, const BenchArguments& arguments, int ordinal) {
  if (count == 1) {
    work(shares[first], first, arguments, ordinal);
    return;
  }
  std::vector<std::thread> threads;
  for (int lane = first; lane < first + count; ++lane) {
    threads.emplace_back([=, &arguments] {
      try {
        work(shares[lane], lane, arguments, ordinal);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "tileproof: a lane of the bench failed: %s\n", error.what());
        _exit(3);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

void add(StageTimes& sum, const StageTimes& times) {
  sum.inputs += times.inputs;
  sum.fill += times.fill;
  sum.kernel += times.kernel;
  sum.gather += times.gather;
  sum.reference += times.reference;
  sum.gpu_fill += times.gpu_fill;
  sum.gpu_kernel += times.gpu_kernel;
  sum.gpu_compare += times.gpu_compare;
  sum.gpu_copy += times.gpu_copy;
}

nlohmann::json shares_of(const Share& sum) {
  const auto percent = [&sum](double part) { return 100 * part / sum.total; };
  return {{"inputs", percent(sum.times.inputs)},
          {"fill", percent(sum.times.fill)},
          {"kernel", percent(sum.times.kernel)},
          {"guards_and_gather", percent(sum.times.gather)},
          {"reference_and_judge", percent(sum.times.reference)}};
}

nlohmann::json streams_of(const StageTimes& times, double wall) {
  return {{"fill", times.gpu_fill / wall},
          {"kernel", times.gpu_kernel / wall},
          {"compare", times.gpu_compare / wall},
          {"copy", times.gpu_copy / wall}};
}

std::string line_of(const nlohmann::json& values, const char* unit) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : values.items()) {
    parts.push_back(fmt::format("{} {:.1f}{}", name, value.get<double>(), unit));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

int bench(const BenchArguments& arguments) {
  const bool cuda = arguments.device == "cuda";
  if (cuda && !cuda_report().usable()) {
    throw EnvironmentError("device 'cuda' cannot be used: " + cuda_report().reason);
  }
  const int cores = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  // On a GPU half of the lanes wait for it while the others compute references.
  const int jobs = arguments.jobs > 0 ? arguments.jobs : cuda ? 2 * cores : 2;
  const int lanes = cuda ? jobs : 1;
  const std::size_t size = sizeof(Share) * static_cast<std::size_t>(jobs);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw EnvironmentError("cannot map shared memory for the bench");
  }
  auto* shares = new (memory) Share[static_cast<std::size_t>(jobs)];
  std::fflush(nullptr);
  for (int first = 0; first < jobs; first += lanes) {
    const pid_t pid = fork();
    if (pid < 0) {
      throw EnvironmentError("cannot start a worker process for the bench");
    }
    if (pid == 0) {
      try {
        work_lanes(shares, first, lanes, arguments, 0);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "tileproof: a worker of the bench failed: %s\n", error.what());
        _exit(3);
      }
      _exit(0);
    }
  }
  bool ended = true;
  for (int status = 0; wait(&status) > 0;) {
    ended = ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  Share sum;
  double rate = 0;
  for (int job = 0; job < jobs; ++job) {
    const Share& share = shares[job];
    rate += share.total > 0 ? static_cast<double>(share.checks) / share.total : 0;
    sum.checks += share.checks;
    sum.total += share.total;
    sum.launches += share.launches;
    add(sum.times, share.times);
    sum.peak_kib = std::max(sum.peak_kib, share.peak_kib);
    ended = ended && !share.failed;
  }
  munmap(memory, size);
  if (!ended) {
    throw EnvironmentError("a check of the bench did not hold, or a worker died: its figures mean nothing");
  }
  const double wall = sum.total / jobs;
  nlohmann::json root{{"schema", "tileproof.bench/1"},
                      {"device", arguments.device},
                      {"checks_per_second", rate},
                      {"launches_per_second", static_cast<double>(sum.launches) / wall},
                      {"checks", sum.checks},
                      {"jobs", jobs},
                      {"peak_kib_per_job", sum.peak_kib},
                      {"percent", shares_of(sum)}};
  if (cuda) {
    root["streams_busy"] = streams_of(sum.times, wall);
  }
  if (arguments.json == "-") {
    std::puts(root.dump(2).c_str());
    return 0;
  }
  if (!arguments.json.empty()) {
    OutputFile(arguments.json).commit(root.dump(2) + "\n");
  }
  fmt::print("peer mix on {}: {:.0f} checks/s, {:.0f} launches/s, with {} jobs ({} checks, {} MiB a job)\n",
             arguments.device, rate, static_cast<double>(sum.launches) / wall, jobs, sum.checks, sum.peak_kib / 1024);
  fmt::print("time of a job: {}\n", line_of(root["percent"], "%"));
  if (cuda) {
    fmt::print("streams busy on the GPU, on average: {}\n", line_of(root["streams_busy"], ""));
  }
  return 0;
}

}  // namespace tileproof
