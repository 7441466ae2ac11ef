// Launch functions of the kernels on which the CPU executor is tested. Memory belongs to the caller; each returns the
// launch error, cudaSuccess being 0.
#ifndef TILEPROOF_TESTS_EXECUTOR_KERNELS_H
#define TILEPROOF_TESTS_EXECUTOR_KERNELS_H

#include <cstddef>
#include <cstdint>

namespace executor_kernels {

struct Dims {
  unsigned x = 1, y = 1, z = 1;
};

// sum[block] = sum of in[block * threads, +threads), by a tree in dynamic shared memory. threads: a power of two.
int block_sum(const float* in, float* sum, unsigned blocks, unsigned threads);
// The same in static shared memory; at most 256 threads.
int block_sum_static(const float* in, float* sum, unsigned blocks, unsigned threads);
// out[i] = in[threads - 1 - i] in place, with a barrier between loads and stores or (racy) without.
int reverse_in_place(float* data, unsigned threads, bool with_barrier);
// Each thread appends its linear index (blocks first) to log, `segments` times with a barrier (of the block or, `warp`,
// of each warp) in between.
int log_order(unsigned* log, unsigned* length, Dims grid, Dims block, unsigned segments, bool warp);
// ids[i] = x + 10 y + 100 z + 1000 (block x + 10 y + 100 z) of linear thread i.
int thread_ids(unsigned* ids, Dims grid, Dims block);

// Per thread 8 values: shfl(v, 5), shfl(v, 1, width 4), xor 1, xor 16, down 2, down 2 (width 8), up 3, up 3 (width 8),
// with v = 100 + lane.
int shuffles(int* out, unsigned threads);
// Per thread ballot(lane % 3 == 0), any(lane == 7), all(lane >= 0), all(lane != 7), 64-bit shfl of lane 31.
int votes(unsigned* out, std::uint64_t* wide);
// The odd lanes add up their values among themselves by shuffles, while the even lanes go to the barrier.
int odd_lanes_sum(int* out);
// Sum of 0..threads-1 over a block: shuffles in each warp, shared memory between warps.
int warp_sum(int* out, unsigned threads);
// Each lane asks its neighbour, but the odd lanes have returned.
int shuffle_from_returned(unsigned* out);

// Odd threads return before a barrier behind which the rest read what all threads wrote.
int exit_before_barrier(int* out, unsigned threads);
// Lane 0 never comes to the warp operation of the others, but to the barrier.
int mismatched(int* out, unsigned threads);
// A warp operation whose mask leaves the caller out.
int outside_mask(int* out);

// Does nothing, with this configuration.
int configuration(Dims grid, Dims block, std::size_t shared_bytes);
// where[i] = address of a local variable of thread i (blocks first), after a barrier or without one.
int stack_addresses(std::uint64_t* where, unsigned blocks, unsigned threads, bool wait);
// Atomics of every kind on 8 zeroed words: add, max, min (of -i), exch, CAS-incremented, f32 add.
int atomics(int* words, float* total, unsigned blocks, unsigned threads);
// Doubles f16 and bf16 values and moves f32 values in vectors.
int elements(std::uint16_t* half, std::uint16_t* bf16, float* four, unsigned count);

}  // namespace executor_kernels

#endif
