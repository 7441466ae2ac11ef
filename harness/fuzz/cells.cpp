#include "fuzz/cells.h"

#include <algorithm>

#include <fmt/format.h>

#include "generate/generator.h"

namespace tileproof {

namespace {

constexpr std::uint64_t kBases = 64;  // cases in which two values are tried together

// Sets the value that is class `index` of the facet; needs a facet of a parameter.
void set_class(Problem& problem, const Facet& facet, std::size_t index) {
  Value value = problem.value(facet.name);
  value.number = static_cast<std::int64_t>(index);
  problem.set(facet.name, value);
}

bool is_class(const Problem& problem, const Facet& facet, std::size_t index) {
  return problem.integer(facet.name) == static_cast<std::int64_t>(index);
}

// Whether the two values go together in one of the bases.
bool go_together(const Subject& subject, const std::vector<Case>& bases, const Facet& a, std::size_t in_a,
                 const Facet& b, std::size_t in_b) {
  return std::any_of(bases.begin(), bases.end(), [&](const Case& base) {
    Problem problem = base.problem;
    set_class(problem, a, in_a);
    set_class(problem, b, in_b);
    problem.normalise();
    return is_class(problem, a, in_a) && is_class(problem, b, in_b) && is_legal(problem) &&
           !outside_limits(subject, problem);
  });
}

}  // namespace

Cells::Cells(std::span<const Subject* const> subjects) : subjects_(subjects) {
  for (std::size_t s = 0; s < subjects.size(); ++s) {
    facets_.push_back(facets_of(*subjects[s]->operation));
    first_pair_.push_back(pairs_.size());
    for (std::size_t i = 0; i < facets_[s].size(); ++i) {
      for (std::size_t j = i + 1; j < facets_[s].size(); ++j) {
        pairs_.push_back({s, i, j, size_});
        size_ += facets_[s][i].classes.size() * facets_[s][j].classes.size();
      }
    }
  }
}

const Cells::Pair& Cells::pair_of(std::size_t cell) const {
  return *std::prev(std::upper_bound(pairs_.begin(), pairs_.end(), cell,
                                     [](std::size_t wanted, const Pair& pair) { return wanted < pair.begin; }));
}

std::string Cells::name(std::size_t cell) const {
  const Pair& pair = pair_of(cell);
  const Facet& first = facets_[pair.subject][pair.first];
  const Facet& second = facets_[pair.subject][pair.second];
  const std::size_t inside = cell - pair.begin;
  return fmt::format("{}: {}={}, {}={}", subjects_[pair.subject]->name, first.name,
                     first.classes[inside / second.classes.size()], second.name,
                     second.classes[inside % second.classes.size()]);
}

void Cells::covered(std::size_t subject, const Case& c, std::vector<std::uint32_t>& cells) const {
  const std::vector<Facet>& facets = facets_[subject];
  std::vector<std::size_t> classes;
  classes.reserve(facets.size());
  for (const Facet& facet : facets) {
    classes.push_back(facet.class_of(c));
  }
  cells.clear();
  std::size_t pair = first_pair_[subject];
  for (std::size_t i = 0; i < facets.size(); ++i) {
    for (std::size_t j = i + 1; j < facets.size(); ++j, ++pair) {
      cells.push_back(
          static_cast<std::uint32_t>(pairs_[pair].begin + classes[i] * facets[j].classes.size() + classes[j]));
    }
  }
}

std::vector<bool> Cells::reachable() const {
  std::vector<bool> result(size_, true);
  std::vector<Case> bases;
  std::size_t of_subject = subjects_.size();
  for (const Pair& pair : pairs_) {
    const Subject& subject = *subjects_[pair.subject];
    const Facet& first = facets_[pair.subject][pair.first];
    const Facet& second = facets_[pair.subject][pair.second];
    if (first.parameter == std::string::npos || second.parameter == std::string::npos) {
      continue;
    }
    if (of_subject != pair.subject) {
      of_subject = pair.subject;
      bases.clear();
      for (std::uint64_t i = 0; i < kBases; ++i) {
        bases.push_back(generate_case(subject, 0, i));
      }
    }
    for (std::size_t i = 0; i < first.classes.size() * second.classes.size(); ++i) {
      result[pair.begin + i] =
          go_together(subject, bases, first, i / second.classes.size(), second, i % second.classes.size());
    }
  }
  return result;
}

}  // namespace tileproof
