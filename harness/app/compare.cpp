// tileproof compare: two subjects of one operation, bit for bit: where do they differ?
#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "app/arguments.h"
#include "app/case_words.h"
#include "app/commands.h"
#include "app/output.h"
#include "generate/generator.h"
#include "record/output_file.h"
#include "record/record.h"
#include "search/difference.h"
#include "search/explain.h"
#include "search/interrupt.h"
#include "search/minimize.h"
#include "search/simplicity.h"

namespace tileproof {

namespace {

using nlohmann::json;
using Outcome = Trial::Outcome;

constexpr char kFooter[] =
    "\nExamples:\n"
    "  tileproof compare 'cpu/mla_rope_q_fwd@head_mask_q_fwd' cpu/mla_rope_q_fwd\n"
    "  tileproof compare OLD NEW --allow 'head_num % block_h != 0 and head_num > block_h'\n"
    "\nSame inputs, same memory, same tiling: outputs and guards are compared bit for bit (a NaN equals any NaN).\n"
    "A condition is up to three comparisons joined by 'and'; harness/docs/explain.md lists what it may name.\n"
    "\nExit: 0 no difference, or all of them inside --allow; 1 a difference outside; 2 bad usage, or nothing could be\n"
    "compared; 3 the environment or the harness failed.";

constexpr std::size_t kBatch = 500;
constexpr std::uint64_t kMostProbes = 400;

struct Arguments {
  std::string old_one, new_one;
  std::optional<std::string> allow, the_case, cases, time, json;
  std::string seed = "1", jobs = "0", timeout = "10s";
};

struct Counts {
  std::uint64_t identical = 0;
  std::uint64_t different = 0;
  std::uint64_t refused = 0;
  std::string refusal;  // why the first was
};

// A case on which they differ, and how.
struct Difference {
  Case c;
  Trial trial;
};

class CompareCommand {
 public:
  explicit CompareCommand(const Arguments& a);
  int run();

 private:
  static const Subject& subject(const std::string& name);
  std::vector<Attempts> next_batch();
  std::vector<Trial> compare(std::span<const Attempts> cases);
  void compare_cases();
  void find_condition();
  Case minimum_of(const Difference& difference);
  std::string page() const;
  std::string document() const;
  std::string replay(const Case& c) const;

  const Arguments& a_;
  const Subject& old_;
  const Subject& new_;
  const Names names_;
  std::uint64_t seed_;
  std::int64_t deadline_ns_ = INT64_MAX;  // of the generated cases
  std::uint64_t wanted_ = 1000;           // generated cases
  std::uint64_t drawn_ = 0;
  Isolation isolation_;
  std::optional<Case> only_;
  std::optional<Condition> allowed_;
  Counts counts_;  // of generated cases
  std::optional<Difference> smallest_;
  std::optional<Difference> smallest_outside_;  // of what is allowed
  std::uint64_t outside_ = 0;
  std::uint64_t all_different_ = 0;  // those that the search for a condition tried too
  std::optional<Explanation> found_;
};

CompareCommand::CompareCommand(const Arguments& a)
    : a_(a),
      old_(subject(a.old_one)),
      new_(subject(a.new_one)),
      names_(*old_.operation),
      seed_(whole_number("--seed", a.seed, 0, UINT64_MAX)) {
  if (old_.operation != new_.operation || std::string_view(old_.raw->device) != new_.raw->device) {
    throw InputError(fmt::format(
        "'{}' and '{}' given, expected two subjects of one operation on one device (tileproof list subjects; tileproof "
        "agree compares devices)",
        old_.name, new_.name));
  }
  if (a.cases && a.time) {
    throw InputError(fmt::format("both --time '{}' and --cases '{}' given, expected one of them", *a.time, *a.cases));
  }
  isolation_.jobs = static_cast<int>(whole_number("--jobs", a.jobs, 0, 1024));
  isolation_.timeout_seconds = duration("--timeout", a.timeout);
  wanted_ = a.cases ? whole_number("--cases", *a.cases, 1, 1'000'000'000) : a.time ? UINT64_MAX : wanted_;
  if (a.time) {
    deadline_ns_ = steady_ns() + static_cast<std::int64_t>(duration("--time", *a.time) * 1e9);
  }
  if (a.allow) {
    allowed_ = parse_condition(names_, *a.allow);
  }
  if (a.the_case) {
    const std::vector<Case> cases = read_cases(*a.the_case);
    if (cases.size() != 1 || &cases.front().problem.operation() != old_.operation) {
      throw InputError(fmt::format("--case '{}' given, expected one case of {}", *a.the_case, old_.operation->name()));
    }
    only_ = cases.front();
  }
}

const Subject& CompareCommand::subject(const std::string& name) {
  const Subject* const found = find_subject(name);
  if (found == nullptr) {
    throw InputError(
        fmt::format("subject '{}' is unknown, expected a name (tileproof list subjects; tileproof list faults)", name));
  }
  return *found;
}

// Generated cases have one tiling each, in turn: so a difference is that of a tiling.
std::vector<Attempts> CompareCommand::next_batch() {
  std::vector<Attempts> batch;
  for (; drawn_ < wanted_ && batch.size() < kBatch; ++drawn_) {
    Case c = generate_case(old_, seed_, drawn_);
    const Tiling tiling = c.tilings[drawn_ % c.tilings.size()];
    c.tilings = {tiling};
    batch.push_back({std::move(c)});
  }
  return batch;
}

// Compares, and notes every difference.
std::vector<Trial> CompareCommand::compare(std::span<const Attempts> cases) {
  std::vector<Trial> trials = compare_subjects(old_, new_, cases, isolation_);
  const auto smaller = [](const Case& c, const std::optional<Difference>& than) {
    const auto rank = [](const Case& one) { return std::pair(simplicity(one), text(one)); };
    return !than || rank(c) < rank(than->c);
  };
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].outcome != Outcome::fails) {
      continue;
    }
    const Case& c = cases[i][trials[i].attempt];
    ++all_different_;
    if (smaller(c, smallest_)) {
      smallest_ = Difference{c, trials[i]};
    }
    if (allowed_ && !holds(*allowed_, names_, c)) {
      ++outside_;
      if (smaller(c, smallest_outside_)) {
        smallest_outside_ = Difference{c, trials[i]};
      }
    }
  }
  return trials;
}

