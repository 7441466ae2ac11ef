// mla_rope_concat_bwd: the adjoint of mla_rope_concat_fwd. dout [seq, batch, head, nope_dim + emb_dim] is split into
// dnope and drope, which is rotated back from split halves to interleaved pairs. Every axis has its own stride.
#include "launch.cuh"
#include "positions.cuh"
#include "rotation.cuh"

namespace {

template <typename T, typename Table>
struct ConcatBwd {
  StridedRows<T> dout;
  StridedRows<T> dnope;
  StridedRows<T> drope;
  Tables<Table> tables;
  Positions positions;
  int batch;
  int head_num;
  int emb_dim;
  int nope_dim;
  int block_h;
};

template <typename T, typename Table>
__global__ void concat_bwd_kernel(ConcatBwd<T, Table> p) {
  const int64_t token = blockIdx.x;
  const int64_t seq = token / p.batch;
  const int64_t batch = token % p.batch;
  const int first_head = blockIdx.y * p.block_h;
  const int heads = min(p.block_h, p.head_num - first_head);
  const T* const dout = p.dout.at(seq, batch, first_head);
  T* const dnope = p.dnope.at(seq, batch, first_head);
  T* const drope = p.drope.at(seq, batch, first_head);

  const Chunk chunk = chunk_of_thread<T>(p.emb_dim);
  const auto angles = load_angles<kPairs<T>>(p.tables, position_of(p.positions, token), chunk);

  for (int head = threadIdx.y; head < heads; head += blockDim.y) {
    const T* const dout_row = dout + head * p.dout.head_stride;
    copy_row(dnope + head * p.dnope.head_stride, p.dnope.dim_stride, dout_row, p.dout.dim_stride, p.nope_dim);
    const auto gradients = load_pairs(dout_row + p.nope_dim * p.dout.dim_stride, chunk, false, p.dout.dim_stride);
    store_pairs(drope + head * p.drope.head_stride, chunk, true, rotate_adjoint(gradients, angles), p.drope.dim_stride);
  }
}

int32_t launch_concat_bwd(const tileproof_launch* launch) {
  const tileproof_tensor* dout = tileproof::find_tensor(launch, "dout");
  const int64_t tokens = dout->shape[0] * dout->shape[1];
  return dispatch(launch, "dout", tokens, [&](auto data, auto table) {
    using T = decltype(data);
    using Table = decltype(table);
    const BlockShape shape = block_shape<T>(launch, tokens);
    ConcatBwd<T, Table> p{};
    p.dout = bind_strided_rows<T>(launch, "dout");
    p.dnope = bind_strided_rows<T>(launch, "dnope");
    p.drope = bind_strided_rows<T>(launch, "drope");
    p.tables = bind_tables<Table>(launch);
    p.positions = bind_positions(launch);
    p.batch = static_cast<int>(dout->shape[1]);
    p.head_num = bind_int(launch, "head_num");
    p.emb_dim = bind_int(launch, "emb_dim");
    p.nope_dim = bind_int(launch, "nope_dim");
    p.block_h = shape.block_h;
    concat_bwd_kernel<T, Table><<<shape.grid, shape.block, 0, stream_of(launch)>>>(p);
  });
}

}  // namespace

TILEPROOF_EXPORT_SUBJECT(mla_rope_concat_bwd, launch_concat_bwd, kLimits, kArithmetic)
