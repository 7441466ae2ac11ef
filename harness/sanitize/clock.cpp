#include "sanitize/clock.h"

#include <algorithm>

namespace tileproof::sanitize {

void Clock::sync_warp(std::uint32_t warp, std::uint32_t members) {
  ++now;
  std::array<Tick, kWarp> joined{};
  for (std::uint32_t lanes = members; lanes != 0; lanes &= lanes - 1) {
    const auto& row = synced_[warp * kWarp + static_cast<std::uint32_t>(std::countr_zero(lanes))];
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      joined[lane] = std::max(joined[lane], row[lane]);
    }
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    joined[lane] = (members >> lane & 1U) != 0 ? now : joined[lane];
  }
  for (std::uint32_t lanes = members; lanes != 0; lanes &= lanes - 1) {
    synced_[warp * kWarp + static_cast<std::uint32_t>(std::countr_zero(lanes))] = joined;
  }
}

void Clock::fence(std::uint32_t thread) {
  ++now;
  Releases releases = known_to_all_;
  if (const auto known = known_.find(thread); known != known_.end()) {
    releases.insert(releases.end(), known->second.begin(), known->second.end());
  }
  releases.push_back({block_first, last_barrier, now, thread});
  fenced_[thread] = std::move(releases);
}

// An atomic takes over what those before it on the same address handed on, and hands on what its thread's last fence
// covers: the pattern of the last block that sums what the others stored.
void Clock::atomic(std::uint32_t thread, const void* address) {
  Releases& handed = handed_on_[address];
  if (!handed.empty()) {
    used_atomics_ = true;
    Releases& known = known_[thread];
    known.insert(known.end(), handed.begin(), handed.end());
  }
  const auto fenced = fenced_.find(thread);
  const bool is_news =
      fenced != fenced_.end() && (handed.empty() || handed.back().fence != fenced->second.back().fence);
  if (is_news) {
    handed.insert(handed.end(), fenced->second.begin(), fenced->second.end());
  }
}

bool Clock::released_to(Tick tick, std::uint32_t by, std::uint32_t thread) const {
  const auto covers = [&](const Released& released) {
    return tick >= released.block_first &&
           (tick < released.barrier || (by == released.thread && tick < released.fence));
  };
  const auto known = known_.find(thread);
  return std::any_of(known_to_all_.begin(), known_to_all_.end(), covers) ||
         (known != known_.end() && std::any_of(known->second.begin(), known->second.end(), covers));
}

}  // namespace tileproof::sanitize
