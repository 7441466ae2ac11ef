#include "execute/subject.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <fmt/format.h>

namespace tileproof {

namespace {

std::vector<Subject>& registry() {
  static std::vector<Subject> list;
  return list;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

std::int64_t number(std::string_view word, std::string_view limit) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || error != std::errc() || end != word.data() + word.size()) {
    throw InputError(fmt::format("limit '{}': '{}' given, expected a whole number", limit, word));
  }
  return value;
}

bool starts(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

// What a limit speaks of: every number it must hold for, or the text of a choice.
struct Subjected {
  std::vector<std::int64_t> numbers;
  std::string choice;
};

std::optional<Subjected> value_of(const Problem& problem, const std::string& key) {
  const std::size_t index = problem.operation().parameter_index(key);
  if (index == std::string_view::npos || !problem.applies(problem.operation().parameters()[index])) {
    return std::nullopt;
  }
  const Parameter& parameter = problem.operation().parameters()[index];
  const Value& value = problem.value(key);
  switch (parameter.kind) {
    case ParameterKind::list: return Subjected{value.items, {}};
    case ParameterKind::ratio: return Subjected{{value.second}, {}};
    case ParameterKind::choice:
    case ParameterKind::tagged: return Subjected{{}, parameter.choices[static_cast<std::size_t>(value.number)]};
    case ParameterKind::integer:
    case ParameterKind::flag: break;
  }
  return Subjected{{value.number}, std::to_string(value.number)};
}

bool holds(const Limit& limit, const Subjected& value, std::int64_t factor) {
  const auto each = [&](auto&& test) { return std::all_of(value.numbers.begin(), value.numbers.end(), test); };
  switch (limit.kind) {
    case Limit::Kind::range: return each([&](std::int64_t v) { return v >= limit.low && v <= limit.high; });
    case Limit::Kind::multiple_of: return each([&](std::int64_t v) { return v % factor == 0; });
    case Limit::Kind::power_of_two: return each([](std::int64_t v) { return v > 0 && (v & (v - 1)) == 0; });
    case Limit::Kind::one_of: break;
  }
  const auto listed = [&](const std::string& text) {
    return std::find(limit.values.begin(), limit.values.end(), text) != limit.values.end();
  };
  return value.choice.empty() ? each([&](std::int64_t v) { return listed(std::to_string(v)); }) : listed(value.choice);
}

std::int64_t multiple(const Limit& limit, const Problem& problem) {
  if (limit.times.empty()) {
    return limit.factor;
  }
  const auto value = value_of(problem, limit.times);
  return value && !value->numbers.empty() ? limit.factor * value->numbers[0] : limit.factor;
}

Subject read_subject(const tileproof_subject* raw) {
  Subject subject;
  subject.raw = raw;
  subject.operation = find_operation(raw->operation);
  if (subject.operation == nullptr) {
    throw InputError(fmt::format("a plug-in offers operation '{}', which is not declared", raw->operation));
  }
  subject.name = fmt::format("{}/{}{}", raw->device, raw->operation, raw->variant);
  subject.fault = raw->variant[0] == '@';
  if (raw->expected != nullptr) {
    subject.expected = split(raw->expected, ',');
  }
  for (std::size_t i = 0; i < raw->limit_count; ++i) {
    subject.limits.push_back(parse_limit(raw->limits[i]));
  }
  return subject;
}

// Whether it is another build of a subject that was read before; then that one knows it.
bool is_other_build(std::vector<Subject>& loaded, const tileproof_subject* raw) {
  const std::string_view device = raw->device;
  const tileproof_subject* Subject::*const build = device == "cpu-sanitizing" ? &Subject::sanitizing
                                                   : device == "cpu-zeroed"   ? &Subject::zeroed
                                                   : device == "cpu-traced"   ? &Subject::traced
                                                                              : nullptr;
  if (build == nullptr) {
    return false;
  }
  for (Subject& subject : loaded) {
    if (std::string_view(subject.raw->device) == "cpu" && std::string_view(subject.raw->operation) == raw->operation &&
        std::string_view(subject.raw->variant) == raw->variant) {
      subject.*build = raw;
      return true;
    }
  }
  throw InputError(fmt::format("a plug-in offers '{}{}' for {}, but not for cpu, which is expected before it",
                               raw->operation, raw->variant, device));
}

}  // namespace

Limit parse_limit(std::string_view text) {
  Limit limit;
  limit.text = std::string(text);
  const std::size_t space = text.find(' ');
  limit.key = std::string(text.substr(0, space));
  const std::string_view rest = space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
  if (starts(rest, "in ")) {
    const std::string_view range = rest.substr(3);
    const std::size_t dots = range.find("..");
    if (dots != std::string_view::npos) {
      limit.low = number(range.substr(0, dots), text);
      limit.high = number(range.substr(dots + 2), text);
    } else {
      limit.kind = Limit::Kind::one_of;
      limit.values = split(range, ',');
    }
  } else if (starts(rest, "multiple of ")) {
    limit.kind = Limit::Kind::multiple_of;
    const std::string_view factor = rest.substr(12);
    const std::size_t star = factor.find('*');
    limit.factor = number(factor.substr(0, star), text);
    limit.times = star == std::string_view::npos ? std::string() : std::string(factor.substr(star + 1));
  } else if (rest == "power of two") {
    limit.kind = Limit::Kind::power_of_two;
  } else {
    throw InputError(
        fmt::format("limit '{}' is not 'KEY in A..B', 'KEY in x,y', 'KEY multiple of N[*KEY]' or "
                    "'KEY power of two'",
                    text));
  }
  return limit;
}

std::optional<std::string> outside_limits(const Subject& subject, const Problem& problem) {
  for (const Limit& limit : subject.limits) {
    const auto value = value_of(problem, limit.key);
    if (value && !holds(limit, *value, multiple(limit, problem))) {
      return limit.text;
    }
  }
  return std::nullopt;
}

std::optional<std::string> outside_limits(const Subject& subject, const Tiling& tiling) {
  const auto& declared = subject.operation->tiling_parameters();
  for (const Limit& limit : subject.limits) {
    for (std::size_t i = 0; i < declared.size(); ++i) {
      const Subjected value{{tiling.values[i]}, std::to_string(tiling.values[i])};
      if (declared[i].key == limit.key && !holds(limit, value, limit.factor)) {
        return limit.text;
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> outside_limits(const Subject& subject, const Case& c) {
  auto reason = outside_limits(subject, c.problem);
  for (const Tiling& tiling : c.tilings) {
    reason = reason ? reason : outside_limits(subject, tiling);
  }
  return reason;
}

void load_subjects() {
  std::vector<Subject> loaded;
  for (const tileproof_subject* raw : builtin_subjects()) {
    if (!is_other_build(loaded, raw)) {
      loaded.push_back(read_subject(raw));
    }
  }
  registry() = std::move(loaded);
}

const std::vector<Subject>& subjects() { return registry(); }

const Subject* find_subject(std::string_view name) {
  for (const Subject& subject : registry()) {
    if (subject.name == name) {
      return &subject;
    }
  }
  return nullptr;
}

const Subject* clean_subject(std::string_view operation, std::string_view device) {
  for (const Subject& subject : registry()) {
    if (!subject.fault && subject.raw->variant[0] == '\0' && subject.raw->operation == operation &&
        subject.raw->device == device) {
      return &subject;
    }
  }
  return nullptr;
}

bool glob_matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

std::vector<const Subject*> matching_subjects(const std::vector<std::string>& globs) {
  std::vector<const Subject*> result;
  for (const Subject& subject : registry()) {
    const bool wanted =
        globs.empty() ? !subject.fault : std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
          return (!subject.fault || glob.find('@') != std::string::npos) && glob_matches(glob, subject.name);
        });
    if (wanted) {
      result.push_back(&subject);
    }
  }
  return result;
}

}  // namespace tileproof
