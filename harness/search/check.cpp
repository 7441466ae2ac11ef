#include "search/check.h"

#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "generate/generator.h"
#include "search/check_work.h"
#include "search/interrupt.h"
#include "search/worker_pool.h"

namespace tileproof {

namespace {

using nlohmann::json;

// Findings as they arrive, one per subject and signature. The case shown is the smallest, so that a person can follow
// it; of equally small ones the first, so that it does not depend on which worker was faster.
class Ledger {
 public:
  Ledger(const CheckOptions& options, const Work& work, Board& board) : options_(options), work_(work), board_(board) {}

  void message(const std::string& line) {
    const json parsed = json::parse(line);
    const auto subject = parsed.at("subject").get<std::size_t>();
    const auto unit = parsed.at("unit").get<std::uint64_t>();
    if (parsed.contains("refused")) {
      const auto [refusal, is_first] = refusals_.try_emplace(subject, unit, parsed.at("refused"));
      if (!is_first && unit < refusal->second.first) {
        refusal->second = {unit, parsed.at("refused")};
      }
      return;
    }
    const auto property = parsed.at("property").get<std::size_t>();
    Finding& finding = count(subject, property, unit, parsed.at("signature"));
    if (parsed.contains("case") && is_smaller(finding, parsed.at("elements"), unit)) {
      finding.case_text = parsed.at("case");
      finding.message = parsed.at("message");
      finding.evidence = parsed.at("evidence").get<std::vector<std::string>>();
    }
  }

  // A lost worker is one finding of the property that judges launches.
  void death(const Death& death) {
    const std::size_t subject = death.subject;
    const std::uint64_t unit = death.unit;
    std::size_t property = 0;
    while (property < options_.properties.size() && !options_.properties[property]->judges_failed_launches()) {
      ++property;
    }
    note_lost(subject, property, death.in_flight == 1);
    board_.subject(subject).done = options_.stop_on_failure;
    const std::string name = property < options_.properties.size() ? std::string(options_.properties[property]->name())
                                                                   : std::string("launch_valid");
    Finding& finding = count(subject, property, unit, fmt::format("{}//launch/{}", name, death.how));
    const Case c = work_.at(subject, unit);
    if (is_smaller(finding, elements_of(c.problem), unit)) {
      finding.case_text = text(c);
      finding.message = death.how == "timeout"
                            ? fmt::format("{} did not end within {:g} s and was killed",
                                          death.inside_launch ? "the launch" : "the work between two launches",
                                          options_.timeout_seconds)
                            : fmt::format("the process that launched it died with {}", death.how);
      finding.evidence = evidence_of(death);
    }
  }

  std::uint64_t size() const { return findings_.size(); }

  std::string refusal(std::size_t subject) const {
    const auto found = refusals_.find(subject);
    return found == refusals_.end() ? "" : found->second.second;
  }

  std::vector<Finding> take(std::size_t subject) {
    std::vector<std::pair<std::size_t, Finding>> own;
    for (auto& [key, entry] : findings_) {
      if (key.first == subject) {
        own.emplace_back(entry.first, entry.second);
      }
    }
    std::sort(own.begin(), own.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first, a.second.first_case, a.second.signature) <
             std::tie(b.first, b.second.first_case, b.second.signature);
    });
    std::vector<Finding> result;
    for (auto& [property, finding] : own) {
      result.push_back(std::move(finding));
    }
    return result;
  }

 private:
  // A unit that was lost alone was not judged yet; one of several was, when it was tried alone, and seemed to hold.
  void note_lost(std::size_t subject, std::size_t property, bool alone) {
    board_.subject(subject).cases += alone ? 1 : 0;
    if (property == options_.properties.size()) {
      return;
    }
    SharedTally& tally = board_.tally(subject, property);
    ++tally.failed;
    if (alone || tally.held == 0) {
      ++tally.power;
    } else {
      --tally.held;
    }
  }

  static std::vector<std::string> evidence_of(const Death& death) {
    if (death.in_flight > 1) {
      return {
          fmt::format("{} cases were in flight, and each ended well when it was run alone; this is the first of them",
                      death.in_flight)};
    }
    if (!death.inside_launch) {
      return {death.how == "timeout"
                  ? "the kernel damaged memory outside its tensors, or the case needs a longer --timeout"
                  : "it died after a launch had returned: the kernel damaged memory outside its tensors"};
    }
    return {};
  }

