#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "generate/rapidcheck.h"
#include "memory/arena.h"
#include "memory/canary.h"
#include "memory/recipes.h"

namespace tileproof {
namespace {

class ArenaTest : public ::testing::Test {};

const char kPadded[] =
    "mla_rope_q_fwd dtype=bf16 layout=sbhd seq=3 batch=2 head_num=5 nope_dim=3 emb_dim=8 inverse=0 "
    "remove_interleaving=0 pad_seq=7 pad_head=5 shift=1 data=normal:3 | block_h=4";

const Placed& placed_named(Arena& arena, std::string_view name) {
  for (const Placed& placed : arena.tensors()) {
    if (placed.layout.shape.spec->name == name) {
      return placed;
    }
  }
  throw std::logic_error("no such tensor");
}

Memory arbitrary_memory() {
  Memory memory;
  memory.guard = *rc::gen::element(GuardFill::finite, GuardFill::nan);
  memory.strides = *rc::gen::element(Strides::as_case, Strides::contiguous, Strides::padded, Strides::sliced);
  memory.extra_shift = *rc::gen::inRange(0, 4);
  return memory;
}

RC_GTEST_FIXTURE_PROP(ArenaTest, ScatterThenGatherIsTheIdentityAndTouchesNoGuard, ()) {
  const Problem problem = (*arbitrary_case()).problem;
  const Memory memory = arbitrary_memory();
  HostTensors inputs;
  make_inputs(problem, inputs);
  Arena arena;
  arena.prepare(lay_out(problem, memory), memory.guard, 4);
  for (const Placed& placed : arena.tensors()) {
    const HostTensor& input = inputs[placed.layout.shape.index];
    if (placed.layout.shape.spec->role == Role::out) {
      continue;
    }
    arena.scatter(placed, input.bytes.data());
    RC_ASSERT(arena.first_difference(placed, input.bytes.data()) == -1);
    // Along a stride of 0 the packed copy keeps only index 0, which the recipe repeats; elsewhere all bytes return.
    HostTensor back = input;
    std::fill(back.bytes.begin(), back.bytes.end(), std::byte{0});
    arena.gather(placed, back.bytes);
    if (problem.choice("broadcast") == "none") {
      RC_ASSERT(back.bytes == input.bytes);
    }
  }
  RC_ASSERT(arena.damage(memory.guard).empty());
}

// Every byte of the guards is watched, under both patterns: flip any one and the report names just that byte.
RC_GTEST_FIXTURE_PROP(ArenaTest, OneFlippedByteAnywhereInAGuardIsFound, ()) {
  const Problem problem = parse_case(kPadded).problem;
  Memory memory = arbitrary_memory();
  Arena arena;
  arena.prepare(lay_out(problem, memory), memory.guard, 4);
  const auto pick = *rc::gen::inRange<std::size_t>(0, arena.tensors().size());
  const Placed& placed = arena.tensors()[pick];
  const auto element = static_cast<std::int64_t>(size_of(placed.layout.shape.dtype));
  std::vector<bool> declared(static_cast<std::size_t>(placed.layout.extent * element), false);
  for_each_piece(placed.layout, [&](std::int64_t offset, std::int64_t, std::int64_t count) {
    std::fill_n(declared.begin() + offset * element, count * element, true);
  });
  const auto low = -static_cast<std::int64_t>(placed.before);
  const auto high = placed.layout.extent * element + static_cast<std::int64_t>(placed.after);
  const auto byte = *rc::gen::inRange<std::int64_t>(low, high);
  const bool inside = byte >= 0 && byte < std::ssize(declared) && declared[static_cast<std::size_t>(byte)];
  placed.base[byte] ^= std::byte{1};
  const std::vector<GuardDamage> damage = arena.damage(memory.guard);
  RC_ASSERT(damage.size() == (inside ? 0U : 1U));
  if (!inside) {
    RC_ASSERT(damage[0].tensor == placed.layout.shape.index);
    RC_ASSERT(damage[0].bytes == 1);
    RC_ASSERT(damage[0].first_byte == byte);
    RC_ASSERT(damage[0].last_byte == byte);
  }
}

TEST_F(ArenaTest, AGuardReportNamesTensorCoordinatesBytesAndRowsPastTheBound) {
  const Problem problem = parse_case(kPadded).problem;
  Arena arena;
  arena.prepare(lay_out(problem, {}), GuardFill::finite, 4);
  const Placed& q = placed_named(arena, "q");
  // Head rows are 11 elements 16 apart, tokens 87 apart. Two elements in "head 5 and 6" of the last token.
  ASSERT_EQ(q.layout.strides[1], 16);
  ASSERT_EQ(q.layout.strides[0], 87);
  const std::int64_t first = 5 * 87 + 5 * 16 + 3;
  const std::int64_t second = 5 * 87 + 6 * 16;
  for (const std::int64_t element : {first, second}) {
    q.base[element * 2] ^= std::byte{0x10};
  }
  const std::vector<GuardDamage> damage = arena.damage(GuardFill::finite);
  ASSERT_EQ(damage.size(), 1U);
  EXPECT_EQ(damage[0].where, "after");
  EXPECT_EQ(damage[0].elements, (std::vector<std::int64_t>{first, second}));
  EXPECT_EQ(damage[0].first_byte, 2 * first);
  EXPECT_NE(damage[0].text.find("q[token=5, head=5, dim=3], 1 past the last head (4)"), std::string::npos)
      << damage[0].text;
}

TEST_F(ArenaTest, SparseTensorsPassTwoToThe31ElementsWithFewResidentPages) {
  const Problem problem =
      parse_case(
          "mla_rope_q_fwd dtype=f32 layout=sbhd seq=3 batch=1 head_num=2 nope_dim=4 emb_dim=8 inverse=0 "
          "remove_interleaving=0 sparse=token:31 data=normal:1 | block_h=2")
          .problem;
  Arena arena;
  arena.prepare(lay_out(problem, {}), GuardFill::nan, 2);
  const Placed& q = placed_named(arena, "q");
  EXPECT_GT(2 * q.layout.strides[0], std::int64_t{1} << 31);
  EXPECT_TRUE(arena.damage(GuardFill::nan).empty());
  const std::int64_t past_first_row = std::int64_t{2} * 12 * 4;
  q.base[past_first_row] ^= std::byte{1};
  ASSERT_EQ(arena.damage(GuardFill::nan).size(), 1U);
  EXPECT_EQ(arena.damage(GuardFill::nan)[0].first_byte, past_first_row);
  std::int64_t mapped = 0;
  for (const auto& [from, to] : q.mapped) {
    mapped += to - from;
  }
  EXPECT_LE(mapped, 16 * 4096);
}

TEST(Canary, NoElementOfOnePatternEqualsTheOther) {
  for (std::size_t at = 0; at < kCanaryPeriod; at += 2) {
    const bool same = canary_byte(GuardFill::finite, at) == canary_byte(GuardFill::nan, at) &&
                      canary_byte(GuardFill::finite, at + 1) == canary_byte(GuardFill::nan, at + 1);
    EXPECT_FALSE(same) << at;
  }
}

}  // namespace
}  // namespace tileproof
