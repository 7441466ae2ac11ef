// The memory of a run: every tensor between guards, every gap between its rows a guard too.
//
// One arena per worker; its buffer is kept and grows. A dense run puts all tensors into one buffer. A sparse run gives
// each tensor with a widened stride its own reservation of address space, of which only the pages that hold rows and
// the guards next to them are mapped; any other access faults.
#ifndef TILEPROOF_MEMORY_ARENA_H
#define TILEPROOF_MEMORY_ARENA_H

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "memory/layout.h"

namespace tileproof {

// The machine cannot give what a run needs. Ends in exit status 3.
class EnvironmentError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A tensor in place. `at` is its base's position in canary coordinates; guards reach `before` bytes in front of the
// base and `after` bytes behind the last element.
struct Placed {
  Layout layout;
  std::byte* base = nullptr;
  std::size_t at = 0;
  std::size_t before = 0;
  std::size_t after = 0;
  // Of a sparse tensor: what is mapped, as disjoint ascending [from, to) in bytes from the base. Empty when dense.
  std::vector<std::pair<std::int64_t, std::int64_t>> mapped;
};

// Where the tensors of a run go in one piece of memory of `bytes` bytes that starts at canary position 0; the bases are
// still null. Sparse tensors take no room in it. Throws EnvironmentError when the run is too large.
struct Placement {
  std::vector<Placed> tensors;
  std::size_t bytes = 0;
};
// `overrun_rows`: guards behind a tensor hold at least this many of its rows (rows of the axis before the innermost),
// so that a tile that runs over lands in a guard.
Placement place(const std::vector<Layout>& layouts, std::int64_t overrun_rows);

// Where a sparse tensor goes in a reservation that starts at canary position 0 and of which only `mapped` is to be
// mapped, in pages of `page` bytes. Returns the size of the reservation.
std::size_t place_sparse(Placed& placed, std::size_t page);

// The coordinates of an element offset from the base, inside the tensor or not: "q[token=1, head=0, dim=2]", and past
// which bound it lies.
std::string place_text(const Layout& layout, std::int64_t element);

// What changed in the guards around and inside tensors that lie in host memory.
std::vector<GuardDamage> guard_damage(const std::vector<Placed>& tensors, GuardFill guard);

class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Places and paints (see place()); the elements of `in` and `inout` tensors hold anything until they are scattered.
  // Throws EnvironmentError.
  void prepare(const std::vector<Layout>& layouts, GuardFill guard, std::int64_t overrun_rows);

  std::vector<Placed>& tensors() { return placed_; }
  void scatter(const Placed& placed, const std::byte* packed) const;
  void gather(const Placed& placed, Bytes& packed) const;  // resized to the elements of the tensor
  void prefill(const Placed& placed, GuardFill fill) const;
  // Packed index of the first element that differs from `packed`; -1 when none does.
  std::int64_t first_difference(const Placed& placed, const std::byte* packed) const;
  std::vector<GuardDamage> damage(GuardFill guard) const;

 private:
  struct Reservation {
    std::byte* address = nullptr;
    std::size_t size = 0;
  };
  void place_dense(const std::vector<Layout>& layouts, std::int64_t overrun_rows);
  void map_sparse(Placed& placed, GuardFill guard);
  void release_sparse();

  std::vector<Placed> placed_;
  std::byte* buffer_ = nullptr;
  std::size_t capacity_ = 0;
  std::vector<Reservation> reservations_;
};

}  // namespace tileproof

#endif
