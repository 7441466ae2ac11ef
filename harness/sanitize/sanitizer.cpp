#include "sanitize/sanitizer.h"

#include <algorithm>
#include <bit>

#include "execute/launch_limits.h"
#include "sanitize/access.h"
#include "sanitize/address_space.h"

namespace tileproof::sanitize {

Sanitizer sanitizer;

void Sanitizer::follow(const std::vector<Placed>& tensors) {
  seen_.clear();
  sightings_.clear();
  histories_.clear();
  recording_ = false;
  launched_ = false;
  if (clock_.now > kTicks / 2) {
    shadow_.clear();
    clock_.reset();
  }
  shadow_.prepare(tensors);
  cpu::watch_launches(this);
}

void Sanitizer::follow_again(const std::vector<Placed>& tensors) {
  histories_.assign(sightings_.size(), {});
  recording_ = true;
  shadow_.prepare(tensors);
  cpu::watch_launches(this);
}

void Sanitizer::unfollow() {
  live_ = false;
  cpu::watch_launches(nullptr);
  if (!recording_) {
    return;
  }
  for (std::size_t i = 0; i < sightings_.size(); ++i) {
    Sighting& sighting = sightings_[i];
    const auto& history = histories_[i];
    const auto last = std::find_if(history.rbegin(), history.rend(), [](const Access& a) { return a.store; });
    if (sighting.fault == Fault::undefined_value && last != history.rend()) {
      sighting.access = *last;
    }
  }
}

bool Sanitizer::wants_second_look() const {
  return std::any_of(sightings_.begin(), sightings_.end(), [](const Sighting& sighting) {
    return sighting.fault == Fault::race || sighting.fault == Fault::second_store ||
           sighting.fault == Fault::undefined_value;
  });
}

void Sanitizer::ask_for_store(std::uintptr_t address, std::size_t bytes) {
  Sighting sighting;
  sighting.fault = Fault::undefined_value;
  sighting.access.address = address;
  sighting.access.bytes = bytes;
  sighting.access.store = true;
  sightings_.push_back(std::move(sighting));
}

void Sanitizer::launch_begins(dim3, dim3, std::size_t shared_bytes, const void* closure) {
  shadow_.follow_shared(cpu::dynamic_shared(), shared_bytes);
  const std::span<const std::byte> fixed = static_shared_memory();
  static const auto arrays = [] {
    std::vector<std::pair<std::size_t, std::size_t>> pieces;
    for (const SharedArray& array : static_shared_arrays()) {
      pieces.emplace_back(array.offset, array.bytes);
    }
    return pieces;
  }();
  shadow_.follow_shared(fixed.data(), fixed.size(), arrays);
  arguments_ = reinterpret_cast<std::uintptr_t>(closure);
  clock_.begin_launch();
  advance();
  stack_top_ = 0;
  launched_ = true;
  live_ = true;
}

void Sanitizer::block_begins() {
  advance();
  clock_.begin_block();
}

// No stamp of this launch may be lost when ticks run out.
void Sanitizer::advance() {
  if (clock_.now + 2 >= kTicks) {
    shadow_.restart(stamp_of(clock_.launch_first, 0), stamp_of(clock_.block_first, 0));
    clock_.restart();
  }
}

namespace {

// A thread of the block that waits where `site` is not; `count` when there is none.
std::uint32_t first_elsewhere(std::uint32_t from, std::uint32_t count, std::uint32_t lanes) {
  const void* const site = cpu::waiting_at(from);
  for (std::uint32_t thread = from; thread < count; ++thread) {
    const bool member = lanes == ~0U || (lanes >> (thread % kWarp) & 1U) != 0;
    if (member && cpu::waiting_at(thread) != site) {
      return thread;
    }
  }
  return count;
}

std::uint32_t threads_of_block() { return blockDim.x * blockDim.y * blockDim.z; }

uint3 index_of(std::uint32_t thread) {
  return {thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / blockDim.x / blockDim.y};
}

Access at_wait(std::uint32_t thread) {
  Access access;
  access.thread = thread;
  access.thread_index = index_of(thread);
  access.block = blockIdx;
  access.calls[0] = cpu::waiting_at(thread);
  return access;
}

}  // namespace

void Sanitizer::barrier_passes(std::uint32_t absent, std::uint32_t waiting) {
  advance();
  clock_.pass_barrier();
  Sighting sighting;
  sighting.access = at_wait(waiting);
  if (absent > 0) {
    sighting.fault = Fault::barrier_missed;
    sighting.count = absent;
    see(std::move(sighting));
    return;
  }
  const std::uint32_t other = first_elsewhere(0, threads_of_block(), ~0U);
  if (other != threads_of_block()) {
    sighting.fault = Fault::barrier_diverged;
    sighting.access = at_wait(0);
    sighting.other = at_wait(other);
    see(std::move(sighting));
  }
}

void Sanitizer::warp_passes(std::uint32_t warp, std::uint32_t members, std::uint32_t mask, bool orders_memory) {
  if (orders_memory) {
    advance();
    clock_.sync_warp(warp, members);
  }
  const std::uint32_t first = warp * kWarp + static_cast<std::uint32_t>(std::countr_zero(members));
  const std::uint32_t end = std::min((warp + 1) * kWarp, threads_of_block());
  Sighting sighting;
  sighting.access = at_wait(first);
  if ((mask & ~members) != 0) {
    sighting.fault = Fault::warp_missed;
    sighting.count = mask & ~members;
    see(std::move(sighting));
  } else if (const std::uint32_t other = first_elsewhere(first, end, members); other != end) {
    sighting.fault = Fault::warp_diverged;
    sighting.other = at_wait(other);
    see(std::move(sighting));
  }
}

void Sanitizer::launch_is_stuck(std::span<const std::uint32_t> threads) {
  Sighting sighting;
  sighting.fault = Fault::stuck;
  sighting.access = at_wait(threads.front());
  if (threads.size() > 1) {
    sighting.other = at_wait(threads.back());
  }
  sighting.text = cpu::last_error();
  see(std::move(sighting));
}

void Sanitizer::fence() {
  if (live_) {
    advance();
    clock_.fence(cpu::running_thread);
  }
}

// What it reads of an output must have been written; but for that it counts as a store.
void Sanitizer::atomic(const void* address, std::size_t bytes, void* frame) {
  if (!live_) {
    return;
  }
  const Touch touch{reinterpret_cast<std::uintptr_t>(address), bytes, true, true};
  clock_.atomic(cpu::running_thread, address);
  const Region* const region = shadow_.find(touch.address);
  if (region != nullptr) {
    const std::size_t granule = (touch.address - region->low) >> region->shift;
    const Tick oldest = region->of_block ? clock_.block_first : clock_.launch_first;
    if ((region->owners[granule] & kUnwritten) != 0 && tick_of(region->stores[granule]) < oldest) {
      see(Fault::unwritten, {touch.address, bytes, false, true}, static_cast<void**>(frame));
    }
  }
  access(touch, static_cast<void**>(frame));
}

// Whether earlier loads and a store of the running thread now are unordered.
bool Sanitizer::loads_conflict(const Region& region, Stamp loads) const {
  const Tick tick = tick_of(loads);
  const std::uint32_t thread = thread_of(loads);
  if (!region.of_block && ((loads & kEarlierBlocks) != 0 || tick < clock_.block_first) && !clock_.used_atomics()) {
    return true;
  }
  if (tick < clock_.block_first) {
    return !clock_.ordered(tick, thread, cpu::running_thread);
  }
  if (tick < clock_.last_barrier) {
    return false;
  }
  if ((loads & kOtherWarps) != 0 && !clock_.used_atomics()) {
    return true;  // of two warps that have loaded it, one is not this thread's
  }
  if (thread == cpu::running_thread) {
    return (loads & kOtherLanes) != 0 && tick >= clock_.last_sync(thread);
  }
  return !clock_.ordered(tick, thread, cpu::running_thread);
}

// An access of what was stored in this launch (of shared memory: in this block).
void Sanitizer::meet_store(const Region& region, Stamp store, const Touch& touch, void** frame) {
  const bool atomics = touch.atomic && (store & kAtomic) != 0;
  if (atomics) {
    return;
  }
  if (conflicts(region, store)) {
    see(Fault::race, touch, frame);
  }
  const bool same = tick_of(store) >= clock_.block_first && thread_of(store) == cpu::running_thread;
  if (touch.store && !same && !region.of_block && !touch.atomic && (store & kAtomic) == 0) {
    see(Fault::second_store, touch, frame);
  }
}

void Sanitizer::access(Touch touch, void** frame) {
  if (!live_ || touch.bytes == 0) {
    return;
  }
  const Region& dense = shadow_.dense();
  const std::size_t at = touch.address - dense.low;
  if (at < dense.bytes && touch.bytes <= dense.bytes - at) {
    touch.store ? check_pieces<true>(dense, touch, frame) : check_pieces<false>(dense, touch, frame);
  } else if (!in_own_stack(touch.address, frame)) {
    access_slowly(touch, frame);
  }
}

// In pieces that lie in one granule or fill several.
template <bool kStore>
void Sanitizer::check_pieces(const Region& region, Touch touch, void** frame) {
  const std::size_t size = std::size_t{1} << region.shift;
  const auto fits = [&](std::size_t granules) {
    return (touch.address - region.low) % size == 0 && touch.bytes >= granules * size;
  };
  while (touch.bytes > 0) {
    const std::size_t granule = (touch.address - region.low) >> region.shift;
    Touch piece = touch;
    if (fits(8)) {
      piece.bytes = 8 * size;
      check<8, kStore>(region, granule, piece, frame);
    } else if (fits(4)) {
      piece.bytes = 4 * size;
      check<4, kStore>(region, granule, piece, frame);
    } else {
      piece.bytes = std::min(touch.bytes, size - (touch.address - region.low) % size);
      check<1, kStore>(region, granule, piece, frame);
    }
    touch.address += piece.bytes;
    touch.bytes -= piece.bytes;
  }
}

void Sanitizer::access_slowly(Touch touch, void** frame) {
  if (is_argument(touch.address)) {
    return;
  }
  const Region* const region = shadow_.find(touch.address);
  if (region == nullptr || touch.bytes > region->bytes - (touch.address - region->low)) {
    elsewhere(touch, frame);
  } else if (touch.store) {
    check_pieces<true>(*region, touch, frame);
  } else {
    check_pieces<false>(*region, touch, frame);
  }
}

void Sanitizer::wrong_place(const Touch& touch, Owner owner, void** frame) {
  see(owner != 0 && touch.store && (owner & kReadOnly) != 0 ? Fault::read_only : Fault::outside, touch, frame);
  if (!is_accessible(touch.address, touch.store)) {
    cpu::abandon_launch("the kernel accesses memory that is not there");
  }
}

// Neither the arena, nor shared memory, nor a live local of the running thread.
void Sanitizer::elsewhere(const Touch& touch, void** frame) {
  if (in_program(touch.address, touch.store)) {
    return;
  }
  const std::uintptr_t own_low = stack_top_ - cpu::kStackBytes;
  const bool expired = touch.address >= own_low && touch.address < stack_top_;
  see(expired ? Fault::expired_local : Fault::wild, touch, frame);
  if (!is_accessible(touch.address, touch.store)) {
    cpu::abandon_launch("the kernel accesses memory that is not there");
  }
}

Access Sanitizer::complete(const Touch& touch, void** frame) const {
  Access access;
  static_cast<Touch&>(access) = touch;
  access.thread = cpu::running_thread;
  access.thread_index = threadIdx;
  access.block = blockIdx;
  access.tick = clock_.now;
  const auto top = reinterpret_cast<std::uintptr_t>(cpu::running_stack_top());
  for (const void*& call : access.calls) {
    const auto at = reinterpret_cast<std::uintptr_t>(frame);
    if (at % alignof(void*) != 0 || at + 2 * sizeof(void*) > top) {
      break;
    }
    call = frame[1];
    auto** const outer = static_cast<void**>(frame[0]);
    if (outer <= frame) {
      break;
    }
    frame = outer;
  }
  return access;
}

// One of each fault and place is enough, and a few more in case their other sides differ.
bool Sanitizer::is_news(Fault fault, const void* at) {
  auto seen = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& s) { return s.fault == fault && s.at == at; });
  if (seen == seen_.end()) {
    seen = seen_.insert(seen_.end(), Seen{fault, at, 0});
  }
  ++seen->count;
  return seen->count <= 512 && std::has_single_bit(seen->count) && std::countr_zero(seen->count) % 3 == 0 &&
         sightings_.size() < 64;
}

