// How many checks of the peer mix a second, and where the time goes.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <memory>
#include <new>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "app/arguments.h"
#include "app/commands.h"
#include "app/output.h"
#include "app/peer_mix.h"

#include "execute/device.h"
#include "memory/arena.h"
#include "memory/counter_random.h"
#include "record/output_file.h"
#include "search/engine.h"

namespace tileproof {

namespace {

constexpr std::size_t kWarmUp = 256;  // checks of each job before time is taken

struct Share {
  std::uint64_t checks = 0;
  double rate = 0;   // checks per second
  double total = 0;  // seconds
  double cpu = 0;    // seconds of a processor
  StageTimes times;
  long peak_kib = 0;
  bool failed = false;
};

// What every lane is told.
struct Mix {
  std::string device;
  int jobs = 1;
  double seconds = 0;
  std::size_t batch = 1;  // checks per synchronisation
};

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

// Of the calling thread.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// One kind of check on one lane.
class Side {
 public:
  Side(Share& share, const Mix& mix, const Property& property, int lane, int ordinal)
      : share_(share),
        mix_(mix),
        subject_(*clean_subject(kPeerOperation, mix.device)),
        properties_{&property},
        draw_(1, static_cast<std::uint64_t>(lane)),
        engine_(make_executor(mix.device, ordinal)) {}

  void warm_up() {
    for (std::size_t done = 0; done < kWarmUp; done += mix_.batch) {
      one_batch();  // memory, and on a GPU modules, are had at first use
    }
  }

