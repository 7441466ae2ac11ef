// tileproof agree: the same cases on the cpu and on a GPU, as a table for the README.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "app/arguments.h"
#include "app/commands.h"
#include "app/output.h"
#include "search/agreement.h"

namespace tileproof {

namespace {

constexpr char kFooter[] =
    "\nExample:\n"
    "  tileproof agree --cases 200 --seed 1            every clean subject and every fault\n"
    "\nFaults that race are told by timing on a GPU: several threads write one place, and who is last differs. Such a\n"
    "fault fails other properties, or in other cases, than on the cpu, where the order is part of the case. Its cases "
    "are\n"
    "launched again and again: in how many launches something was other than after the clean kernel is told.\n"
    "\nExit: 0 clean subjects gave the same bits and verdicts, and no fault showed on one device only; 1 otherwise.";

struct Arguments {
  std::vector<std::string> subjects{"*", "*@*"};
  std::string cases = "200", seed = "1";
};

std::string list_of(const std::vector<std::string>& names) {
  return names.empty() ? "-" : fmt::format("{}", fmt::join(names, ", "));
}

std::string verdict_of(const Agreement& a) {
  const bool found_on_cpu = !a.found_on_both.empty() || !a.only_on_cpu.empty();
  const bool found_on_cuda = !a.found_on_both.empty() || !a.only_on_cuda.empty();
  if (!a.fault) {
    return a.same_counts && a.different == 0 ? fmt::format("same verdicts, same bits in {} outputs", a.outputs)
                                             : fmt::format("{} verdicts, {} of {} outputs differ",
                                                           a.same_counts ? "same" : "OTHER", a.different, a.outputs);
  }
  if (a.same_counts) {
    return found_on_cpu ? "same verdicts in as many cases" : "found on neither";
  }
  const std::string_view found = found_on_cpu && found_on_cuda ? "found on both, in other cases"
                                 : found_on_cpu                ? "found in the cases of this seed on cpu only"
                                                               : "found in the cases of this seed on cuda only";
  return a.launches == 0 ? fmt::format("{}; hangs", found)
                         : fmt::format("{}; shows in {} of {} launches on cuda", found, a.shown, a.launches);
}

// A fault that shows on one device is to show on the other, if only in some launches of many; but for one that only
// the cpu is sure to show.
bool agrees(const Agreement& a) {
  const bool on_cpu = !a.found_on_both.empty() || !a.only_on_cpu.empty();
  const bool on_cuda = !a.found_on_both.empty() || !a.only_on_cuda.empty() || a.shown > 0;
  return a.fault ? on_cpu == on_cuda || a.shown_by_cpu : a.same_counts && a.different == 0;
}

int agree(const Arguments& a) {
  CheckOptions options;
  options.subjects = choose_subjects("cuda", a.subjects);
  options.properties = choose_properties({});
  std::erase_if(options.properties,
                [](const Property* property) { return property->sanitizes(); });  // of the cpu alone
  options.cases = whole_number("--cases", a.cases, 1, 1000000);
  options.seed = whole_number("--seed", a.seed, 0, UINT64_MAX);
  options.timeout_seconds = 10;
  const std::vector<Agreement> all = find_agreement(options);
  say(fmt::format("seed {}, {} cases a subject\n\n", a.seed, a.cases));
  say("| subject | cpu and cuda | fail on both | on cpu only | on cuda only |\n|---|---|---|---|---|\n");
  bool every = true;
  for (const Agreement& one : all) {
    say(fmt::format("| {} | {} | {} | {} | {} |\n", one.subject, verdict_of(one), list_of(one.found_on_both),
                    list_of(one.only_on_cpu), list_of(one.only_on_cuda)));
    every = every && agrees(one);
  }
  return every ? 0 : 1;
}

}  // namespace

void add_agree(CLI::App& app, Command& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand("agree", "the same cases on the cpu and on a GPU: where do verdicts differ");
  command.footer(kFooter);
  command.add_option("SUBJECT", a->subjects, "cuda subjects, as globs; default: all, faults too");
  command.add_option("--cases", a->cases, "generated cases per subject; default 200")->type_name("N");
  command.add_option("--seed", a->seed, "seed of the cases; default 1")->type_name("S");
  command.callback([a, &chosen] { chosen = [a] { return agree(*a); }; });
}

}  // namespace tileproof
