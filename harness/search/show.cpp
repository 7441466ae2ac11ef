#include "search/show.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "execute/launch_request.h"
#include "execute/subject.h"
#include "memory/arena.h"
#include "memory/canary.h"
#include "memory/float_bits.h"
#include "memory/layout.h"

namespace tileproof {

namespace {

constexpr std::int64_t kLines = 10;    // of the map, for tokens
constexpr std::int64_t kColumns = 64;  // heads
constexpr std::int64_t kRowsTried = 64;

// Row and column of an element in the map.
struct Place {
  std::int64_t token = 0;
  std::int64_t head = 0;
  friend bool operator<(const Place& a, const Place& b) {
    return std::tie(a.token, a.head) < std::tie(b.token, b.head);
  }
};

// What the map looks like for one tensor: axes before the heads count as tokens.
class Grid {
 public:
  explicit Grid(const TensorShape& shape) : shape_(shape), head_(shape.axis(AxisKind::head)) {}

  // Of a packed element.
  Place of(std::int64_t element) const {
    std::array<std::int64_t, TILEPROOF_MAX_RANK> index{};
    for (int i = shape_.rank - 1; i >= 0; --i) {
      const auto at = static_cast<std::size_t>(i);
      index[at] = element % shape_.shape[at];
      element /= shape_.shape[at];
    }
    return of(index);
  }

  // Of an offset in a layout, which may lie outside of the tensor: then the token or the head lies past the last one.
  Place of_offset(const Layout& layout, std::int64_t offset) const {
    std::array<std::int64_t, TILEPROOF_MAX_RANK> index{};
    for (int i = 0; i < shape_.rank; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (layout.strides[at] != 0 && (i == 0 || offset >= 0)) {
        // Towards minus infinity, so that what lies in front of the tensor is in row -1.
        index[at] = (offset - (offset < 0 ? layout.strides[at] - 1 : 0)) / layout.strides[at];
        offset -= index[at] * layout.strides[at];
      }
    }
    return of(index);
  }

  std::int64_t tokens() const {
    std::int64_t count = 1;
    for (int i = 0; i < last_token_axis(); ++i) {
      count *= shape_.shape[static_cast<std::size_t>(i)];
    }
    return count;
  }
  std::int64_t heads() const { return head_ < 0 ? 1 : shape_.shape[static_cast<std::size_t>(head_)]; }
  bool has_heads() const { return head_ >= 0; }

 private:
  int last_token_axis() const { return head_ < 0 ? shape_.rank - 1 : head_; }

  Place of(const std::array<std::int64_t, TILEPROOF_MAX_RANK>& index) const {
    Place place;
    for (int i = 0; i < last_token_axis(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      place.token = place.token * shape_.shape[at] + index[at];
    }
    place.head = head_ < 0 ? 0 : index[static_cast<std::size_t>(head_)];
    return place;
  }

  const TensorShape& shape_;
  int head_;
};

bool wrong(const HostTensor& tensor, const Bounded& reference, std::int64_t element) {
  const auto at = static_cast<std::size_t>(element);
  const double actual = tensor.at(element);
  const double expected = reference.value[at];
  if (std::isnan(expected) || std::isinf(expected)) {
    return !(std::isnan(expected) ? std::isnan(actual) : actual == expected);
  }
  return !(std::abs(actual - expected) <= std::max(0.0, reference.bound[at]));
}

// What of a run is wrong in one tensor: the elements that miss the reference, the rows that do, the damage around.
struct Wrong {
  std::size_t tensor = 0;
  std::vector<std::int64_t> elements;
  std::size_t unwritten = 0;  // of those
  std::map<Place, char> marks;
};

// Whether elements of an output hold what was there before the launch. Not of sparse tensors.
class Untouched {
 public:
  Untouched(const Problem& problem, const RunRequest& request, const HostTensor& held)
      : held_(held), fill_(request.memory.prefill) {
    if (held.shape.spec->role != Role::out) {
      return;
    }
    for (const Placed& placed : place(lay_out(problem, request.memory), overrun_rows(request.tiling)).tensors) {
      if (placed.layout.shape.index == held.shape.index && !placed.layout.sparse) {
        placed_ = placed;
      }
    }
  }

  bool operator()(std::int64_t element) const {
    if (!placed_) {
      return false;
    }
    const std::size_t size = size_of(held_.shape.dtype);
    const std::size_t at = placed_->at + static_cast<std::size_t>(placed_->layout.offset(element)) * size;
    return first_damage(fill_, held_.bytes.data() + static_cast<std::size_t>(element) * size, at, size) == size;
  }

