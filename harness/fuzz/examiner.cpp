#include "fuzz/examiner.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "fuzz/campaign.h"
#include "fuzz/case_bytes.h"
#include "generate/generator.h"
#include "record/output_file.h"
#include "record/record.h"
#include "search/closing.h"
#include "search/prober.h"

namespace tileproof {

namespace {

// For one finding. A known fault takes a tenth of it on an idle machine.
constexpr double kMinimiseSeconds = 10;
constexpr double kExplainSeconds = 20;
// A hang costs the whole timeout at every step.
constexpr double kMinimiseTimeouts = 10;
// Of one subject. A kernel that takes processes with it does so faster than they can be looked into; what is more of
// the same comes again.
constexpr int kMostLost = 4;

bool is_open(const StoredFinding& stored) { return stored.artifact.empty(); }

std::string file_name(const Finding& finding) {
  std::string name = finding.subject + " " + finding.signature;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '_' && c != '@'; }, '-');
  return fmt::format("findings/{}.cases", name.substr(0, 200));
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return text;
}

std::string file_text(const Finding& finding) {
  const Shown shown = shown_of(finding);
  std::string result =
      fmt::format("# {} fails {}\n# {}\n", finding.subject, finding.signature, one_line(shown.message));
  if (!finding.condition.empty()) {
    result += fmt::format("# {}\n", one_line(finding.condition));
  }
  return result + fmt::format("# {}\n{}\n", replay_line(shown.case_text, finding.subject), shown.case_text);
}

class Examiner {
 public:
  explicit Examiner(const std::string& directory)
      : directory_(directory),
        settings_(read_settings(directory)),
        subjects_(subjects_of(settings_)),
        properties_(properties_of(settings_)),
        bytes_(subjects_, settings_.seed),
        store_(directory, Database::Mode::create) {}

  void run() {
    look_into_lost_inputs();
    // Those that come first of each subject first: a fault that shows in many ways does not keep others waiting.
    std::map<std::string, std::size_t> turns;
    std::vector<std::pair<std::size_t, Finding>> open;
    for (StoredFinding& stored : store_.findings()) {
      const std::size_t turn = turns[stored.finding.subject]++;
      if (is_open(stored)) {
        open.emplace_back(turn, std::move(stored.finding));
      }
    }
    std::stable_sort(open.begin(), open.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [turn, finding] : open) {
      close(finding);
      look_into_lost_inputs();
    }
  }

 private:
  void close(Finding& finding) {
    const Subject& subject = **std::find_if(subjects_.begin(), subjects_.end(),
                                            [&](const Subject* one) { return one->name == finding.subject; });
    try {
      minimise_finding(finding, subject, properties_, settings_.timeout_seconds,
                       kMinimiseSeconds + kMinimiseTimeouts * settings_.timeout_seconds);
      if (finding.minimal && finding.minimal->complete) {
        explain_finding(finding, subject, settings_.seed, settings_.timeout_seconds, kExplainSeconds);
      }
    } catch (const InputError& error) {
      finding.evidence.emplace_back(fmt::format("no condition was looked for: {}", error.what()));
    }
    const std::string name = file_name(finding);
    OutputFile("--dir", directory_ + "/" + name).commit(file_text(finding));
    store_.close(finding, name);
  }

  void look_into_lost_inputs() {
    std::vector<int> looked_into(subjects_.size(), 0);
    for (const LostInput& lost : lost_inputs(directory_)) {
      const SubjectCase one = bytes_.decode(lost.input);
      if (looked_into[one.subject]++ < kMostLost) {
        look_into(one);
      }
      std::filesystem::remove(lost.path);
    }
  }

  void look_into(const SubjectCase& one) {
    const Subject& subject = *subjects_[one.subject];
    const Probe probe = Prober(subject, properties_, settings_.timeout_seconds).probe(one.the_case);
    for (const ProbedFailure& failure : probe.failures) {
      Finding finding;
      finding.subject = subject.name;
      finding.property = parse_signature(failure.signature).property;
      finding.signature = failure.signature;
      finding.case_text = text(one.the_case);
      finding.message = failure.message;
      finding.evidence = failure.evidence;
      finding.elements = elements_of(one.the_case.problem);
      finding.count = 1;
      store_.record(finding, milliseconds_now());
    }
  }

  std::string directory_;
  CampaignSettings settings_;
  std::vector<const Subject*> subjects_;
  std::vector<const Property*> properties_;
  CaseBytes bytes_;
  Store store_;
};

}  // namespace

void examine(const std::string& directory) { Examiner(directory).run(); }

bool needs_examination(const std::string& directory, const Store& store) {
  return store.has_open_findings() || !lost_inputs(directory).empty();
}

}  // namespace tileproof
