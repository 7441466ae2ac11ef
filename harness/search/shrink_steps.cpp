#include "search/shrink_steps.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "generate/generator.h"
#include "search/simplicity.h"
#include "tileproof/operation.h"

namespace tileproof {

namespace {

constexpr std::int64_t kSmall = 8;  // this many of the least values are always tried

// A change of one value. Edits of one site exclude each other.
struct Edit {
  std::size_t site = 0;
  std::function<void(Case&)> apply;
};

// What `value` may become on its way down to `low`, in steps of `step`: the least ones, half way, nearly all the way.
std::set<std::int64_t> lower_values(std::int64_t low, std::int64_t value, std::int64_t step) {
  std::set<std::int64_t> result;
  const std::int64_t first = (low + step - 1) / step * step;
  for (std::int64_t i = 0; i < kSmall; ++i) {
    result.insert(first + i * step);
  }
  for (const std::int64_t towards : {value / 2, value * 3 / 4, value * 7 / 8, value - 4 * step, value - step}) {
    result.insert(towards / step * step);
  }
  result.insert(low);
  for (auto it = result.begin(); it != result.end();) {
    it = *it < low || *it >= value ? result.erase(it) : std::next(it);
  }
  return result;
}

class Editor {
 public:
  explicit Editor(const Case& c) : case_(c), operation_(c.problem.operation()) {
    const auto& parameters = operation_.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (c.problem.applies(parameters[i])) {
        site_ = i;
        parameter(parameters[i]);
      }
    }
    site_ = parameters.size();
    tilings();
  }
  std::vector<Edit> take() { return std::move(edits_); }

 private:
  void add(std::function<void(Case&)> apply) { edits_.push_back({site_, std::move(apply)}); }

  void set(const Parameter& parameter, Value value) {
    if (!(value == case_.problem.value(parameter.key))) {
      add([key = parameter.key, value = std::move(value)](Case& c) { c.problem.set(key, value); });
    }
  }

  void parameter(const Parameter& parameter) {
    const Value& value = case_.problem.value(parameter.key);
    set(parameter, parameter.fallback);
    switch (parameter.kind) {
      case ParameterKind::integer:
        for (const std::int64_t number : lower_values(parameter.min, value.number, parameter.multiple_of)) {
          set(parameter, Value{.number = number, .second = value.second, .items = {}});
        }
        if (value.number + parameter.multiple_of <= parameter.max) {
          set(parameter, Value{.number = value.number + parameter.multiple_of, .second = value.second, .items = {}});
        }
        return;
      case ParameterKind::flag: set(parameter, Value{.number = 0, .second = 0, .items = {}}); return;
      case ParameterKind::choice: choice(parameter, value); return;
      case ParameterKind::list: list(parameter, value); return;
      case ParameterKind::ratio: ratio(parameter, value); return;
      case ParameterKind::tagged: tagged(parameter, value); return;
    }
  }

  void choice(const Parameter& parameter, const Value& value) {
    for (std::int64_t index = 0; index < value.number; ++index) {
      Problem other = case_.problem;
      other.set(parameter.key, index);
      std::vector<const Parameter*> needed;  // by the other choice, and not by this one
      for (const Parameter& declared : operation_.parameters()) {
        if (declared.required && other.applies(declared) && !case_.problem.applies(declared)) {
          needed.push_back(&declared);
        }
      }
      with_small_values({{parameter.key, Value{.number = index, .second = 0, .items = {}}}}, needed);
    }
  }

  // `values`: those chosen so far. As many as the case has tokens is offered for the first of the needed ones, so that
  // the size of what is given up can be kept.
  void with_small_values(const std::vector<std::pair<std::string, Value>>& values,
                         const std::vector<const Parameter*>& needed) {
    if (values.size() == needed.size() + 1) {
      add([values](Case& c) {
        for (const auto& [key, value] : values) {
          c.problem.set(key, value);
        }
      });
      return;
    }
    const Parameter& parameter = *needed[values.size() - 1];
    std::set<std::int64_t> numbers = lower_values(parameter.min, parameter.min + 4, parameter.multiple_of);
    const std::int64_t tokens = simplicity(case_).front();
    if (tokens >= parameter.min && tokens <= parameter.max && values.size() == 1) {
      numbers.insert(tokens);
    }
    for (const std::int64_t number : numbers) {
      Value value = parameter.fallback;
      if (parameter.kind == ParameterKind::list) {
        value.items = {number};
      } else {
        value.number = number;
      }
      auto with = values;
      with.emplace_back(parameter.key, std::move(value));
      with_small_values(with, needed);
    }
  }

