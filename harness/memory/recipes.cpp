#include "memory/recipes.h"

#include <algorithm>
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

// Bell-shaped values are made once and copied in runs: a run starts at a place of the pool that hangs on seed, tensor
// and number of the run, so that rows differ, and copying costs a tenth of generating.
constexpr std::uint32_t kPoolSize = 1U << 17U;
constexpr std::uint32_t kRun = 64;

template <typename T, typename Convert>
std::vector<T> make_pool(Convert convert) {
  std::vector<T> pool(kPoolSize + kRun);
  for (std::uint32_t i = 0; i < pool.size(); ++i) {
    pool[i] = convert(bell(0x7113bf05U, i));
  }
  return pool;
}

template <typename T>
void copy_runs(std::uint32_t key, const std::vector<T>& pool, std::span<T> to) {
  for (std::size_t begin = 0; begin < to.size(); begin += kRun) {
    const std::uint32_t start = mix32(key + static_cast<std::uint32_t>(begin)) % kPoolSize;
    std::copy_n(pool.data() + start, std::min<std::size_t>(kRun, to.size() - begin), to.data() + begin);
  }
}

void fill_normal(std::uint32_t key, Dtype dtype, HostTensor& out) {
  static const std::vector<float> f32 = make_pool<float>([](float value) { return value; });
  static const std::vector<std::uint16_t> f16 = make_pool<std::uint16_t>(float_to_half);
  static const std::vector<std::uint16_t> bf16 = make_pool<std::uint16_t>(float_to_bf16);
  if (dtype == Dtype::f32) {
    copy_runs(key, f32, out.as<float>());
  } else {
    copy_runs(key, dtype == Dtype::f16 ? f16 : bf16, out.as<std::uint16_t>());
  }
}

// Heads 2k and 2k+1 hold v and -v with |v| <= 7; one element in sixteen is 1 larger, so that heads are no mere copies.
void fill_exact(std::uint32_t key, const TensorShape& shape, HostTensor& out) {
  const int head_axis = shape.axis(AxisKind::head);
  std::int64_t inner = 1;
  for (int i = head_axis + 1; head_axis >= 0 && i < shape.rank; ++i) {
    inner *= shape.shape[static_cast<std::size_t>(i)];
  }
  const std::int64_t heads = head_axis < 0 ? 1 : shape.shape[static_cast<std::size_t>(head_axis)];
  const std::int64_t count = shape.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t head = i / inner % heads;
    const bool odd = head_axis >= 0 && (head & 1) != 0;
    const auto base = static_cast<std::uint32_t>(odd ? i - inner : i);
    const auto value = static_cast<std::int32_t>(mix32(key + base) % 15U) - 7;
    const std::int32_t extra = heads > 1 && mix32(key + 0x1234567U + static_cast<std::uint32_t>(i)) % 16U == 0 ? 1 : 0;
    store_element(shape.dtype, out.bytes.data(), i, (odd ? -value : value) + extra);
  }
}

// Whole numbers up to 2^24, 2^11 and 2^8 are exact in f32, f16 and bf16: the number wraps there.
void fill_index(const TensorShape& shape, HostTensor& out) {
  const std::int64_t modulus = shape.dtype == Dtype::f32 ? 1 << 24 : shape.dtype == Dtype::f16 ? 2039 : 251;
  const std::int64_t count = shape.elements();
  const auto offset = static_cast<std::int64_t>(shape.index) * 1009;
  for (std::int64_t i = 0; i < count; ++i) {
    store_element(shape.dtype, out.bytes.data(), i, static_cast<double>((i + offset) % modulus + 1));
  }
}

std::uint16_t special_half(Dtype dtype, std::uint32_t pick) {
  constexpr std::uint16_t f16[] = {0x7c00, 0xfc00, 0x7e01, 0x0001, 0x8003, 0x7bff, 0xfbff, 0x8000, 0x0400, 0x0000};
  constexpr std::uint16_t bf16[] = {0x7f80, 0xff80, 0x7fc1, 0x0001, 0x8003, 0x7f7f, 0xff7f, 0x8000, 0x0080, 0x0000};
  return dtype == Dtype::f16 ? f16[pick] : bf16[pick];
}

