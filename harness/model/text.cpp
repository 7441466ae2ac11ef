// The canonical line of a case: OPERATION key=value ... | tiling ; tiling ...
#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "tileproof/model.h"
#include "tileproof/operation.h"

namespace tileproof {

namespace {

constexpr std::string_view kOrders[] = {"forward", "reverse", "shuffled"};

std::string join(const std::vector<std::int64_t>& items) { return fmt::format("{}", fmt::join(items, ",")); }

std::string value_text(const Parameter& parameter, const Value& value) {
  switch (parameter.kind) {
    case ParameterKind::integer:
    case ParameterKind::flag: return std::to_string(value.number);
    case ParameterKind::choice: return parameter.choices[static_cast<std::size_t>(value.number)];
    case ParameterKind::list: return join(value.items);
    case ParameterKind::ratio: return fmt::format("{}/{}", value.number, value.second);
    case ParameterKind::tagged: {
      const std::string& tag = parameter.choices[static_cast<std::size_t>(value.number)];
      return tag == "none" ? tag : fmt::format("{}:{}", tag, value.second);
    }
  }
  return {};
}

std::string order_text(std::string_view key, Order order, std::uint64_t seed) {
  if (order == Order::forward) {
    return {};
  }
  const std::string_view name = kOrders[static_cast<int>(order)];
  return order == Order::shuffled ? fmt::format(" {}={}:{}", key, name, seed) : fmt::format(" {}={}", key, name);
}

std::string expected_text(const Parameter& parameter) {
  switch (parameter.kind) {
    case ParameterKind::flag: return "0 or 1";
    case ParameterKind::choice: return fmt::format("one of {}", fmt::join(parameter.choices, ", "));
    case ParameterKind::ratio:
      return fmt::format("A/B with {} <= B <= {} and 0 <= A < B", parameter.min, parameter.max);
    case ParameterKind::tagged:
      return fmt::format("one of {} followed by ':' and a number {}..{}{}", fmt::join(parameter.choices, ", "),
                         parameter.min, parameter.max,
                         parameter.choices.front() == "none" ? " ('none' stands alone)" : "");
    case ParameterKind::integer:
    case ParameterKind::list: break;
  }
  const std::string multiple =
      parameter.multiple_of > 1 ? fmt::format(", a multiple of {}", parameter.multiple_of) : std::string();
  const std::string range = fmt::format("{}..{}{}", parameter.min, parameter.max, multiple);
  return parameter.kind == ParameterKind::list
             ? fmt::format("up to {} numbers {} separated by ','", parameter.max_items, range)
             : fmt::format("a whole number {}", range);
}

std::optional<std::int64_t> number(std::string_view word) {
  std::int64_t result = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), result);
  if (word.empty() || error != std::errc() || end != word.data() + word.size()) {
    return std::nullopt;
  }
  return result;
}

bool in_range(const Parameter& parameter, std::int64_t value) {
  return value >= parameter.min && value <= parameter.max && value % parameter.multiple_of == 0;
}

std::optional<std::int64_t> choice_index(const Parameter& parameter, std::string_view word) {
  for (std::size_t i = 0; i < parameter.choices.size(); ++i) {
    if (parameter.choices[i] == word) {
      return static_cast<std::int64_t>(i);
    }
  }
  return std::nullopt;
}

std::optional<Value> parse_list(const Parameter& parameter, std::string_view word) {
  Value value;
  while (!word.empty() || !value.items.empty()) {
    const std::size_t comma = word.find(',');
    const auto item = number(word.substr(0, comma));
    if (!item || !in_range(parameter, *item) || value.items.size() == parameter.max_items) {
      return std::nullopt;
    }
    value.items.push_back(*item);
    if (comma == std::string_view::npos) {
      break;
    }
    word.remove_prefix(comma + 1);
  }
  return value;
}

