// tileproof fuzz: a campaign that libFuzzer searches, for as long as wanted.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "app/arguments.h"
#include "app/commands.h"
#include "app/output.h"
#include "execute/device.h"
#include "fuzz/supervisor.h"
#include "memory/arena.h"
#include "record/record.h"

namespace tileproof {

namespace {

constexpr std::uint64_t kMostCases = 1'000'000'000'000;
constexpr std::size_t kShown = 5;             // findings
constexpr std::int64_t kPlainEvery = 60'000;  // ms between two lines where there is no terminal

constexpr char kFooter[] =
    "\nA campaign lives in its directory. Started again on the same one it goes on, with what it began with. Findings\n"
    "are minimised and explained while it runs, each in a file of cases under DIR/findings.\n"
    "\nExamples:\n"
    "  tileproof fuzz --dir night --time 8h               every clean subject, on all cores\n"
    "  tileproof fuzz --dir night --time 8h               the next night: it goes on\n"
    "  tileproof fuzz '*/mla_rope_q_*' --dir q --time 1h  some subjects\n"
    "  tileproof check --corpus night/findings/*.cases    what it found, again\n"
    "\nExit: 0 nothing found, 1 the campaign holds findings, 2 bad usage, 3 the environment or the harness failed,\n"
    "130 (SIGINT), 143 (SIGTERM) interrupted before anything was found.";

struct Arguments {
  std::vector<std::string> subjects, properties;
  std::string directory, device = "auto", time = "8h";
  std::optional<std::string> seed, sanitize, timeout, jobs;
};

CampaignSettings settings_from(const Arguments& a) {
  CampaignSettings settings;
  for (const Subject* subject : choose_subjects(a.device, a.subjects)) {
    settings.subjects.push_back(subject->name);
  }
  for (const Property* property : choose_properties(a.properties)) {
    settings.properties.emplace_back(property->name());
  }
  settings.seed = a.seed ? whole_number("--seed", *a.seed, 0, UINT64_MAX) : std::random_device{}();
  if (a.sanitize) {
    settings.sanitize_every = whole_number("--sanitize", *a.sanitize, 0, kMostCases);
  }
  if (a.timeout) {
    settings.timeout_seconds = duration("--timeout", *a.timeout);
  }
  return settings;
}

// What is given must be what the campaign began with; what is not given is.
void require_same(const Arguments& a, const CampaignSettings& asked, const CampaignSettings& begun) {
  const auto require = [&](std::string_view what, bool given, bool same, const std::string& now) {
    if (given && !same) {
      throw InputError(
          fmt::format("{} given, but the campaign in '{}' began with {}; leave it out to go on with that, or "
                      "choose another --dir",
                      what, a.directory, now));
    }
  };
  require(fmt::format("subjects '{}'", fmt::join(a.subjects, "' '")), !a.subjects.empty(),
          asked.subjects == begun.subjects, fmt::format("{}", fmt::join(begun.subjects, " ")));
  require(fmt::format("--property '{}'", fmt::join(a.properties, "' '")), !a.properties.empty(),
          asked.properties == begun.properties, fmt::format("{}", fmt::join(begun.properties, " ")));
  require(fmt::format("--seed {}", a.seed.value_or("")), a.seed.has_value(), asked.seed == begun.seed,
          std::to_string(begun.seed));
  require(fmt::format("--sanitize {}", a.sanitize.value_or("")), a.sanitize.has_value(),
          asked.sanitize_every == begun.sanitize_every, std::to_string(begun.sanitize_every));
  require(fmt::format("--timeout {}", a.timeout.value_or("")), a.timeout.has_value(),
          asked.timeout_seconds == begun.timeout_seconds, fmt::format("{} s", begun.timeout_seconds));
  require(fmt::format("--device {}", a.device), a.device != "auto", a.device == subjects_of(begun).front()->raw->device,
          subjects_of(begun).front()->raw->device);
}

// Those of the campaign in the directory, or of one that begins.
CampaignSettings settings_of(const Arguments& a) {
  if (!has_settings(a.directory)) {
    return settings_from(a);
  }
  CampaignSettings begun = read_settings(a.directory);
  properties_of(begun);  // refused where this build lacks what the campaign began with
  Arguments asked = a;
  asked.device = subjects_of(begun).front()->raw->device;
  require_same(a, settings_from(asked), begun);
  return begun;
}

std::string fuzz_program() {
  const std::filesystem::path beside = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "tileproof_fuzz";
  if (access(beside.c_str(), X_OK) != 0) {
    throw EnvironmentError(fmt::format(
        "the fuzz target '{}' is not there: this build had no libFuzzer; install libclang-rt-14-dev, configure "
        "and build again",
        beside.string()));
  }
  return beside.string();
}

std::string findings_text(const std::string& directory, bool colour) {
  std::vector<StoredFinding> findings = Store(directory, Database::Mode::read).findings();
  std::stable_sort(findings.begin(), findings.end(),
                   [](const StoredFinding& a, const StoredFinding& b) { return a.finding.count > b.finding.count; });
  std::string out;
  for (std::size_t i = 0; i < std::min(kShown, findings.size()); ++i) {
    const Finding& finding = findings[i].finding;
    const Shown shown = shown_of(finding);
    out += fmt::format("\n{}. {} {}  in {} cases{}\n   {}\n", i + 1, finding.subject,
                       colour ? fmt::format("\x1b[31;1m{}\x1b[0m", finding.signature) : finding.signature,
                       finding.count, findings[i].artifact.empty() ? "; not looked into yet" : "", shown.message);
    out += finding.condition.empty() ? std::string() : fmt::format("   {}\n", finding.condition);
    out += fmt::format("   {}\n", replay_line(shown.case_text, finding.subject));
  }
  if (findings.size() > kShown) {
    out += fmt::format("\nand {} more, each a file in '{}/findings'\n", findings.size() - kShown, directory);
  }
  return out;
}

class StatusShower {
 public:
  void operator()(const CampaignStatus& status) {
    const std::string line = status_line(status);
    if (terminal_) {
      fmt::print(stderr, "\r\x1b[K{}", line);
    } else if (status.total.at - last_ >= kPlainEvery) {
      fmt::print(stderr, "{}\n", line);
      last_ = status.total.at;
    }
  }
  void closing(const std::string& what) const {
    if (terminal_) {
      fmt::print(stderr, "\r\x1b[K{}", what);
    }
  }
  void clear() const {
    if (terminal_) {
      fmt::print(stderr, "\r\x1b[K");
    }
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  std::int64_t last_ = milliseconds_now();
};

// The rule of check's status_of(): what was found comes before why it ended.
int status_of(const CampaignOutcome& outcome) {
  if (!outcome.gave_up.empty()) {
    throw EnvironmentError(outcome.gave_up);
  }
  if (outcome.status.total.findings > 0) {
    return 1;
  }
  if (!outcome.harness_error.empty()) {
    throw HarnessError(outcome.harness_error);
  }
  return outcome.interrupted_by != 0 ? 128 + outcome.interrupted_by : 0;
}

int fuzz(const Arguments& a) {
  const double seconds = duration("--time", a.time);
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int jobs = a.jobs ? static_cast<int>(whole_number("--jobs", *a.jobs, 1, 1024)) : cores;
  settings_of(a);  // what is refused leaves nothing behind
  const std::string program = fuzz_program();
  const CampaignLock lock(a.directory);
  const CampaignSettings settings = settings_of(a);  // of a campaign that began in between, too
  if (!has_settings(a.directory)) {
    write_settings(a.directory, settings);
  }
  say(fmt::format("seed {}; campaign in '{}': {} subjects on {}, {} properties, {} jobs\n", settings.seed, a.directory,
                  settings.subjects.size(), subjects_of(settings).front()->raw->device, settings.properties.size(),
                  jobs));
  StatusShower shower;
  CampaignOptions options{a.directory, program,          seconds,
                          jobs,        std::ref(shower), [&](const std::string& what) { shower.closing(what); }};
  const CampaignOutcome outcome = run_campaign(options);
  shower.clear();
  const Sample& total = outcome.status.total;
  say(findings_text(a.directory, colour_on(STDOUT_FILENO)));
  say(fmt::format("\n{} {}: {} cases, {} launches, {} of {} cells, {} corpus entries in {:.0f} s{}\n", total.findings,
                  total.findings == 1 ? "finding" : "findings", total.cases, total.launches, total.cells,
                  total.reachable, total.corpus, total.elapsed, outcome.interrupted_by != 0 ? "; interrupted" : ""));
  return status_of(outcome);
}

}  // namespace

void add_fuzz(CLI::App& app, Command& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command =
      *app.add_subcommand("fuzz", "search for failures with libFuzzer, for hours, and go on after any end");
  command.footer(kFooter);
  command.add_option("SUBJECT", a->subjects,
                     "subjects to fuzz, as globs (* and ?); default: every clean one; known faults need an '@'");
  command.add_option("--dir", a->directory, "the campaign: a new directory, or one to go on with")
      ->required()
      ->type_name("DIR");
  command.add_option("--time", a->time, "how long to fuzz now: 10m, 8h; default 8h")->type_name("TIME");
  command.add_option("--device", a->device, "auto, cpu or cuda")->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  command.add_option("--jobs", a->jobs, "processes that fuzz; default: one per core")->type_name("N");
  command.add_option("--seed", a->seed, "of a new campaign; drawn when not given")->type_name("N");
  command
      .add_option("--property", a->properties, "of a new campaign: only these properties, as globs; may be repeated")
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command
      .add_option("--sanitize", a->sanitize,
                  "of a new campaign: one case in N runs in the sanitizing build too, 0: none; default 8")
      ->type_name("N");
  command.add_option("--timeout", a->timeout, "of a new campaign: a case that takes longer hangs; default 10s")
      ->type_name("TIME");
  command.callback([a, &chosen] { chosen = [a] { return fuzz(*a); }; });
}

}  // namespace tileproof