  Finding& count(std::size_t subject, std::size_t property, std::uint64_t unit, const std::string& sign) {
    auto& [index, finding] = findings_[{subject, sign}];
    index = property;
    finding.first_case = finding.count == 0 ? unit : std::min(finding.first_case, unit);
    finding.subject = options_.subjects[subject]->name;
    finding.signature = sign;
    finding.property = sign.substr(0, sign.find('/'));
    ++finding.count;
    return finding;
  }

  // Whether this case replaces the one that the finding shows; notes its size when it does.
  static bool is_smaller(Finding& finding, std::int64_t elements, std::uint64_t unit) {
    const bool smaller =
        finding.case_text.empty() || std::tie(elements, unit) < std::tie(finding.elements, finding.case_number);
    if (smaller) {
      finding.elements = elements;
      finding.case_number = unit;
    }
    return smaller;
  }

  const CheckOptions& options_;
  const Work& work_;
  Board& board_;
  std::map<std::pair<std::size_t, std::string>, std::pair<std::size_t, Finding>> findings_;
  std::map<std::size_t, std::pair<std::uint64_t, std::string>> refusals_;  // of a subject: first refused case, reason
};

Progress progress_of(const CheckOptions& options, Board& board, std::uint64_t findings, double elapsed) {
  Progress progress;
  progress.elapsed = elapsed;
  progress.total_seconds = options.cases ? 0 : options.seconds;
  progress.findings = findings;
  for (std::size_t i = 0; i < options.subjects.size(); ++i) {
    progress.cases += board.subject(i).cases;
    progress.launches += board.subject(i).launches;
    if (board.subject(i).cases > 0) {
      progress.subject = options.subjects[i]->name;
    }
  }
  return progress;
}

SubjectReport report_of(const CheckOptions& options, Board& board, std::size_t subject, Ledger& ledger) {
  SubjectReport report;
  report.subject = options.subjects[subject];
  report.cases = board.subject(subject).cases;
  report.launches = board.subject(subject).launches;
  for (std::size_t i = 0; i < options.properties.size(); ++i) {
    const SharedTally& shared = board.tally(subject, i);
    report.tallies.push_back(Tally{shared.held + shared.failed, shared.power, shared.held, shared.failed,
                                   shared.refused, shared.not_applicable});
  }
  report.findings = ledger.take(subject);
  report.refusal = ledger.refusal(subject);
  return report;
}

}  // namespace

CheckReport run_check(const CheckOptions& options) {
  const Crew crew = crew_for(options);
  const InterruptScope scope;
  Board board(options.subjects.size(), options.properties.size());
  const Work work(options);
  Ledger ledger(options, work, board);
  const std::int64_t start = steady_ns();
  const auto elapsed = [start] { return static_cast<double>(steady_ns() - start) * 1e-9; };
  PoolCallbacks callbacks;
  callbacks.work = [&](const WorkerSide& side) { do_work(options, work, board, side); };
  callbacks.message = [&](const std::string& line) { ledger.message(line); };
  callbacks.death = [&](const Death& death) { ledger.death(death); };
  callbacks.stop = [] { return interrupted_by() != 0; };
  callbacks.tick = [&] {
    if (options.progress) {
      options.progress(progress_of(options, board, ledger.size(), elapsed()));
    }
  };
  CheckReport report;
  try {
    run_pool(crew.workers, crew.lanes, options.timeout_seconds, callbacks);
  } catch (const EnvironmentError& error) {
    report.gave_up = error.what();
  }
  report.seed = options.seed;
  report.seconds = elapsed();
  report.jobs = crew.workers * crew.lanes;
  report.properties = options.properties;
  report.interrupted_by = interrupted_by();
  report.largest_error_over_bound = board.largest();
  const bool sanitizes =
      std::any_of(options.properties.begin(), options.properties.end(), [](auto* p) { return p->sanitizes(); }) &&
      std::any_of(options.subjects.begin(), options.subjects.end(), [](auto* s) { return s->sanitizing != nullptr; });
  report.sanitize_every = sanitizes ? options.sanitize_every : 0;
  for (std::size_t i = 0; i < options.subjects.size(); ++i) {
    report.subjects.push_back(report_of(options, board, i, ledger));
  }
  return report;
}

}  // namespace tileproof
