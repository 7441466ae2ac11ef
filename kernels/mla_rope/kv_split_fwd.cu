// mla_rope_kv_split_fwd: splits kv [token, head, k_dim + v_dim] into key [token, head, k_dim + emb_dim] and value
// [token, head, v_dim], and appends the token's one rotated k_pos_emb [token, emb_dim] to every head's key, as split
// halves (as interleaved pairs, with remove_interleaving).
#include "launch.cuh"
#include "positions.cuh"
#include "rotation.cuh"

namespace {

template <typename T, typename Table>
struct KvSplitFwd {
  Rows<T> kv;
  Rows<T> k_pos_emb;  // the same row for every head
  Rows<T> key;
  Rows<T> value;
  Tables<Table> tables;
  Positions positions;
  int head_num;
  int emb_dim;
  int k_dim;
  int v_dim;
  bool remove_interleaving;
  int block_h;
};

template <typename T, typename Table>
__global__ void kv_split_fwd_kernel(KvSplitFwd<T, Table> p) {
  const int64_t token = blockIdx.x;
  const int first_head = blockIdx.y * p.block_h;
  const int heads = min(p.block_h, p.head_num - first_head);
  const T* const kv = p.kv.at(token, first_head);
  T* const key = p.key.at(token, first_head);
  T* const value = p.value.at(token, first_head);

  const Chunk chunk = chunk_of_thread<T>(p.emb_dim);
  const auto angles = load_angles<kPairs<T>>(p.tables, position_of(p.positions, token), chunk);
  const auto rotated = rotate(load_pairs(p.k_pos_emb.at(token, 0), chunk, true), angles);

  for (int head = threadIdx.y; head < heads; head += blockDim.y) {
    const T* const kv_row = kv + head * p.kv.head_stride;
    T* const key_row = key + head * p.key.head_stride;
    T* const value_row = value + head * p.value.head_stride;
    copy_row(key_row, 1, kv_row, 1, p.k_dim);
    store_pairs(key_row + p.k_dim, chunk, p.remove_interleaving, rotated);
    copy_row(value_row, 1, kv_row + p.k_dim, 1, p.v_dim);
  }
}

int32_t launch_kv_split_fwd(const tileproof_launch* launch) {
  const int64_t tokens = tileproof::find_tensor(launch, "key")->shape[0];
  return dispatch(launch, "key", tokens, [&](auto data, auto table) {
    using T = decltype(data);
    using Table = decltype(table);
    const BlockShape shape = block_shape<T>(launch, tokens);
    KvSplitFwd<T, Table> p{};
    p.kv = bind_rows<T>(launch, "kv");
    p.k_pos_emb = bind_rows<T>(launch, "k_pos_emb");
    p.key = bind_rows<T>(launch, "key");
    p.value = bind_rows<T>(launch, "value");
    p.tables = bind_tables<Table>(launch);
    p.positions = bind_positions(launch);
    p.head_num = bind_int(launch, "head_num");
    p.emb_dim = bind_int(launch, "emb_dim");
    p.k_dim = bind_int(launch, "k_dim");
    p.v_dim = bind_int(launch, "v_dim");
    p.remove_interleaving = bind_int(launch, "remove_interleaving") != 0;
    p.block_h = shape.block_h;
    kv_split_fwd_kernel<T, Table><<<shape.grid, shape.block, 0, stream_of(launch)>>>(p);
  });
}

}  // namespace

TILEPROOF_EXPORT_SUBJECT(mla_rope_kv_split_fwd, launch_kv_split_fwd, kLimits, kArithmetic)
