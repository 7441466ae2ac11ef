#include "search/exposure.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "execute/device.h"
#include "memory/arena.h"

namespace tileproof {

namespace {

using nlohmann::json;

constexpr std::int64_t kMostTile = 128;
constexpr std::size_t kMostConfigBytes = std::size_t{16} << 20;

std::optional<std::int64_t> number(std::string_view word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return word.empty() || error != std::errc() || end != word.data() + word.size() ? std::nullopt : std::optional(value);
}

void take_values(const json& object, std::map<std::string, std::string>& config) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_number_integer()) {
      config.emplace(key, std::to_string(value.get<std::int64_t>()));
    } else if (value.is_string()) {
      config.emplace(key, value.get<std::string>());
    }
  }
}

struct Found {
  std::string key;
  std::string value;
};

std::optional<Found> config_value(const Parameter& parameter, const ModelRecipe& recipe) {
  for (const std::string& key : parameter.config_keys) {
    const auto found = recipe.config.find(key);
    if (found != recipe.config.end()) {
      return Found{key, found->second};
    }
  }
  return std::nullopt;
}

// The config's value in the words of a case.
Value translated(const Parameter& parameter, const Found& found, std::int64_t tensor_parallel) {
  const auto word = std::find(parameter.config_words.begin(), parameter.config_words.end(), found.value);
  std::string text = found.value;
  if (word != parameter.config_words.end()) {
    text = parameter.choices[static_cast<std::size_t>(word - parameter.config_words.begin())];
  } else if (const auto whole = number(found.value); whole && parameter.tensor_parallel) {
    if (*whole % tensor_parallel != 0) {
      throw InputError(fmt::format("config '{}={}' and --tp {} given, expected a size that divides it", found.key,
                                   found.value, tensor_parallel));
    }
    text = std::to_string(*whole / tensor_parallel);
  }
  try {
    return parse_value_of(parameter, text);
  } catch (const InputError& error) {
    throw InputError(fmt::format("config '{}={}': {}", found.key, found.value, error.what()));
  }
}

std::optional<Value> set_value(const Parameter& parameter, const ModelRecipe& recipe) {
  for (const std::string& text : recipe.set) {
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos && text.substr(0, equals) == parameter.key) {
      return parse_value_of(parameter, text.substr(equals + 1));
    }
  }
  return std::nullopt;
}

// Small lengths that every rank has a share of.
Value small_value(const Parameter& parameter, std::int64_t context_parallel) {
  Value value = parameter.fallback;
  if (parameter.kind == ParameterKind::list) {
    value.items = {4 * context_parallel, 2 * context_parallel};
  } else if (parameter.kind == ParameterKind::integer) {
    value.number = std::clamp<std::int64_t>(2, parameter.min, parameter.max);
  }
  return value;
}

// Every value that this parameter has on some rank of the recipe, in some mode.
std::vector<Value> values_of(const Parameter& parameter, const ModelRecipe& recipe, std::int64_t tensor_parallel,
                             std::int64_t context_parallel) {
  if (auto set = set_value(parameter, recipe)) {
    return {*set};
  }
  if (const auto found = config_value(parameter, recipe)) {
    return {translated(parameter, *found, tensor_parallel)};
  }
  if (!parameter.config_keys.empty() && parameter.required) {
    throw InputError(
        fmt::format("the model does not say '{}', which {} needs; give it with --config {}=N, or --set {}=N",
                    parameter.config_keys.front(), parameter.key, parameter.config_keys.front(), parameter.key));
  }
  std::vector<Value> values;
  if (parameter.kind == ParameterKind::ratio) {
    for (std::int64_t rank = 0; rank < context_parallel; ++rank) {
      values.push_back({.number = rank, .second = context_parallel, .items = {}});
    }
    return values;
  }
  const bool mode = parameter.always_shown && parameter.config_keys.empty();
  if (mode && (parameter.kind == ParameterKind::flag || parameter.kind == ParameterKind::choice)) {
    const auto count = parameter.kind == ParameterKind::flag ? 2 : std::ssize(parameter.choices);
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back({.number = i, .second = 0, .items = {}});
    }
    return values;
  }
  return {parameter.required ? small_value(parameter, context_parallel) : parameter.fallback};
}

