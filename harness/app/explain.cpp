// tileproof explain: under which condition does a subject fail as it does on this case?
#include "search/explain.h"

#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "app/arguments.h"
#include "app/case_words.h"
#include "app/commands.h"
#include "app/output.h"
#include "record/output_file.h"
#include "record/record.h"
#include "search/interrupt.h"
#include "search/minimize.h"

namespace tileproof {

namespace {

using nlohmann::json;

constexpr char kFooter[] =
    "\nExamples:\n"
    "  tileproof explain 'CASE' --subject 'cpu/mla_rope_q_fwd@head_mask_q_fwd' --property guards\n"
    "  tileproof explain 'cpu/mla_rope_q_fwd@missing_barrier_q_fwd' 'CASE' --hold block_h=1\n"
    "\nA line that 'check' gives for replay explains itself when 'replay' is written as 'explain'. --hold keeps one\n"
    "cause fixed: what fails for another reason still fails, and what fails for this one does not.\n"
    "\nExit: 1 it fails, and a condition was inferred; 0 nothing failed under what --hold fixes; 2 bad usage, or the\n"
    "case does not fail; 3 the environment or the harness failed.";

struct Arguments {
  std::vector<std::string> words, held;
  std::optional<std::string> subject, property, json;
  std::string seed = "1", cases = "2000", time = "60s", jobs = "0", timeout = "10s";
};

struct Request {
  const Subject* subject = nullptr;
  std::optional<Case> start;
  std::vector<const Property*> properties;  // that may be what fails
  Isolation isolation;
  ExplainOptions options;
};

Request read_request(const Arguments& a) {
  Request request;
  if (a.words.size() == 2 && a.subject) {
    throw InputError(fmt::format("'{}' and --subject '{}' given, expected the subject once", a.words[0], *a.subject));
  }
  const std::vector<Case> cases = read_cases(a.words.back());
  if (cases.size() != 1) {
    throw InputError(fmt::format("'{}' holds {} cases, expected one", a.words.back(), cases.size()));
  }
  request.start = cases.front();
  request.subject = &subject_of(*request.start, a.words.size() == 2 ? a.words[0] : a.subject);
  request.properties = choose_properties(a.property ? std::vector{*a.property} : std::vector<std::string>());
  for (const std::string& word : a.held) {
    request.options.held.push_back(parse_held(*request.subject->operation, word));
  }
  request.options.seed = whole_number("--seed", a.seed, 0, UINT64_MAX);
  request.options.cases = whole_number("--cases", a.cases, 10, 20000);
  request.options.deadline_ns = steady_ns() + static_cast<std::int64_t>(duration("--time", a.time) * 1e9);
  request.isolation.jobs = static_cast<int>(whole_number("--jobs", a.jobs, 0, 1024));
  request.isolation.timeout_seconds = duration("--timeout", a.timeout);
  request.isolation.deadline_ns = request.options.deadline_ns;
  return request;
}

struct Failing {
  const Property* property = nullptr;
  Trial trial;
};

// The first of the properties that fails on the case.
Failing failing_property(const Request& request) {
  for (const Property* property : request.properties) {
    Trial trial = try_case(*request.subject, *property, *request.start, request.isolation);
    if (trial.outcome == Trial::Outcome::fails) {
      return {property, std::move(trial)};
    }
    if (trial.outcome == Trial::Outcome::refused) {
      throw InputError(fmt::format("'{}' is refused: {}; change the case", text(*request.start), trial.message));
    }
  }
  throw InputError(fmt::format(
      "'{}' does not fail {} on {}, expected a case that fails (tileproof check finds some)", text(*request.start),
      request.properties.size() == 1 ? std::string(request.properties.front()->name()) : std::string("any property"),
      request.subject->name));
}

// What is there for no reason would be sampled around for none: so the case is minimised first, by a number of tries,
// so that the same case gives the same words.
Case simplest(const Request& request, const Failing& failing) {
  MinimizeLimits limits;
  limits.seconds = 60;
  limits.probes = 2000;
  const auto minimum = minimize(*request.subject, *request.start, parse_signature(failing.trial.signature),
                                {failing.property}, request.isolation.timeout_seconds, limits);
  return minimum ? minimum->the_case : *request.start;
}

json json_of(const Names& names, const Separation& s) {
  return {{"condition", text(names, s.condition)}, {"exact", s.exact},     {"inside", s.inside},
          {"inside_failing", s.inside_failing},    {"outside", s.outside}, {"outside_failing", s.outside_failing}};
}

std::string document(const Request& request, const Failing& failing, const Names& names, const Case& start,
                     const Explanation& found) {
  json held = json::array();
  json others = json::array();
  for (const Separation& other : found.others) {
    others.push_back(text(names, other.condition));
  }
  for (const Held& one : request.options.held) {
    held.push_back(one.key);
  }
  json root{{"schema", "tileproof.explain/1"},
            {"version", TILEPROOF_VERSION},
            {"seed", request.options.seed},
            {"subject", request.subject->name},
            {"property", failing.property->name()},
            {"signature", failing.trial.signature},
            {"case", text(start)},
            {"held", held},
            {"text", text(names, found, "fail")},
            {"samples", found.samples},
            {"failing", found.failing},
            {"hidden", found.hidden},
            {"refused", found.refused},
            {"other_failures", found.other_failures},
            {"out_of_time", found.out_of_time},
            {"others", others}};
  root["found"] = found.separation ? json_of(names, *found.separation) : json();
  const auto case_or_none = [](const std::optional<Case>& c) { return c ? text(*c) : std::string(); };
  root["smallest"] = case_or_none(found.smallest);
  root["holding_inside"] = case_or_none(found.holding_inside);
  root["failing_outside"] = case_or_none(found.failing_outside);
  root["replay"] = found.smallest ? replay_line(text(*found.smallest), request.subject->name) : "";
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string page(const Request& request, const Failing& failing, const Names& names, const Explanation& found) {
  std::string out = fmt::format("seed {}\n{}: {}\n{}\n", request.options.seed, request.subject->name,
                                failing.trial.signature, text(names, found, "fail"));
  if (!found.separation) {
    out += "so what --hold fixes takes its cause away\n";
  }
  if (found.hidden > 0) {
    out +=
        fmt::format("{} of the failing samples held until other contents were given to their tensors\n", found.hidden);
  }
  if (found.refused + found.other_failures > 0) {
    out += fmt::format("left out: {} refused or not judged, {} that fail in another way\n", found.refused,
                       found.other_failures);
  }
  if (found.out_of_time) {
    out += "stopped early, by --time or a signal: other words may come of more samples\n";
  }
  const auto show = [&](const char* what, const std::optional<Case>& c) {
    out += c ? fmt::format("{}:\n  {}\n", what, replay_line(text(*c), request.subject->name)) : std::string();
  };
  show("smallest sample that fails", found.smallest);
  show("smallest sample that holds although the condition is met", found.holding_inside);
  show("smallest sample that fails although it is not", found.failing_outside);
  return out;
}

int explain_case(const Arguments& a) {
  Request request = read_request(a);
  std::optional<OutputFile> file;
  if (a.json && *a.json != "-") {
    file.emplace("--json", *a.json);
  }
  const InterruptScope scope;
  const Failing failing = failing_property(request);
  const Case start = simplest(request, failing);
  const Names names(*request.subject->operation);
  ProgressLine line;
  request.options.progress = [&](std::uint64_t samples) { line.show(fmt::format("{} cases sampled", samples)); };
  const Explanation found = explain_failure(names, *request.subject, *failing.property, start, failing.trial.signature,
                                            request.isolation, request.options);
  line.clear();
  if (found.failing == 0 && found.out_of_time) {
    if (interrupted_by() != 0) {
      return 128 + interrupted_by();
    }
    throw InputError(
        fmt::format("--time '{}' was up after {} samples, of which none fails, which says nothing; give more", a.time,
                    found.samples));
  }
  if (file) {
    file->commit(document(request, failing, names, start, found));
  }
  say(a.json == "-" ? document(request, failing, names, start, found) : page(request, failing, names, found));
  return found.failing > 0 ? 1 : 0;
}

}  // namespace

void add_explain(CLI::App& app, Command& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand("explain", "the simplest condition under which a subject fails");
  command.footer(kFooter);
  command.add_option("WORDS", a->words, "[SUBJECT] CASE; the case is a line, a file of one, or '-'")
      ->required()
      ->expected(1, 2);
  command.add_option("--subject", a->subject, "default: the clean cpu subject of the operation")->type_name("NAME");
  command.add_option("--property", a->property, "the property that fails, as a glob; default: the first that does")
      ->type_name("GLOB");
  command.add_option("--hold", a->held, "KEY=VALUE that every sample has; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  command.add_option("--cases", a->cases, "samples at most; default 2000")->type_name("N");
  command.add_option("--time", a->time, "stops it early; default 60s")->type_name("TIME");
  command.add_option("--seed", a->seed, "seed of the samples; default 1")->type_name("N");
  command.add_option("--jobs", a->jobs, "worker processes; default: one per core")->type_name("N");
  command.add_option("--timeout", a->timeout, "a launch that takes longer hangs; default 10s")->type_name("TIME");
  command.add_option("--json", a->json, "write tileproof.explain/1; '-': to standard output, instead of the text")
      ->type_name("FILE");
  command.callback([a, &chosen] { chosen = [a] { return explain_case(*a); }; });
}

}  // namespace tileproof
