// Host builds of kernels find this in place of the CUDA toolkit's header.
#ifndef TILEPROOF_SHIMS_CUDA_RUNTIME_H
#define TILEPROOF_SHIMS_CUDA_RUNTIME_H
#include "tileproof/cuda_on_cpu.h"
#endif
