// Host side of the kernels: from the tensors and values of a launch to kernel parameters, block shape and types.
#ifndef TILEPROOF_KERNELS_MLA_ROPE_LAUNCH_CUH
#define TILEPROOF_KERNELS_MLA_ROPE_LAUNCH_CUH

#include <tileproof/plugin_binding.h>

#include <algorithm>

#include "positions.cuh"
#include "rotation.cuh"

namespace {

// What the subjects of this directory take, and the arithmetic they promise: products and sums in f32, never
// contracted, the sum over heads in one order, and one rounding to storage at the end.
constexpr const char* kLimits[] = {"head_num in 1..256", "emb_dim multiple of 4", "block_h in 1..256",
                                   "num_warps in 1,2,4,8"};
constexpr tileproof_arithmetic kArithmetic = {TILEPROOF_PRECISION_F32,      /*contraction_free=*/0,
                                              TILEPROOF_PRECISION_F32,      /*order_free=*/0,
                                              /*sum_rounded_to_storage=*/0, /*flush_to_zero=*/0};

constexpr int kMaxThreads = 1024;
constexpr int64_t kMaxTokens = 0x7fffffff;  // of grid.x

// A tensor that is absent has no elements: no kernel touches it.
template <typename T>
Rows<T> bind_rows(const tileproof_launch* launch, const char* name) {
  const tileproof_tensor* t = tileproof::find_tensor(launch, name);
  if (t == nullptr) return {};
  return {static_cast<T*>(t->data), t->strides[0], t->rank == 3 ? t->strides[1] : 0};
}

template <typename T>
StridedRows<T> bind_strided_rows(const tileproof_launch* launch, const char* name) {
  const tileproof_tensor* t = tileproof::find_tensor(launch, name);
  if (t == nullptr) return {};
  return {static_cast<T*>(t->data), t->strides[0], t->strides[1], t->strides[2], t->strides[3]};
}

template <typename Table>
Tables<Table> bind_tables(const tileproof_launch* launch, bool inverse = false) {
  const tileproof_tensor* cos = tileproof::find_tensor(launch, "cos");
  const tileproof_tensor* sin = tileproof::find_tensor(launch, "sin");
  return {static_cast<const Table*>(cos->data), static_cast<const Table*>(sin->data), cos->strides[0], sin->strides[0],
          inverse};
}

inline int bind_int(const tileproof_launch* launch, const char* name) {
  return static_cast<int>(tileproof::scalar(launch, name));
}

inline Positions bind_positions(const tileproof_launch* launch) {
  const tileproof_tensor* cu_seqlens = tileproof::find_tensor(launch, "cu_seqlens");
  const tileproof_tensor* position_ids = tileproof::find_tensor(launch, "position_ids");
  Positions positions{};
  positions.batch = bind_int(launch, "batch");
  positions.cp_rank = bind_int(launch, "cp_rank");
  positions.cp_size = bind_int(launch, "cp_size");
  if (cu_seqlens != nullptr) {
    positions.cu_seqlens = static_cast<const int32_t*>(cu_seqlens->data);
    positions.sequences = static_cast<int>(cu_seqlens->shape[0]) - 1;
  }
  if (position_ids != nullptr) positions.position_ids = static_cast<const int32_t*>(position_ids->data);
  return positions;
}

// One block per token and group of block_h heads. threadIdx.x walks the pairs of a head and threadIdx.y the heads;
// num_warps bounds the threads of a block, except that a block always holds one whole head. A thread has
// kHeadsPerThread heads before there is another row of threads: their loads are in flight together, and the angles,
// which all heads of a token share, are loaded once for all of them.
struct BlockShape {
  dim3 grid;
  dim3 block;
  int block_h;
};

template <typename T>
BlockShape block_shape(const tileproof_launch* launch, int64_t tokens, int least_rows = 1) {
  const int head_num = bind_int(launch, "head_num");
  const int block_h = static_cast<int>(tileproof::tiling(launch, "block_h"));
  const int threads = 32 * static_cast<int>(tileproof::tiling(launch, "num_warps"));
  const int half = bind_int(launch, "emb_dim") / 2;
  const int columns = (half + kPairs<T> - 1) / kPairs<T>;
  const int heads = std::min(block_h, head_num);
  const int useful_rows = std::max((heads + kHeadsPerThread - 1) / kHeadsPerThread, least_rows);
  const int rows = std::clamp(threads / columns, 1, useful_rows);
  const int head_blocks = (head_num + block_h - 1) / block_h;
  return {dim3(static_cast<unsigned>(tokens), head_blocks), dim3(columns, rows), block_h};
}

// Calls launch_typed(T{}, Table{}) for the data type of tensor `data` and the type of the tables, after refusing what
// no kernel here can take. launch_typed submits one kernel; without tokens there is none to submit.
template <typename LaunchTyped>
int32_t dispatch(const tileproof_launch* launch, const char* data, int64_t tokens, LaunchTyped launch_typed) {
  const int32_t type = tileproof::find_tensor(launch, data)->dtype;
  const int32_t table_type = tileproof::find_tensor(launch, "cos")->dtype;
  const int emb_dim = bind_int(launch, "emb_dim");
  const int pairs = type == TILEPROOF_F32 ? kPairs<float> : kPairs<__half>;
  if (emb_dim % 4 != 0) return tileproof::refuse(launch, "emb_dim must be a multiple of 4");
  if (emb_dim / 2 > kMaxThreads * pairs) return tileproof::refuse(launch, "a head must fit in one block of threads");
  if (tokens > kMaxTokens) return tileproof::refuse(launch, "tokens must fit in grid.x");
  if (tokens == 0) return TILEPROOF_LAUNCHED;

  if (type == TILEPROOF_F32 && table_type == TILEPROOF_F32) {
    launch_typed(float{}, float{});
  } else if (type == TILEPROOF_F16 && table_type == TILEPROOF_F16) {
    launch_typed(__half{}, __half{});
  } else if (type == TILEPROOF_F16 && table_type == TILEPROOF_F32) {
    launch_typed(__half{}, float{});
  } else if (type == TILEPROOF_BF16 && table_type == TILEPROOF_BF16) {
    launch_typed(__nv_bfloat16{}, __nv_bfloat16{});
  } else if (type == TILEPROOF_BF16 && table_type == TILEPROOF_F32) {
    launch_typed(__nv_bfloat16{}, float{});
  } else {
    return tileproof::refuse(launch, "the tables must be f32 or of the data type");
  }
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? TILEPROOF_LAUNCHED : tileproof::fail(launch, cudaGetErrorString(error));
}

inline cudaStream_t stream_of(const tileproof_launch* launch) { return static_cast<cudaStream_t>(launch->stream); }

}  // namespace

#endif
