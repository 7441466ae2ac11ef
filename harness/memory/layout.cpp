#include "memory/layout.h"

#include <algorithm>

namespace tileproof {

namespace {

std::int64_t pad_of(const Problem& problem, std::string_view key, std::size_t tensor) {
  const auto& pads = problem.list(key);
  if (pads.empty()) {
    return 0;
  }
  return pads.size() == 1 ? pads[0] : tensor < pads.size() ? pads[tensor] : 0;
}

std::string_view pad_key(AxisKind kind) {
  switch (kind) {
    case AxisKind::token: return "pad_seq";
    case AxisKind::batch: return "pad_batch";
    case AxisKind::head: return "pad_head";
    case AxisKind::row: return "pad_row";
    case AxisKind::dim:
    case AxisKind::entry: break;
  }
  return {};
}

bool broadcasts(const Problem& problem, const TensorShape& shape, AxisKind kind, Strides strides) {
  return strides != Strides::materialised && shape.spec->broadcastable && problem.choice("broadcast") == name_of(kind);
}

// The pad of an axis under a variant. Padded and sliced differ from the case by small odd numbers, one per tensor, so
// that a stride taken from another tensor is wrong for at least one of them.
std::int64_t variant_pad(const Problem& problem, AxisKind kind, std::size_t tensor, Strides strides) {
  const auto index = static_cast<std::int64_t>(tensor);
  if (strides == Strides::contiguous) {
    return 0;
  }
  const std::string_view key = pad_key(kind);
  const std::int64_t pad = key.empty() ? 0 : pad_of(problem, key, tensor);
  if (kind == AxisKind::dim || kind == AxisKind::entry) {
    return 0;
  }
  if (strides == Strides::padded) {
    return pad + 8 + 2 * index + (kind == AxisKind::token ? 3 : 0);
  }
  return strides == Strides::sliced ? pad + 5 + index : pad;
}

// Widens the chosen axis so that its last offset passes 2^number elements; true when the tensor has such an axis.
bool widen(const Problem& problem, Layout& layout) {
  const Value& sparse = problem.value("sparse");
  constexpr AxisKind kinds[] = {AxisKind::entry, AxisKind::token, AxisKind::head, AxisKind::row};
  const int axis = sparse.number == 0 ? -1 : layout.shape.axis(kinds[sparse.number]);
  if (axis < 0 || layout.shape.spec->element == ElementType::i32 || layout.shape.elements() == 0) {
    return false;
  }
  const auto at = static_cast<std::size_t>(axis);
  const std::int64_t count = layout.shape.shape[at];
  if (count < 2 || layout.strides[at] == 0) {
    return false;
  }
  const std::int64_t wanted = (std::int64_t{1} << sparse.second) / (count - 1) + 4096;
  const std::int64_t old = layout.strides[at];
  const std::int64_t wide = std::max(old, wanted);
  layout.strides[at] = wide;
  for (std::size_t outer = at; outer-- > 0;) {
    if (layout.strides[outer] != 0) {
      const std::size_t inner = outer + 1;
      layout.strides[outer] = std::max(layout.strides[outer], layout.strides[inner] * layout.shape.shape[inner]);
    }
  }
  return true;
}

Layout lay_out_one(const Problem& problem, const TensorShape& shape, const Memory& memory) {
  Layout layout;
  layout.shape = shape;
  std::int64_t stride = 1;
  if (shape.spec->strided_dim && memory.strides != Strides::contiguous) {
    stride = problem.integer("dim_stride");
  }
  for (int i = shape.rank - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    const AxisKind kind = shape.spec->axes[at].kind;
    if (i < shape.rank - 1) {
      stride += variant_pad(problem, kind, shape.index, memory.strides);
    }
    const bool broadcast = broadcasts(problem, shape, kind, memory.strides);
    layout.strides[at] = broadcast ? 0 : stride;
    stride *= broadcast ? 1 : std::max<std::int64_t>(shape.shape[at], 1);
  }
  layout.shift = problem.integer("shift") + memory.extra_shift + (memory.strides == Strides::sliced ? 2 : 0);
  if (memory.strides != Strides::contiguous) {
    layout.sparse = widen(problem, layout);
  }
  if (shape.elements() > 0) {
    layout.extent = 1;
    for (int i = 0; i < shape.rank; ++i) {
      const auto at = static_cast<std::size_t>(i);
      layout.extent += layout.strides[at] * (shape.shape[at] - 1);
    }
  }
  return layout;
}

}  // namespace

std::int64_t Layout::offset(std::int64_t packed_element) const {
  std::int64_t result = 0;
  for (int i = shape.rank - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    result += packed_element % shape.shape[at] * strides[at];
    packed_element /= shape.shape[at];
  }
  return result;
}

std::vector<Layout> lay_out(const Problem& problem, const Memory& memory) {
  std::vector<Layout> result;
  for (const TensorShape& shape : problem.operation().shapes(problem)) {
    result.push_back(lay_out_one(problem, shape, memory));
  }
  return result;
}

namespace detail {

std::vector<Loop> loops_of(const Layout& layout, std::int64_t& piece) {
  std::vector<Loop> loops;
  std::int64_t packed = 1;
  for (int i = layout.shape.rank - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    if (layout.strides[at] != 0 && layout.shape.shape[at] > 1) {
      loops.push_back({layout.shape.shape[at], layout.strides[at], packed});
    }
    packed *= layout.shape.shape[at];
  }
  std::stable_sort(loops.begin(), loops.end(), [](const Loop& a, const Loop& b) { return a.stride < b.stride; });
  piece = 1;
  std::size_t merged = 0;
  while (merged < loops.size() && loops[merged].stride == piece && loops[merged].packed == piece) {
    piece *= loops[merged].count;
    ++merged;
  }
  loops.erase(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(merged));
  std::reverse(loops.begin(), loops.end());
  return loops;
}

}  // namespace detail

}  // namespace tileproof