  void run(double seconds) {
    stage_times() = {};
    const auto start = std::chrono::steady_clock::now();
    const double cpu_start = cpu_seconds();
    double taken = 0;
    while (taken < seconds) {
      one_batch();
      share_.checks += mix_.batch;
      taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    share_.total += taken;
    share_.cpu += cpu_seconds() - cpu_start;
    add(share_.times, stage_times());
  }

 private:
  void one_batch() {
    cases_.clear();
    while (cases_.size() < mix_.batch) {
      cases_.push_back(peer_case(*subject_.operation, draw_));
    }
    for (const std::vector<Judged>& judged : engine_.check(subject_, cases_, properties_)) {
      share_.failed = share_.failed || judged.front().verdict != Verdict::held;
    }
  }

  Share& share_;
  const Mix& mix_;
  const Subject& subject_;
  std::vector<const Property*> properties_;
  CounterStream draw_;
  Engine engine_;
  std::vector<Case> cases_;
};

// One lane: a process of its own on the cpu, a thread beside others on a GPU. The fast and the sanitizing build take
// turns, so that what else runs on the machine slows both.
void work(Share* shares, int lane, const Mix& mix, int ordinal, std::barrier<>& together) {
  constexpr double kTurn = 0.1;  // seconds
  Side fast(shares[lane], mix, peer_check(), lane, ordinal);
  fast.warm_up();
  if (mix.device == "cuda") {
    together.arrive_and_wait();
    fast.run(mix.seconds);
  } else {
    Side sanitizing(shares[mix.jobs + lane], mix, sanitizing_peer_check(), lane, ordinal);
    sanitizing.warm_up();
    together.arrive_and_wait();
    while (shares[lane].total < mix.seconds) {
      fast.run(kTurn);
      sanitizing.run(kTurn);
    }
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  shares[lane].peak_kib = usage.ru_maxrss;
}

// All lanes of one process.
void work_lanes(Share* shares, int first, int count, const Mix& mix, int ordinal) {
  std::barrier together(count);
  if (count == 1) {
    work(shares, first, mix, ordinal, together);
    return;
  }
  std::vector<std::thread> threads;
  for (int lane = first; lane < first + count; ++lane) {
    threads.emplace_back([=, &mix, &together] {
      try {
        work(shares, lane, mix, ordinal, together);
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

struct Arguments {
  std::optional<std::string> json, jobs;
  std::string device = "cpu", time = "5s", batch = "128";
};

// Forks the workers, waits for them and returns whether all of them ended well. On a GPU one process has all lanes.
bool run_workers(Share* shares, const Mix& mix) {
  std::fflush(nullptr);
  const pid_t supervisor = getpid();
  const int lanes = mix.device == "cuda" ? mix.jobs : 1;
  for (int first = 0; first < mix.jobs; first += lanes) {
    const pid_t pid = fork();
    if (pid < 0) {
      throw EnvironmentError("cannot start a worker process for the bench; use fewer --jobs");
    }
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == supervisor) {
        work_lanes(shares, first, lanes, mix, 0);
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
  double longest = 0;
  for (int job = 0; job < jobs; ++job) {
    const Share& share = shares[job];
    longest = std::max(longest, share.total);
    sum.checks += share.checks;
    sum.total += share.total;
    sum.cpu += share.cpu;
    add(sum.times, share.times);
    sum.peak_kib = std::max(sum.peak_kib, share.peak_kib);
    sum.failed |= share.failed;
  }
  sum.rate = longest > 0 ? static_cast<double>(sum.checks) / longest : 0;
  return sum;
}

// A check is two launches. On a GPU, `streams_busy` says how many of the lanes' streams were at each kind of work at
// once, on average: where the sum comes near the number of lanes, the GPU is what limits.
nlohmann::json json_of(const Share& sum, const Share& sanitizing, const Mix& mix) {
  const auto percent = [&sum](double part) { return 100 * part / sum.total; };
  nlohmann::json root{{"schema", "tileproof.bench/1"},
                      {"version", TILEPROOF_VERSION},
                      {"device", mix.device},
                      {"checks_per_second", sum.rate},
                      {"launches_per_second", 2 * sum.rate},
                      {"checks", sum.checks},
                      {"jobs", mix.jobs},
                      {"batch", mix.batch},
                      {"peak_kib_per_job", sum.peak_kib},
                      {"percent",
                       {{"inputs", percent(sum.times.inputs)},
                        {"fill", percent(sum.times.fill)},
                        {"kernel", percent(sum.times.kernel)},
                        {"guards_and_gather", percent(sum.times.gather)},
                        {"reference_and_judge", percent(sum.times.reference)}}}};
  const double wall = sum.total / mix.jobs;
  root["streams_busy"] = {{"fill", sum.times.gpu_fill / wall},
                          {"kernel", sum.times.gpu_kernel / wall},
                          {"compare", sum.times.gpu_compare / wall},
                          {"copy", sum.times.gpu_copy / wall}};
  // By the processor's time, which others on the machine hardly change.
  const auto check_of = [](const Share& share) { return share.cpu / static_cast<double>(share.checks); };
  const auto kernel_of = [&](const Share& share) { return check_of(share) * share.times.kernel / share.total; };
  const bool sanitized = sanitizing.checks > 0;
  root["sanitizing"] = {{"checks_per_second", sanitizing.rate},
                        {"cost_of_check", sanitized ? check_of(sanitizing) / check_of(sum) : 0},
                        {"cost_of_kernel", sanitized ? kernel_of(sanitizing) / kernel_of(sum) : 0}};
  return root;
}

std::string text_of(const nlohmann::json& root) {
  const auto list = [&root](const char* key, std::string_view unit) {
    std::vector<std::string> parts;
    for (const auto& [name, value] : root[key].items()) {
      parts.push_back(fmt::format("{} {:.1f}{}", name, value.get<double>(), unit));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
  };
  std::string text =
      fmt::format("peer mix on {}: {:.0f} checks/s, {:.0f} launches/s with {} jobs ({} checks, {} MiB a job)\n",
                  root["device"].get<std::string>(), root["checks_per_second"].get<double>(),
                  root["launches_per_second"].get<double>(), root["jobs"].get<int>(),
                  root["checks"].get<std::uint64_t>(), root["peak_kib_per_job"].get<long>() / 1024);
  text += fmt::format("time of a job: {}\n", list("percent", "%"));
  if (root["device"] == "cpu") {
    const nlohmann::json& build = root["sanitizing"];
    text += fmt::format(
        "sanitizing build: {:.0f} checks/s; a check costs {:.1f} times the fast one, its kernels {:.1f} times\n",
        build["checks_per_second"].get<double>(), build["cost_of_check"].get<double>(),
        build["cost_of_kernel"].get<double>());
  } else {
    text += fmt::format("streams busy on the GPU: {}\n", list("streams_busy", ""));
  }
  return text;
}

// Of the fast build, and of the sanitizing build where there is one.
std::pair<Share, Share> measure(const Mix& mix) {
  const std::size_t count = 2 * static_cast<std::size_t>(mix.jobs);
  void* memory = mmap(nullptr, sizeof(Share) * count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw EnvironmentError("cannot map shared memory for the bench");
  }
  auto* shares = new (memory) Share[count];
  const bool ended = run_workers(shares, mix);
  const std::pair<Share, Share> sums{sum_of(shares, mix.jobs), sum_of(shares + mix.jobs, mix.jobs)};
  munmap(memory, sizeof(Share) * count);
  if (!ended || sums.first.failed || sums.second.failed) {
    throw EnvironmentError("a check of the bench did not hold, or a worker died: its figures mean nothing");
  }
  return sums;
}

int bench(const Arguments& a) {
  const bool cuda = a.device == "cuda";
  if (cuda && !cuda_report().usable()) {
    throw EnvironmentError("device 'cuda' cannot be used: " + cuda_report().reason);
  }
  const int fallback = cuda ? static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))) : 2;
  const Mix mix{a.device, a.jobs ? static_cast<int>(whole_number("--jobs", *a.jobs, 1, 1024)) : fallback,
                duration("--time", a.time), cuda ? whole_number("--batch", a.batch, 1, 4096) : 1};
  const bool json_on_output = a.json == "-";
  std::optional<OutputFile> file;
  if (a.json && !json_on_output) {
    file.emplace("--json", *a.json);
  }
  const auto [fast, sanitizing] = measure(mix);
  const nlohmann::json root = json_of(fast, sanitizing, mix);
  const std::string document = root.dump(2) + "\n";
  if (file) {
    file->commit(document);
  }
  say(json_on_output ? document : text_of(root));
  return 0;
}

constexpr char kFooter[] =
    "\nExample:\n"
    "  tileproof bench --jobs 1 --time 10s --json bench.json\n"
    "\nA check is two launches under two block sizes, the oracle on one of them, the guards of both, and\n"
    "block_invariance. On the cpu the same is measured with both launches in the sanitizing build, in turns of 0.1 s.\n"
    "Figures hold for this machine and what else runs on it.";

}  // namespace

void add_bench(CLI::App& app, Command& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand("bench", "checks per second on the peer mix, and where the time goes");
  command.footer(kFooter);
  command.add_option("--json", a->json, "write tileproof.bench/1; '-': to standard output, instead of the text")
      ->type_name("FILE");
  command.add_option("--device", a->device, "cpu or cuda; default cpu")->check(CLI::IsMember({"cpu", "cuda"}));
  command.add_option("--jobs", a->jobs, "worker processes, default 2; cuda: threads, default one a core")
      ->type_name("N");
  command.add_option("--batch", a->batch, "cuda: checks per synchronisation of a thread; default 128")->type_name("N");
  command.add_option("--time,--seconds", a->time, "how long; default 5s")->type_name("TIME");
  command.callback([a, &chosen] { chosen = [a] { return bench(*a); }; });
}

}  // namespace tileproof
