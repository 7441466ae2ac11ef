// Of a build without a CUDA toolkit: the tests that would launch these are skipped.
#include "gpu/hostile.h"

int32_t hostile_read_unmapped(const tileproof_launch*) { return TILEPROOF_FAILED; }
int32_t hostile_trap(const tileproof_launch*) { return TILEPROOF_FAILED; }
int32_t hostile_assert(const tileproof_launch*) { return TILEPROOF_FAILED; }
int32_t hostile_hang(const tileproof_launch*) { return TILEPROOF_FAILED; }
int32_t hostile_exhaust(const tileproof_launch*) { return TILEPROOF_FAILED; }
int32_t hostile_grid(const tileproof_launch*) { return TILEPROOF_FAILED; }
int32_t hostile_killed(const tileproof_launch*) { return TILEPROOF_FAILED; }
int32_t lost_in_graphs(const tileproof_launch*) { return TILEPROOF_FAILED; }
int32_t unfit_for_graphs(const tileproof_launch*) { return TILEPROOF_FAILED; }
int64_t device_bytes_in_use() { return 0; }
