#include <unistd.h>

#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "app/bench.h"
#include "execute/device.h"
#include "operations.h"
#include "record/record.h"
#include "search/check.h"
#include "search/corpus.h"

namespace tileproof {

namespace {

bool colour_on(int file) { return isatty(file) != 0 && std::getenv("NO_COLOR") == nullptr; }

void say(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// "60s", "5m", "8h", "500ms" or plain seconds.
double parse_duration(const std::string& text) {
  std::size_t used = 0;
  double value = -1;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string unit = text.substr(used);
  const double factor = unit == "ms"                  ? 1e-3
                        : unit == "s" || unit.empty() ? 1
                        : unit == "m"                 ? 60
                        : unit == "h"                 ? 3600
                                                      : 0;
  if (used == 0 || factor == 0 || !(value > 0) || value * factor > 1e7) {
    throw InputError(fmt::format("time '{}' given, expected a number above 0 followed by ms, s, m or h", text));
  }
  return value * factor;
}

struct CheckArguments {
  std::vector<std::string> subjects, properties, corpus;
  std::string device = "auto", time = "30s", junit, json, timeout = "10s";
  std::optional<std::uint64_t> cases, seed;
  int jobs = 0;
  bool stop_on_failure = false;
};

void add_check_options(CLI::App& app, CheckArguments& a) {
  app.add_option("SUBJECT", a.subjects, "subjects to check, as globs; default: every clean one");
  app.add_option("--device", a.device, "auto, cpu or cuda")->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--time", a.time, "budget for generated cases, shared among subjects (default 30s)");
  app.add_option("--cases", a.cases, "this many generated cases per subject instead of a time");
  app.add_option("--seed", a.seed, "seed of the cases; printed first, default: drawn");
  app.add_option("--property", a.properties, "only these properties, as globs");
  app.add_option("--corpus", a.corpus, "files of cases to run first");
  app.add_option("--jobs", a.jobs, "worker processes, default: one per core")->check(CLI::Range(1, 1024));
  app.add_option("--timeout", a.timeout, "a case that takes longer hangs (default 10s)");
  app.add_option("--junit", a.junit, "write a JUnit file");
  app.add_option("--json", a.json, "write a JSON file ('-': to standard output, instead of the table)");
  app.add_flag("--stop-on-failure", a.stop_on_failure, "a subject is done at its first failure");
}

std::vector<const Subject*> chosen_subjects(const CheckArguments& a) {
  std::vector<const Subject*> chosen = subjects_on(a.device, a.subjects);
  if (chosen.empty()) {
    throw InputError(
        fmt::format("no subject matches '{}', expected a name or glob such as '{}' (tileproof list subjects)",
                    fmt::join(a.subjects, "' '"), subjects().front().name));
  }
  return chosen;
}

std::vector<const Property*> chosen_properties(const CheckArguments& a) {
  std::vector<const Property*> chosen = matching_properties(a.properties);
  if (chosen.empty()) {
    throw InputError(
        fmt::format("no property matches '{}' (tileproof list properties)", fmt::join(a.properties, "' '")));
  }
  return chosen;
}

void show_progress(const Progress& progress) {
  const std::string budget =
      progress.total_seconds > 0 ? fmt::format(" of {:.0f}", progress.total_seconds) : std::string();
  fmt::print(stderr, "\r\x1b[K{:.0f}{} s  {} cases  {} launches  {} findings  {}", progress.elapsed, budget,
             progress.cases, progress.launches, progress.findings, progress.subject);
}

int finish(const CheckReport& report) {
  const bool failed = std::any_of(report.subjects.begin(), report.subjects.end(),
                                  [](const SubjectReport& subject) { return !subject.findings.empty(); });
  return failed ? 1 : 0;
}

CheckReport run_with_progress(CheckOptions& options) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  if (terminal) {
    options.progress = [](const Progress& progress) {
      if (progress.elapsed > 2) {
        show_progress(progress);
      }
    };
  }
  CheckReport report = run_check(options);
  if (terminal) {
    fmt::print(stderr, "\r\x1b[K");
  }
  return report;
}

int check(const CheckArguments& a) {
  CheckOptions options;
  options.subjects = chosen_subjects(a);
  options.properties = chosen_properties(a);
  options.seed = a.seed ? *a.seed : std::random_device{}();
  options.cases = a.cases;
  options.seconds = parse_duration(a.time);
  options.timeout_seconds = parse_duration(a.timeout);
  options.jobs = a.jobs;
  options.stop_on_failure = a.stop_on_failure;
  for (const std::string& path : a.corpus) {
    const std::vector<Case> cases = read_corpus(path);
    options.corpus.insert(options.corpus.end(), cases.begin(), cases.end());
  }
  std::optional<OutputFile> junit;
  std::optional<OutputFile> json;
  if (!a.junit.empty()) {
    junit.emplace(a.junit);
  }
  if (!a.json.empty() && a.json != "-") {
    json.emplace(a.json);
  }
  if (a.json != "-") {
    say(fmt::format("seed {}\n", options.seed));
    std::fflush(stdout);
  }
  const CheckReport report = run_with_progress(options);
  say(a.json == "-" ? json_text(report) : console_text(report, colour_on(STDOUT_FILENO)));
  if (junit) {
    junit->commit(junit_text(report));
  }
  if (json) {
    json->commit(json_text(report));
  }
  return finish(report);
}

struct ReplayArguments {
  std::vector<std::string> cases, properties;
  std::string subject, timeout = "10s";
};

int replay(const ReplayArguments& a) {
  CheckOptions options;
  for (const std::string& text : a.cases) {
    std::ifstream file(text);
    const std::vector<Case> cases = file.good() ? read_corpus(text) : std::vector<Case>{parse_case(text)};
    options.corpus.insert(options.corpus.end(), cases.begin(), cases.end());
  }
  for (const Case& c : options.corpus) {
    const std::string name = a.subject.empty() ? fmt::format("cpu/{}", c.problem.operation().name()) : a.subject;
    const Subject* subject = find_subject(name);
    if (subject == nullptr) {
      throw InputError(fmt::format("subject '{}' is unknown (tileproof list subjects)", name));
    }
    if (subject->operation != &c.problem.operation()) {
      throw InputError(fmt::format("subject '{}' implements {}, the case is of {}", name, subject->operation->name(),
                                   c.problem.operation().name()));
    }
    for (const Tiling& tiling : c.tilings) {
      const auto limit = outside_limits(*subject, tiling);
      const auto other = limit ? limit : outside_limits(*subject, c.problem);
      if (other) {
        throw InputError(fmt::format("subject '{}' takes only '{}'; change the case", name, *other));
      }
    }
    if (std::find(options.subjects.begin(), options.subjects.end(), subject) == options.subjects.end()) {
      options.subjects.push_back(subject);
    }
  }
  CheckArguments filter;
  filter.properties = a.properties;
  options.properties = chosen_properties(filter);
  options.cases = 0;
  options.jobs = 1;
  options.timeout_seconds = parse_duration(a.timeout);
  const CheckReport report = run_with_progress(options);
  say(console_text(report, colour_on(STDOUT_FILENO)));
  return finish(report);
}

std::string shape_text(const TensorSpec& spec) {
  std::vector<std::string> axes;
  for (const Axis& axis : spec.axes) {
    axes.push_back(fmt::format("{}", fmt::join(axis.terms, " + ")));
  }
  return fmt::format("[{}]", fmt::join(axes, ", "));
}

std::string range_text(const Parameter& parameter) {
  return parameter.choices.empty() ? fmt::format("{}..{}", parameter.min, parameter.max)
                                   : fmt::format("{}", fmt::join(parameter.choices, "|"));
}

nlohmann::json inventory() {
  using nlohmann::json;
  json root{{"schema", "tileproof.list/1"},
            {"operations", json::array()},
            {"subjects", json::array()},
            {"properties", json::array()},
            {"faults", json::array()}};
  constexpr std::string_view roles[] = {"in", "out", "inout"};
  for (const Operation* operation : operations()) {
    json entry{
        {"name", operation->name()}, {"summary", operation->summary()}, {"adjoint", operation->algebra().adjoint}};
    for (const TensorSpec& spec : operation->tensors()) {
      entry["tensors"].push_back(
          {{"name", spec.name}, {"role", roles[static_cast<int>(spec.role)]}, {"shape", shape_text(spec)}});
    }
    for (const Parameter& parameter : operation->parameters()) {
      entry["parameters"].push_back(
          {{"key", parameter.key}, {"range", range_text(parameter)}, {"meaning", parameter.meaning}});
    }
    root["operations"].push_back(std::move(entry));
  }
  for (const Subject& subject : subjects()) {
    json entry{{"name", subject.name}, {"operation", subject.operation->name()}, {"limits", json::array()}};
    for (const Limit& limit : subject.limits) {
      entry["limits"].push_back(limit.text);
    }
    if (subject.fault) {
      entry["expected"] = subject.expected;
    }
    root[subject.fault ? "faults" : "subjects"].push_back(std::move(entry));
  }
  for (const Property* property : all_properties()) {
    root["properties"].push_back({{"name", property->name()}, {"holds_when", property->holds_when()}});
  }
  return root;
}

int list(const std::string& what, bool as_json) {
  nlohmann::json all = inventory();
  if (as_json) {
    if (what != "all") {
      all = {{"schema", all["schema"]}, {what, all[what]}};
    }
    say(all.dump(2) + "\n");
    return 0;
  }
  for (const char* section : {"subjects", "operations", "properties", "faults"}) {
    if (what != "all" && what != section) {
      continue;
    }
    say(fmt::format("{}\n", section));
    for (const auto& entry : all[section]) {
      std::string note;
      if (entry.contains("holds_when")) {
        note = entry["holds_when"];
      } else if (entry.contains("expected")) {
        note = fmt::format("expected: {}", fmt::join(entry["expected"].get<std::vector<std::string>>(), ", "));
      } else if (entry.contains("limits")) {
        note = fmt::format("{}", fmt::join(entry["limits"].get<std::vector<std::string>>(), "; "));
      } else {
        note = entry["summary"];
      }
      say(fmt::format("  {:<24} {}\n", entry["name"].get<std::string>(), note));
      for (const auto& tensor : entry.contains("tensors") ? entry["tensors"] : nlohmann::json::array()) {
        say(fmt::format("      {:<6} {:<13} {}\n", tensor["role"].get<std::string>(), tensor["name"].get<std::string>(),
                        tensor["shape"].get<std::string>()));
      }
    }
  }
  return 0;
}

int doctor() {
  utsname system{};
  uname(&system);
  say(fmt::format("system     {} {} {}, {} cores\n", system.sysname, system.release, system.machine,
                  sysconf(_SC_NPROCESSORS_ONLN)));
  say(fmt::format("compiler   {}\n", __VERSION__));
#ifdef TILEPROOF_TOOLKIT
  say("cuda build every kernel was compiled by nvcc of toolkit " TILEPROOF_TOOLKIT " too\n");
#else
  say("cuda build no CUDA toolkit when this was built: kernels were compiled for the cpu only\n");
#endif
  const CudaReport& cuda = cuda_report();
  say(fmt::format("cuda run   {}\n", cuda.usable() ? "usable" : "not usable: " + cuda.reason));
  for (const std::string& line : cuda.lines) {
    say(fmt::format("           {}\n", line));
  }
  say(fmt::format("subjects   {} clean, {} faults\n", matching_subjects({}).size(),
                  subjects().size() - matching_subjects({}).size()));
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app{"tileproof: differential property tests for tiled GPU kernels"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "tileproof 0.1.0");
  CheckArguments check_arguments;
  ReplayArguments replay_arguments;
  BenchArguments bench_arguments;
  std::string what = "all";
  bool as_json = false;
  CLI::App* check_command = app.add_subcommand("check", "run random cases of subjects against every property");
  add_check_options(*check_command, check_arguments);
  CLI::App* replay_command = app.add_subcommand("replay", "run the cases of a line or of files");
  replay_command->add_option("CASE", replay_arguments.cases, "a case line, or a file of them")->required();
  replay_command->add_option("--subject", replay_arguments.subject, "default: the clean cpu subject of the operation");
  replay_command->add_option("--property", replay_arguments.properties, "only these properties, as globs");
  replay_command->add_option("--timeout", replay_arguments.timeout, "a case that takes longer hangs (default 10s)");
  CLI::App* list_command = app.add_subcommand("list", "what is there: subjects, operations, properties, faults");
  list_command->add_option("WHAT", what, "subjects, operations, properties or faults")
      ->check(CLI::IsMember({"all", "subjects", "operations", "properties", "faults"}));
  list_command->add_flag("--json", as_json, "as JSON");
  CLI::App* bench_command = app.add_subcommand("bench", "checks per second on the peer mix, and where the time goes");
  bench_command->add_option("--json", bench_arguments.json, "write a JSON file ('-': to standard output)");
  bench_command->add_option("--device", bench_arguments.device, "cpu (default) or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  bench_command->add_option("--jobs", bench_arguments.jobs, "worker processes (default 2); cuda: threads (2 a core)")
      ->check(CLI::Range(1, 1024));
  bench_command->add_option("--seconds", bench_arguments.seconds, "how long (default 5)")
      ->check(CLI::Range(0.1, 3600.0));
  app.add_subcommand("doctor", "what this machine can run, and why not the rest");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      return app.exit(error);
    }
    throw InputError(fmt::format("{} (tileproof --help)", error.what()));
  }
  register_all_operations();
  load_subjects();
  if (*check_command) {
    return check(check_arguments);
  }
  if (*replay_command) {
    return replay(replay_arguments);
  }
  if (*list_command) {
    return list(what, as_json);
  }
  return *bench_command ? bench(bench_arguments) : doctor();
}

}  // namespace

}  // namespace tileproof

int main(int argc, char** argv) {
  const auto fail = [](const std::string& message, int code) {
    std::string line = message;
    std::replace(line.begin(), line.end(), '\n', ' ');
    fmt::print(stderr, "tileproof: {}\n", line);
    return code;
  };
  try {
    return tileproof::run(argc, argv);
  } catch (const tileproof::InputError& error) {
    return fail(error.what(), 2);
  } catch (const std::exception& error) {
    return fail(error.what(), 3);
  }
}
