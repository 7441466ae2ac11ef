#include "generate/generator.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "memory/counter_random.h"
#include "tileproof/property.h"

namespace tileproof {

namespace {

class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t index) : stream_(seed, index) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(stream_.below(static_cast<std::uint64_t>(n))); }
  bool percent(int chance) { return below(100) < chance; }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(below(std::ssize(from)))];
  }
  // Low values often, high ones sometimes: the number of bits is uniform.
  std::int64_t spread(std::int64_t low, std::int64_t high) {
    std::int64_t bits = 0;
    while ((std::int64_t{1} << bits) <= high - low) {
      ++bits;
    }
    const std::int64_t width = below(bits + 1);
    return std::min(high, low + (width == 0 ? 0 : below(std::int64_t{1} << width)));
  }

 private:
  CounterStream stream_;
};

std::int64_t draw_integer(const Parameter& parameter, Draw& draw) {
  if (!parameter.favourites.empty() && draw.percent(50)) {
    return draw.pick(parameter.favourites);
  }
  const std::int64_t top =
      parameter.typical_max != 0 ? parameter.typical_max : std::min<std::int64_t>(parameter.max, 64);
  const std::int64_t step = parameter.multiple_of;
  return draw.spread((parameter.min + step - 1) / step, std::max(top, parameter.min) / step) * step;
}

std::vector<std::int64_t> draw_lengths(const Parameter& parameter, Draw& draw) {
  const std::int64_t top = parameter.typical_max != 0 ? parameter.typical_max : 32;
  // Whole multiples make context parallelism decompose; repeats and zeros are what packed batches really hold.
  const std::int64_t step = draw.percent(40) ? std::int64_t{4} << draw.below(2) : 1;
  std::vector<std::int64_t> items(static_cast<std::size_t>(1 + draw.spread(0, 5)));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool repeat = i > 0 && draw.percent(20);
    items[i] = repeat ? items[i - 1] : draw.percent(10) ? 0 : (draw.spread(1, top) + step - 1) / step * step;
  }
  return items;
}

// A stride pad: none, one for every tensor, or one of its own for each.
std::vector<std::int64_t> draw_pads(std::size_t tensors, Draw& draw) {
  if (draw.percent(50)) {
    return {0};
  }
  std::vector<std::int64_t> pads(draw.percent(50) ? 1 : tensors);
  for (std::int64_t& pad : pads) {
    pad = draw.percent(30) ? 8 * draw.below(4) : draw.spread(0, 40);
  }
  return pads;
}

Value draw_value(const Problem& problem, const Parameter& parameter, Draw& draw) {
  Value value = parameter.fallback;
  const bool seldom = !parameter.always_shown && !parameter.required;
  switch (parameter.kind) {
    case ParameterKind::integer:
      if (!seldom || draw.percent(25)) {
        value.number = draw_integer(parameter, draw);
      }
      break;
    case ParameterKind::flag: value.number = draw.percent(seldom ? 20 : 50) ? 1 : 0; break;
    case ParameterKind::choice: value.number = draw.below(std::ssize(parameter.choices)); break;
    case ParameterKind::list:
      value.items = seldom ? draw_pads(problem.operation().tensors().size(), draw) : draw_lengths(parameter, draw);
      break;
    case ParameterKind::ratio:
      if (draw.percent(50)) {
        value.second = std::min(parameter.max, std::int64_t{1} << draw.spread(1, 3));
        value.second = draw.percent(20) ? std::min(parameter.max, 1 + draw.spread(1, 6)) : value.second;
        value.number = draw.below(value.second);
      }
      break;
    case ParameterKind::tagged:
      value.number = draw.below(std::ssize(parameter.choices));
      value.second = parameter.min + draw.below(std::min<std::int64_t>(1000, parameter.max - parameter.min + 1));
      break;
  }
  return value;
}

// An exact sum over heads rests on heads of opposite sign, which a broadcast over heads undoes.
bool is_exact_possible(const Problem& problem) {
  return problem.choice("data") != "exact" || problem.choice("broadcast") != "head";
}