void sprinkle_special(std::uint32_t key, const TensorShape& shape, HostTensor& out) {
  constexpr std::uint32_t f32[] = {0x7f800000, 0xff800000, 0x7fc00001, 0x00000001, 0x80000003,
                                   0x7f7fffff, 0xff7fffff, 0x80000000, 0x00800000, 0x00000000};
  const auto count = static_cast<std::uint32_t>(shape.elements());
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t draw = mix32(key + 0x77777777U + i);
    if (draw % 8U != 0) {
      continue;
    }
    const std::uint32_t pick = (draw >> 8) % 10U;
    if (shape.dtype == Dtype::f32) {
      std::memcpy(out.bytes.data() + std::size_t{i} * 4, &f32[pick], 4);
    } else {
      const std::uint16_t bits = special_half(shape.dtype, pick);
      std::memcpy(out.bytes.data() + std::size_t{i} * 2, &bits, 2);
    }
  }
}

// Copies index 0 of the axis over the whole axis.
void level_axis(const TensorShape& shape, int axis, HostTensor& out) {
  std::int64_t inner = static_cast<std::int64_t>(size_of(shape.dtype));
  for (int i = axis + 1; i < shape.rank; ++i) {
    inner *= shape.shape[static_cast<std::size_t>(i)];
  }
  const std::int64_t length = shape.shape[static_cast<std::size_t>(axis)];
  const std::int64_t total = static_cast<std::int64_t>(out.bytes.size());
  for (std::int64_t outer = 0; outer < total; outer += inner * length) {
    for (std::int64_t i = 1; i < length; ++i) {
      std::memcpy(out.bytes.data() + outer + i * inner, out.bytes.data() + outer, static_cast<std::size_t>(inner));
    }
  }
}

}  // namespace

void fill_recipe(Recipe recipe, std::uint64_t seed, const TensorShape& shape, int broadcast_axis, HostTensor& out) {
  out.shape = shape;
  out.bytes.resize(static_cast<std::size_t>(shape.elements()) * size_of(shape.dtype));
  const std::uint32_t key = stream_key(seed, shape.index);
  switch (recipe) {
    case Recipe::exact: fill_exact(key, shape, out); break;
    case Recipe::index: fill_index(shape, out); break;
    case Recipe::normal:
    case Recipe::special: fill_normal(key, shape.dtype, out); break;
  }
  if (recipe == Recipe::special) {
    sprinkle_special(key, shape, out);
  }
  if (broadcast_axis >= 0) {
    level_axis(shape, broadcast_axis, out);
  }
}

void make_inputs(const Problem& problem, HostTensors& reuse) {
  const Operation& operation = problem.operation();
  reuse.resize(operation.tensors().size());
  std::vector<bool> filled(reuse.size(), false);
  const Value& data = problem.value("data");
  const std::int64_t broadcast = problem.integer("broadcast");
  constexpr AxisKind kinds[] = {AxisKind::entry, AxisKind::head, AxisKind::token};
  for (const TensorShape& shape : operation.shapes(problem)) {
    HostTensor& out = reuse[shape.index];
    out.shape = shape;
    filled[shape.index] = shape.spec->content == Content::operation || shape.spec->role != Role::out;
    if (shape.spec->content == Content::operation) {
      out.bytes.resize(static_cast<std::size_t>(shape.elements()) * size_of(shape.dtype));
      operation.fill(problem, shape, out);
    } else if (shape.spec->role != Role::out) {
      const int axis = broadcast != 0 && shape.spec->broadcastable ? shape.axis(kinds[broadcast]) : -1;
      fill_recipe(static_cast<Recipe>(data.number), static_cast<std::uint64_t>(data.second), shape, axis, out);
    }
  }
  for (std::size_t i = 0; i < reuse.size(); ++i) {
    if (!filled[i]) {
      reuse[i].bytes.clear();
    }
  }
}

}  // namespace tileproof
