// What a condition may name, and what a case holds of it.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "memory/layout.h"
#include "search/condition.h"

namespace tileproof {

namespace {

constexpr const char* kListFunctions[] = {"min", "max", "sum", "count"};

std::optional<std::int64_t> list_fact(std::string_view function, const std::vector<std::int64_t>& items) {
  if (function == "count") {
    return std::ssize(items);
  }
  if (function == "sum") {
    return std::accumulate(items.begin(), items.end(), std::int64_t{0});
  }
  if (items.empty()) {
    return std::nullopt;
  }
  return function == "min" ? *std::min_element(items.begin(), items.end())
                           : *std::max_element(items.begin(), items.end());
}

// In the order of Names::add_parameter.
void parameter_facts(const Problem& problem, const Parameter& parameter, Names::Facts& facts) {
  const bool there = problem.applies(parameter);
  const Value& value = problem.value(parameter.key);
  const auto put = [&](std::optional<std::int64_t> fact) { facts.push_back(there ? fact : std::nullopt); };
  switch (parameter.kind) {
    case ParameterKind::integer:
    case ParameterKind::flag:
    case ParameterKind::choice: put(value.number); break;
    case ParameterKind::list:
      for (const char* function : kListFunctions) {
        put(list_fact(function, value.items));
      }
      break;
    case ParameterKind::ratio:
    case ParameterKind::tagged:
      put(value.number);
      put(value.second);
      break;
  }
}

}  // namespace

Names::Names(const Operation& operation) : operation_(operation) {
  for (const Parameter& parameter : operation.parameters()) {
    add_parameter(parameter);
  }
  for (const auto& [key, meaning] : operation.quantities()) {
    add(key, {});
  }
  add_tiling();
  add_tensors();
}

void Names::add(std::string text, std::vector<std::string> words) {
  names_.push_back({std::move(text), std::move(words)});
}

void Names::add_parameter(const Parameter& parameter) {
  switch (parameter.kind) {
    case ParameterKind::integer:
    case ParameterKind::flag: add(parameter.key, {}); break;
    case ParameterKind::choice: add(parameter.key, parameter.choices); break;
    case ParameterKind::list:
      for (const char* function : kListFunctions) {
        add(fmt::format("{}({})", function, parameter.key), {});
      }
      break;
    case ParameterKind::ratio:
      add(parameter.key + "_rank", {});
      add(parameter.key + "_size", {});
      break;
    case ParameterKind::tagged:
      add(parameter.key, parameter.choices);
      add(parameter.key + ".number", {});
      break;
  }
}

void Names::add_tiling() {
  for (const Parameter& parameter : operation_.tiling_parameters()) {
    add(parameter.key, {});
  }
  add("threads", {"forward", "reverse", "shuffled"});
  add("blocks", {"forward", "reverse", "shuffled"});
}

void Names::add_tensors() {
  add("size_of(dtype)", {});
  for (const TensorSpec& spec : operation_.tensors()) {
    for (const Axis& axis : spec.axes) {
      add(fmt::format("{}.{}_stride", spec.name, name_of(axis.kind)), {});
    }
    add(spec.name + ".extent", {});
  }
}

std::optional<std::size_t> Names::find(std::string_view text) const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (names_[i].text == text) {
      return i;
    }
  }
  return std::nullopt;
}

Names::Facts Names::facts(const Problem& problem, const Tiling& tiling) const {
  Facts facts;
  facts.reserve(names_.size());
  for (const Parameter& parameter : operation_.parameters()) {
    parameter_facts(problem, parameter, facts);
  }
  for (const auto& [key, meaning] : operation_.quantities()) {
    facts.emplace_back(operation_.quantity(problem, key));
  }
  for (const std::int64_t value : tiling.values) {
    facts.emplace_back(value);
  }
  facts.emplace_back(static_cast<std::int64_t>(tiling.threads));
  facts.emplace_back(static_cast<std::int64_t>(tiling.blocks));
  const bool typed = problem.has("dtype");
  facts.push_back(typed ? std::optional<std::int64_t>(size_of(static_cast<Dtype>(problem.integer("dtype"))))
                        : std::nullopt);
  std::vector<const Layout*> placed(operation_.tensors().size(), nullptr);
  const std::vector<Layout> layouts = lay_out(problem, {});
  for (const Layout& layout : layouts) {
    placed[layout.shape.index] = &layout;
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    for (std::size_t axis = 0; axis < operation_.tensors()[i].axes.size(); ++axis) {
      facts.push_back(placed[i] != nullptr ? std::optional(placed[i]->strides[axis]) : std::nullopt);
    }
    facts.push_back(placed[i] != nullptr ? std::optional(placed[i]->extent) : std::nullopt);
  }
  return facts;
}

}  // namespace tileproof
