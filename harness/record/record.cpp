#include "record/record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tileproof {

namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kFindingsShown = 6;

std::string painted(const std::string& text, const char* code, bool colour) {
  return colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

// What all names have in front, up to the last '/' or '_'.
std::size_t common_prefix(const std::vector<SubjectReport>& subjects) {
  if (subjects.size() < 2) {
    return 0;
  }
  const std::string& first = subjects[0].subject->name;
  std::size_t length = first.size();
  for (const SubjectReport& subject : subjects) {
    const std::string& name = subject.subject->name;
    length = static_cast<std::size_t>(
        std::mismatch(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(std::min(length, name.size())),
                      name.begin())
            .first -
        first.begin());
  }
  while (length > 0 && first[length - 1] != '/' && first[length - 1] != '_') {
    --length;
  }
  return length;
}

std::string cell(const Tally& tally) {
  const std::string word = verdict_word(tally);
  return word == "held"     ? fmt::format("{}/{}", tally.power, tally.cases)
         : word == "FAILED" ? fmt::format("FAILED {}", tally.failed)
                            : word;
}

// The worst of a row: a failure, then anything that was not tried.
std::string row_word(const std::vector<SubjectReport>& subjects, std::size_t property) {
  std::string worst = "does not apply";
  for (const SubjectReport& subject : subjects) {
    const std::string word = verdict_word(subject.tallies[property]);
    if (word == "FAILED" ||
        (worst != "FAILED" && word != "does not apply" && (worst == "does not apply" || word != "held"))) {
      worst = word;
    }
  }
  return worst;
}

void one_subject(const CheckReport& report, bool colour, std::string& out) {
  const SubjectReport& subject = report.subjects[0];
  out += fmt::format("{}: {} cases, {} launches\n", subject.subject->name, subject.cases, subject.launches);
  for (std::size_t i = 0; i < report.properties.size(); ++i) {
    const Tally& tally = subject.tallies[i];
    const std::string word = verdict_word(tally);
    std::string line = fmt::format("  {:<21} {}", report.properties[i]->name(),
                                   painted(word,
                                           word == "FAILED" ? "31;1"
                                           : word == "held" ? "32"
                                                            : "33",
                                           colour));
    if (word == "held") {
      line += fmt::format(" (power {} of {})", tally.power, tally.cases);
    } else if (word == "FAILED") {
      line += fmt::format(" ({} of {})", tally.failed, tally.cases);
    }
    out += line + (tally.refused > 0 ? fmt::format(", {} refused\n", tally.refused) : "\n");
  }
}

void table(const CheckReport& report, bool colour, std::string& out) {
  const std::size_t prefix = common_prefix(report.subjects);
  std::size_t width = 12;
  for (const SubjectReport& subject : report.subjects) {
    width = std::max(width, subject.subject->name.size() - prefix + 2);
  }
  const std::size_t columns = std::max<std::size_t>(1, (kWidth - 33) / width);
  out += fmt::format("subjects: {}*; held cells are P/N: held on N cases, P of which could have failed\n",
                     report.subjects[0].subject->name.substr(0, prefix));
  for (std::size_t from = 0; from < report.subjects.size(); from += columns) {
    const std::size_t to = std::min(report.subjects.size(), from + columns);
    out += fmt::format("{:<22}{:<10}", "property", "");
    for (std::size_t i = from; i < to; ++i) {
      out += fmt::format("{:>{}}", report.subjects[i].subject->name.substr(prefix), width);
    }
    out += "\n";
    for (std::size_t property = 0; property < report.properties.size(); ++property) {
      const std::string word = row_word(report.subjects, property);
      const std::string padded = fmt::format("{:<10}", word == "does not apply" ? "-" : word);
      out += fmt::format("{:<22}{}", report.properties[property]->name(),
                         painted(padded,
                                 word == "FAILED" ? "31;1"
                                 : word == "held" ? "32"
                                                  : "33",
                                 colour));
      for (std::size_t i = from; i < to; ++i) {
        const std::string text = cell(report.subjects[i].tallies[property]);
        out += fmt::format("{:>{}}", text == "does not apply" ? "-" : text, width);
      }
      out += "\n";
    }
  }
}

void findings(const CheckReport& report, bool colour, std::string& out) {
  std::size_t total = 0;
  std::size_t shown = 0;
  for (const SubjectReport& subject : report.subjects) {
    for (const Finding& finding : subject.findings) {
      ++total;
      if (shown == kFindingsShown) {
        continue;
      }
      ++shown;
      out += fmt::format("\n{} {} ({} cases, first in case {})\n", painted(finding.property, "31;1", colour),
                         finding.subject, finding.count, finding.first_case);
      out += fmt::format("  {}\n", finding.message);
      for (const std::string& line : finding.evidence) {
        out += fmt::format("  {}\n", line);
      }
      out += fmt::format("  {}\n", replay_line(finding));
    }
  }
  if (total > shown) {
    out += fmt::format("\n... and {} more findings (--json lists all)\n", total - shown);
  }
}

std::string xml(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return result;
}

}  // namespace

