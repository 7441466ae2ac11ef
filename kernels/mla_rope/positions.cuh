// Where a token stands in its sequence, which is the row of the cos and sin tables that rotates it.
#ifndef TILEPROOF_KERNELS_MLA_ROPE_POSITIONS_CUH
#define TILEPROOF_KERNELS_MLA_ROPE_POSITIONS_CUH

#include <cuda_runtime.h>

#include <cstdint>

namespace {

// sbhd: cu_seqlens is null and token = seq * batch + b. thd: sequences packed by cu_seqlens [sequences + 1], whose
// entries are global; this rank holds 1 / cp_size of each. position_ids [token], where given, replace the map.
struct Positions {
  const int32_t* cu_seqlens;
  int sequences;
  const int32_t* position_ids;
  int batch;
  int cp_rank;
  int cp_size;

  __device__ int64_t boundary(int i) const { return cu_seqlens[i] / cp_size; }
};

// Zigzag context parallelism: a rank holds chunk cp_rank from the front and chunk cp_rank from the back. An odd
// local length puts the longer chunk in front.
__device__ inline int64_t zigzag_position(const Positions& p, int64_t index, int64_t length) {
  const int64_t front = (length + 1) / 2;
  const int64_t back = length / 2;
  if (index < front) return index + p.cp_rank * front;
  return index - front + p.cp_size * front + (p.cp_size - p.cp_rank - 1) * back;
}

__device__ inline int64_t position_of(const Positions& p, int64_t token) {
  if (p.position_ids != nullptr) return p.position_ids[token];
  if (p.cu_seqlens == nullptr) return token / p.batch;
  if (p.sequences == 0 || token >= p.boundary(p.sequences)) return 0;  // padding
  int first = 0;  // invariant: boundary(first) <= token < boundary(last)
  int last = p.sequences;
  while (last - first > 1) {
    const int middle = first + (last - first) / 2;
    if (p.boundary(middle) <= token) {
      first = middle;
    } else {
      last = middle;
    }
  }
  const int64_t start = p.boundary(first);
  return zigzag_position(p, token - start, p.boundary(last) - start);
}

}  // namespace

#endif
