#include "search/neighbourhood.h"

#include <algorithm>

#include <fmt/format.h>

#include "generate/generator.h"
#include "generate/variation.h"
#include "tileproof/property.h"

namespace tileproof {

namespace {

constexpr std::uint64_t kDonors = 4096;
constexpr int kTries = 200;                     // donors looked at for one whose value differs
constexpr std::int64_t kMostElements = 30'000;  // of all tensors: many small cases say more than a few large ones

std::size_t tiling_index(const Operation& operation, const std::string& key) {
  const auto& declared = operation.tiling_parameters();
  const auto found = std::find_if(declared.begin(), declared.end(), [&](const Parameter& p) { return p.key == key; });
  return found == declared.end() ? std::string::npos : static_cast<std::size_t>(found - declared.begin());
}

bool has_output(const Problem& problem) {
  const auto shapes = problem.operation().shapes(problem);
  return std::any_of(shapes.begin(), shapes.end(),
                     [](const TensorShape& shape) { return shape.spec->role != Role::in && shape.elements() > 0; });
}

}  // namespace

Held parse_held(const Operation& operation, const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  const std::size_t index = operation.parameter_index(key);
  const std::size_t tiling = tiling_index(operation, key);
  if (equals == std::string::npos || (index == std::string::npos && tiling == std::string::npos)) {
    std::vector<std::string> keys;
    for (const auto* declared : {&operation.parameters(), &operation.tiling_parameters()}) {
      for (const Parameter& parameter : *declared) {
        keys.push_back(parameter.key);
      }
    }
    throw InputError(fmt::format("--hold '{}' given, expected KEY=VALUE with one of {}", text, fmt::join(keys, ", ")));
  }
  const Parameter& parameter =
      index != std::string::npos ? operation.parameters()[index] : operation.tiling_parameters()[tiling];
  try {
    return {key, parse_value_of(parameter, std::string_view(text).substr(equals + 1))};
  } catch (const InputError& error) {
    throw InputError(fmt::format("--hold '{}': {}", text, error.what()));
  }
}

Neighbourhood::Neighbourhood(const Subject& subject, const Case& start, const std::vector<Held>& held,
                             std::uint64_t seed)
    : subject_(subject),
      held_(held),
      seed_(seed),
      draw_(seed, 0x6e656172),
      tilings_(start.tilings.size()),
      most_elements_(std::max(kMostElements, 2 * elements_of(start.problem))),
      start_(start) {
  donors_.reserve(kDonors);  // pointers to them stay good
  const bool is_held = std::any_of(held.begin(), held.end(), [](const Held& one) { return one.key == "sparse"; });
  if (start.problem.choice("sparse") == "none" && !is_held) {
    held_.push_back({"sparse", start.problem.value("sparse")});
  }
  if (!complete(start_, start, donor(0))) {
    std::vector<std::string> keys;
    for (const Held& one : held) {
      keys.push_back(one.key);
    }
    throw InputError(keys.empty()
                         ? fmt::format("'{}' given, which {} does not take or which has no output; give another case",
                                       text(start), subject.name)
                         : fmt::format("--hold of {} makes '{}' a case that {} does not take; hold other values",
                                       fmt::join(keys, " and "), text(start), subject.name));
  }
}

std::size_t Neighbourhood::parameters() const { return parameters_of(*subject_.operation); }

const Case& Neighbourhood::donor(std::uint64_t index) {
  while (donors_.size() <= index % kDonors) {
    Case one = generate_case(subject_, seed_, donors_.size());
    while (one.tilings.size() < tilings_) {
      one.tilings.push_back(one.tilings.back());
    }
    one.tilings.resize(tilings_);
    donors_.push_back(std::move(one));
  }
  return donors_[index % kDonors];
}

bool Neighbourhood::complete(Case& c, const Case& was, const Case& from) const {
  const Operation& operation = *subject_.operation;
  for (const Held& held : held_) {
    if (operation.parameter_index(held.key) != std::string::npos) {
      c.problem.value(held.key) = held.value;
    } else {
      for (Tiling& tiling : c.tilings) {
        set_tiling_value(operation, tiling, held.key, held.value.number);
      }
    }
  }
  // What another layout needs, and this one had not: from the donor, or from the next one that has it.
  for (const Parameter& parameter : operation.parameters()) {
    if (!parameter.required || !c.problem.applies(parameter) || was.problem.applies(parameter)) {
      continue;
    }
    const bool is_held =
        std::any_of(held_.begin(), held_.end(), [&](const Held& held) { return held.key == parameter.key; });
    const Case* source = &from;
    for (std::size_t i = 0; i < donors_.size() && !source->problem.applies(parameter); ++i) {
      source = &donors_[i];
    }
    if (!is_held) {
      c.problem.value(parameter.key) = source->problem.value(parameter.key);
    }
  }
  c.problem.normalise();
  const auto outside = [&](const Tiling& tiling) { return outside_limits(subject_, tiling).has_value(); };
  return is_legal(c.problem) && !outside_limits(subject_, c.problem) &&
         std::none_of(c.tilings.begin(), c.tilings.end(), outside) && has_output(c.problem) &&
         elements_of(c.problem) <= most_elements_;
}

std::optional<Case> Neighbourhood::vary(const Case& base, std::size_t count, std::optional<std::size_t> first) {
  Case result = base;
  const Case* last = &donor(draw_.below(kDonors));
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t parameter = i == 0 && first ? *first : draw_.below(parameters());
    if (draw_.below(3) == 0) {
      nudge_parameter(result, parameter, draw_);
      continue;
    }
    for (int attempt = 0; attempt < kTries; ++attempt) {
      last = &donor(draw_.below(kDonors));
      if (take_parameter(result, *last, parameter)) {
        break;
      }
    }
  }
  const Case from = *last;
  return complete(result, base, from) && !(result == base) ? std::optional(result) : std::nullopt;
}

std::optional<Case> Neighbourhood::cross(const Case& base) {
  Case result = base;
  const Case from = donor(draw_.below(kDonors));
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    if (draw_.below(2) == 0) {
      take_parameter(result, from, parameter);
    }
  }
  return complete(result, base, from) ? std::optional(result) : std::nullopt;
}

std::optional<Case> Neighbourhood::far() {
  const Case from = donor(draw_.below(kDonors));
  Case result = from;
  return complete(result, from, from) ? std::optional(result) : std::nullopt;
}

}  // namespace tileproof