std::optional<Value> parse_ratio(const Parameter& parameter, std::string_view word) {
  const std::size_t slash = word.find('/');
  if (slash == std::string_view::npos) {
    return std::nullopt;
  }
  const auto first = number(word.substr(0, slash));
  const auto second = number(word.substr(slash + 1));
  if (!first || !second || *second < parameter.min || *second > parameter.max || *first < 0 || *first >= *second) {
    return std::nullopt;
  }
  return Value{.number = *first, .second = *second, .items = {}};
}

std::optional<Value> parse_tagged(const Parameter& parameter, std::string_view word) {
  if (word == "none" && parameter.choices.front() == "none") {
    return Value{};
  }
  const std::size_t colon = word.find(':');
  const auto tag = choice_index(parameter, word.substr(0, colon));
  const auto tail = colon == std::string_view::npos ? std::nullopt : number(word.substr(colon + 1));
  if (!tag || !tail || parameter.choices[static_cast<std::size_t>(*tag)] == "none" || !in_range(parameter, *tail)) {
    return std::nullopt;
  }
  return Value{.number = *tag, .second = *tail, .items = {}};
}

std::optional<Value> parse_value(const Parameter& parameter, std::string_view word) {
  switch (parameter.kind) {
    case ParameterKind::integer:
    case ParameterKind::flag: {
      const auto parsed = number(word);
      const bool ok = parsed && (parameter.kind == ParameterKind::flag ? *parsed == 0 || *parsed == 1
                                                                       : in_range(parameter, *parsed));
      return ok ? std::optional(Value{.number = *parsed, .second = 0, .items = {}}) : std::nullopt;
    }
    case ParameterKind::choice: {
      const auto index = choice_index(parameter, word);
      return index ? std::optional(Value{.number = *index, .second = 0, .items = {}}) : std::nullopt;
    }
    case ParameterKind::list: return parse_list(parameter, word);
    case ParameterKind::ratio: return parse_ratio(parameter, word);
    case ParameterKind::tagged: return parse_tagged(parameter, word);
  }
  return std::nullopt;
}

struct Word {
  std::string_view text;
  std::size_t column;  // 1-based
};

std::vector<Word> words(std::string_view line) {
  std::vector<Word> result;
  std::size_t at = 0;
  while (at < line.size()) {
    if (line[at] == ' ' || line[at] == '\t' || line[at] == '\r') {
      ++at;
      continue;
    }
    if (line[at] == '|' || line[at] == ';') {
      result.push_back({line.substr(at, 1), at + 1});
      ++at;
      continue;
    }
    const std::size_t end = std::min(line.find_first_of(" \t\r|;", at), line.size());
    result.push_back({line.substr(at, end - at), at + 1});
    at = end;
  }
  return result;
}

struct KeyValue {
  std::string_view key;
  std::string_view value;
};

KeyValue split(const Word& word) {
  const std::size_t equals = word.text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw InputError(fmt::format("column {}: '{}' given, expected KEY=VALUE", word.column, word.text));
  }
  return {word.text.substr(0, equals), word.text.substr(equals + 1)};
}

[[noreturn]] void refuse_value(const Word& word, const KeyValue& pair, const Parameter& parameter) {
  throw InputError(fmt::format("column {}: key '{}': value '{}' given, expected {}", word.column, pair.key, pair.value,
                               expected_text(parameter)));
}

// `more`: keys that are not among the declared ones.
[[noreturn]] void refuse_key(const Word& word, const KeyValue& pair, const std::vector<Parameter>& declared,
                             std::string_view owner, const std::vector<std::string>& more = {}) {
  std::vector<std::string> keys;
  for (const Parameter& parameter : declared) {
    keys.push_back(parameter.key);
  }
  keys.insert(keys.end(), more.begin(), more.end());
  throw InputError(fmt::format("column {}: key '{}' (value '{}') is not one of {}; expected one of {}", word.column,
                               pair.key, pair.value, owner, fmt::join(keys, ", ")));
}

