#include "fuzz/case_bytes.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "generate/generator.h"
#include "generate/variation.h"

namespace tileproof {

namespace {

constexpr std::size_t kMostTilings = 8;
constexpr std::uint64_t kDecode = 0x6465636f, kMutate = 0x6d757461, kCross = 0x63726f73;  // streams of draws

std::uint64_t hash_of(std::string_view bytes) {
  std::uint64_t hash = bytes.size();
  for (const char c : bytes) {
    hash = mix64(hash + static_cast<unsigned char>(c) + 0x9e3779b97f4a7c15ULL);
  }
  return hash;
}

std::vector<std::string_view> words_of(std::string_view bytes) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t begin = bytes.find_first_not_of(" \n\t\r", at);
    if (begin == std::string_view::npos) {
      break;
    }
    at = std::min(bytes.size(), bytes.find_first_of(" \n\t\r", begin));
    words.push_back(bytes.substr(begin, at - begin));
  }
  return words;
}

std::optional<Value> read_value(const std::vector<Parameter>& declared, std::string_view key, std::string_view word) {
  const auto found = std::find_if(declared.begin(), declared.end(), [&](const Parameter& p) { return p.key == key; });
  try {
    return found == declared.end() ? std::nullopt : std::optional(parse_value_of(*found, word));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// Every word of the bytes that says something of the case.
void read_words(const std::vector<std::string_view>& words, Case& c) {
  const Operation& operation = c.problem.operation();
  std::vector<Tiling> tilings;
  for (const std::string_view word : words) {
    if (word == "|" || word == ";") {
      if (tilings.size() < kMostTilings) {
        tilings.push_back(default_tiling(operation));
      }
      continue;
    }
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
      continue;
    }
    const std::string_view key = word.substr(0, equals);
    const auto& declared = tilings.empty() ? operation.parameters() : operation.tiling_parameters();
    const std::optional<Value> value = read_value(declared, key, word.substr(equals + 1));
    if (value && tilings.empty()) {
      c.problem.value(key) = *value;
    } else if (value) {
      set_tiling_value(operation, tilings.back(), key, value->number);
    }
  }
  c.problem.normalise();
  if (!tilings.empty()) {
    c.tilings = std::move(tilings);
  }
}

// What a changed problem needs and the old one had not.
void complete(Case& c, const Problem& was, const Case& donor) {
  for (const Parameter& parameter : c.problem.operation().parameters()) {
    if (parameter.required && c.problem.applies(parameter) && !was.applies(parameter) &&
        donor.problem.applies(parameter)) {
      c.problem.value(parameter.key) = donor.problem.value(parameter.key);
    }
  }
  c.problem.normalise();
}

}  // namespace

std::string CaseBytes::encode(const SubjectCase& one) const {
  return fmt::format("{} {}\n", subjects_[one.subject]->name, text(one.the_case));
}

bool CaseBytes::takes(const SubjectCase& one) const {
  return is_legal(one.the_case.problem) && !outside_limits(*subjects_[one.subject], one.the_case) &&
         elements_of(one.the_case.problem) <= kMostElements;
}

SubjectCase CaseBytes::fresh(CounterStream& draw) const {
  const std::size_t subject = draw.below(subjects_.size());
  return {subject, generate_case(*subjects_[subject], seed_, draw.next())};
}

SubjectCase CaseBytes::decode(std::string_view bytes) const {
  const std::vector<std::string_view> words = words_of(bytes);
  CounterStream draw(hash_of(bytes), kDecode);
  SubjectCase result{0, Case{Problem(*subjects_.front()->operation), {}}};
  const auto named = std::find_if(subjects_.begin(), subjects_.end(), [&](const Subject* subject) {
    return !words.empty() && words.front() == subject->name;
  });
  if (named == subjects_.end()) {
    result = fresh(draw);
  } else {
    result.subject = static_cast<std::size_t>(named - subjects_.begin());
    try {
      const std::string_view line = bytes.substr(static_cast<std::size_t>(words.front().end() - bytes.begin()));
      SubjectCase exact{result.subject, parse_case(line.substr(0, line.find_last_not_of(" \n\t\r") + 1))};
      if (&exact.the_case.problem.operation() == (*named)->operation && takes(exact)) {
        return exact;
      }
    } catch (const InputError&) {
      // The words that can be read are.
    }
    result.the_case = generate_case(**named, seed_, draw.next());
  }
  SubjectCase read = result;
  read_words(words, read.the_case);
  return takes(read) ? read : result;
}

SubjectCase CaseBytes::mutate(const SubjectCase& from, std::uint64_t draw_number) const {
  CounterStream draw(draw_number, kMutate);
  if (draw.below(2) == 0) {
    return fresh(draw);
  }
  const Subject& subject = *subjects_[from.subject];
  const std::size_t parameters = parameters_of(*subject.operation);
  for (int attempt = 0; attempt < 16; ++attempt) {
    const Case donor = generate_case(subject, seed_, draw.next());
    SubjectCase result = from;
    const std::uint64_t wanted = 1 + draw.below(4);
    std::uint64_t changed = 0;
    for (int tries = 0; changed < wanted && tries < 64; ++tries) {
      const std::size_t parameter = draw.below(parameters);
      if (draw.below(4) == 0) {
        nudge_parameter(result.the_case, parameter, draw);
        ++changed;
      } else {
        changed += take_parameter(result.the_case, donor, parameter) ? 1 : 0;
      }
    }
    complete(result.the_case, from.the_case.problem, donor);
    if (takes(result) && !(result == from)) {
      return result;
    }
  }
  return fresh(draw);
}

SubjectCase CaseBytes::cross(const SubjectCase& a, const SubjectCase& b, std::uint64_t draw_number) const {
  CounterStream draw(draw_number, kCross);
  if (subjects_[a.subject]->operation != subjects_[b.subject]->operation) {
    return mutate(draw.below(2) == 0 ? a : b, draw.next());
  }
  for (int attempt = 0; attempt < 16; ++attempt) {
    SubjectCase result = a;
    for (std::size_t parameter = 0; parameter < parameters_of(a.the_case.problem.operation()); ++parameter) {
      if (draw.below(2) == 0) {
        take_parameter(result.the_case, b.the_case, parameter);
      }
    }
    complete(result.the_case, a.the_case.problem, b.the_case);
    if (takes(result)) {
      return result;
    }
  }
  return mutate(a, draw.next());
}

}  // namespace tileproof
