// Pairs (x1, x2) of a rope row, the two layouts they are stored in, and their rotation.
//
//   interleaved   x1[0] x2[0] x1[1] x2[1] ...          split halves   x1[0] x1[1] ... | x2[0] x2[1] ...
//
// Arithmetic is f32 with every rounding written out (no contraction), so that each build gives the same bits.
#ifndef TILEPROOF_KERNELS_MLA_ROPE_ROTATION_CUH
#define TILEPROOF_KERNELS_MLA_ROPE_ROTATION_CUH

#include "elements.cuh"

namespace {

// Pairs per thread: one vector of each split half, two of interleaved pairs.
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

// In registers pairs are f32, whatever they are in memory: the one rounding to storage is in store_pairs.
template <int N>
struct Pairs {
  float left[N];
  float right[N];
};

template <typename T, int N = kPairs<T>>
__device__ inline Pairs<N> load_pairs(const T* rope, const Chunk& chunk, bool interleaved, int64_t stride = 1) {
  Pairs<N> pairs;
  if (interleaved) {
    const Packet<T, 2 * N> row = load<2 * N>(rope + 2 * chunk.first * stride, stride, 2 * chunk.count);
    for (int i = 0; i < N; ++i) {
      pairs.left[i] = to_float(row.lane[2 * i]);
      pairs.right[i] = to_float(row.lane[2 * i + 1]);
    }
  } else {
    const Packet<T, N> left = load<N>(rope + chunk.first * stride, stride, chunk.count);
    const Packet<T, N> right = load<N>(rope + (chunk.half + chunk.first) * stride, stride, chunk.count);
    for (int i = 0; i < N; ++i) {
      pairs.left[i] = to_float(left.lane[i]);
      pairs.right[i] = to_float(right.lane[i]);
    }
  }
  return pairs;
}

template <typename T, int N>
__device__ inline void store_pairs(T* rope, const Chunk& chunk, bool interleaved, const Pairs<N>& pairs,
                                   int64_t stride = 1) {
  if (interleaved) {
    Packet<T, 2 * N> row;
    for (int i = 0; i < N; ++i) {
      row.lane[2 * i] = from_float<T>(pairs.left[i]);
      row.lane[2 * i + 1] = from_float<T>(pairs.right[i]);
    }
    store<2 * N>(rope + 2 * chunk.first * stride, stride, 2 * chunk.count, row);
    return;
  }
  Packet<T, N> left;
  Packet<T, N> right;
  for (int i = 0; i < N; ++i) {
    left.lane[i] = from_float<T>(pairs.left[i]);
    right.lane[i] = from_float<T>(pairs.right[i]);
  }
  store<N>(rope + chunk.first * stride, stride, chunk.count, left);
  store<N>(rope + (chunk.half + chunk.first) * stride, stride, chunk.count, right);
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
  Pairs<N> cos;
  Pairs<N> sin;
};

template <int N, typename Table>
__device__ inline Angles<N> load_angles(const Tables<Table>& tables, int64_t position, const Chunk& chunk) {
  Angles<N> angles{load_pairs<Table, N>(tables.cos + position * tables.cos_stride, chunk, false),
                   load_pairs<Table, N>(tables.sin + position * tables.sin_stride, chunk, false)};
  for (int i = 0; i < N && tables.inverse; ++i) {
    angles.sin.left[i] = -angles.sin.left[i];
    angles.sin.right[i] = -angles.sin.right[i];
  }
  return angles;
}

template <int N>
__device__ inline Pairs<N> rotate(const Pairs<N>& x, const Angles<N>& a) {
  Pairs<N> rotated;
  for (int i = 0; i < N; ++i) {
    rotated.left[i] = __fsub_rn(__fmul_rn(x.left[i], a.cos.left[i]), __fmul_rn(x.right[i], a.sin.left[i]));
    rotated.right[i] = __fadd_rn(__fmul_rn(x.right[i], a.cos.right[i]), __fmul_rn(x.left[i], a.sin.right[i]));
  }
  return rotated;
}

// The transpose of rotate: gradients of x1 and x2 from those of left and right.
template <int N>
__device__ inline Pairs<N> rotate_adjoint(const Pairs<N>& g, const Angles<N>& a) {
  Pairs<N> rotated;
  for (int i = 0; i < N; ++i) {
    rotated.left[i] = __fadd_rn(__fmul_rn(g.left[i], a.cos.left[i]), __fmul_rn(g.right[i], a.sin.right[i]));
    rotated.right[i] = __fsub_rn(__fmul_rn(g.right[i], a.cos.right[i]), __fmul_rn(g.left[i], a.sin.left[i]));
  }
  return rotated;
}

}  // namespace

#endif
