// tileproof minimize: the simplest case that fails as a given one does.
#include "search/minimize.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "app/arguments.h"
#include "app/case_words.h"
#include "app/commands.h"
#include "app/output.h"
#include "record/gtest_source.h"
#include "record/output_file.h"
#include "record/record.h"
#include "search/interrupt.h"

namespace tileproof {

namespace {

constexpr char kFooter[] =
    "\nExamples:\n"
    "  tileproof minimize 'mla_rope_q_fwd dtype=bf16 ... | block_h=16 ; block_h=8' --subject "
    "'cpu/...@head_mask_q_fwd'\n"
    "  tileproof minimize CASE --property guards --time 1s\n"
    "\nExit: 1 it fails, and the simplest such case is printed; 0 it does not fail; 2 bad usage, or nothing could be\n"
    "judged; 3 the environment or the harness failed. Interrupted, it prints the best so far.";

struct Arguments {
  std::string the_case;
  std::optional<std::string> subject, json, test_kind, test_file;
  std::vector<std::string> properties;
  std::string time = "10s", timeout = "10s";
};

const Case& only_case(const std::vector<Case>& cases, const std::string& word) {
  if (cases.size() != 1) {
    throw InputError(fmt::format("'{}' has {} cases, expected one; give the line of one of them", word, cases.size()));
  }
  return cases.front();
}

// The failure that is to be kept: the first in the order of the properties.
const ProbedFailure& first_failure(const Probe& probe) { return probe.failures.front(); }

// Where the test goes; a file whose name the user did not choose is not replaced.
std::optional<OutputFile> test_file(const Arguments& a, const Operation& operation) {
  if (!a.test_kind) {
    return std::nullopt;
  }
  const std::string path = a.test_file.value_or(fmt::format("{}_regression_test.cpp", operation.name()));
  std::error_code error;
  if (!a.test_file && std::filesystem::exists(path, error)) {
    throw InputError(
        fmt::format("--emit-test would replace '{}', expected no such file; name one with --test-file", path));
  }
  return OutputFile("--test-file", path);
}

std::string json_of(const Subject& subject, const Case& start, const Minimum& minimum) {
  const nlohmann::json document{{"schema", "tileproof.minimize/1"},
                                {"version", TILEPROOF_VERSION},
                                {"subject", subject.name},
                                {"start", text(start)},
                                {"signature", minimum.failure.signature},
                                {"case", text(minimum.the_case)},
                                {"message", minimum.failure.message},
                                {"evidence", minimum.failure.evidence},
                                {"minimal", minimum.minimal},
                                {"failures", minimum.rate.failures},
                                {"launches", minimum.rate.launches},
                                {"tried", minimum.tried},
                                {"replay", replay_line(text(minimum.the_case), subject.name)}};
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string text_of(const Subject& subject, const Minimum& minimum, bool colour) {
  std::string out = fmt::format("{}{}{}\n{}\n", colour ? "\x1b[31;1m" : "", minimum.failure.signature,
                                colour ? "\x1b[0m" : "", text(minimum.the_case));
  out += minimum.failure.message + "\n";
  for (const std::string& line : minimum.failure.evidence) {
    out += line + "\n";
  }
  if (!minimum.rate.always()) {
    out += fmt::format("it comes and goes: {} of {} tries failed\n", minimum.rate.failures, minimum.rate.launches);
  }
  out += replay_line(text(minimum.the_case), subject.name) + "\n";
  out +=
      minimum.minimal
          ? fmt::format("minimal: no simpler step fails ({} cases tried, {:.2f} s)\n", minimum.tried, minimum.seconds)
          : fmt::format("the best so far: stopped after {} cases, {:.2f} s\n", minimum.tried, minimum.seconds);
  return out;
}

int minimize_one(Arguments& a) {
  const std::vector<Case> cases = read_cases(a.the_case);
  const Case& start = only_case(cases, a.the_case);
  const Subject& subject = subject_of(start, a.subject);
  std::vector<const Property*> properties = choose_properties(a.properties);
  MinimizeLimits limits;
  limits.seconds = duration("--time", a.time);
  const double timeout = duration("--timeout", a.timeout);
  std::optional<OutputFile> file;
  if (a.json && *a.json != "-") {
    file.emplace("--json", *a.json);
  }
  const std::optional<OutputFile> test = test_file(a, *subject.operation);
  const InterruptScope scope;
  const Probe probe = Prober(subject, properties, timeout).probe(start);
  if (probe.failures.empty()) {
    if (!probe.judged) {
      throw InputError("no property judged the case, which is no pass: choose another case or other properties");
    }
    say("it does not fail\n");
    return 0;
  }
  const Signature wanted = parse_signature(first_failure(probe).signature);
  ProgressLine line;
  limits.progress = [&](std::uint64_t tried) { line.show(fmt::format("{} cases tried", tried)); };
  const std::optional<Minimum> minimum = minimize(subject, start, wanted, properties, timeout, limits);
  line.clear();
  if (!minimum) {
    throw EnvironmentError("the case failed once and then never again; raise --time, or run it again");
  }
  const std::string json = json_of(subject, start, *minimum);
  if (file) {
    file->commit(json);
  }
  if (test) {
    const auto control = passing_tiling(subject, minimum->the_case, properties, timeout);
    test->commit(gtest_source({&subject, minimum->the_case, control, minimum->failure.signature}));
  }
  if (test) {
    fmt::print(stderr, "wrote {}\n",
               a.test_file.value_or(fmt::format("{}_regression_test.cpp", subject.operation->name())));
  }
  say(a.json == "-" ? json : text_of(subject, *minimum, colour_on(STDOUT_FILENO)));
  return 1;
}

}  // namespace

void add_minimize(CLI::App& app, Command& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand("minimize", "the simplest case that fails as a given one does");
  command.footer(kFooter);
  command.add_option("CASE", a->the_case, "a case line, or a file with one; '-': standard input")->required();
  command.add_option("--subject", a->subject, "default: the clean cpu subject of the operation")->type_name("NAME");
  command.add_option("--property", a->properties, "only these properties, as globs; may be repeated")
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command.add_option("--time", a->time, "stop with the best so far after this; default 10s")->type_name("TIME");
  command.add_option("--timeout", a->timeout, "a case that takes longer hangs; default 10s")->type_name("TIME");
  command.add_option("--json", a->json, "write tileproof.minimize/1; '-': to standard output")->type_name("FILE");
  command.add_option("--emit-test", a->test_kind, "write a regression test that pins the tilings of the minimal case")
      ->check(CLI::IsMember({"gtest"}));
  command.add_option("--test-file", a->test_file, "where to; default: OPERATION_regression_test.cpp, if there is none")
      ->type_name("FILE")
      ->needs("--emit-test");
  command.callback([a, &chosen] { chosen = [a] { return minimize_one(*a); }; });
}

}  // namespace tileproof
