#include "memory/recipes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "memory/counter_random.h"
#include "memory/float_bits.h"

namespace tileproof {

namespace {

// Sum of four 16-bit uniforms, refined below by 13 further bits so that every mantissa bit of a float is in use.
// Var of one uniform over [0, 2^16) is 2^32/12; of the sum of four 2^34/12; scale by sqrt(12)/2^17 for variance 1.
float bell(std::uint32_t key, std::uint32_t index) {
  const std::uint32_t a = mix32(key + index * 2U);
  const std::uint32_t b = mix32((key ^ 0x5bd1e995U) + index * 2U + 1U);
  const std::uint32_t sum = (a & 0xffffU) + (a >> 16) + (b & 0xffffU) + (b >> 16);
  const auto fine = static_cast<std::int32_t>((sum << 13) + ((a ^ (b << 7)) >> 19)) - (1 << 30);
  constexpr float kScale = 3.4641016F / (131072.0F * 8192.0F);
  return static_cast<float>(fine) * kScale;
}

std::uint32_t stream_key(std::uint64_t seed, std::size_t tensor) {
  return static_cast<std::uint32_t>(counter_hash(seed, tensor, 0));
}

template <typename Bits, typename Convert>
std::vector<Bits> make_pool(Convert convert) {
  std::vector<Bits> pool(kPoolSize + kRun);
  for (std::uint32_t i = 0; i < pool.size(); ++i) {
    pool[i] = convert(bell(0x7113bf05U, i));
  }
  return pool;
}

template <typename Bits, typename Convert>
std::vector<Bits> make_wholes(Convert convert) {
  std::vector<Bits> wholes(kWholes);
  for (std::uint32_t i = 0; i < kWholes; ++i) {
    wholes[i] = convert(static_cast<float>(kLeastWhole + static_cast<std::int32_t>(i)));
  }
  return wholes;
}

constexpr std::uint32_t kSpecials32[kSpecials] = {0x7f800000, 0xff800000, 0x7fc00001, 0x00000001, 0x80000003,
                                                  0x7f7fffff, 0xff7fffff, 0x80000000, 0x00800000, 0x00000000};
constexpr std::uint16_t kSpecialsHalf[kSpecials] = {0x7c00, 0xfc00, 0x7e01, 0x0001, 0x8003,
                                                    0x7bff, 0xfbff, 0x8000, 0x0400, 0x0000};
constexpr std::uint16_t kSpecialsBrain[kSpecials] = {0x7f80, 0xff80, 0x7fc1, 0x0001, 0x8003,
                                                     0x7f7f, 0xff7f, 0x8000, 0x0080, 0x0000};

// Runs come one by one, as the pool has them; every other recipe goes element by element.
template <typename Bits>
void fill_normal(const RecipeRule& rule, const RecipeTables<Bits>& tables, std::span<Bits> to) {
  for (std::size_t begin = 0; begin < to.size(); begin += kRun) {
    std::copy_n(tables.pool + run_start(rule.key, static_cast<std::uint32_t>(begin)),
                std::min<std::size_t>(kRun, to.size() - begin), to.data() + begin);
  }
}

template <typename Bits>
Bits whole_bits(const RecipeTables<Bits>& tables, std::int32_t value) {
  if constexpr (sizeof(Bits) == 4) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  } else {
    return tables.wholes[value - kLeastWhole];
  }
}

template <typename Bits>
void fill_bits(const RecipeRule& rule, const RecipeTables<Bits>& tables, std::span<Bits> to) {
  const auto count = static_cast<std::uint32_t>(to.size());
  switch (rule.recipe) {
    case Recipe::exact:
      for (std::uint32_t i = 0; i < count; ++i) {
        to[i] = whole_bits(tables, exact_value(rule, i));
      }
      return;
    case Recipe::index:
      for (std::uint32_t i = 0; i < count; ++i) {
        to[i] = whole_bits(tables, index_value(rule, i));
      }
      return;
    case Recipe::normal:
    case Recipe::special: fill_normal(rule, tables, to); break;
  }
  for (std::uint32_t i = 0; rule.recipe == Recipe::special && i < count; ++i) {
    const std::uint32_t pick = special_pick(rule, i);
    to[i] = pick < kSpecials ? tables.specials[pick] : to[i];
  }
}

// Copies index 0 of the axis that is broadcast over the whole axis.
void level_axis(const RecipeRule& rule, std::size_t element_bytes, std::span<std::byte> to) {
  const std::size_t inner = element_bytes * rule.level_elements;
  for (std::size_t outer = 0; outer < to.size(); outer += inner * rule.level_length) {
    for (std::size_t i = 1; i < rule.level_length; ++i) {
      std::memcpy(to.data() + outer + i * inner, to.data() + outer, inner);
    }
  }
}

void fill_by_recipe(const Problem& problem, const TensorShape& shape, HostTensor& out) {
  const RecipeRule rule = recipe_rule(problem, shape);
  out.shape = shape;
  out.bytes.resize(static_cast<std::size_t>(shape.elements()) * size_of(shape.dtype));
  if (size_of(shape.dtype) == 4) {
    fill_bits(rule, recipe_tables_32(), out.as<std::uint32_t>());
  } else {
    fill_bits(rule, recipe_tables_16(shape.dtype), out.as<std::uint16_t>());
  }
  level_axis(rule, size_of(shape.dtype), out.as<std::byte>());
}

}  // namespace

