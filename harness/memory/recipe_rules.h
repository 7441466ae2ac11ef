// The recipes (recipes.h) as formulas over one element, for the host and for devices: integer arithmetic, and bit
// patterns from tables that the host makes. So a device that fills tensors by itself gives the bits that the host
// gives. C++17, since compilers of kernels read it.
#ifndef TILEPROOF_MEMORY_RECIPE_RULES_H
#define TILEPROOF_MEMORY_RECIPE_RULES_H

#include <cstdint>

#include "memory/counter_random.h"

namespace tileproof {

enum class Recipe : std::int32_t { exact, normal, index, special };

// Bell-shaped values are made once and copied in runs: a run starts at a place of the pool that hangs on seed, tensor
// and number of the run, so that rows differ, and copying costs a tenth of generating.
constexpr std::uint32_t kPoolSize = 1U << 17U;
constexpr std::uint32_t kRun = 64;

constexpr std::uint32_t kSpecials = 10;

// The whole numbers that `exact` and the 16-bit types of `index` need.
constexpr std::int32_t kLeastWhole = -8;
constexpr std::int32_t kMostWhole = 2039;
constexpr std::uint32_t kWholes = kMostWhole - kLeastWhole + 1;

// What one tensor holds: a function of the packed index of an element.
struct RecipeRule {
  Recipe recipe = Recipe::exact;
  std::uint32_t key = 0;
  // Heads of the tensor and elements behind one; 1 head where it has no such axis.
  std::uint32_t heads = 1;
  std::uint32_t head_elements = 1;
  // Of `index`: what is added to the number of an element, and where numbers wrap.
  std::uint32_t offset = 0;
  std::uint32_t modulus = 1;
  // Along an axis that is broadcast all elements are that of index 0: its length, and elements behind one index of it.
  std::uint32_t level_length = 1;
  std::uint32_t level_elements = 1;
};

// The element that holds what `i` holds.
constexpr std::uint32_t level(const RecipeRule& rule, std::uint32_t i) {
  if (rule.level_length == 1) {
    return i;
  }
  const std::uint32_t block = rule.level_length * rule.level_elements;
  return i / block * block + i % rule.level_elements;
}

constexpr std::uint32_t run_start(std::uint32_t key, std::uint32_t begin) { return mix32(key + begin) % kPoolSize; }

// Place in the pool of bell-shaped values.
constexpr std::uint32_t normal_place(const RecipeRule& rule, std::uint32_t i) {
  return run_start(rule.key, i / kRun * kRun) + i % kRun;
}

// Heads 2k and 2k+1 hold v and -v with |v| <= 7; one element in sixteen is 1 larger, so that heads are no mere copies.
constexpr std::int32_t exact_value(const RecipeRule& rule, std::uint32_t i) {
  const bool odd = (i / rule.head_elements % rule.heads & 1U) != 0;
  const std::uint32_t base = odd ? i - rule.head_elements : i;
  const std::int32_t value = static_cast<std::int32_t>(mix32(rule.key + base) % 15U) - 7;
  const std::int32_t extra = rule.heads > 1 && mix32(rule.key + 0x1234567U + i) % 16U == 0 ? 1 : 0;
  return (odd ? -value : value) + extra;
}

constexpr std::int32_t index_value(const RecipeRule& rule, std::uint32_t i) {
  return static_cast<std::int32_t>((i + rule.offset) % rule.modulus) + 1;
}

// Which of the special values an element is; kSpecials: none, but a bell-shaped one.
constexpr std::uint32_t special_pick(const RecipeRule& rule, std::uint32_t i) {
  const std::uint32_t draw = mix32(rule.key + 0x77777777U + i);
  return draw % 8U == 0 ? (draw >> 8) % kSpecials : kSpecials;
}

// The bit patterns that the formulas choose from, per type; Bits is std::uint32_t or std::uint16_t. Whole numbers of
// f32 are converted instead, which is exact.
template <typename Bits>
struct RecipeTables {
  const Bits* pool;      // [kPoolSize + kRun]
  const Bits* specials;  // [kSpecials]
  const Bits* wholes;    // [kWholes]; null for f32
};

}  // namespace tileproof

#endif