void Sanitizer::see(Fault fault, const Touch& touch, void** frame) {
  if (recording_) {
    for (std::size_t i = 0; i < sightings_.size(); ++i) {
      Sighting& sighting = sightings_[i];
      const Access& access = sighting.access;
      const bool meets = access.address < touch.address + touch.bytes && touch.address < access.address + access.bytes;
      const bool same_block =
          access.block.x == blockIdx.x && access.block.y == blockIdx.y && access.block.z == blockIdx.z;
      if (sighting.fault == fault && meets && same_block && access.calls[0] == frame[1] &&
          access.thread == cpu::running_thread && !sighting.other) {
        find_other(sighting, histories_[i]);
      }
    }
  } else if (is_news(fault, frame[1])) {
    sightings_.push_back({fault, complete(touch, frame), std::nullopt, 0, {}});
  }
}

void Sanitizer::see(Sighting sighting) {
  if (!recording_ && is_news(sighting.fault, sighting.access.calls[0])) {
    sightings_.push_back(std::move(sighting));
  }
}

void Sanitizer::record(const Touch& touch, void** frame) {
  constexpr std::size_t kLongest = 512;
  for (std::size_t i = 0; i < sightings_.size(); ++i) {
    const Access& wanted = sightings_[i].access;
    if (touch.address < wanted.address + wanted.bytes && wanted.address < touch.address + touch.bytes) {
      std::vector<Access>& history = histories_[i];
      if (history.size() == kLongest) {
        history.erase(history.begin(), history.begin() + kLongest / 2);
      }
      history.push_back(complete(touch, frame));
    }
  }
}

// The latest access that the sighting's own conflicts with.
void Sanitizer::find_other(Sighting& sighting, const std::vector<Access>& history) const {
  const bool race = sighting.fault == Fault::race;
  for (auto other = history.rbegin(); other != history.rend(); ++other) {
    const bool same_block = other->tick >= clock_.block_first;
    const bool same_thread = same_block && other->thread == cpu::running_thread;
    const bool both_atomic = other->atomic && sighting.access.atomic;
    const bool opposed = other->store || (race && sighting.access.store);
    if (!same_thread && !both_atomic && opposed &&
        !(race && clock_.ordered(other->tick, other->thread, cpu::running_thread))) {
      sighting.other = *other;
      sighting.access.address = std::max(sighting.access.address, other->address);  // where they meet
      return;
    }
  }
}

}  // namespace tileproof::sanitize
