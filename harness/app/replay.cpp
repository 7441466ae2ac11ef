// tileproof replay: the cases of a line or of files, again.
#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>

#include "app/arguments.h"
#include "app/case_words.h"
#include "app/commands.h"
#include "app/output.h"
#include "app/report_files.h"

namespace tileproof {

namespace {

constexpr char kFooter[] =
    "\nExamples:\n"
    "  tileproof replay 'mla_rope_q_fwd dtype=f32 layout=sbhd seq=2 batch=1 head_num=3 nope_dim=0 emb_dim=4\n"
    "                    data=normal:1 | block_h=2 ; block_h=1'\n"
    "  tileproof replay corpus/regressions.cases\n"
    "  tileproof check --json - | jq -r '.subjects[].findings[].case' | tileproof replay -\n"
    "\nExit: 0 all held, 1 a property failed, 2 bad usage or nothing judged, 3 the environment or the harness failed.";

struct Arguments {
  std::vector<std::string> cases, properties;
  std::optional<std::string> subject;
  std::string timeout = "10s";
  ReportFiles files;
};

int replay(Arguments& a) {
  CheckOptions options;
  for (const std::string& word : a.cases) {
    const std::vector<Case> cases = read_cases(word);
    options.corpus.insert(options.corpus.end(), cases.begin(), cases.end());
  }
  for (const Case& c : options.corpus) {
    const Subject* subject = &subject_of(c, a.subject);
    if (std::find(options.subjects.begin(), options.subjects.end(), subject) == options.subjects.end()) {
      options.subjects.push_back(subject);
    }
  }
  options.properties = choose_properties(a.properties);
  options.cases = 0;
  options.jobs = 1;
  options.timeout_seconds = duration("--timeout", a.timeout);
  a.files.open();
  const CheckReport report = run_with_progress(options);
  a.files.write(report);
  return status_of(report);
}

}  // namespace

void add_replay(CLI::App& app, Command& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand("replay", "run the cases of a line or of files again");
  command.footer(kFooter);
  command.add_option("CASE", a->cases, "a case line, or a file of them; '-': standard input")->required();
  command.add_option("--subject", a->subject, "default: the clean cpu subject of the operation")->type_name("NAME");
  command.add_option("--property", a->properties, "only these properties, as globs; may be repeated")
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command.add_option("--timeout", a->timeout, "a launch that takes longer hangs; default 10s")->type_name("TIME");
  a->files.add_options(command);
  command.callback([a, &chosen] { chosen = [a] { return replay(*a); }; });
}

}  // namespace tileproof
