#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "record/record.h"

namespace tileproof {

namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kLines = 28;  // that findings may take, as a terminal of kWidth columns wraps them

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

std::size_t wrapped_lines(const std::string& text) {
  std::size_t lines = 0;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    lines += std::max<std::size_t>(1, (end - from + kWidth - 1) / kWidth);
    from = end + 1;
  }
  return lines;
}

// What failed, where, how, and the line that replays it. `numbers`: the cases shown so far, and under which number.
std::string finding_text(const Finding& finding, const SubjectReport& subject, std::size_t number, bool colour,
                         std::map<std::string, std::size_t>& numbers) {
  const Shown shown = shown_of(finding);
  const std::string_view which = !finding.minimal            ? "the smallest"
                                 : finding.minimal->complete ? "minimal"
                                                             : "minimised as far as the time allowed";
  std::string out = fmt::format("\n{}. {}  in {} of {} cases; {}:\n", number,
                                painted(finding.signature, "31;1", colour), finding.count, subject.cases, which);
  out += fmt::format("   {}\n", shown.message);
  for (const std::string& line : shown.evidence) {
    out += fmt::format("   {}\n", line);
  }
  out += finding.condition.empty() ? std::string() : fmt::format("   {}\n", finding.condition);
  const auto [known, fresh] = numbers.try_emplace(replay_line(shown.case_text, finding.subject), number);
  return out + (fresh ? fmt::format("   {}\n", known->first) : fmt::format("   replay: as {}\n", known->second));
}

// The most frequent first: it is the symptom that leads to the cause. What does not fit a screen is listed by its
// signature alone, but the first finding of every subject is shown whole.
void findings(const CheckReport& report, bool colour, std::string& out) {
  std::map<std::string, std::size_t> numbers;
  std::vector<std::string> rest;
  std::size_t number = 0;
  std::size_t lines = 0;
  for (const SubjectReport& subject : report.subjects) {
    std::vector<Finding> sorted = subject.findings;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Finding& a, const Finding& b) { return a.count > b.count; });
    for (const Finding& finding : sorted) {
      std::map<std::string, std::size_t> with = numbers;
      const std::string text = finding_text(finding, subject, number + 1, colour, with);
      const bool first = &finding == sorted.data();
      if (!first && lines + wrapped_lines(text) > kLines) {
        rest.push_back(fmt::format("{} ({})", finding.signature, finding.count));
        continue;
      }
      out += first && report.subjects.size() > 1 ? fmt::format("\n{}\n", subject.subject->name) : std::string();
      out += text;
      lines += wrapped_lines(text);
      numbers = std::move(with);
      ++number;
    }
  }
  if (!rest.empty()) {
    out += fmt::format("\nand {} more (--json FILE lists all, with their replay lines): {}\n", rest.size(),
                       fmt::join(rest, ", "));
  }
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
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

std::string replay_line(const std::string& case_text, const std::string& subject) {
  std::string quoted;
  for (const char c : case_text) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return fmt::format("tileproof replay '{}' --subject {}", quoted, subject);
}

Shown shown_of(const Finding& finding) {
  if (!finding.minimal) {
    return {finding.case_text, finding.message, finding.evidence};
  }
  const MinimalCase& minimal = *finding.minimal;
  Shown shown{minimal.case_text, minimal.message, minimal.evidence};
  if (minimal.failures < minimal.launches) {
    shown.evidence.push_back(
        fmt::format("it comes and goes: {} of {} tries failed", minimal.failures, minimal.launches));
  }
  return shown;
}

bool judged_nothing(const CheckReport& report) {
  for (const SubjectReport& subject : report.subjects) {
    for (const Tally& tally : subject.tallies) {
      if (tally.cases > 0) {
        return false;
      }
    }
  }
  return true;
}

std::string console_text(const CheckReport& report, bool colour) {
  std::string out;
  if (report.subjects.size() == 1) {
    one_subject(report, colour, out);
  } else {
    table(report, colour, out);
  }
  for (const SubjectReport& subject : report.subjects) {
    if (!subject.refusal.empty()) {
      out += fmt::format("{} refused, first because: {}\n", subject.subject->name, subject.refusal);
    }
  }
  if (report.sanitize_every > 1) {
    out += fmt::format("the sanitizing build ran one case in {} (--sanitize 1: every one)\n", report.sanitize_every);
  }
  findings(report, colour, out);
  std::uint64_t cases = 0;
  std::uint64_t launches = 0;
  std::size_t count = 0;
  std::uint64_t untried = 0;  // properties of a subject for which no case had power
  for (const SubjectReport& subject : report.subjects) {
    cases += subject.cases;
    launches += subject.launches;
    count += subject.findings.size();
    untried += static_cast<std::uint64_t>(
        std::count_if(subject.tallies.begin(), subject.tallies.end(), [](const Tally& tally) {
          const std::string word = verdict_word(tally);
          return word == "not tried" || word == "refused";
        }));
  }
  const std::string text = count > 0                    ? counted(count, "finding", "findings")
                           : !report.gave_up.empty()    ? "ended early, nothing failed so far"
                           : report.interrupted_by != 0 ? "interrupted, nothing failed so far"
                           : judged_nothing(report)     ? "nothing judged"
                           : untried > 0                ? "held where tried"
                                                        : "all held";
  out += fmt::format("\n{}: {}, {}, {:.1f} s, {}; largest error {:.3f} of its bound{}{}\n",
                     painted(text,
                             count > 0            ? "31;1"
                             : text == "all held" ? "32"
                                                  : "33",
                             colour),
                     counted(cases, "case", "cases"), counted(launches, "launch", "launches"), report.seconds,
                     counted(static_cast<std::uint64_t>(report.jobs), "job", "jobs"), report.largest_error_over_bound,
                     untried > 0 ? fmt::format("; {} not tried", counted(untried, "property", "properties")) : "",
                     count > 0 && report.interrupted_by != 0 ? "; interrupted" : "");
  return out;
}

}  // namespace tileproof
