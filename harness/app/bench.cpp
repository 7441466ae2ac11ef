// How many checks of the peer mix a second, and where the time goes.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "app/arguments.h"
#include "app/commands.h"
#include "app/output.h"
#include "app/peer_mix.h"
#include "execute/runner.h"
#include "memory/arena.h"
#include "memory/counter_random.h"
#include "memory/recipes.h"
#include "record/output_file.h"
#include "search/results.h"

namespace tileproof {

namespace {

struct Share {
  std::uint64_t checks = 0;
  double rate = 0;   // checks per second
  double total = 0;  // seconds, as all that follow
  double fill = 0, kernel = 0, gather = 0;
  PeerTimes times;
  long peak_kib = 0;
  bool failed = false;
};

void work(Share& share, int job, double seconds) {
  const Subject& subject = *clean_subject(kPeerOperation, "cpu");
  CounterStream draw(1, static_cast<std::uint64_t>(job));
  Arena arena;
  std::vector<HostTensors> inputs(1);
  const auto start = std::chrono::steady_clock::now();
  while (share.total < seconds) {
    share.failed |= !peer_check_holds(arena, subject, peer_case(*subject.operation, draw), inputs, share.times);
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

struct Arguments {
  std::optional<std::string> json;
  std::string jobs = "2", time = "5s";
};

// Forks the workers, waits for them and returns whether all of them ended well.
bool run_workers(Share* shares, int jobs, double seconds) {
  std::fflush(nullptr);
  const pid_t supervisor = getpid();
  for (int job = 0; job < jobs; ++job) {
    const pid_t pid = fork();
    if (pid < 0) {
      throw EnvironmentError("cannot start a worker process for the bench; use fewer --jobs");
    }
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == supervisor) {
        work(shares[job], job, seconds);
      }
      _exit(0);
    }
  }
  bool ended = true;
  for (int status = 0; wait(&status) > 0;) {
    ended = ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return ended;
}

Share sum_of(const Share* shares, int jobs) {
  Share sum;
  for (int job = 0; job < jobs; ++job) {
    const Share& share = shares[job];
    sum.rate += share.total > 0 ? static_cast<double>(share.checks) / share.total : 0;
    sum.checks += share.checks;
    sum.total += share.total;
    sum.times.inputs += share.times.inputs;
    sum.fill += share.fill;
    sum.kernel += share.kernel;
    sum.gather += share.gather;
    sum.times.reference += share.times.reference;
    sum.peak_kib = std::max(sum.peak_kib, share.peak_kib);
    sum.failed |= share.failed;
  }
  return sum;
}

nlohmann::json json_of(const Share& sum, int jobs) {
  const auto percent = [&sum](double part) { return 100 * part / sum.total; };
  return {{"schema", "tileproof.bench/1"},
          {"version", TILEPROOF_VERSION},
          {"checks_per_second", sum.rate},
          {"checks", sum.checks},
          {"jobs", jobs},
          {"peak_kib_per_job", sum.peak_kib},
          {"percent",
           {{"inputs", percent(sum.times.inputs)},
            {"fill", percent(sum.fill)},
            {"kernel", percent(sum.kernel)},
            {"guards_and_gather", percent(sum.gather)},
            {"reference_and_judge", percent(sum.times.reference)}}}};
}

std::string text_of(const Share& sum, int jobs) {
  const auto percent = [&sum](double part) { return 100 * part / sum.total; };
  return fmt::format(
      "peer mix: {:.0f} checks/s with {} jobs ({} checks, {} MiB a job)\n"
      "time: inputs {:.0f}%, fill {:.0f}%, kernel {:.0f}%, guards and gather {:.0f}%, reference and judge {:.0f}%\n",
      sum.rate, jobs, sum.checks, sum.peak_kib / 1024, percent(sum.times.inputs), percent(sum.fill),
      percent(sum.kernel), percent(sum.gather), percent(sum.times.reference));
}

int bench(const Arguments& a) {
  const int jobs = static_cast<int>(whole_number("--jobs", a.jobs, 1, 1024));
  const double seconds = duration("--time", a.time);
  const bool json_on_output = a.json == "-";
  std::optional<OutputFile> file;
  if (a.json && !json_on_output) {
    file.emplace("--json", *a.json);
  }
  const std::size_t size = sizeof(Share) * static_cast<std::size_t>(jobs);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw EnvironmentError("cannot map shared memory for the bench");
  }
  auto* shares = static_cast<Share*>(memory);
  const bool ended = run_workers(shares, jobs, seconds);
  const Share sum = sum_of(shares, jobs);
  munmap(memory, size);
  if (!ended || sum.failed) {
    throw EnvironmentError("a check of the bench did not hold, or a worker died: its figures mean nothing");
  }
  const std::string document = json_of(sum, jobs).dump(2) + "\n";
  if (file) {
    file->commit(document);
  }
  say(json_on_output ? document : text_of(sum, jobs));
  return 0;
}

constexpr char kFooter[] =
    "\nExample:\n"
    "  tileproof bench --jobs 1 --time 10s --json bench.json\n"
    "\nA check is two launches under two block sizes, the oracle on one of them, the guards of both, and\n"
    "block_invariance. Figures hold for this machine and what else runs on it.";

}  // namespace

void add_bench(CLI::App& app, Command& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand("bench", "checks per second on the peer mix, and where the time goes");
  command.footer(kFooter);
  command.add_option("--json", a->json, "write tileproof.bench/1; '-': to standard output, instead of the text")
      ->type_name("FILE");
  command.add_option("--jobs", a->jobs, "worker processes; default 2")->type_name("N");
  command.add_option("--time,--seconds", a->time, "how long; default 5s")->type_name("TIME");
  command.callback([a, &chosen] { chosen = [a] { return bench(*a); }; });
}

}  // namespace tileproof
