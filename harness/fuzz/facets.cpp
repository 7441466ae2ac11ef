// Which features of a case are worth telling apart, read from the declaration of its operation.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "fuzz/cells.h"
#include "memory/layout.h"

namespace tileproof {

namespace {

std::size_t class_of_number(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  return value <= 1                  ? static_cast<std::size_t>(std::max<std::int64_t>(value, 0))
         : std::has_single_bit(bits) ? 2
         : value % 2 == 1            ? 3
                                     : 4;
}
const std::vector<std::string> kNumbers = {"0", "1", "power of two", "odd", "even"};

std::size_t class_of_list(const std::vector<std::int64_t>& items) {
  const bool empty_ones = std::find(items.begin(), items.end(), 0) != items.end();
  const bool equal = std::equal(items.begin() + (items.empty() ? 0 : 1), items.end(), items.begin());
  if (items.size() <= 1) {
    return items.empty() || items.front() == 0 ? 0 : 1;
  }
  return empty_ones ? 4 : equal ? 2 : 3;
}
const std::vector<std::string> kLists = {"nothing", "one", "equal ones", "several", "several and zeros"};

std::size_t class_of_ratio(const Value& value) {
  return value.second <= 1 ? 0 : value.number == 0 ? 1 : value.number + 1 == value.second ? 2 : 3;
}
const std::vector<std::string> kRatios = {"whole", "first", "last", "middle"};

// How a length lies against the tiles that cut it.
std::size_t class_of_tail(std::int64_t length, std::int64_t tile) {
  const std::int64_t tail = length % tile;
  return length < tile ? 0 : length == tile ? 1 : tail == 0 ? 2 : tail == 1 ? 3 : tail == tile - 1 ? 4 : 5;
}
const std::vector<std::string> kTails = {"less than one", "one", "whole ones", "one over", "one short", "a part over"};

std::int64_t longest(const Problem& problem, AxisKind kind) {
  std::int64_t result = 0;
  for (const TensorShape& shape : problem.operation().shapes(problem)) {
    const int axis = shape.axis(kind);
    result = axis < 0 ? result : std::max(result, shape.shape[static_cast<std::size_t>(axis)]);
  }
  return result;
}

// The smallest power of two up to 32 that does not divide the bytes of every row; 32: all do.
std::size_t class_of_rows(const Problem& problem) {
  std::uint64_t bytes = 32;
  for (const TensorShape& shape : problem.operation().shapes(problem)) {
    if (shape.spec->content == Content::recipe) {
      bytes |= static_cast<std::uint64_t>(shape.row_length()) * size_of(shape.dtype);
    }
  }
  return static_cast<std::size_t>(std::countr_zero(bytes));
}
const std::vector<std::string> kRows = {"1 byte", "2 bytes", "4 bytes", "8 bytes", "16 bytes", "32 bytes"};

// Of the farthest element of any tensor.
std::size_t class_of_offset(const Problem& problem) {
  std::int64_t farthest = 0;
  for (const Layout& layout : lay_out(problem, {})) {
    farthest = std::max(farthest, layout.extent);
  }
  const auto bits = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(farthest)));
  return bits > 32 ? 4 : bits > 31 ? 3 : bits > 14 ? 2 : bits > 8 ? 1 : 0;
}
const std::vector<std::string> kOffsets = {"below 2^8", "below 2^14", "below 2^31", "below 2^32", "past 2^32"};

Facet facet_of(const Parameter& parameter, std::size_t index) {
  Facet facet{parameter.key, {}, {}, std::string::npos};
  const std::string key = parameter.key;
  switch (parameter.kind) {
    case ParameterKind::flag:
      facet.classes = {"0", "1"};
      facet.parameter = index;
      facet.class_of = [key](const Case& c) { return c.problem.flag(key) ? 1 : 0; };
      break;
    case ParameterKind::choice:
    case ParameterKind::tagged:
      facet.classes = parameter.choices;
      facet.parameter = index;
      facet.class_of = [key](const Case& c) { return static_cast<std::size_t>(c.problem.integer(key)); };
      break;
    case ParameterKind::integer:
      facet.classes = kNumbers;
      facet.class_of = [key](const Case& c) { return class_of_number(c.problem.integer(key)); };
      break;
    case ParameterKind::list:
      facet.classes = kLists;
      facet.class_of = [key](const Case& c) { return class_of_list(c.problem.list(key)); };
      break;
    case ParameterKind::ratio:
      facet.classes = kRatios;
      facet.class_of = [key](const Case& c) { return class_of_ratio(c.problem.value(key)); };
      break;
  }
  return facet;
}

}  // namespace

std::vector<Facet> facets_of(const Operation& operation) {
  std::vector<Facet> facets;
  for (std::size_t i = 0; i < operation.parameters().size(); ++i) {
    facets.push_back(facet_of(operation.parameters()[i], i));
  }
  const auto& tilings = operation.tiling_parameters();
  for (std::size_t i = 0; i < tilings.size(); ++i) {
    facets.push_back(
        {tilings[i].key, kNumbers, [i](const Case& c) { return class_of_number(c.tilings.front().values[i]); }});
  }
  // The first tiling parameter cuts the heads, in the common case.
  facets.push_back({fmt::format("heads in tiles of {}", tilings.front().key), kTails, [](const Case& c) {
                      return class_of_tail(longest(c.problem, AxisKind::head), c.tilings.front().values.front());
                    }});
  facets.push_back({"rows", kRows, [](const Case& c) { return class_of_rows(c.problem); }});
  facets.push_back({"offsets", kOffsets, [](const Case& c) { return class_of_offset(c.problem); }});
  return facets;
}

}  // namespace tileproof
