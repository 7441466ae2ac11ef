#include "memory/canary.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "memory/counter_random.h"

namespace tileproof {

namespace {

using Table = std::array<std::byte, 2 * kCanaryPeriod>;

Table make_table(GuardFill fill) {
  Table table{};
  for (std::size_t word = 0; word < kCanaryPeriod / 2; ++word) {
    const auto random = static_cast<std::uint32_t>(counter_hash(0x9a7d, static_cast<std::uint64_t>(fill), word));
    // finite: exponents of roughly 1..8 in bf16 and f32, 0.5..8 in f16. nan: all exponent bits, a mantissa bit set.
    const std::uint32_t bits =
        fill == GuardFill::finite ? 0x3f80U + random % 0x0180U + ((random >> 16) & 0x8000U) : 0xff81U + random % 0x7eU;
    const std::byte low{static_cast<unsigned char>(bits & 0xffU)};
    const std::byte high{static_cast<unsigned char>(bits >> 8)};
    for (const std::size_t copy : {std::size_t{0}, kCanaryPeriod}) {
      table[copy + 2 * word] = low;
      table[copy + 2 * word + 1] = high;
    }
  }
  return table;
}

const Table& table_of(GuardFill fill) {
  static const Table finite = make_table(GuardFill::finite);
  static const Table nan = make_table(GuardFill::nan);
  return fill == GuardFill::finite ? finite : nan;
}

}  // namespace

void paint_canary(GuardFill fill, std::byte* to, std::size_t at, std::size_t count) {
  const Table& table = table_of(fill);
  while (count > 0) {
    const std::size_t phase = at % kCanaryPeriod;
    const std::size_t chunk = std::min(count, 2 * kCanaryPeriod - phase);
    std::memcpy(to, table.data() + phase, chunk);
    to += chunk;
    at += chunk;
    count -= chunk;
  }
}

std::size_t first_damage(GuardFill fill, const std::byte* from, std::size_t at, std::size_t count) {
  const Table& table = table_of(fill);
  std::size_t done = 0;
  while (done < count) {
    const std::size_t phase = (at + done) % kCanaryPeriod;
    const std::size_t chunk = std::min(count - done, 2 * kCanaryPeriod - phase);
    if (std::memcmp(from + done, table.data() + phase, chunk) != 0) {
      for (std::size_t i = 0; i < chunk; ++i) {
        if (from[done + i] != table[phase + i]) {
          return done + i;
        }
      }
    }
    done += chunk;
  }
  return count;
}

std::byte canary_byte(GuardFill fill, std::size_t at) { return table_of(fill)[at % kCanaryPeriod]; }

}  // namespace tileproof