 private:
  const HostTensor& held_;
  GuardFill fill_;
  std::optional<Placed> placed_;
};

std::optional<Wrong> wrong_of(const CaseContext& context, const Results& results, const Failure& failure,
                              const std::vector<Bounded>& reference) {
  const std::size_t tensor = context.subject.operation->tensor_index(failure.tensor);
  if (!failure.run || tensor == std::string_view::npos || results.request(*failure.run).subject != &context.subject ||
      results.outputs(*failure.run).size() <= tensor) {
    return std::nullopt;
  }
  Wrong found{tensor, {}, 0, {}};
  const HostTensor& held = results.outputs(*failure.run)[tensor];
  const Grid grid(held.shape);
  const Untouched untouched(results.problem_of(*failure.run), results.request(*failure.run), held);
  for (std::int64_t i = 0; i < std::ssize(reference[tensor].value) && !held.bytes.empty(); ++i) {
    if (wrong(held, reference[tensor], i)) {
      const bool unwritten = untouched(i);
      found.elements.push_back(i);
      found.unwritten += unwritten ? 1 : 0;
      // A row that was written in part shows what is wrong in the rest of it.
      char& mark = found.marks.try_emplace(grid.of(i), 'o').first->second;
      mark = unwritten ? mark : 'x';
    }
  }
  for (const GuardDamage& damage : results.run(*failure.run).damage) {
    for (const Layout& layout : lay_out(results.problem_of(*failure.run), results.request(*failure.run).memory)) {
      if (damage.tensor != tensor || layout.shape.index != tensor) {
        continue;
      }
      for (const std::int64_t offset : damage.elements) {
        found.marks[Grid(layout.shape).of_offset(layout, offset)] = '#';
      }
    }
  }
  return found;
}

// What the marks that are there mean.
std::string legend(const std::map<Place, char>& marks) {
  std::string text;
  for (const auto& [mark, meaning] : std::initializer_list<std::pair<char, const char*>>{
           {'x', "misses the reference"}, {'o', "was not written"}, {'#', "is outside and changed"}}) {
    const bool is_there =
        std::any_of(marks.begin(), marks.end(), [m = mark](const auto& one) { return one.second == m; });
    text += is_there ? fmt::format("{}{} {}", text.empty() ? "; " : ", ", mark, meaning) : "";
  }
  return text;
}

std::vector<std::string> draw(const TensorShape& shape, const std::map<Place, char>& marks) {
  const Grid grid(shape);
  std::vector<std::string> lines{fmt::format("{}: a line per token{}{}:", shape.spec->name,
                                             grid.has_heads() ? ", a column per head" : "", legend(marks))};
  std::set<std::int64_t> shown;
  for (const auto& [place, mark] : marks) {
    shown.insert(place.token);
  }
  for (std::int64_t token = 0; token < grid.tokens() && std::ssize(shown) < kLines; ++token) {
    shown.insert(token);
  }
  std::int64_t drawn = 0;
  for (const std::int64_t token : shown) {
    if (drawn++ == kLines) {
      lines.push_back(fmt::format("  and {} more tokens", std::ssize(shown) - kLines));
      break;
    }
    const bool inside = token >= 0 && token < grid.tokens();
    std::string line(static_cast<std::size_t>(inside ? std::min(grid.heads(), kColumns) : 0), '.');
    for (const auto& [place, mark] : marks) {
      if (place.token == token && place.head >= 0 && place.head < kColumns) {
        const auto at = static_cast<std::size_t>(place.head);
        line.resize(std::max(line.size(), at + 1), ' ');
        line[at] = mark;
      }
    }
    const bool cut = inside && grid.heads() > kColumns;
    lines.push_back(fmt::format("  token {:<4} {}{}{}", token, line, cut ? "..." : "",
                                inside      ? ""
                                : token < 0 ? "  (before the first)"
                                            : "  (past the last)"));
  }
  return lines;
}

// "q[token=0, batch=0, head=1]"
std::string row_name(const TensorShape& shape, std::int64_t row) {
  const std::string name = element_name(shape, row * shape.row_length());
  const std::size_t comma = name.rfind(", ");
  return comma == std::string::npos ? name : name.substr(0, comma) + "]";
}

// How many rows a tile that is cut to nothing has past the last head, beside how many were changed in one place.
std::optional<std::string> predicted(const CaseContext& context, const Results& results, const Failure& failure,
                                     std::size_t tensor) {
  const RunRequest& request = results.request(*failure.run);
  for (const Layout& layout : lay_out(results.problem_of(*failure.run), request.memory)) {
    const int axis = layout.shape.axis(AxisKind::head);
    if (layout.shape.index != tensor || axis < 0 || layout.strides[static_cast<std::size_t>(axis)] <= 0) {
      continue;
    }
    std::set<std::int64_t> rows;
    for (const GuardDamage& damage : results.run(*failure.run).damage) {
      for (const std::int64_t offset : damage.elements) {
        if (damage.tensor == tensor && offset >= 0) {
          rows.insert(offset / layout.strides[static_cast<std::size_t>(axis)]);
        }
      }
    }
    std::int64_t longest = 0;
    std::int64_t length = 0;
    for (auto row = rows.begin(); row != rows.end(); ++row) {
      length = rows.count(*row - 1) != 0 ? length + 1 : 1;
      longest = std::max(longest, length);
    }
    const std::int64_t heads = layout.shape.shape[static_cast<std::size_t>(axis)];
    const std::string& key = context.subject.operation->tiling_parameters().front().key;
    const std::int64_t block = request.tiling.values.front();
    return longest == 0 ? std::nullopt
                        : std::optional(fmt::format(
                              "changed past the heads: {} rows; cdiv({} heads, {}={}) * {} - {} = {}", longest, heads,
                              key, block, block, heads, (heads + block - 1) / block * block - heads));
  }
  return std::nullopt;
}

// In place, a row that two programs own is changed twice: does it hold what the operation makes of its own result,
// there or in the place of another row (whose program ran over)?
std::string recognised(const CaseContext& context, const Results& results, const Failure& failure, const Wrong& found,
                       const std::vector<Bounded>& reference) {
  const HostTensor& held = results.outputs(*failure.run)[found.tensor];
  const HostTensors& inputs = results.inputs(*failure.run);
  if (context.subject.operation->tensors()[found.tensor].role != Role::inout ||
      inputs[found.tensor].shape.elements() != held.shape.elements()) {
    return "";
  }
  const std::int64_t length = held.shape.row_length();
  const std::int64_t row = found.elements.front() / length;
  const Bounded& once = reference[found.tensor];
  for (std::int64_t place = 0; place < std::min(held.shape.rows(), kRowsTried); ++place) {
    HostTensors again = inputs;
    for (std::int64_t dim = 0; dim < length; ++dim) {
      store_element(held.shape.dtype, again[found.tensor].bytes.data(), place * length + dim,
                    once.value[static_cast<std::size_t>(row * length + dim)]);
    }
    const Bounded twice = reference_of(results.problem_of(*failure.run), context.subject, again)[found.tensor];
    bool same = true;
    for (std::int64_t dim = 0; dim < length && same; ++dim) {
      const auto from = static_cast<std::size_t>(row * length + dim);
      const auto to = static_cast<std::size_t>(place * length + dim);
      // What it was made of is only known to its own bound, which a rotation keeps.
      const double slack = std::max(0.0, twice.bound[to]) + 2 * std::max(0.0, once.bound[from]);
      same = std::abs(held.at(row * length + dim) - twice.value[to]) <= slack;
    }
    if (same) {
      return fmt::format(": it was changed twice, the second time as {} would be",
                         place == row ? "before" : row_name(held.shape, place));
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> map_of_failure(const CaseContext& context, const Results& results, const Failure& failure) {
  if (!failure.run) {
    return {};
  }
  const std::vector<Bounded> reference = reference_values(results, *failure.run);
  const std::optional<Wrong> found = wrong_of(context, results, failure, reference);
  if (!found || found->marks.empty()) {
    return {};
  }
  const HostTensor& held = results.outputs(*failure.run)[found->tensor];
  std::vector<std::string> lines = draw(held.shape, found->marks);
  if (const auto line = predicted(context, results, failure, found->tensor)) {
    lines.push_back(*line);
  }
  if (!found->elements.empty()) {
    const std::int64_t first = found->elements.front();
    lines.push_back(fmt::format("{} holds {:.9g} where {:.9g} is right{}", element_name(held.shape, first),
                                held.at(first), reference[found->tensor].value[static_cast<std::size_t>(first)],
                                recognised(context, results, failure, *found, reference)));
    if (found->unwritten > 0) {
      lines.push_back(fmt::format("{} of {} wrong elements hold what was there before the launch: nothing was written",
                                  found->unwritten, found->elements.size()));
    }
  }
  return lines;
}

std::vector<std::string> owner_of_value(const CaseContext& context, const Results& results, const Failure& failure) {
  if (!failure.run) {
    return {};
  }
  const std::optional<Wrong> found = wrong_of(context, results, failure, reference_values(results, *failure.run));
  if (!found || found->elements.empty()) {
    return {};
  }
  const HostTensor& held = results.outputs(*failure.run)[found->tensor];
  const double value = held.at(found->elements.front());
  std::vector<std::string> owners;
  for (const HostTensor& input : results.inputs(*failure.run)) {
    for (std::int64_t i = 0; i < input.shape.elements() && !input.bytes.empty(); ++i) {
      if (input.shape.spec->content == Content::recipe && input.at(i) == value) {
        owners.push_back(element_name(input.shape, i));
      }
    }
  }
  if (owners.size() != 1) {
    return {};
  }
  return {fmt::format("with index data {} holds {:.9g}, the input {}",
                      element_name(held.shape, found->elements.front()), value, owners.front())};
}

}  // namespace tileproof