void CompareCommand::compare_cases() {
  ProgressLine line;
  std::vector<Attempts> batch = only_ ? std::vector<Attempts>{{*only_}} : next_batch();
  for (; !batch.empty(); batch = next_batch()) {
    for (const Trial& trial : compare(batch)) {
      counts_.identical += trial.outcome == Outcome::holds ? 1 : 0;
      counts_.different += trial.outcome == Outcome::fails ? 1 : 0;
      counts_.refused += trial.outcome == Outcome::refused ? 1 : 0;
      counts_.refusal = counts_.refusal.empty() ? trial.message : counts_.refusal;
    }
    line.show(fmt::format("{} cases, {} different", drawn_, counts_.different));
    if (only_ || interrupted_by() != 0 || steady_ns() >= deadline_ns_) {
      break;
    }
  }
}

void CompareCommand::find_condition() {
  const TryCases try_all = [this](std::span<const Attempts> cases) { return compare(cases); };
  const IsSame any = [](const std::string&) { return true; };
  ExplainOptions options;
  options.seed = seed_;
  ProgressLine line;
  options.progress = [&](std::uint64_t samples) { line.show(fmt::format("{} cases sampled", samples)); };
  found_ = explain(names_, old_, minimum_of(*smallest_), try_all, any, options);
}

// The simplest case with a difference of this signature. By a number of tries, so that the words do not depend on time.
Case CompareCommand::minimum_of(const Difference& difference) {
  MinimizeLimits limits;
  limits.seconds = 60;
  limits.probes = kMostProbes;
  const std::string signature = difference.trial.signature;
  const auto differs = [&](const Case& c) {
    const Attempts one{c};
    const Trial trial = compare({&one, 1}).front();
    return trial.outcome == Outcome::fails && trial.signature == signature;
  };
  return descend(old_, difference.c, differs, limits).the_case;
}

std::string CompareCommand::replay(const Case& c) const {
  return fmt::format("tileproof compare {} {} --case '{}'", old_.name, new_.name, text(c));
}

