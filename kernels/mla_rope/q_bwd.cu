// mla_rope_q_bwd: the adjoint of mla_rope_q_fwd on dq [token, head, nope_dim + emb_dim], in place, from split halves
// (interleaved pairs, with remove_interleaving) to interleaved pairs.
#include "launch.cuh"
#include "positions.cuh"
#include "rotation.cuh"

namespace {

template <typename T, typename Table>
struct QBwd {
  Rows<T> dq;
  Tables<Table> tables;
  Positions positions;
  int head_num;
  int emb_dim;
  int rope_offset;  // of the rope part in a head
  bool remove_interleaving;
  int block_h;
};

template <typename T, typename Table>
__global__ void q_bwd_kernel(QBwd<T, Table> p) {
  const int64_t token = blockIdx.x;
  const int first_head = blockIdx.y * p.block_h;
  const int heads = min(p.block_h, p.head_num - first_head);
  T* const rope = p.dq.at(token, first_head) + p.rope_offset;
  const Chunk chunk = chunk_of_thread<T>(p.emb_dim);
  const auto angles = load_angles<kPairs<T>>(p.tables, position_of(p.positions, token), chunk);

  const int heads_per_pass = kHeadsPerThread * blockDim.y;
  for (int pass = 0; pass < heads; pass += heads_per_pass) {
    Pairs<kPairs<T>> rotated[kHeadsPerThread];
    for (int i = 0; i < kHeadsPerThread; ++i) {
      const int head = pass + i * blockDim.y + threadIdx.y;
      if (head >= heads) continue;
      const auto gradients = load_pairs(rope + head * p.dq.head_stride, chunk, p.remove_interleaving);
      rotated[i] = rotate_adjoint(gradients, angles);
    }
    // Interleaved pairs land on halves that the other threads of the head read.
    if (!p.remove_interleaving && blockDim.x > 1) __syncthreads();
    for (int i = 0; i < kHeadsPerThread; ++i) {
      const int head = pass + i * blockDim.y + threadIdx.y;
      if (head < heads) store_pairs(rope + head * p.dq.head_stride, chunk, true, rotated[i]);
    }
  }
}

int32_t launch_q_bwd(const tileproof_launch* launch) {
  const int64_t tokens = tileproof::find_tensor(launch, "dq")->shape[0];
  return dispatch(launch, "dq", tokens, [&](auto data, auto table) {
    using T = decltype(data);
    using Table = decltype(table);
    const BlockShape shape = block_shape<T>(launch, tokens);
    QBwd<T, Table> p{};
    p.dq = bind_rows<T>(launch, "dq");
    p.tables = bind_tables<Table>(launch, bind_int(launch, "inverse") != 0);
    p.positions = bind_positions(launch);
    p.head_num = bind_int(launch, "head_num");
    p.emb_dim = bind_int(launch, "emb_dim");
    p.rope_offset = bind_int(launch, "rope_first") != 0 ? 0 : bind_int(launch, "nope_dim");
    p.remove_interleaving = bind_int(launch, "remove_interleaving") != 0;
    p.block_h = shape.block_h;
    q_bwd_kernel<T, Table><<<shape.grid, shape.block, 0, stream_of(launch)>>>(p);
  });
}

}  // namespace

TILEPROOF_EXPORT_SUBJECT(mla_rope_q_bwd, launch_q_bwd, kLimits, kArithmetic)
