#include "search/closing.h"

#include <algorithm>

#include <fmt/format.h>

#include "execute/executor.h"
#include "search/explain.h"
#include "search/interrupt.h"
#include "search/minimize.h"

namespace tileproof {

namespace {

// Each has a share of what is left, so that one that is slow does not cost the others theirs.
constexpr double kShare = 0.3;

struct Job {
  const Subject* subject = nullptr;
  Finding* finding = nullptr;
  std::size_t turn = 0;  // how many of its subject come before it
};

std::vector<Job> jobs_of(CheckReport& report) {
  std::vector<Job> jobs;
  for (SubjectReport& subject : report.subjects) {
    std::vector<Finding*> sorted;
    for (Finding& finding : subject.findings) {
      sorted.push_back(&finding);
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Finding* a, const Finding* b) { return a->count > b->count; });
    for (std::size_t turn = 0; turn < sorted.size(); ++turn) {
      jobs.push_back({subject.subject, sorted[turn], turn});
    }
  }
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.turn < b.turn; });
  return jobs;
}

}  // namespace

void minimise_finding(Finding& finding, const Subject& subject, const std::vector<const Property*>& properties,
                      double timeout_seconds, double seconds) {
  const std::optional<Minimum> found =
      minimize(subject, parse_case(finding.case_text), parse_signature(finding.signature), properties, timeout_seconds,
               {seconds});
  if (!found) {
    finding.evidence.emplace_back("it did not fail again in 10 tries of the case alone");
    return;
  }
  finding.minimal = MinimalCase{text(found->the_case),   found->failure.signature, found->failure.message,
                                found->failure.evidence, found->minimal,           found->tried,
                                found->rate.failures,    found->rate.launches};
}

void explain_finding(Finding& finding, const Subject& subject, std::uint64_t seed, double timeout_seconds,
                     double seconds) {
  const std::vector<const Property*> named = matching_properties({finding.property});
  if (named.empty() || !finding.minimal) {
    return;
  }
  ExplainOptions options;
  options.seed = seed;
  options.deadline_ns = steady_ns() + static_cast<std::int64_t>(seconds * 1e9);
  Isolation isolation;
  isolation.timeout_seconds = timeout_seconds;
  isolation.deadline_ns = options.deadline_ns;
  const Names names(*subject.operation);
  const Explanation found = explain_failure(names, subject, *named.front(), parse_case(finding.minimal->case_text),
                                            finding.minimal->signature, isolation, options);
  if (!found.out_of_time && found.separation) {
    finding.condition = text(names, found, "fail");
  }
}

void close_findings(CheckReport& report, const ClosingOptions& options) {
  const InterruptScope scope;
  const std::int64_t start = steady_ns();
  std::size_t done = 0;
  const std::vector<Job> jobs = jobs_of(report);
  const auto left = [&] { return options.seconds - static_cast<double>(steady_ns() - start) * 1e-9; };
  for (const Job& job : jobs) {
    if (report.interrupted_by != 0 || left() <= 0) {
      return;
    }
    if (options.progress) {
      options.progress(
          fmt::format("minimising {} of {}: {} {}", ++done, jobs.size(), job.subject->name, job.finding->signature));
    }
    minimise_finding(*job.finding, *job.subject, report.properties, options.timeout_seconds,
                     std::max(0.5, left() * kShare));
    report.interrupted_by = interrupted_by();
  }
  for (const Job& job : jobs) {
    if (job.turn > 0 || report.interrupted_by != 0 || left() <= 0) {
      return;
    }
    if (options.progress) {
      options.progress(fmt::format("explaining {} {}", job.subject->name, job.finding->signature));
    }
    explain_finding(*job.finding, *job.subject, report.seed, options.timeout_seconds, left());
    report.interrupted_by = interrupted_by();
  }
}

}  // namespace tileproof
