// The path that every access takes; what is rare lies in sanitizer.cpp.
#ifndef TILEPROOF_SANITIZE_ACCESS_H
#define TILEPROOF_SANITIZE_ACCESS_H

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <cstring>

#include "execute/launch_limits.h"
#include "sanitize/sanitizer.h"

namespace tileproof::sanitize {

namespace detail {

template <std::size_t kCount>
bool same_owner(const Owner* owners) {
  if constexpr (kCount == 8) {
    std::uint64_t all = 0;
    std::memcpy(&all, owners, sizeof all);
    return all == owners[0] * 0x0101010101010101U;
  }
  bool same = true;
  for (std::size_t i = 1; i < kCount; ++i) {
    same = same && owners[i] == owners[0];
  }
  return same;
}

// Whether one stamp stands for all: they are all from before `oldest`, which is as good as none, or equal.
template <std::size_t kCount>
bool uniform(const Stamp* stamps, Stamp oldest) {
#ifdef __AVX2__
  if constexpr (kCount == 8) {  // most accesses that are many
    const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(stamps));
    const __m256i no_older =
        _mm256_cmpeq_epi32(all, _mm256_max_epu32(all, _mm256_set1_epi32(static_cast<int>(oldest))));
    const __m256i equal = _mm256_cmpeq_epi32(all, _mm256_set1_epi32(static_cast<int>(stamps[0])));
    return _mm256_movemask_epi8(no_older) == 0 || _mm256_movemask_epi8(equal) == -1;
  }
  if constexpr (kCount == 4) {
    const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(stamps));
    const __m128i no_older = _mm_cmpeq_epi32(all, _mm_max_epu32(all, _mm_set1_epi32(static_cast<int>(oldest))));
    const __m128i equal = _mm_cmpeq_epi32(all, _mm_set1_epi32(static_cast<int>(stamps[0])));
    return _mm_movemask_epi8(no_older) == 0 || _mm_movemask_epi8(equal) == 0xffff;
  }
#endif
  Stamp largest = stamps[0];
  Stamp differ = 0;
  for (std::size_t i = 1; i < kCount; ++i) {
    largest = stamps[i] > largest ? stamps[i] : largest;
    differ |= stamps[i] ^ stamps[0];
  }
  return largest < oldest || differ == 0;
}

template <std::size_t kCount>
void fill(Stamp* stamps, Stamp value) {
  for (std::size_t i = 0; i < kCount; ++i) {
    stamps[i] = value;
  }
}

}  // namespace detail

// Whether the last store and an access of the running thread now are unordered.
inline bool Sanitizer::conflicts(const Region& region, Stamp store) const {
  const bool same_block = tick_of(store) >= clock_.block_first;
  return !(same_block && thread_of(store) == cpu::running_thread) &&
         !(same_block && tick_of(store) < clock_.last_barrier) && (!region.of_block || same_block) &&
         !clock_.ordered(tick_of(store), thread_of(store), cpu::running_thread);
}

// What a granule's loads are after one more by the running thread.
inline Stamp Sanitizer::after_load(const Region& region, Stamp loads, Stamp mine) const {
  constexpr Stamp kOthers = kOtherLanes | kOtherWarps;
  const Stamp block = stamp_of(clock_.block_first, 0);
  if (loads < block) {
    return region.of_block || loads < stamp_of(clock_.launch_first, 0) ? mine : mine | kEarlierBlocks;
  }
  const Stamp earlier = loads & kEarlierBlocks;
  if (tick_of(loads) < clock_.last_barrier) {
    return mine | earlier;
  }
  const std::uint32_t thread = thread_of(loads);
  if (thread == cpu::running_thread) {
    return mine | earlier | (loads & kOthers);
  }
  if (thread / kWarp != cpu::running_thread / kWarp) {
    return mine | earlier | (loads & kOthers) | kOtherWarps;
  }
  const bool ordered = clock_.ordered(tick_of(loads), thread, cpu::running_thread);
  return mine | earlier | (ordered ? loads & kOtherWarps : (loads & kOthers) | kOtherLanes);
}