// What a model's config decides, as a case writes it.
std::string label_of(const Problem& problem) {
  std::vector<std::string> words;
  for (const Parameter& parameter : problem.operation().parameters()) {
    if (!parameter.config_keys.empty() && parameter.kind == ParameterKind::integer) {
      words.push_back(fmt::format("{}={}", parameter.key, problem.integer(parameter.key)));
    }
  }
  return fmt::format("{}", fmt::join(words, " "));
}

void add_problem(std::string label, const Problem& problem, std::vector<ReachedShape>& shapes) {
  auto found =
      std::find_if(shapes.begin(), shapes.end(), [&](const ReachedShape& shape) { return shape.label == label; });
  if (found == shapes.end()) {
    shapes.push_back({std::move(label), {}});
    found = shapes.end() - 1;
  }
  if (std::find(found->problems.begin(), found->problems.end(), problem) == found->problems.end()) {
    found->problems.push_back(problem);
  }
}

}  // namespace

std::map<std::string, std::string> read_config(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content(kMostConfigBytes, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  const json root = json::parse(content, nullptr, false);
  if (!root.is_object()) {
    throw InputError(
        fmt::format("--model '{}' given, expected a file that holds one JSON object, as config.json does", path));
  }
  std::map<std::string, std::string> config;
  take_values(root, config);
  if (root.contains("text_config") && root.at("text_config").is_object()) {
    take_values(root.at("text_config"), config);
  }
  return config;
}

std::vector<ReachedShape> shapes_of(const Operation& operation, const ModelRecipe& recipe) {
  std::vector<ReachedShape> shapes;
  for (const std::int64_t tp : recipe.tensor_parallel) {
    for (const std::int64_t cp : recipe.context_parallel) {
      std::vector<Problem> problems{Problem(operation)};
      for (const Parameter& parameter : operation.parameters()) {
        std::vector<Problem> next;
        for (const Problem& problem : problems) {
          if (!problem.applies(parameter)) {
            next.push_back(problem);
            continue;
          }
          for (const Value& value : values_of(parameter, recipe, tp, cp)) {
            next.push_back(problem);
            next.back().value(parameter.key) = value;
          }
        }
        problems = std::move(next);
      }
      for (Problem& problem : problems) {
        problem.normalise();
        if (const auto reason = operation.invalid(problem)) {
          throw InputError(fmt::format("'{}': {}", text(problem), *reason));
        }
        add_problem(fmt::format("tp {}{}: {}", tp, cp > 1 ? fmt::format(" cp {}", cp) : "", label_of(problem)), problem,
                    shapes);
      }
    }
  }
  return shapes;
}

std::vector<ReachedShape> shapes_of(const Operation& operation, const std::vector<Case>& cases) {
  std::vector<ReachedShape> shapes;
  for (const Case& c : cases) {
    if (&c.problem.operation() == &operation) {
      add_problem(label_of(c.problem), c.problem, shapes);
    }
  }
  return shapes;
}

TilingChoice parse_tiling_choice(const Operation& operation, const std::string& text) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const auto& declared = operation.tiling_parameters();
  const auto found = std::find_if(declared.begin(), declared.end(),
                                  [&](const Parameter& p) { return p.key == text.substr(0, equals); });
  if (found == declared.end()) {
    std::vector<std::string> keys;
    for (const Parameter& parameter : declared) {
      keys.push_back(parameter.key + "=N,N,...");
    }
    throw InputError(fmt::format("--tiling '{}' given, expected {}", text, fmt::join(keys, " or ")));
  }
  TilingChoice choice{found->key, {}};
  std::stringstream words(text.substr(std::min(equals + 1, text.size())));
  for (std::string word; std::getline(words, word, ',');) {
    choice.values.push_back(parse_value_of(*found, word).number);
  }
  if (choice.values.empty()) {
    throw InputError(fmt::format("--tiling '{}' given, expected at least one value", text));
  }
  return choice;
}

