// Pairs (x1, x2) of a rope row, the two layouts they are stored in, and their rotation.
//
//   interleaved   x1[0] x2[0] x1[1] x2[1] ...          split halves   x1[0] x1[1] ... | x2[0] x2[1] ...
//
// Arithmetic is f32 with every rounding written out (no contraction), so that each build gives the same bits.
#ifndef TILEPROOF_KERNELS_MLA_ROPE_ROTATION_CUH
#define TILEPROOF_KERNELS_MLA_ROPE_ROTATION_CUH

#include "elements.cuh"

namespace {

// Pairs per thread: one vector of each split half, two vectors of interleaved pairs.
template <typename T>
constexpr int kPairs = kVectorBytes / sizeof(T);

// Heads whose pairs a thread holds in registers while it waits for the others to load theirs.
constexpr int kHeadsPerThread = 4;

// The pairs [first, first + count) of a row of `half` pairs, handled by one thread.
struct Chunk {
  int first;
  int count;
  int half;
};

// The threads of one threadIdx.y cover one row, each with kPairs pairs.
template <typename T>
__device__ inline Chunk chunk_of_thread(int emb_dim) {
  const int half = emb_dim / 2;
  const int first = threadIdx.x * kPairs<T>;
  return {first, half - first < kPairs<T> ? half - first : kPairs<T>, half};
}

template <typename T, int N>
struct Pairs {
  Packet<T, N> left;
  Packet<T, N> right;
};

template <typename T, int N = kPairs<T>>
__device__ inline Pairs<T, N> load_pairs(const T* rope, const Chunk& chunk, bool interleaved, int64_t stride = 1) {
  if (!interleaved) {
    return {load<N>(rope + chunk.first * stride, stride, chunk.count),
            load<N>(rope + (chunk.half + chunk.first) * stride, stride, chunk.count)};
  }
  // One vector after the other: what moves as one vector stays in one register, on the host too.
  const T* const row = rope + 2 * chunk.first * stride;
  const Packet<T, N> front = load<N>(row, stride, min(2 * chunk.count, N));
  const Packet<T, N> back = load<N>(row + N * stride, stride, max(2 * chunk.count - N, 0));
  Pairs<T, N> pairs;
  for (int i = 0; i < N / 2; ++i) {
    pairs.left.lane[i] = front.lane[2 * i];
    pairs.right.lane[i] = front.lane[2 * i + 1];
    pairs.left.lane[N / 2 + i] = back.lane[2 * i];
    pairs.right.lane[N / 2 + i] = back.lane[2 * i + 1];
  }
  return pairs;
}

template <typename T, int N>
__device__ inline void store_pairs(T* rope, const Chunk& chunk, bool interleaved, const Pairs<T, N>& pairs,
                                   int64_t stride = 1) {
  if (!interleaved) {
    store<N>(rope + chunk.first * stride, stride, chunk.count, pairs.left);
    store<N>(rope + (chunk.half + chunk.first) * stride, stride, chunk.count, pairs.right);
    return;
  }
  Packet<T, N> front;
  Packet<T, N> back;
  for (int i = 0; i < N / 2; ++i) {
    front.lane[2 * i] = pairs.left.lane[i];
    front.lane[2 * i + 1] = pairs.right.lane[i];
    back.lane[2 * i] = pairs.left.lane[N / 2 + i];
    back.lane[2 * i + 1] = pairs.right.lane[N / 2 + i];
  }
  T* const row = rope + 2 * chunk.first * stride;
  store<N>(row, stride, min(2 * chunk.count, N), front);
  store<N>(row + N * stride, stride, max(2 * chunk.count - N, 0), back);
}

// cos and sin, both [max_seq, emb_dim]; the two halves of a table row may differ.
template <typename Table>
struct Tables {
  const Table* cos;
  const Table* sin;
  int64_t cos_stride;  // between rows
  int64_t sin_stride;
  bool inverse;  // rotate the other way
};

template <int N>
struct Angles {
  float cos_left[N], cos_right[N];
  float sin_left[N], sin_right[N];
};

template <int N, typename Table>
__device__ inline Angles<N> load_angles(const Tables<Table>& tables, int64_t position, const Chunk& chunk) {
  const auto cos = load_pairs<Table, N>(tables.cos + position * tables.cos_stride, chunk, false);
  const auto sin = load_pairs<Table, N>(tables.sin + position * tables.sin_stride, chunk, false);
  Angles<N> angles;
  for (int i = 0; i < N; ++i) {
    angles.cos_left[i] = to_float(cos.left.lane[i]);
    angles.cos_right[i] = to_float(cos.right.lane[i]);
    angles.sin_left[i] = tables.inverse ? -to_float(sin.left.lane[i]) : to_float(sin.left.lane[i]);
    angles.sin_right[i] = tables.inverse ? -to_float(sin.right.lane[i]) : to_float(sin.right.lane[i]);
  }
  return angles;
}

// All lanes of a packet in f32, and back: three short loops instead of one, so that host compilers use vectors too.
template <int N>
struct Lanes {
  float lane[N];
};

template <typename T, int N>
__device__ inline Lanes<N> widen(const Packet<T, N>& packet) {
  Lanes<N> wide;
  for (int i = 0; i < N; ++i) wide.lane[i] = to_float(packet.lane[i]);
  return wide;
}

template <typename T, int N>
__device__ inline Packet<T, N> narrow(const Lanes<N>& wide) {
  Packet<T, N> packet;
  for (int i = 0; i < N; ++i) packet.lane[i] = from_float<T>(wide.lane[i]);
  return packet;
}

template <typename T, int N>
__device__ inline Pairs<T, N> rotate(const Pairs<T, N>& pairs, const Angles<N>& a) {
  const Lanes<N> x1 = widen(pairs.left);
  const Lanes<N> x2 = widen(pairs.right);
  Lanes<N> left;
  Lanes<N> right;
  for (int i = 0; i < N; ++i) {
    left.lane[i] = __fsub_rn(__fmul_rn(x1.lane[i], a.cos_left[i]), __fmul_rn(x2.lane[i], a.sin_left[i]));
    right.lane[i] = __fadd_rn(__fmul_rn(x2.lane[i], a.cos_right[i]), __fmul_rn(x1.lane[i], a.sin_right[i]));
  }
  return {narrow<T>(left), narrow<T>(right)};
}

// The transpose of rotate: gradients of x1 and x2 from those of left and right. From may be f32 sums.
template <typename T, typename From, int N>
__device__ inline Pairs<T, N> rotate_adjoint(const Pairs<From, N>& gradients, const Angles<N>& a) {
  const Lanes<N> left = widen(gradients.left);
  const Lanes<N> right = widen(gradients.right);
  Lanes<N> x1;
  Lanes<N> x2;
  for (int i = 0; i < N; ++i) {
    x1.lane[i] = __fadd_rn(__fmul_rn(left.lane[i], a.cos_left[i]), __fmul_rn(right.lane[i], a.sin_right[i]));
    x2.lane[i] = __fsub_rn(__fmul_rn(right.lane[i], a.cos_right[i]), __fmul_rn(left.lane[i], a.sin_left[i]));
  }
  return {narrow<T>(x1), narrow<T>(x2)};
}

}  // namespace

#endif