void refuse_repeat(const Word& word, const KeyValue& pair, std::vector<bool>& seen, std::size_t index) {
  if (seen[index]) {
    throw InputError(fmt::format("column {}: key '{}' (value '{}') is given twice, expected once", word.column,
                                 pair.key, pair.value));
  }
  seen[index] = true;
}

// The words of the problem, after the operation's name. Returns how many words were read.
Problem parse_problem(const Operation& operation, const std::vector<Word>& all, std::size_t& at) {
  Problem problem(operation);
  const auto& declared = operation.parameters();
  std::vector<bool> seen(declared.size(), false);
  std::vector<Word> where(declared.size());
  for (; at < all.size() && all[at].text != "|" && all[at].text != ";"; ++at) {
    const KeyValue pair = split(all[at]);
    const std::size_t index = operation.parameter_index(pair.key);
    if (index == std::string_view::npos) {
      refuse_key(all[at], pair, declared, operation.name());
    }
    refuse_repeat(all[at], pair, seen, index);
    where[index] = all[at];
    auto value = parse_value(declared[index], pair.value);
    if (!value) {
      refuse_value(all[at], pair, declared[index]);
    }
    problem.value(pair.key) = std::move(*value);
  }
  // What is too much first: a key of another layout explains a missing one better than the other way round.
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (seen[i] && !problem.applies(declared[i]) && !(problem.value(declared[i].key) == declared[i].fallback)) {
      const KeyValue pair = split(where[i]);
      throw InputError(
          fmt::format("column {}: key '{}': value '{}' given, but it does not apply here ({}); leave it out",
                      where[i].column, pair.key, pair.value, declared[i].meaning));
    }
  }
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (!seen[i] && problem.applies(declared[i]) && declared[i].required) {
      throw InputError(fmt::format("column {}: key '{}' is missing, expected {}={}",
                                   all[at - 1].column + all[at - 1].text.size(), declared[i].key, declared[i].key,
                                   expected_text(declared[i])));
    }
  }
  problem.normalise();
  return problem;
}

bool parse_order(const Word& word, const KeyValue& pair, Tiling& tiling) {
  if (pair.key != "threads" && pair.key != "blocks") {
    return false;
  }
  Order& order = pair.key == "threads" ? tiling.threads : tiling.blocks;
  const Order other = pair.key == "threads" ? tiling.blocks : tiling.threads;
  const std::size_t colon = pair.value.find(':');
  const std::string_view name = pair.value.substr(0, colon);
  const bool plain = colon == std::string_view::npos;
  const std::int64_t seed = plain ? -1 : number(pair.value.substr(colon + 1)).value_or(-1);
  for (int i = 0; i < 3; ++i) {
    const bool shuffled = static_cast<Order>(i) == Order::shuffled;
    if (shuffled && name == kOrders[i] && other == Order::shuffled && seed >= 0 &&
        static_cast<std::uint64_t>(seed) != tiling.order_seed) {
      throw InputError(fmt::format("column {}: key '{}': value '{}' given, expected shuffled:{}: one seed per tiling",
                                   word.column, pair.key, pair.value, tiling.order_seed));
    }
    if (name == kOrders[i] && (shuffled ? seed >= 0 : plain)) {
      order = static_cast<Order>(i);
      tiling.order_seed = shuffled ? static_cast<std::uint64_t>(seed) : tiling.order_seed;
      return true;
    }
  }
  throw InputError(fmt::format("column {}: key '{}': value '{}' given, expected forward, reverse or shuffled:SEED",
                               word.column, pair.key, pair.value));
}