std::vector<Tiling> tilings_of(const Subject& subject, const std::vector<TilingChoice>& choices) {
  std::vector<Tiling> tilings{default_tiling(*subject.operation)};
  const auto& declared = subject.operation->tiling_parameters();
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const auto chosen =
        std::find_if(choices.begin(), choices.end(), [&](const TilingChoice& c) { return c.key == declared[i].key; });
    std::vector<std::int64_t> values;
    if (chosen != choices.end()) {
      values = chosen->values;
    } else if (i > 0) {
      values = {declared[i].fallback.number};
    } else {
      for (std::int64_t value = 1; value <= std::min(kMostTile, declared[i].max); value *= 2) {
        values.push_back(value);
      }
    }
    std::vector<Tiling> next;
    for (const Tiling& tiling : tilings) {
      for (const std::int64_t value : values) {
        next.push_back(tiling);
        next.back().values[i] = value;
      }
    }
    tilings = std::move(next);
  }
  std::erase_if(tilings, [&](const Tiling& tiling) { return outside_limits(subject, tiling).has_value(); });
  if (tilings.empty()) {
    throw InputError(fmt::format("no tiling given is inside the limits of {} (tileproof list subjects)", subject.name));
  }
  return tilings;
}

namespace {

struct Unit {
  std::size_t shape = 0;
  std::size_t tiling = 0;
  Case c;
};

std::vector<Unit> units_of(const Subject& subject, const std::vector<ReachedShape>& shapes,
                           const std::vector<Tiling>& tilings) {
  std::vector<Unit> units;
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    for (const Problem& problem : shapes[s].problems) {
      for (std::size_t t = 0; t < tilings.size(); ++t) {
        Tiling control = tilings[t];
        control.values.front() = subject.operation->tiling_parameters().front().min;
        Case c{problem, {tilings[t]}};
        if (!(control == tilings[t]) && !outside_limits(subject, control)) {
          c.tilings.push_back(control);
        }
        units.push_back({s, t, std::move(c)});
      }
    }
  }
  return units;
}

// The properties that fail on the case with the first message, or why it was refused.
json verdict_of(Engine& engine, const Subject& subject, const Case& c) {
  json failed = json::array();
  std::string message;
  std::string refusal;
  try {
    const std::vector<Judged> judged = engine.check(subject, {&c, 1}, all_properties()).front();
    for (std::size_t i = 0; i < judged.size(); ++i) {
      if (judged[i].verdict == Verdict::failed) {
        failed.push_back(all_properties()[i]->name());
        message = message.empty() ? judged[i].failure->message : message;
      }
      refusal = judged[i].verdict == Verdict::refused ? judged[i].reason : refusal;
    }
  } catch (const EnvironmentError& error) {
    refusal = error.what();
  }
  return {failed, message, refusal};
}

void note(const UnitAnswer& answer, const Case& c, Exposed& exposed) {
  if (!answer.done) {
    ++exposed.left;
    return;
  }
  ++exposed.cases;
  const json verdict = answer.death.empty()
                           ? json::parse(answer.answer)
                           : json{{"launch_valid"}, fmt::format("the process ended with {}", answer.death), ""};
  const auto failed = verdict.at(0).get<std::vector<std::string>>();
  exposed.refused += failed.empty() && !verdict.at(2).get<std::string>().empty() ? 1 : 0;
  if (failed.empty()) {
    return;
  }
  if (exposed.failing++ == 0) {
    exposed.message = verdict.at(1);
    exposed.case_text = text(c);
  }
  for (const std::string& property : failed) {
    if (std::find(exposed.properties.begin(), exposed.properties.end(), property) == exposed.properties.end()) {
      exposed.properties.push_back(property);
    }
  }
}

}  // namespace

std::vector<std::vector<Exposed>> expose(const Subject& subject, const std::vector<ReachedShape>& shapes,
                                         const std::vector<Tiling>& tilings, const Isolation& isolation) {
  const std::vector<Unit> units = units_of(subject, shapes, tilings);
  const auto make_worker = [&](int number) -> AnswerUnit {
    return [&, engine = std::make_shared<Engine>(make_executor(subject.raw->device, number))](std::uint64_t unit) {
      return verdict_of(*engine, subject, units[unit].c).dump(-1, ' ', false, json::error_handler_t::replace);
    };
  };
  const std::vector<UnitAnswer> answers = answer_units(subject.raw->device, units.size(), isolation, make_worker);
  std::vector<std::vector<Exposed>> result(shapes.size(), std::vector<Exposed>(tilings.size()));
  for (std::size_t i = 0; i < units.size(); ++i) {
    note(answers[i], units[i].c, result[units[i].shape][units[i].tiling]);
  }
  return result;
}

}  // namespace tileproof
