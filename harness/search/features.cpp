#include "search/features.h"

#include <algorithm>
#include <set>
#include <string>

#include <fmt/format.h>

namespace tileproof {

namespace {

// The length of an axis as a person writes it, where all of its terms have names.
struct Length {
  AxisKind kind;
  std::string text;
  bool is_sum = false;
};

class Builder {
 public:
  explicit Builder(const Names& names) : names_(names), operation_(names.operation()) { find_lengths(); }

  Vocabulary build() {
    for (const Parameter& parameter : operation_.parameters()) {
      add_parameter(parameter);
    }
    for (const auto& [key, meaning] : operation_.quantities()) {
      measure(key, 2);
    }
    for (const Parameter& parameter : operation_.tiling_parameters()) {
      measure(parameter.key, 2);
    }
    add_choice("threads", {"forward", "reverse", "shuffled"});
    add_choice("blocks", {"forward", "reverse", "shuffled"});
    for (const Length& length : lengths_) {
      add_length(length);
    }
    add_strides();
    return std::move(vocabulary_);
  }

 private:
  void find_lengths() {
    std::set<std::string> seen;
    for (const TensorSpec& spec : operation_.tensors()) {
      for (const Axis& axis : spec.axes) {
        const std::string text = length_of(axis);
        if (!text.empty() && seen.insert(text).second) {
          lengths_.push_back({axis.kind, text, axis.terms.size() > 1});
        }
      }
    }
  }

  std::string length_of(const Axis& axis) const {
    const bool named = std::all_of(axis.terms.begin(), axis.terms.end(),
                                   [&](const std::string& term) { return term == "1" || names_.find(term); });
    return named ? fmt::format("{}", fmt::join(axis.terms, " + ")) : std::string();
  }

  void feature(const std::string& text, int cost) {
    vocabulary_.features.push_back({parse_condition(names_, text).terms.front(), cost});
  }
  void measure(const std::string& text, int cost) {
    vocabulary_.measures.push_back({parse_condition(names_, text).terms.front().left, cost});
  }

  void add_choice(const std::string& key, const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      feature(fmt::format("{} == {}", key, word), 2);
      if (words.size() > 2) {
        feature(fmt::format("{} != {}", key, word), 3);
      }
    }
  }

  void add_parameter(const Parameter& parameter) {
    const std::string& key = parameter.key;
    switch (parameter.kind) {
      case ParameterKind::integer:
        measure(key, 2);
        if (!parameter.required) {
          add_parities(key);
        }
        break;
      case ParameterKind::flag:
        feature(key + " == 0", 2);
        feature(key + " == 1", 2);
        break;
      case ParameterKind::choice: add_choice(key, parameter.choices); break;
      case ParameterKind::list:
        for (const char* function : {"max", "min", "sum", "count"}) {
          measure(fmt::format("{}({})", function, key), 4);
        }
        break;
      case ParameterKind::ratio:
        measure(key + "_size", 2);
        measure(key + "_rank", 2);
        for (const char* comparison : {"!=", "=="}) {
          feature(fmt::format("2 * {0}_rank + 1 {1} {0}_size", key, comparison), 4);
          feature(fmt::format("{0}_rank + 1 {1} {0}_size", key, comparison), 4);
        }
        break;
      case ParameterKind::tagged:
        add_choice(key, parameter.choices);
        measure(key + ".number", 9);
        break;
    }
  }

  void add_parities(const std::string& value) {
    for (const int divisor : {2, 4, 8}) {
      feature(fmt::format("{} mod {} != 0", value, divisor), 4 + divisor / 4);
      feature(fmt::format("{} mod {} == 0", value, divisor), 5 + divisor / 4);
    }
  }

  void add_length(const Length& length) {
    const std::string inner = length.is_sum ? fmt::format("({})", length.text) : length.text;
    const int more = length.is_sum ? 1 : 0;
    add_parities(inner);
    feature(fmt::format("power_of_two({})", length.text), 4 + more);
    feature(fmt::format("not power_of_two({})", length.text), 4 + more);
    if (length.is_sum) {
      measure(length.text, 3);
    }
    if (length.kind == AxisKind::dim && names_.find("size_of(dtype)")) {
      measure(fmt::format("{} * size_of(dtype)", inner), 3 + more);
    }
    // The first tiling parameter cuts the work, the others say how many hands do it; most kernels cut the heads.
    int further = length.kind == AxisKind::head ? 0 : 3;
    for (const Parameter& tile : operation_.tiling_parameters()) {
      feature(fmt::format("{} mod {} != 0", inner, tile.key), 2 + further);
      feature(fmt::format("{} mod {} == 0", inner, tile.key), 3 + further);
      feature(fmt::format("{} > {}", length.text, tile.key), 2 + further);
      feature(fmt::format("{} <= {}", length.text, tile.key), 3 + further);
      feature(fmt::format("{} < {}", length.text, tile.key), 3 + further);
      feature(fmt::format("{} >= {}", length.text, tile.key), 3 + further);
      measure(fmt::format("min({}, {})", length.text, tile.key), 3 + further);
      further += 3;
    }
  }

  void add_strides() {
    const auto& tensors = operation_.tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (std::size_t axis = 0; axis < tensors[i].axes.size(); ++axis) {
        const std::string stride = fmt::format("{}.{}_stride", tensors[i].name, name_of(tensors[i].axes[axis].kind));
        const std::string length = length_of(tensors[i].axes[axis]);
        if (axis + 1 == tensors[i].axes.size() && !tensors[i].strided_dim) {
          continue;
        }
        measure(stride, 6);
        if (!length.empty() && tensors[i].axes[axis].terms.size() == 1) {
          measure(fmt::format("({} - 1) * {}", length, stride), 4);
        }
        for (std::size_t other = i + 1; other < tensors.size(); ++other) {
          compare_strides(stride, tensors[i].axes[axis].kind, tensors[other]);
        }
      }
      measure(tensors[i].name + ".extent", 6);
    }
  }

  void compare_strides(const std::string& stride, AxisKind kind, const TensorSpec& other) {
    for (std::size_t axis = 0; axis + 1 < other.axes.size(); ++axis) {
      if (other.axes[axis].kind == kind) {
        int cost = 4;
        for (const char* comparison : {"!=", ">", "<", "=="}) {
          feature(fmt::format("{} {} {}.{}_stride", stride, comparison, other.name, name_of(kind)), cost++);
        }
      }
    }
  }

  const Names& names_;
  const Operation& operation_;
  std::vector<Length> lengths_;
  Vocabulary vocabulary_;
};

}  // namespace

Vocabulary vocabulary_of(const Names& names) { return Builder(names).build(); }

}  // namespace tileproof
