#include "generate/variation.h"

#include <algorithm>

namespace tileproof {

namespace {

std::int64_t nudged(std::int64_t value, const Parameter& parameter, CounterStream& draw) {
  const std::int64_t step = parameter.multiple_of;
  const auto range = static_cast<std::uint64_t>(parameter.max - parameter.min + 1);
  switch (draw.below(5)) {
    case 0: value += step; break;
    case 1: value -= step; break;
    case 2: value *= 2; break;
    case 3: value /= 2; break;
    default: value = parameter.min + static_cast<std::int64_t>(draw.below(std::min<std::uint64_t>(range, 64))); break;
  }
  return std::clamp(value / step * step, (parameter.min + step - 1) / step * step, parameter.max / step * step);
}

}  // namespace

std::size_t parameters_of(const Operation& operation) {
  return operation.parameters().size() + operation.tiling_parameters().size();
}

bool take_parameter(Case& to, const Case& from, std::size_t parameter) {
  const auto& declared = to.problem.operation().parameters();
  if (parameter < declared.size()) {
    const std::string& key = declared[parameter].key;
    if (!from.problem.applies(declared[parameter]) || to.problem.value(key) == from.problem.value(key)) {
      return false;
    }
    to.problem.value(key) = from.problem.value(key);
    return true;
  }
  const std::size_t index = parameter - declared.size();
  bool changed = false;
  for (std::size_t i = 0; i < to.tilings.size(); ++i) {
    std::int64_t& value = to.tilings[i].values[index];
    const std::int64_t other = from.tilings[i % from.tilings.size()].values[index];
    changed = changed || value != other;
    value = other;
  }
  return changed;
}

void nudge_parameter(Case& c, std::size_t parameter, CounterStream& draw) {
  const Operation& operation = c.problem.operation();
  const auto& declared = operation.parameters();
  if (parameter >= declared.size()) {
    const std::size_t index = parameter - declared.size();
    std::int64_t& value = c.tilings[draw.below(c.tilings.size())].values[index];
    value = nudged(value, operation.tiling_parameters()[index], draw);
    return;
  }
  Value& value = c.problem.value(declared[parameter].key);
  switch (declared[parameter].kind) {
    case ParameterKind::integer: value.number = nudged(value.number, declared[parameter], draw); break;
    case ParameterKind::list:
      if (!value.items.empty()) {
        std::int64_t& item = value.items[draw.below(value.items.size())];
        item = nudged(item, declared[parameter], draw);
      }
      break;
    case ParameterKind::ratio:
      value.second = nudged(value.second, declared[parameter], draw);
      value.number = static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(value.second)));
      break;
    case ParameterKind::tagged:
      if (declared[parameter].choices[static_cast<std::size_t>(value.number)] != "none") {
        value.second = nudged(value.second, declared[parameter], draw);
      }
      break;
    case ParameterKind::flag:
    case ParameterKind::choice: break;  // another case has what else there is
  }
}

}  // namespace tileproof