std::string CompareCommand::page() const {
  std::string out = fmt::format("seed {}\nold: {}\nnew: {}\n", seed_, old_.name, new_.name);
  out += fmt::format("identical, guards included, in {} of {} cases; different in {}\n", counts_.identical,
                     counts_.identical + counts_.different, counts_.different);
  if (interrupted_by() != 0) {
    out += "interrupted: this is what there was by then\n";
  }
  if (counts_.refused > 0) {
    out += fmt::format("{} refused, first because: {}\n", counts_.refused, counts_.refusal);
  }
  if (found_) {
    out += text(names_, *found_, "differ") + "\n";
    const auto& s = found_->separation;
    if (s && s->exact && !s->condition.terms.empty()) {
      out += fmt::format("identical wherever {}: {} of {} sampled\n", opposite_text(names_, s->condition),
                         s->outside - s->outside_failing, s->outside);
    }
  }
  const auto show = [&](const char* what, const Difference& difference) {
    out += fmt::format("{}: {}\n  {}\n  {}\n", what, difference.trial.signature, difference.trial.message,
                       replay(difference.c));
  };
  if (smallest_) {
    show("smallest difference", *smallest_);
  }
  if (allowed_ && all_different_ > 0) {
    out += fmt::format("--allow {}: {} of {} differences lie outside\n", text(names_, *allowed_), outside_,
                       all_different_);
    if (smallest_outside_) {
      show("smallest outside", *smallest_outside_);
    }
  }
  return out;
}

std::string CompareCommand::document() const {
  const auto case_of = [](const std::optional<Difference>& d) { return d ? text(d->c) : std::string(); };
  json root{{"schema", "tileproof.compare/1"},
            {"version", TILEPROOF_VERSION},
            {"seed", seed_},
            {"old", old_.name},
            {"new", new_.name},
            {"interrupted", interrupted_by() != 0},
            {"identical", counts_.identical},
            {"different", counts_.different},
            {"refused", counts_.refused},
            {"refusal", counts_.refusal},
            {"condition", found_ && found_->separation ? text(names_, found_->separation->condition) : ""},
            {"exact", found_ && found_->separation && found_->separation->exact},
            {"text", found_ ? text(names_, *found_, "differ") : ""},
            {"smallest", case_of(smallest_)},
            {"signature", smallest_ ? smallest_->trial.signature : ""},
            {"message", smallest_ ? smallest_->trial.message : ""},
            {"replay", smallest_ ? replay(smallest_->c) : ""},
            {"allowed", allowed_ ? text(names_, *allowed_) : ""},
            {"outside", allowed_ ? outside_ : all_different_},
            {"smallest_outside", case_of(allowed_ ? smallest_outside_ : smallest_)}};
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

int CompareCommand::run() {
  std::optional<OutputFile> file;
  if (a_.json && *a_.json != "-") {
    file.emplace("--json", *a_.json);
  }
  const InterruptScope scope;
  compare_cases();
  if (counts_.identical + counts_.different == 0) {
    throw InputError(fmt::format("no case could be compared, which says nothing: {}; change the case or the subjects",
                                 counts_.refusal.empty() ? "out of time" : counts_.refusal));
  }
  if (smallest_ && !only_) {
    find_condition();
  }
  if (file) {
    file->commit(document());
  }
  say(a_.json == "-" ? document() : page());
  if (all_different_ > 0 && !(allowed_ && outside_ == 0)) {
    return 1;
  }
  return interrupted_by() != 0 ? 128 + interrupted_by() : 0;
}

}  // namespace

void add_compare(CLI::App& app, Command& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand("compare", "two subjects bit for bit: where do they differ");
  command.footer(kFooter);
  command.add_option("OLD", a->old_one, "a subject")->required();
  command.add_option("NEW", a->new_one, "another one of the same operation")->required();
  command.add_option("--allow", a->allow, "the condition under which they may differ")->type_name("CONDITION");
  command.add_option("--case", a->the_case, "only this case: a line, a file of one, or '-'")->type_name("CASE");
  command.add_option("--cases", a->cases, "this many generated cases; default 1000")->type_name("N");
  command.add_option("--time", a->time, "as many generated cases as fit, instead of a number")->type_name("TIME");
  command.add_option("--seed", a->seed, "seed of the cases; default 1")->type_name("N");
  command.add_option("--jobs", a->jobs, "worker processes; default: one per core")->type_name("N");
  command.add_option("--timeout", a->timeout, "a launch that takes longer hangs; default 10s")->type_name("TIME");
  command.add_option("--json", a->json, "write tileproof.compare/1; '-': to standard output, instead of the text")
      ->type_name("FILE");
  command.callback([a, &chosen] { chosen = [a] { return CompareCommand(*a).run(); }; });
}

}  // namespace tileproof