std::string verdict_word(const Tally& tally) {
  if (tally.failed > 0) {
    return "FAILED";
  }
  if (tally.power > 0) {
    return "held";
  }
  return tally.cases == 0 && tally.refused > 0          ? "refused"
         : tally.cases == 0 && tally.not_applicable > 0 ? "does not apply"
                                                        : "not tried";
}

std::string replay_line(const Finding& finding) {
  std::string quoted;
  for (const char c : finding.case_text) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return fmt::format("tileproof replay '{}' --subject {}", quoted, finding.subject);
}

std::string console_text(const CheckReport& report, bool colour) {
  std::string out;
  if (report.subjects.size() == 1) {
    one_subject(report, colour, out);
  } else {
    table(report, colour, out);
  }
  findings(report, colour, out);
  std::uint64_t cases = 0;
  std::uint64_t launches = 0;
  std::size_t count = 0;
  for (const SubjectReport& subject : report.subjects) {
    cases += subject.cases;
    launches += subject.launches;
    count += subject.findings.size();
  }
  const std::string summary =
      count == 0 ? painted("all held", "32", colour) : painted(fmt::format("{} findings", count), "31;1", colour);
  out += fmt::format("\n{}: {} cases, {} launches, {:.1f} s, {} jobs; largest error {:.2f} of its bound{}\n", summary,
                     cases, launches, report.seconds, report.jobs, report.largest_error_over_bound,
                     report.interrupted ? "; interrupted" : "");
  return out;
}

std::string json_text(const CheckReport& report) {
  using nlohmann::json;
  json root{{"schema", "tileproof.check/1"},     {"seed", report.seed},
            {"seconds", report.seconds},         {"jobs", report.jobs},
            {"interrupted", report.interrupted}, {"largest_error_over_bound", report.largest_error_over_bound},
            {"subjects", json::array()}};
  for (const SubjectReport& subject : report.subjects) {
    json entry{{"subject", subject.subject->name},
               {"cases", subject.cases},
               {"launches", subject.launches},
               {"properties", json::array()},
               {"findings", json::array()}};
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
      entry["findings"].push_back({{"property", finding.property},
                                   {"signature", finding.signature},
                                   {"count", finding.count},
                                   {"first_case", finding.first_case},
                                   {"case", finding.case_text},
                                   {"message", finding.message},
                                   {"evidence", finding.evidence},
                                   {"replay", replay_line(finding)}});
    }
    root["subjects"].push_back(std::move(entry));
  }
  return root.dump(2) + "\n";
}

std::string junit_text(const CheckReport& report) {
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"tileproof\">\n";
  for (const SubjectReport& subject : report.subjects) {
    std::string cases;
    std::size_t failures = 0;
    std::size_t skipped = 0;
    for (std::size_t i = 0; i < report.properties.size(); ++i) {
      const std::string name(report.properties[i]->name());
      const std::string word = verdict_word(subject.tallies[i]);
      cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\"", xml(subject.subject->name), name);
      if (word == "held") {
        cases += "/>\n";
        continue;
      }
      failures += word == "FAILED" ? 1 : 0;
      skipped += word == "FAILED" ? 0 : 1;
      std::string body = fmt::format("<skipped message=\"{}\"/>", word);
      if (word == "FAILED") {
        body = "<failure message=\"" +
               fmt::format("{} of {} cases", subject.tallies[i].failed, subject.tallies[i].cases) + "\">";
        for (const Finding& finding : subject.findings) {
          body += finding.property == name ? xml(finding.message + "\n" + replay_line(finding) + "\n") : std::string();
        }
        body += "</failure>";
      }
      cases += ">" + body + "</testcase>\n";
    }
    out += fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n{}  </testsuite>\n",
                       xml(subject.subject->name), report.properties.size(), failures, skipped, cases);
  }
  return out + "</testsuites>\n";
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".partial") {
  const int file = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) {
    throw InputError(fmt::format("'{}' cannot be written ({}), expected a path in a directory that can be", path_,
                                 std::strerror(errno)));
  }
  close(file);
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) {
    unlink(temporary_.c_str());
  }
}

void OutputFile::commit(const std::string& text) {
  std::FILE* file = std::fopen(temporary_.c_str(), "w");
  const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw EnvironmentError(fmt::format("'{}' could not be written: {}", path_, std::strerror(errno)));
  }
  temporary_.clear();
}

}  // namespace tileproof
