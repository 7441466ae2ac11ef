// Launches that do to a device what a broken kernel can do, after the clean kernel of mla_rope_q_fwd did its work: each
// does it where is_hostile() says so, and is an ordinary subject elsewhere.
#ifndef TILEPROOF_TESTS_GPU_HOSTILE_H
#define TILEPROOF_TESTS_GPU_HOSTILE_H

#include <tileproof/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

int32_t hostile_read_unmapped(const tileproof_launch* launch);
int32_t hostile_trap(const tileproof_launch* launch);
int32_t hostile_assert(const tileproof_launch* launch);
int32_t hostile_hang(const tileproof_launch* launch);
int32_t hostile_exhaust(const tileproof_launch* launch);
int32_t hostile_grid(const tileproof_launch* launch);
int32_t hostile_killed(const tileproof_launch* launch);
// Launches nothing where its stream is being captured; and what no graph can hold.
int32_t lost_in_graphs(const tileproof_launch* launch);
int32_t unfit_for_graphs(const tileproof_launch* launch);

// Of the GPU's memory, by whatever runs on it; 0 when that cannot be told.
int64_t device_bytes_in_use();

#ifdef __cplusplus
}
#endif

// Of every case, one in so many.
constexpr int64_t kHostileHeads = 7;
inline bool is_hostile(int64_t head_num) { return head_num % kHostileHeads == 0; }

#endif