// Parameters common to all operations have shares of their own: most memory is plain, so that overruns reach rows.
void draw_common(Problem& problem, Draw& draw) {
  const std::int64_t roll = draw.below(100);
  problem.value("data").number = roll < 40 ? 0 : roll < 75 ? 1 : roll < 88 ? 2 : 3;
  if (!draw.percent(12)) {
    problem.set("broadcast", 0);
  }
  if (!is_exact_possible(problem)) {
    problem.set("broadcast", 2);
  }
  if (!draw.percent(20)) {
    problem.set("shift", 0);
  }
  if (draw.percent(98)) {
    problem.set("sparse", Value{});
  } else {
    Value sparse{.number = 1 + draw.below(3), .second = 31 + draw.below(2), .items = {}};
    problem.set("sparse", std::move(sparse));
  }
  if (draw.percent(50)) {
    for (const char* key : {"pad_seq", "pad_batch", "pad_head", "pad_row"}) {
      problem.set(key, Value{.number = 0, .second = 0, .items = {0}});
    }
  }
}

// Halves the largest size until the case costs no more than `budget` elements.
void shrink_to(Problem& problem, std::int64_t budget) {
  while (elements_of(problem) > budget) {
    std::int64_t* largest = nullptr;
    const Parameter* owner = nullptr;
    for (const Parameter& parameter : problem.operation().parameters()) {
      if (!parameter.required || !problem.applies(parameter)) {
        continue;
      }
      Value& value = problem.value(parameter.key);
      const auto consider = [&](std::int64_t& number) {
        if (number >= 2 * std::max(parameter.min, parameter.multiple_of) && (largest == nullptr || number > *largest)) {
          largest = &number;
          owner = &parameter;
        }
      };
      if (parameter.kind == ParameterKind::integer) {
        consider(value.number);
      }
      std::for_each(value.items.begin(), value.items.end(), consider);
    }
    if (largest == nullptr) {
      return;
    }
    *largest = std::max(owner->min, *largest / 2 / owner->multiple_of * owner->multiple_of);
  }
}

std::int64_t head_count(const Problem& problem) {
  std::int64_t heads = 1;
  for (const TensorShape& shape : problem.operation().shapes(problem)) {
    const int axis = shape.axis(AxisKind::head);
    heads = axis < 0 ? heads : std::max(heads, shape.shape[static_cast<std::size_t>(axis)]);
  }
  return heads;
}

Tiling draw_tiling(const Subject& subject, std::int64_t heads, Draw& draw) {
  const auto& declared = subject.operation->tiling_parameters();
  for (int attempt = 0; attempt < 64; ++attempt) {
    Tiling tiling = default_tiling(*subject.operation);
    for (std::size_t i = 0; i < declared.size(); ++i) {
      const Parameter& parameter = declared[i];
      std::int64_t value = std::int64_t{1} << draw.spread(0, 8);
      if (i == 0 && draw.percent(50)) {
        value = draw.percent(50) ? draw.spread(1, 2 * heads) : std::max<std::int64_t>(1, heads - 1 + draw.below(3));
      }
      tiling.values[i] = std::clamp(value, parameter.min, parameter.max);
    }
    if (!outside_limits(subject, tiling)) {
      return tiling;
    }
  }
  throw HarnessError(fmt::format("{}: no tiling inside its limits in 64 draws", subject.name));
}

}  // namespace

bool is_legal(const Problem& problem) { return !problem.operation().invalid(problem) && is_exact_possible(problem); }

std::int64_t elements_of(const Problem& problem) {
  std::int64_t total = 0;
  for (const TensorShape& shape : problem.operation().shapes(problem)) {
    total += shape.elements();
  }
  return total;
}

Case generate_case(const Subject& subject, std::uint64_t seed, std::uint64_t index) {
  Draw draw(seed, index);
  for (int attempt = 0; attempt < 256; ++attempt) {
    Problem problem(*subject.operation);
    for (const Parameter& parameter : subject.operation->parameters()) {
      if (problem.applies(parameter)) {
        problem.value(parameter.key) = draw_value(problem, parameter, draw);
      }
    }
    draw_common(problem, draw);
    problem.normalise();
    const std::int64_t roll = draw.below(100);
    shrink_to(problem, roll < 70 ? 3000 : roll < 97 ? 12000 : 100000);
    if (subject.operation->invalid(problem) || outside_limits(subject, problem)) {
      continue;
    }
    Case result{std::move(problem), {}};
    const std::int64_t heads = head_count(result.problem);
    const std::int64_t wanted = 2 + draw.below(2);
    for (std::int64_t i = 0; i < 4 * wanted && std::ssize(result.tilings) < wanted; ++i) {
      const Tiling tiling = draw_tiling(subject, heads, draw);
      if (std::find(result.tilings.begin(), result.tilings.end(), tiling) == result.tilings.end()) {
        result.tilings.push_back(tiling);
      }
    }
    return result;
  }
  throw HarnessError(fmt::format("{}: no case inside its limits in 256 draws; widen the limits", subject.name));
}

}  // namespace tileproof