  void list(const Parameter& parameter, const Value& value) {
    const auto& items = value.items;
    const auto with = [&](std::vector<std::int64_t> changed) {
      set(parameter, Value{.number = 0, .second = 0, .items = std::move(changed)});
    };
    const std::int64_t sum = std::accumulate(items.begin(), items.end(), std::int64_t{0});
    for (const std::int64_t number : lower_values(parameter.min, sum + 1, parameter.multiple_of)) {
      with({number});
    }
    // Where each item is somebody's (one per tensor), none can be left out but all at once.
    const bool named = !parameter.required;
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::vector<std::int64_t> changed = items;
      if (!named && items.size() > 1) {
        changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(i));
        with(changed);
        changed = items;
      }
      for (const std::int64_t number : lower_values(parameter.min, items[i], parameter.multiple_of)) {
        changed[i] = number;
        with(changed);
      }
    }
    // One number for all tensors may be needed by one of them alone.
    if (named && items.size() == 1 && items.front() != 0) {
      for (std::size_t i = 0; i < operation_.tensors().size(); ++i) {
        std::vector<std::int64_t> alone(operation_.tensors().size(), 0);
        alone[i] = items.front();
        with(alone);
      }
    }
  }

  void ratio(const Parameter& parameter, const Value& value) {
    for (std::int64_t second = 1; second <= std::min<std::int64_t>(value.second, 4); ++second) {
      for (std::int64_t number = 0; number < second; ++number) {
        set(parameter, Value{.number = number, .second = second, .items = {}});
      }
    }
    for (const std::int64_t number : lower_values(0, value.number, 1)) {
      set(parameter, Value{.number = number, .second = value.second, .items = {}});
    }
    for (const std::int64_t second : lower_values(value.number + 1, value.second, 1)) {
      set(parameter, Value{.number = value.number, .second = second, .items = {}});
    }
  }

  void tagged(const Parameter& parameter, const Value& value) {
    std::set<std::int64_t> seconds = lower_values(parameter.min, value.second, 1);
    seconds.insert(value.second);
    seconds.insert({parameter.min, parameter.min + 1, parameter.min + 2, parameter.min + 3});
    // Where the default tag stands for nothing at all, the number behind it says nothing.
    for (std::int64_t tag = parameter.always_shown ? 0 : 1; tag <= value.number; ++tag) {
      for (const std::int64_t second : seconds) {
        set(parameter, Value{.number = tag, .second = second, .items = {}});
      }
    }
  }

  void tilings() {
    for (std::size_t t = 0; t < case_.tilings.size(); ++t) {
      const Tiling& tiling = case_.tilings[t];
      const auto& declared = operation_.tiling_parameters();
      for (std::size_t i = 0; i < declared.size(); ++i, ++site_) {
        std::set<std::int64_t> numbers = lower_values(declared[i].min, tiling.values[i], 1);
        numbers.insert(declared[i].fallback.number);
        numbers.insert(std::min(tiling.values[i] + 1, declared[i].max));
        numbers.erase(tiling.values[i]);
        for (const std::int64_t number : numbers) {
          add([t, i, number](Case& c) { c.tilings[t].values[i] = number; });
        }
      }
      if (tiling.threads != Order::forward) {
        add([t](Case& c) { c.tilings[t].threads = Order::forward; });
      }
      if (tiling.blocks != Order::forward) {
        add([t](Case& c) { c.tilings[t].blocks = Order::forward; });
      }
      ++site_;
    }
    // Leaving out and exchanging renumber the tilings, so they come last of a pair of edits.
    for (std::size_t t = 0; t < case_.tilings.size() && case_.tilings.size() > 1; ++t) {
      add([t](Case& c) { c.tilings.erase(c.tilings.begin() + static_cast<std::ptrdiff_t>(t)); });
      if (t + 1 < case_.tilings.size()) {
        add([t](Case& c) { std::swap(c.tilings[t], c.tilings[t + 1]); });
      }
    }
  }

  const Case& case_;
  const Operation& operation_;
  std::size_t site_ = 0;
  std::vector<Edit> edits_;
};

// Sorts out what is no valid simpler case.
class Candidates {
 public:
  Candidates(const Subject& subject, const Case& c) : subject_(subject), limit_(simplicity(c)) {}

  void add(Case candidate) {
    candidate.problem.normalise();
    if (!is_legal(candidate.problem)) {
      return;
    }
    Simplicity rank = simplicity(candidate);
    if (rank < limit_ && !outside_limits(subject_, candidate)) {
      found_.emplace(std::move(rank), std::move(candidate));
    }
  }

  std::vector<Case> take() {
    std::vector<Case> result;
    for (auto& [rank, candidate] : found_) {
      result.push_back(std::move(candidate));
    }
    return result;
  }

 private:
  const Subject& subject_;
  Simplicity limit_;
  std::map<Simplicity, Case> found_;
};

}  // namespace

std::vector<Case> shrink_steps(const Subject& subject, const Case& c) {
  Candidates candidates(subject, c);
  for (const Edit& edit : Editor(c).take()) {
    Case candidate = c;
    edit.apply(candidate);
    candidates.add(std::move(candidate));
  }
  return candidates.take();
}

std::vector<Case> double_steps(const Subject& subject, const Case& c) {
  Candidates candidates(subject, c);
  const std::vector<Edit> edits = Editor(c).take();
  for (std::size_t i = 0; i < edits.size(); ++i) {
    Case first = c;
    edits[i].apply(first);
    for (std::size_t j = i + 1; j < edits.size(); ++j) {
      if (edits[j].site != edits[i].site) {
        Case candidate = first;
        edits[j].apply(candidate);
        candidates.add(std::move(candidate));
      }
    }
  }
  return candidates.take();
}

}  // namespace tileproof