RecipeTables<std::uint32_t> recipe_tables_32() {
  static const auto pool = make_pool<std::uint32_t>([](float value) { return std::bit_cast<std::uint32_t>(value); });
  return {pool.data(), kSpecials32, nullptr};
}

RecipeTables<std::uint16_t> recipe_tables_16(Dtype dtype) {
  static const auto half_pool = make_pool<std::uint16_t>(float_to_half);
  static const auto brain_pool = make_pool<std::uint16_t>(float_to_bf16);
  static const auto half_wholes = make_wholes<std::uint16_t>(float_to_half);
  static const auto brain_wholes = make_wholes<std::uint16_t>(float_to_bf16);
  return dtype == Dtype::f16 ? RecipeTables<std::uint16_t>{half_pool.data(), kSpecialsHalf, half_wholes.data()}
                             : RecipeTables<std::uint16_t>{brain_pool.data(), kSpecialsBrain, brain_wholes.data()};
}

RecipeRule recipe_rule(const Problem& problem, const TensorShape& shape) {
  const auto elements_behind = [&shape](int axis) {
    std::int64_t count = 1;
    for (int i = axis + 1; i < shape.rank; ++i) {
      count *= shape.shape[static_cast<std::size_t>(i)];
    }
    return static_cast<std::uint32_t>(count);
  };
  const auto length = [&shape](int axis) {
    return static_cast<std::uint32_t>(shape.shape[static_cast<std::size_t>(axis)]);
  };
  const Value& data = problem.value("data");
  RecipeRule rule;
  rule.recipe = static_cast<Recipe>(data.number);
  rule.key = stream_key(static_cast<std::uint64_t>(data.second), shape.index);
  if (const int axis = shape.axis(AxisKind::head); axis >= 0) {
    rule.heads = length(axis);
    rule.head_elements = elements_behind(axis);
  }
  // Whole numbers up to 2^24, 2^11 and 2^8 are exact in f32, f16 and bf16: the number wraps there.
  rule.modulus = shape.dtype == Dtype::f32 ? 1U << 24U : shape.dtype == Dtype::f16 ? kMostWhole : 251U;
  rule.offset = static_cast<std::uint32_t>(shape.index) * 1009U;
  constexpr AxisKind kinds[] = {AxisKind::entry, AxisKind::head, AxisKind::token};
  const std::int64_t broadcast = problem.integer("broadcast");
  if (const int axis = broadcast != 0 && shape.spec->broadcastable ? shape.axis(kinds[broadcast]) : -1; axis >= 0) {
    rule.level_length = length(axis);
    rule.level_elements = elements_behind(axis);
  }
  return rule;
}

void make_operation_inputs(const Problem& problem, HostTensors& reuse) {
  const Operation& operation = problem.operation();
  reuse.resize(operation.tensors().size());
  for (HostTensor& tensor : reuse) {
    tensor.shape = {};
    tensor.bytes.clear();
  }
  for (const TensorShape& shape : operation.shapes(problem)) {
    HostTensor& out = reuse[shape.index];
    out.shape = shape;
    if (shape.spec->content == Content::operation) {
      out.bytes.resize(static_cast<std::size_t>(shape.elements()) * size_of(shape.dtype));
      operation.fill(problem, shape, out);
    }
  }
}

void complete_inputs(const Problem& problem, HostTensors& inputs, std::vector<Bytes>* spare) {
  for (HostTensor& tensor : inputs) {
    if (!is_made_by_recipe(tensor.shape) || !tensor.bytes.empty()) {
      continue;
    }
    if (spare != nullptr && !spare->empty()) {
      tensor.bytes = std::move(spare->back());
      spare->pop_back();
    }
    fill_by_recipe(problem, tensor.shape, tensor);
  }
}

void recycle_inputs(HostTensors& inputs, std::vector<Bytes>& spare) {
  for (HostTensor& tensor : inputs) {
    if (is_made_by_recipe(tensor.shape) && !tensor.bytes.empty()) {
      tensor.bytes.clear();
      spare.push_back(std::move(tensor.bytes));
    }
  }
}

void make_inputs(const Problem& problem, HostTensors& reuse) {
  make_operation_inputs(problem, reuse);
  complete_inputs(problem, reuse);
}

}  // namespace tileproof
