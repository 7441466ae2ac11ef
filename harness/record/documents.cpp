// Documents for machines: JSON (its fields: harness/docs/json.md) and JUnit.
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "record/record.h"

namespace tileproof {

namespace {

// XML 1.0 has no way to write most control characters, and what is not ASCII may not be UTF-8.
std::string xml(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += (byte < 32 && c != '\n' && c != '\t') || byte > 126 ? '?' : c;
    }
  }
  return result;
}

struct Suite {
  std::string testcases;
  std::size_t tests = 0;
  std::size_t failures = 0;
  std::size_t skipped = 0;
};

void add_testcase(const SubjectReport& subject, std::string_view property, const Tally& tally, Suite& suite) {
  std::string failures;
  for (const Finding& finding : subject.findings) {
    if (finding.property == property) {
      const Shown shown = shown_of(finding);
      failures += xml(fmt::format("{} in {} cases\n{}\n{}\n{}\n\n", finding.signature, finding.count, shown.message,
                                  fmt::join(shown.evidence, "\n"), replay_line(shown.case_text, finding.subject)));
    }
  }
  const std::string word = failures.empty() ? verdict_word(tally) : std::string("FAILED");
  suite.testcases += fmt::format("    <testcase classname=\"{}\" name=\"{}\"", xml(subject.subject->name), property);
  ++suite.tests;
  if (word == "held") {
    suite.testcases += "/>\n";
  } else if (word == "FAILED") {
    ++suite.failures;
    suite.testcases +=
        fmt::format("><failure type=\"{}\" message=\"failed in {} of {} cases\">{}</failure></testcase>\n", property,
                    tally.failed, tally.cases, failures);
  } else {
    ++suite.skipped;
    suite.testcases += fmt::format("><skipped message=\"{}\"/></testcase>\n", word);
  }
}

Suite suite_of(const CheckReport& report, const SubjectReport& subject) {
  Suite suite;
  std::set<std::string_view> judged;
  for (std::size_t i = 0; i < report.properties.size(); ++i) {
    add_testcase(subject, report.properties[i]->name(), subject.tallies[i], suite);
    judged.insert(report.properties[i]->name());
  }
  // A crash is a finding even where the property that reports it was not asked for.
  for (const Finding& finding : subject.findings) {
    if (judged.insert(finding.property).second) {
      add_testcase(subject, finding.property, Tally{subject.cases, finding.count, 0, finding.count, 0, 0}, suite);
    }
  }
  return suite;
}

nlohmann::json finding_json(const Finding& finding) {
  using nlohmann::json;
  json entry{{"property", finding.property},
             {"signature", finding.signature},
             {"count", finding.count},
             {"first_case", finding.first_case},
             {"case_number", finding.case_number},
             {"case", finding.case_text},
             {"elements", finding.elements},
             {"message", finding.message},
             {"evidence", finding.evidence},
             {"replay", replay_line(finding.case_text, finding.subject)}};
  entry["condition"] = finding.condition;
  if (const auto& minimal = finding.minimal) {
    entry["minimal"] = {{"case", minimal->case_text},
                        {"signature", minimal->signature},
                        {"message", minimal->message},
                        {"evidence", minimal->evidence},
                        {"complete", minimal->complete},
                        {"tried", minimal->tried},
                        {"failures", minimal->failures},
                        {"launches", minimal->launches},
                        {"replay", replay_line(minimal->case_text, finding.subject)}};
  }
  return entry;
}

}  // namespace

std::string json_text(const CheckReport& report) {
  using nlohmann::json;
  json root{{"schema", "tileproof.check/1"},
            {"version", TILEPROOF_VERSION},
            {"seed", report.seed},
            {"seconds", report.seconds},
            {"jobs", report.jobs},
            {"interrupted", report.interrupted_by != 0},
            {"gave_up", report.gave_up},
            {"largest_error_over_bound", report.largest_error_over_bound},
            {"sanitize_every", report.sanitize_every},
            {"subjects", json::array()}};
  for (const SubjectReport& subject : report.subjects) {
    json entry{{"subject", subject.subject->name}, {"cases", subject.cases},      {"launches", subject.launches},
               {"refusal", subject.refusal},       {"properties", json::array()}, {"findings", json::array()}};
    for (std::size_t i = 0; i < report.properties.size(); ++i) {
      const Tally& tally = subject.tallies[i];
      entry["properties"].push_back({{"property", report.properties[i]->name()},
                                     {"verdict", verdict_word(tally)},
                                     {"cases", tally.cases},
                                     {"power", tally.power},
                                     {"held", tally.held},
                                     {"failed", tally.failed},
                                     {"refused", tally.refused},
                                     {"not_applicable", tally.not_applicable}});
    }
    for (const Finding& finding : subject.findings) {
      entry["findings"].push_back(finding_json(finding));
    }
    root["subjects"].push_back(std::move(entry));
  }
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string junit_text(const CheckReport& report) {
  std::string suites;
  Suite total;
  for (const SubjectReport& subject : report.subjects) {
    const Suite suite = suite_of(report, subject);
    suites += fmt::format(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">\n"
        "    <properties><property name=\"seed\" value=\"{}\"/></properties>\n{}  </testsuite>\n",
        xml(subject.subject->name), suite.tests, suite.failures, suite.skipped, report.seed, suite.testcases);
    total.tests += suite.tests;
    total.failures += suite.failures;
    total.skipped += suite.skipped;
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites name=\"tileproof\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{:.3f}\">\n"
      "{}</testsuites>\n",
      total.tests, total.failures, total.skipped, report.seconds, suites);
}

}  // namespace tileproof
