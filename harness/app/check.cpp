// tileproof check: random cases of subjects against every property.
#include "search/check.h"

#include <algorithm>
#include <memory>
#include <random>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "app/arguments.h"
#include "app/commands.h"
#include "app/output.h"
#include "app/report_files.h"
#include "execute/device.h"
#include "memory/arena.h"
#include "search/closing.h"
#include "search/corpus.h"

namespace tileproof {

namespace {

constexpr std::uint64_t kMostCases = 1'000'000'000'000;

constexpr char kFooter[] =
    "\nExamples:\n"
    "  tileproof check                                    every clean subject, 30 s\n"
    "  tileproof check '*/mla_rope_q_*' --time 5m         two operations, longer\n"
    "  tileproof check --cases 500 --seed 1 --junit r.xml the same cases and verdicts on any number of jobs\n"
    "\nExit: 0 all held, 1 a property failed, 2 bad usage or nothing judged, 3 the environment or the harness failed,\n"
    "130 (SIGINT), 143 (SIGTERM) interrupted before anything failed: the table so far is printed, files are written.";

struct Arguments {
  std::vector<std::string> subjects, properties, corpus;
  std::string device = "auto", timeout = "10s";
  std::optional<std::string> time, cases, seed, jobs, gpus, sanitize;
  ReportFiles files;
  bool stop_on_failure = false;
  bool no_minimize = false;
  std::string minimize_time = "10s";
};

void read_budget(const Arguments& a, CheckOptions& options) {
  if (a.time && a.cases) {
    throw InputError(
        fmt::format("both --time '{}' and --cases '{}' given, expected one of them: a time, or a number "
                    "of cases per subject",
                    *a.time, *a.cases));
  }
  options.seconds = duration("--time", a.time.value_or("30s"));
  if (a.cases) {
    options.cases = whole_number("--cases", *a.cases, a.corpus.empty() ? 1 : 0, kMostCases);
  }
}

CheckOptions read_options(const Arguments& a) {
  CheckOptions options;
  read_budget(a, options);
  options.timeout_seconds = duration("--timeout", a.timeout);
  options.seed = a.seed ? whole_number("--seed", *a.seed, 0, UINT64_MAX) : std::random_device{}();
  options.jobs = a.jobs ? static_cast<int>(whole_number("--jobs", *a.jobs, 1, 1024)) : 0;
  options.gpus = a.gpus ? static_cast<int>(whole_number("--gpus", *a.gpus, 1, 64)) : 1;
  options.stop_on_failure = a.stop_on_failure;
  options.subjects = choose_subjects(a.device, a.subjects);
  if (std::string_view(options.subjects.front()->raw->device) == "cuda" && options.gpus > cuda_report().gpus) {
    throw EnvironmentError(
        fmt::format("--gpus {} given, but this machine has {} usable", options.gpus, cuda_report().gpus));
  }
  options.properties = choose_properties(a.properties);
  const bool all_sanitize =
      std::all_of(options.properties.begin(), options.properties.end(), [](auto* p) { return p->sanitizes(); });
  options.sanitize_every = a.sanitize     ? whole_number("--sanitize", *a.sanitize, 0, kMostCases)
                           : all_sanitize ? 1
                                          : options.sanitize_every;
  for (const std::string& path : a.corpus) {
    const std::vector<Case> cases = read_corpus(path);
    options.corpus.insert(options.corpus.end(), cases.begin(), cases.end());
  }
  return options;
}

int check(Arguments& a) {
  const CheckOptions options = read_options(a);
  const double closing_seconds = duration("--minimize-time", a.minimize_time);
  a.files.open();
  if (!a.files.json_on_output()) {
    say(fmt::format("seed {}\n", options.seed));
  }
  CheckReport report = run_with_progress(options);
  if (!a.no_minimize) {
    ProgressLine line;
    close_findings(report,
                   {closing_seconds, options.timeout_seconds, [&](const std::string& what) { line.show(what); }});
  }
  a.files.write(report);
  return status_of(report);
}

}  // namespace

void add_check(CLI::App& app, Command& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand("check", "run random cases of subjects against every property");
  command.footer(kFooter);
  command.add_option(
      "SUBJECT", a->subjects,
      "subjects to check, as globs (* and ?); default: every clean one; known faults need an '@', as in '*@*'");
  command.add_option("--device", a->device, "auto, cpu or cuda")->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  command.add_option("--time", a->time, "budget for generated cases, shared among subjects: 500ms, 30s, 5m, 8h")
      ->type_name("TIME");
  command.add_option("--cases", a->cases, "this many generated cases per subject, instead of a time")->type_name("N");
  command.add_option("--seed", a->seed, "seed of the cases; printed first, drawn when not given")->type_name("N");
  command.add_option("--property", a->properties, "only these properties, as globs; may be repeated")
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command
      .add_option("--sanitize", a->sanitize,
                  "one generated case in N runs in the sanitizing build too, 0: none; default 8, and 1 where only its "
                  "properties are asked for")
      ->type_name("N");
  command.add_option("--corpus", a->corpus, "files of cases to run first; '-': standard input")->type_name("FILE ...");
  command.add_option("--jobs", a->jobs, "worker processes; default: one per core")->type_name("N");
  command.add_option("--gpus", a->gpus, "cuda: this many GPUs, one worker process each; default 1")->type_name("N");
  command.add_option("--timeout", a->timeout, "a launch that takes longer hangs; default 10s")->type_name("TIME");
  command.add_flag("--no-minimize", a->no_minimize, "show the smallest case met, do not look for the simplest one");
  command.add_option("--minimize-time", a->minimize_time, "for all findings together, after the check; default 10s")
      ->type_name("TIME");
  a->files.add_options(command);
  command.add_flag("--stop-on-failure", a->stop_on_failure, "a subject is done at its first failure");
  command.callback([a, &chosen] { chosen = [a] { return check(*a); }; });
}

}  // namespace tileproof
