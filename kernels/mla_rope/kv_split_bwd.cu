// mla_rope_kv_split_bwd: the adjoint of mla_rope_kv_split_fwd. dkv gets back the k part of dkey and dvalue; demb
// [token, emb_dim], as interleaved pairs, is the adjoint rotation of the sum over all heads of dkey's rope part, which
// is read as split halves (as interleaved pairs, with remove_interleaving).
#include "launch.cuh"
#include "positions.cuh"
#include "rotation.cuh"

namespace {

// The sum over heads is cut into this many partial sums, head h into sum h % kPartialSums, whatever the tiling: so each
// tiling adds in the same order and gives the same bits.
constexpr int kPartialSums = 8;
constexpr int kMaxEmbDim = 48 * 1024 / (kPartialSums * sizeof(float));  // they lie in shared memory

template <typename T, typename Table>
struct KvSplitBwd {
  Rows<T> dkey;
  Rows<T> dvalue;
  Rows<T> dkv;
  Rows<T> demb;  // one row for all heads
  Tables<Table> tables;
  Positions positions;
  int head_num;
  int emb_dim;
  int k_dim;
  int v_dim;
  bool remove_interleaving;
  int block_h;
};

template <int N>
__device__ inline void add(Pairs<N>& sum, const Pairs<N>& pairs) {
  for (int i = 0; i < N; ++i) {
    sum.left[i] = __fadd_rn(sum.left[i], pairs.left[i]);
    sum.right[i] = __fadd_rn(sum.right[i], pairs.right[i]);
  }
}

// Sums over all heads of the token, by one block. The sum stays in f32 until it is rotated.
template <typename T, typename Table>
__device__ inline void reduce_heads(const KvSplitBwd<T, Table>& p, int64_t token) {
  extern __shared__ float4 shared[];
  using Sum = Pairs<kPairs<T>>;
  Sum* const partial_sums = reinterpret_cast<Sum*>(shared) + threadIdx.x;  // [kPartialSums][blockDim.x]
  const Chunk chunk = chunk_of_thread<T>(p.emb_dim);
  const T* const rope = p.dkey.at(token, 0) + p.k_dim;

  for (int part = threadIdx.y; part < kPartialSums; part += blockDim.y) {
    Sum sum{};
    for (int head = part; head < p.head_num; head += kPartialSums) {
      add(sum, load_pairs(rope + head * p.dkey.head_stride, chunk, p.remove_interleaving));
    }
    partial_sums[part * blockDim.x] = sum;
  }
  __syncthreads();
  if (threadIdx.y != 0) return;
  Sum sum = partial_sums[0];
  for (int part = 1; part < kPartialSums; ++part) add(sum, partial_sums[part * blockDim.x]);

  const auto angles = load_angles<kPairs<T>>(p.tables, position_of(p.positions, token), chunk);
  store_pairs(p.demb.at(token, 0), chunk, true, rotate_adjoint(sum, angles));
}

template <typename T, typename Table>
__global__ void kv_split_bwd_kernel(KvSplitBwd<T, Table> p) {
  const int64_t token = blockIdx.x;
  const int first_head = blockIdx.y * p.block_h;
  const int heads = min(p.block_h, p.head_num - first_head);
  const T* const dkey = p.dkey.at(token, first_head);
  const T* const dvalue = p.dvalue.at(token, first_head);
  T* const dkv = p.dkv.at(token, first_head);

  for (int head = threadIdx.y; head < heads; head += blockDim.y) {
    T* const dkv_row = dkv + head * p.dkv.head_stride;
    copy_row(dkv_row, 1, dkey + head * p.dkey.head_stride, 1, p.k_dim);
    copy_row(dkv_row + p.k_dim, 1, dvalue + head * p.dvalue.head_stride, 1, p.v_dim);
  }
  if (blockIdx.y == 0) reduce_heads(p, token);
}

int32_t launch_kv_split_bwd(const tileproof_launch* launch) {
  const int64_t tokens = tileproof::find_tensor(launch, "dkey")->shape[0];
  if (bind_int(launch, "emb_dim") > kMaxEmbDim) {
    return tileproof::refuse(launch, "the partial sums of a head must fit in shared memory: emb_dim up to 1536");
  }
  return dispatch(launch, "dkey", tokens, [&](auto data, auto table) {
    using T = decltype(data);
    using Table = decltype(table);
    const BlockShape shape = block_shape<T>(launch, tokens, std::min(kPartialSums, bind_int(launch, "head_num")));
    const size_t shared_bytes = kPartialSums * shape.block.x * sizeof(Pairs<kPairs<T>>);
    KvSplitBwd<T, Table> p{};
    p.dkey = bind_rows<T>(launch, "dkey");
    p.dvalue = bind_rows<T>(launch, "dvalue");
    p.dkv = bind_rows<T>(launch, "dkv");
    p.demb = bind_rows<T>(launch, "demb");
    p.tables = bind_tables<Table>(launch);
    p.positions = bind_positions(launch);
    p.head_num = bind_int(launch, "head_num");
    p.emb_dim = bind_int(launch, "emb_dim");
    p.k_dim = bind_int(launch, "k_dim");
    p.v_dim = bind_int(launch, "v_dim");
    p.remove_interleaving = bind_int(launch, "remove_interleaving") != 0;
    p.block_h = shape.block_h;
    kv_split_bwd_kernel<T, Table><<<shape.grid, shape.block, shared_bytes, stream_of(launch)>>>(p);
  });
}

}  // namespace

TILEPROOF_EXPORT_SUBJECT(mla_rope_kv_split_bwd, launch_kv_split_bwd, kLimits, kArithmetic)
