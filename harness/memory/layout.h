// Where the elements of a tensor lie: strides and base shift from the problem's memory parameters and the variant.
#ifndef TILEPROOF_MEMORY_LAYOUT_H
#define TILEPROOF_MEMORY_LAYOUT_H

#include <array>
#include <cstdint>
#include <vector>

#include "tileproof/property.h"

namespace tileproof {

struct Layout {
  TensorShape shape;
  std::array<std::int64_t, TILEPROOF_MAX_RANK> strides{};  // in elements
  std::int64_t shift = 0;                                  // elements the base is moved off its 256-byte boundary
  std::int64_t extent = 0;  // elements from the base to one past the last element; 0 for an empty tensor
  bool sparse = false;
  // Strides that are larger than what the contiguous tensor would need leave gaps; gaps are guard.
  std::int64_t offset(std::int64_t packed_element) const;
};

// One layout per present tensor, in declared order.
std::vector<Layout> lay_out(const Problem& problem, const Memory& memory);

// Walks a tensor in ascending addresses as maximal contiguous pieces: visit(offset in elements, packed element, count).
// Broadcast axes (stride 0) are visited once, at index 0.
template <typename Visit>
void for_each_piece(const Layout& layout, Visit&& visit);

// Implementation ---------------------------------------------------------------------------------------------------

namespace detail {

struct Loop {
  std::int64_t count;
  std::int64_t stride;  // in memory, elements
  std::int64_t packed;  // in the packed tensor, elements
};

// Axes outermost-first by stride, contiguous neighbours merged; `piece` receives the contiguous count.
std::vector<Loop> loops_of(const Layout& layout, std::int64_t& piece);

}  // namespace detail

template <typename Visit>
void for_each_piece(const Layout& layout, Visit&& visit) {
  if (layout.extent == 0) {
    return;
  }
  std::int64_t piece = 1;
  const std::vector<detail::Loop> loops = detail::loops_of(layout, piece);
  std::array<std::int64_t, TILEPROOF_MAX_RANK> index{};
  std::int64_t offset = 0;
  std::int64_t packed = 0;
  while (true) {
    visit(offset, packed, piece);
    std::size_t axis = loops.size();
    while (axis > 0) {
      const detail::Loop& loop = loops[axis - 1];
      offset += loop.stride;
      packed += loop.packed;
      if (++index[axis - 1] < loop.count) {
        break;
      }
      offset -= loop.stride * loop.count;
      packed -= loop.packed * loop.count;
      index[axis - 1] = 0;
      --axis;
    }
    if (axis == 0) {
      return;
    }
  }
}

}  // namespace tileproof

#endif
