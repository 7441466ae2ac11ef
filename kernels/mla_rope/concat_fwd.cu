// mla_rope_concat_fwd: out [seq, batch, head, nope_dim + emb_dim] is nope followed by rope, rotated from interleaved
// pairs to split halves. Every axis of each tensor has its own stride.
#include "launch.cuh"
#include "positions.cuh"
#include "rotation.cuh"

namespace {

template <typename T, typename Table>
struct ConcatFwd {
  StridedRows<T> nope;
  StridedRows<T> rope;
  StridedRows<T> out;
  Tables<Table> tables;
  Positions positions;
  int batch;
  int head_num;
  int emb_dim;
  int nope_dim;
  int block_h;
};

template <typename T, typename Table>
__global__ void concat_fwd_kernel(ConcatFwd<T, Table> p) {
  const int64_t token = blockIdx.x;
  const int64_t seq = token / p.batch;
  const int64_t batch = token % p.batch;
  const int first_head = blockIdx.y * p.block_h;
  const int heads = min(p.block_h, p.head_num - first_head);
  const T* const nope = p.nope.at(seq, batch, first_head);
  const T* const rope = p.rope.at(seq, batch, first_head);
  T* const out = p.out.at(seq, batch, first_head);

  const Chunk chunk = chunk_of_thread<T>(p.emb_dim);
  const auto angles = load_angles<kPairs<T>>(p.tables, position_of(p.positions, token), chunk);

  for (int head = threadIdx.y; head < heads; head += blockDim.y) {
    T* const out_row = out + head * p.out.head_stride;
    copy_row(out_row, p.out.dim_stride, nope + head * p.nope.head_stride, p.nope.dim_stride, p.nope_dim);
    const auto pairs = load_pairs(rope + head * p.rope.head_stride, chunk, true, p.rope.dim_stride);
    store_pairs(out_row + p.nope_dim * p.out.dim_stride, chunk, false, rotate(pairs, angles), p.out.dim_stride);
  }
}

int32_t launch_concat_fwd(const tileproof_launch* launch) {
  const tileproof_tensor* rope = tileproof::find_tensor(launch, "rope");
  const int64_t tokens = rope->shape[0] * rope->shape[1];
  return dispatch(launch, "rope", tokens, [&](auto data, auto table) {
    using T = decltype(data);
    using Table = decltype(table);
    const BlockShape shape = block_shape<T>(launch, tokens);
    ConcatFwd<T, Table> p{};
    p.nope = bind_strided_rows<T>(launch, "nope");
    p.rope = bind_strided_rows<T>(launch, "rope");
    p.out = bind_strided_rows<T>(launch, "out");
    p.tables = bind_tables<Table>(launch);
    p.positions = bind_positions(launch);
    p.batch = static_cast<int>(rope->shape[1]);
    p.head_num = bind_int(launch, "head_num");
    p.emb_dim = bind_int(launch, "emb_dim");
    p.nope_dim = bind_int(launch, "nope_dim");
    p.block_h = shape.block_h;
    concat_fwd_kernel<T, Table><<<shape.grid, shape.block, 0, stream_of(launch)>>>(p);
  });
}

}  // namespace

TILEPROOF_EXPORT_SUBJECT(mla_rope_concat_fwd, launch_concat_fwd, kLimits, kArithmetic)