Tiling parse_tiling(const Operation& operation, const std::vector<Word>& all, std::size_t& at) {
  Tiling tiling = default_tiling(operation);
  const auto& declared = operation.tiling_parameters();
  std::vector<bool> seen(declared.size() + 2, false);
  for (; at < all.size() && all[at].text != "|" && all[at].text != ";"; ++at) {
    const KeyValue pair = split(all[at]);
    if (parse_order(all[at], pair, tiling)) {
      refuse_repeat(all[at], pair, seen, declared.size() + (pair.key == "blocks" ? 1 : 0));
      continue;
    }
    const auto found = std::find_if(declared.begin(), declared.end(),
                                    [&](const Parameter& parameter) { return parameter.key == pair.key; });
    if (found == declared.end()) {
      refuse_key(all[at], pair, declared, "the tiling keys", {"threads", "blocks"});
    }
    const auto index = static_cast<std::size_t>(found - declared.begin());
    refuse_repeat(all[at], pair, seen, index);
    const auto value = parse_value(*found, pair.value);
    if (!value) {
      refuse_value(all[at], pair, *found);
    }
    tiling.values[index] = value->number;
  }
  return tiling;
}

}  // namespace

std::string text(const Problem& problem) {
  std::string line(problem.operation().name());
  for (const Parameter& parameter : problem.operation().parameters()) {
    const Value& value = problem.value(parameter.key);
    const bool shown = parameter.required || parameter.always_shown || !(value == parameter.fallback);
    if (problem.applies(parameter) && shown) {
      line += fmt::format(" {}={}", parameter.key, value_text(parameter, value));
    }
  }
  return line;
}

std::string text(const Operation& operation, const Tiling& tiling) {
  std::string line;
  const auto& declared = operation.tiling_parameters();
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].always_shown || tiling.values[i] != declared[i].fallback.number) {
      line += fmt::format("{}{}={}", line.empty() ? "" : " ", declared[i].key, tiling.values[i]);
    }
  }
  line += order_text("threads", tiling.threads, tiling.order_seed);
  line += order_text("blocks", tiling.blocks, tiling.order_seed);
  return line;
}

std::string text(const Case& c) {
  std::string line = text(c.problem);
  for (std::size_t i = 0; i < c.tilings.size(); ++i) {
    line += (i == 0 ? " | " : " ; ") + text(c.problem.operation(), c.tilings[i]);
  }
  return line;
}

Value parse_value_of(const Parameter& parameter, std::string_view word) {
  auto value = parse_value(parameter, word);
  if (!value) {
    throw InputError(
        fmt::format("key '{}': value '{}' given, expected {}", parameter.key, word, expected_text(parameter)));
  }
  return std::move(*value);
}

Case parse_case(std::string_view line) {
  const std::vector<Word> all = words(line);
  std::vector<std::string> names;
  for (const Operation* operation : operations()) {
    names.emplace_back(operation->name());
  }
  if (all.empty()) {
    throw InputError(fmt::format("column 1: the line is empty, expected an operation ({})", fmt::join(names, ", ")));
  }
  const Operation* operation = find_operation(all[0].text);
  if (operation == nullptr) {
    throw InputError(fmt::format("column {}: operation '{}' is unknown, expected one of {}", all[0].column, all[0].text,
                                 fmt::join(names, ", ")));
  }
  std::size_t at = 1;
  Case result{parse_problem(*operation, all, at), {}};
  if (const auto reason = operation->invalid(result.problem)) {
    throw InputError(fmt::format("{}: {}", operation->name(), *reason));
  }
  if (at == all.size()) {
    throw InputError(fmt::format("column {}: the line ends, expected '|' and at least one tiling, for example '| {}'",
                                 line.size() + 1, text(*operation, default_tiling(*operation))));
  }
  while (at < all.size()) {
    const std::string_view wanted = result.tilings.empty() ? "|" : ";";
    if (all[at].text != wanted) {
      throw InputError(fmt::format("column {}: '{}' given, expected '{}'", all[at].column, all[at].text, wanted));
    }
    ++at;
    if (at == all.size() || all[at].text == ";" || all[at].text == "|") {
      throw InputError(fmt::format("column {}: a tiling is missing behind '{}'", all[at - 1].column + 1, wanted));
    }
    result.tilings.push_back(parse_tiling(*operation, all, at));
  }
  return result;
}

}  // namespace tileproof
