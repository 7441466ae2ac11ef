#include "search/simplicity.h"

#include <algorithm>
#include <numeric>

#include "tileproof/operation.h"

namespace tileproof {

namespace {

struct Sizes {
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t widths = 0;  // of the rows of all tensors together
};

Sizes sizes_of(const Problem& problem) {
  Sizes sizes;
  for (const TensorShape& shape : problem.operation().shapes(problem)) {
    std::int64_t tokens = shape.axis(AxisKind::token) < 0 ? 0 : 1;
    for (int i = 0; i < shape.rank; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t length = shape.shape[at];
      switch (shape.spec->axes[at].kind) {
        case AxisKind::token:
        case AxisKind::batch: tokens *= length; break;
        case AxisKind::head: sizes.heads = std::max(sizes.heads, length); break;
        case AxisKind::dim: sizes.widths += length; break;
        case AxisKind::row:
        case AxisKind::entry: break;
      }
    }
    sizes.tokens = std::max(sizes.tokens, tokens);
  }
  return sizes;
}

void add_rank(const Parameter& parameter, const Value& value, Simplicity& ranks) {
  switch (parameter.kind) {
    case ParameterKind::integer:
      // The default is the simplest value, wherever in the range it lies.
      ranks.push_back(value == parameter.fallback ? 0 : 1 + value.number - parameter.min);
      return;
    case ParameterKind::flag:
    case ParameterKind::choice: ranks.push_back(value.number); return;
    case ParameterKind::list:
      ranks.push_back(std::count_if(value.items.begin(), value.items.end(), [](auto item) { return item != 0; }));
      ranks.push_back(std::accumulate(value.items.begin(), value.items.end(), std::int64_t{0}));
      ranks.push_back(std::ssize(value.items));
      ranks.insert(ranks.end(), value.items.begin(), value.items.end());
      return;
    case ParameterKind::ratio:
      ranks.push_back(value.second);
      ranks.push_back(value.number);
      return;
    case ParameterKind::tagged:
      ranks.push_back(value.number);
      ranks.push_back(value.second);
      return;
  }
}

// Own parameters first, then how memory is laid out, the recipe, the types.
int group_of(const Parameter& parameter, bool common) {
  if (parameter.key == "dtype" || parameter.key == "table_dtype") {
    return 3;
  }
  return !common ? 0 : parameter.key == "data" ? 2 : 1;
}

void add_tiling(const Operation& operation, const Tiling& tiling, Simplicity& ranks) {
  const auto& declared = operation.tiling_parameters();
  for (std::size_t i = 0; i < declared.size(); ++i) {
    add_rank(declared[i], Value{.number = tiling.values[i], .second = 0, .items = {}}, ranks);
  }
  for (const Order order : {tiling.threads, tiling.blocks}) {
    ranks.push_back(static_cast<std::int64_t>(order));
  }
  ranks.push_back(static_cast<std::int64_t>(tiling.order_seed >> 1));
}

}  // namespace

Simplicity simplicity(const Case& c) {
  const Operation& operation = c.problem.operation();
  const auto& parameters = operation.parameters();
  const std::size_t own = parameters.size() - common_parameters().size();
  const Sizes sizes = sizes_of(c.problem);
  Simplicity result{sizes.tokens, sizes.heads, sizes.widths, std::ssize(c.tilings)};
  std::int64_t deviations = 0;
  for (const Parameter& parameter : parameters) {
    deviations += c.problem.value(parameter.key) == parameter.fallback ? 0 : 1;
  }
  result.push_back(deviations);
  for (int group = 0; group < 4; ++group) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (group_of(parameters[i], i >= own) == group) {
        add_rank(parameters[i], c.problem.value(parameters[i].key), result);
      }
    }
  }
  for (const Tiling& tiling : c.tilings) {
    add_tiling(operation, tiling, result);
  }
  return result;
}

}  // namespace tileproof