// The stamp that the running thread leaves: in `stores` for a store, in `loads` for a load.
template <bool kStore>
inline Stamp Sanitizer::next_stamp(const Region& region, Stamp store, Stamp loads, Owner owner, const Touch& touch,
                                   void** frame) {
  const Stamp oldest = stamp_of(region.of_block ? clock_.block_first : clock_.launch_first, 0);
  const Stamp part = touch.bytes < (std::size_t{1} << region.shift) ? kPart : 0;
  const Stamp mine = stamp_of(clock_.now, cpu::running_thread) | part;
  if (store >= oldest && (store & part) == 0) {
    meet_store(region, store, touch, frame);
  }
  if constexpr (kStore) {
    if (loads >= oldest && (loads & part) == 0 && loads_conflict(region, loads)) {
      see(Fault::race, touch, frame);
    }
    return touch.atomic ? mine | kAtomic : mine;
  } else {
    if ((owner & kUnwritten) != 0 && store < oldest) {
      see(Fault::unwritten, touch, frame);
    }
    return loads < oldest ? mine : after_load(region, loads, mine);
  }
}

template <std::size_t kGranules, bool kStore>
inline __attribute__((always_inline)) void Sanitizer::check(const Region& region, std::size_t granule,
                                                            const Touch& touch, void** frame) {
  const Owner owner = region.owners[granule];
  if (owner == 0 || (kStore && (owner & kReadOnly) != 0) || !detail::same_owner<kGranules>(region.owners + granule)) {
    wrong_place(touch, owner, frame);
    return;
  }
  Stamp* const stores = region.stores + granule;
  Stamp* const loads = region.loads + granule;
  Stamp* const own = kStore ? stores : loads;
  const Stamp oldest = stamp_of(region.of_block ? clock_.block_first : clock_.launch_first, 0);
  if (detail::uniform<kGranules>(stores, oldest) && detail::uniform<kGranules>(loads, oldest)) {
    detail::fill<kGranules>(own, next_stamp<kStore>(region, stores[0], loads[0], owner, touch, frame));
  } else {
    check_apart<kStore>(region, granule, kGranules, touch, frame);
  }
  if (recording_) {
    record(touch, frame);
  }
}

// Granules that were not accessed alike.
template <bool kStore>
__attribute__((noinline)) void Sanitizer::check_apart(const Region& region, std::size_t granule, std::size_t count,
                                                      const Touch& touch, void** frame) {
  const std::size_t bytes = std::size_t{1} << region.shift;
  for (std::size_t i = 0; i < count; ++i) {
    const Touch one{touch.address + i * bytes, count == 1 ? touch.bytes : bytes, touch.store, touch.atomic};
    Stamp* const own = (kStore ? region.stores : region.loads) + granule + i;
    *own = next_stamp<kStore>(region, region.stores[granule + i], region.loads[granule + i], region.owners[granule],
                              one, frame);
  }
}

inline bool Sanitizer::in_own_stack(std::uintptr_t address, void** frame) {
  const auto low = reinterpret_cast<std::uintptr_t>(frame);
  if (low >= stack_top_ || stack_top_ - low > cpu::kStackBytes) {
    stack_top_ = reinterpret_cast<std::uintptr_t>(cpu::running_stack_top());
  }
  return address >= low && address < stack_top_;
}

template <std::size_t kBytes, bool kStore>
inline __attribute__((always_inline)) void Sanitizer::access(const void* address, void** frame) {
  if (!live_) {
    return;
  }
  const Touch touch{reinterpret_cast<std::uintptr_t>(address), kBytes, kStore, false};
  const Region& dense = shadow_.dense();
  const std::size_t at = touch.address - dense.low;
  const bool inside = at < dense.bytes && at + kBytes <= dense.bytes;
  if (kBytes >= 4 && inside && dense.shift == 2 && at % 4 == 0) {
    check<(kBytes >= 4 ? kBytes / 4 : 1), kStore>(dense, at / 4, touch, frame);
  } else if (kBytes >= 2 && inside && dense.shift == 1 && at % 2 == 0) {
    check<(kBytes >= 2 ? kBytes / 2 : 1), kStore>(dense, at / 2, touch, frame);
  } else if (!in_own_stack(touch.address, frame)) {
    access_slowly(touch, frame);
  }
}

}  // namespace tileproof::sanitize

#endif
