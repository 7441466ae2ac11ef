#include "memory/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "memory/canary.h"

namespace tileproof {

namespace {

constexpr std::size_t kAlign = 256;
constexpr std::size_t kSmallestGuard = 1024;
// A stray 32-bit element offset lies within 2^31 elements of the base; the reservation reaches that far back.
constexpr std::size_t kFarBefore = std::size_t{1} << 33;
constexpr std::size_t kFarAfter = std::size_t{1} << 33;
// Next to a row, where pages are large; half a page where they are small.
constexpr std::size_t kSparseGuard = std::size_t{1} << 16;
constexpr std::size_t kLargestDense = std::size_t{1} << 31;

std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

std::size_t bytes_of(const Layout& layout, std::int64_t elements) {
  return static_cast<std::size_t>(elements) * size_of(layout.shape.dtype);
}

std::size_t guard_bytes(const Layout& layout, std::int64_t overrun_rows) {
  const int row_axis = layout.shape.rank - 2;
  const std::int64_t stride = row_axis < 0 ? 1 : layout.strides[static_cast<std::size_t>(row_axis)];
  const std::int64_t row = std::max({stride, layout.shape.row_length(), std::int64_t{1}});
  return round_up(std::max(kSmallestGuard, bytes_of(layout, row * overrun_rows)), kAlign);
}

// Calls visit(offset in bytes from the base, count) for every mapped guard piece around and inside a tensor.
template <typename Visit>
void for_each_gap(const Placed& placed, Visit&& visit) {
  const auto element = static_cast<std::int64_t>(size_of(placed.layout.shape.dtype));
  const std::int64_t end = placed.layout.extent * element + static_cast<std::int64_t>(placed.after);
  std::size_t interval = 0;
  const auto visit_mapped = [&](std::int64_t from, std::int64_t to) {
    if (placed.mapped.empty()) {
      visit(from, to - from);
      return;
    }
    while (interval < placed.mapped.size() && placed.mapped[interval].second <= from) {
      ++interval;
    }
    for (std::size_t i = interval; i < placed.mapped.size() && placed.mapped[i].first < to; ++i) {
      const std::int64_t low = std::max(from, placed.mapped[i].first);
      visit(low, std::min(to, placed.mapped[i].second) - low);
    }
  };
  std::int64_t at = -static_cast<std::int64_t>(placed.before);
  for_each_piece(placed.layout, [&](std::int64_t offset, std::int64_t, std::int64_t count) {
    if (offset * element > at) {
      visit_mapped(at, offset * element);
    }
    at = (offset + count) * element;
  });
  visit_mapped(at, end);
}

void paint_dense(const Placed& placed, GuardFill guard) {
  const bool scattered_next = placed.layout.shape.spec->role != Role::out;
  const bool no_gaps = placed.layout.extent == placed.layout.shape.elements();
  if (scattered_next && no_gaps) {  // elements that scatter() overwrites anyway would be painted for nothing
    for_each_gap(placed, [&](std::int64_t from, std::int64_t count) {
      paint_canary(guard, placed.base + from, static_cast<std::size_t>(static_cast<std::int64_t>(placed.at) + from),
                   static_cast<std::size_t>(count));
    });
    return;
  }
  paint_canary(guard, placed.base - placed.before, placed.at - placed.before,
               placed.before + bytes_of(placed.layout, placed.layout.extent) + placed.after);
}

}  // namespace

// Most significant axis first, clipped to what the strides say.
std::string place_text(const Layout& layout, std::int64_t element) {
  std::string result;
  std::string past;
  std::int64_t rest = element;
  for (int i = 0; i < layout.shape.rank; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t stride = layout.strides[at];
    if (stride == 0) {
      continue;
    }
    const std::int64_t index = i == 0 || rest >= 0 ? rest / stride : 0;
    rest -= index * stride;
    const std::string_view axis = name_of(layout.shape.spec->axes[at].kind);
    result += fmt::format("{}{}={}", result.empty() ? "" : ", ", axis, index);
    if (index >= layout.shape.shape[at] && past.empty()) {
      past = fmt::format(", {} past the last {} ({})", index - layout.shape.shape[at] + 1, axis,
                         layout.shape.shape[at] - 1);
    }
  }
  return fmt::format("{}[{}]{}", layout.shape.spec->name, result, past);
}

namespace {

void collect(const Placed& placed, GuardFill guard, std::int64_t at, std::int64_t count, GuardDamage& damage) {
  const auto element = static_cast<std::int64_t>(size_of(placed.layout.shape.dtype));
  for (std::int64_t byte = at; byte < at + count; ++byte) {
    const auto position = static_cast<std::size_t>(static_cast<std::int64_t>(placed.at) + byte);
    if (placed.base[byte] == canary_byte(guard, position)) {
      continue;
    }
    if (damage.bytes++ == 0) {
      damage.first_byte = byte;
    }
    damage.last_byte = byte;
    const std::int64_t index = byte >= 0 ? byte / element : -((-byte + element - 1) / element);
    if (damage.elements.size() < 65536 && (damage.elements.empty() || damage.elements.back() != index)) {
      damage.elements.push_back(index);
    }
  }
}

void describe(const Placed& placed, GuardDamage& damage) {
  const auto element = static_cast<std::int64_t>(size_of(placed.layout.shape.dtype));
  const std::int64_t end = placed.layout.extent * element;
  damage.where = damage.first_byte < 0 ? "before" : damage.first_byte >= end ? "after" : "between_rows";
  const std::int64_t row =
      placed.layout.shape.rank < 2 ? 1 : placed.layout.strides[static_cast<std::size_t>(placed.layout.shape.rank - 2)];
  const std::int64_t rows =
      row > 0 && !damage.elements.empty() ? damage.elements.back() / row - damage.elements.front() / row + 1 : 0;
  damage.text = fmt::format(
      "{} bytes in {} elements changed outside {}: from {} to {} (bytes {}..{} from its base, spanning {} rows)",
      damage.bytes, damage.elements.size(), placed.layout.shape.spec->name,
      place_text(placed.layout, damage.elements.front()), place_text(placed.layout, damage.elements.back()),
      damage.first_byte, damage.last_byte, rows);
}

}  // namespace

Arena::~Arena() {
  release_sparse();
  if (buffer_ != nullptr) {
    munmap(buffer_, capacity_);
  }
}

void Arena::release_sparse() {
  for (const Reservation& reservation : reservations_) {
    munmap(reservation.address, reservation.size);
  }
  reservations_.clear();
}

void Arena::prepare(const std::vector<Layout>& layouts, GuardFill guard, std::int64_t overrun_rows) {
  release_sparse();
  place_dense(layouts, overrun_rows);
  for (Placed& placed : placed_) {
    if (placed.layout.sparse) {
      map_sparse(placed, guard);
    } else {
      paint_dense(placed, guard);
    }
  }
}

Placement place(const std::vector<Layout>& layouts, std::int64_t overrun_rows) {
  Placement result;
  for (const Layout& layout : layouts) {
    Placed placed;
    placed.layout = layout;
    const std::size_t guard = guard_bytes(layout, overrun_rows);
    const std::size_t shift = bytes_of(layout, layout.shift);
    placed.at = round_up(result.bytes + guard, kAlign) + shift;
    placed.before = placed.at - result.bytes;
    placed.after = guard;
    result.bytes = layout.sparse ? result.bytes : placed.at + bytes_of(layout, layout.extent) + guard;
    result.tensors.push_back(std::move(placed));
    if (result.bytes > kLargestDense) {
      throw EnvironmentError(
          fmt::format("a run needs more than {} bytes of memory; use smaller shapes or sparse=", kLargestDense));
    }
  }
  return result;
}

void Arena::place_dense(const std::vector<Layout>& layouts, std::int64_t overrun_rows) {
  Placement placement = place(layouts, overrun_rows);
  placed_ = std::move(placement.tensors);
  const std::size_t at = placement.bytes;
  if (at > capacity_) {
    if (buffer_ != nullptr) {
      munmap(buffer_, capacity_);
    }
    capacity_ = round_up(at + at / 2, page_size());
    void* memory = mmap(nullptr, capacity_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    buffer_ = memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
    if (buffer_ == nullptr) {
      const std::size_t wanted = capacity_;
      capacity_ = 0;
      throw EnvironmentError(fmt::format("cannot map {} bytes for a run; use fewer jobs or smaller shapes", wanted));
    }
  }
  for (Placed& placed : placed_) {
    placed.base = buffer_ + placed.at;
  }
}

std::size_t place_sparse(Placed& placed, std::size_t page) {
  const std::size_t before = round_up(kFarBefore, page);
  const std::size_t shift = bytes_of(placed.layout, placed.layout.shift);
  const std::size_t guard = std::min(page / 2, kSparseGuard);
  placed.at = before + shift;
  placed.before = page;
  placed.after = page;
  placed.mapped.clear();
  // Every piece gets the pages it touches and a guard on either side.
  for_each_piece(placed.layout, [&](std::int64_t offset, std::int64_t, std::int64_t count) {
    const std::size_t first = placed.at + bytes_of(placed.layout, offset);
    const std::size_t low = (first - guard) / page * page;
    const std::size_t high = round_up(first + bytes_of(placed.layout, count) + guard, page);
    const auto origin = static_cast<std::int64_t>(placed.at);
    const std::int64_t from = static_cast<std::int64_t>(low) - origin;
    const std::int64_t to = static_cast<std::int64_t>(high) - origin;
    if (!placed.mapped.empty() && placed.mapped.back().second >= from) {
      placed.mapped.back().second = std::max(placed.mapped.back().second, to);
    } else {
      placed.mapped.emplace_back(from, to);
    }
  });
  return before + round_up(bytes_of(placed.layout, placed.layout.extent) + shift, page) + round_up(kFarAfter, page);
}

void Arena::map_sparse(Placed& placed, GuardFill guard) {
  const std::size_t size = tileproof::place_sparse(placed, page_size());
  void* memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw EnvironmentError(
        fmt::format("cannot reserve {} bytes of address space for a sparse tensor (ulimit -v?)", size));
  }
  auto* start = static_cast<std::byte*>(memory);
  reservations_.push_back({start, size});
  placed.base = start + placed.at;
  for (const auto& [from, to] : placed.mapped) {
    const auto bytes = static_cast<std::size_t>(to - from);
    if (mprotect(placed.base + from, bytes, PROT_READ | PROT_WRITE) != 0) {
      throw EnvironmentError("cannot map pages of a sparse tensor (vm.max_map_count?)");
    }
    paint_canary(guard, placed.base + from, static_cast<std::size_t>(static_cast<std::int64_t>(placed.at) + from),
                 bytes);
  }
}

void Arena::scatter(const Placed& placed, const std::byte* packed) const {
  const std::size_t element = size_of(placed.layout.shape.dtype);
  for_each_piece(placed.layout, [&](std::int64_t offset, std::int64_t from, std::int64_t count) {
    std::memcpy(placed.base + static_cast<std::size_t>(offset) * element,
                packed + static_cast<std::size_t>(from) * element, static_cast<std::size_t>(count) * element);
  });
}

void Arena::gather(const Placed& placed, Bytes& packed) const {
  const std::size_t element = size_of(placed.layout.shape.dtype);
  const std::int64_t total = placed.layout.shape.elements();
  std::int64_t piece = 0;
  detail::loops_of(placed.layout, piece);
  if (piece == total) {  // nothing to clear that is overwritten anyway
    packed.assign(placed.base, static_cast<std::size_t>(total) * element);
    return;
  }
  packed.resize(static_cast<std::size_t>(total) * element);
  for_each_piece(placed.layout, [&](std::int64_t offset, std::int64_t from, std::int64_t count) {
    std::memcpy(packed.data() + static_cast<std::size_t>(from) * element,
                placed.base + static_cast<std::size_t>(offset) * element, static_cast<std::size_t>(count) * element);
  });
}

void Arena::prefill(const Placed& placed, GuardFill fill) const {
  const std::size_t element = size_of(placed.layout.shape.dtype);
  for_each_piece(placed.layout, [&](std::int64_t offset, std::int64_t, std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(offset) * element;
    paint_canary(fill, placed.base + bytes, placed.at + bytes, static_cast<std::size_t>(count) * element);
  });
}

std::int64_t Arena::first_difference(const Placed& placed, const std::byte* packed) const {
  const std::size_t element = size_of(placed.layout.shape.dtype);
  std::int64_t found = -1;
  for_each_piece(placed.layout, [&](std::int64_t offset, std::int64_t from, std::int64_t count) {
    const std::byte* here = placed.base + static_cast<std::size_t>(offset) * element;
    const std::byte* there = packed + static_cast<std::size_t>(from) * element;
    const std::size_t bytes = static_cast<std::size_t>(count) * element;
    if (found < 0 && std::memcmp(here, there, bytes) != 0) {
      std::size_t i = 0;
      while (here[i] == there[i]) {
        ++i;
      }
      found = from + static_cast<std::int64_t>(i / element);
    }
  });
  return found;
}

std::vector<GuardDamage> Arena::damage(GuardFill guard) const { return guard_damage(placed_, guard); }

std::vector<GuardDamage> guard_damage(const std::vector<Placed>& tensors, GuardFill guard) {
  std::vector<GuardDamage> result;
  for (const Placed& placed : tensors) {
    GuardDamage damage;
    damage.tensor = placed.layout.shape.index;
    const auto inspect = [&](std::int64_t at, std::int64_t count) {
      const auto position = static_cast<std::size_t>(static_cast<std::int64_t>(placed.at) + at);
      const auto length = static_cast<std::size_t>(count);
      if (first_damage(guard, placed.base + at, position, length) != length) {
        collect(placed, guard, at, count, damage);
      }
    };
    for_each_gap(placed, inspect);
    if (damage.bytes > 0) {
      describe(placed, damage);
      result.push_back(std::move(damage));
    }
  }
  return result;
}

}  // namespace tileproof
