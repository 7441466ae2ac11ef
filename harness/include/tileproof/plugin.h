// tileproof/plugin.h: the C ABI through which every kernel under test reaches the harness.
//
// A plug-in describes its subjects (which operation each implements, on which device, within which limits and
// with which arithmetic) and offers one launch function per subject. The kernels shipped with tileproof use the
// same ABI as a foreign shared library; nothing in the harness calls a kernel in any other way.
//
// Ownership: everything a plug-in returns is static and outlives the process; everything it receives belongs to
// the harness and is valid only during the call.
#ifndef TILEPROOF_PLUGIN_H
#define TILEPROOF_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TILEPROOF_ABI_VERSION 1
#define TILEPROOF_MAX_RANK 4

typedef enum tileproof_dtype {
  TILEPROOF_F32 = 0,
  TILEPROOF_F16 = 1,
  TILEPROOF_BF16 = 2,
  TILEPROOF_I32 = 3
} tileproof_dtype;

// One tensor of the operation. Absent optional tensors are not in the list at all.
typedef struct tileproof_tensor {
  const char* name;
  void* data;                           // address of element [0, 0, ...]; device memory for a cuda subject
  int32_t dtype;                        // tileproof_dtype
  int32_t rank;                         // 1..TILEPROOF_MAX_RANK
  int64_t shape[TILEPROOF_MAX_RANK];    // in elements
  int64_t strides[TILEPROOF_MAX_RANK];  // in elements, any value >= 0; 0 is a broadcast (inputs only)
} tileproof_tensor;

typedef struct tileproof_named_value {
  const char* name;
  int64_t value;
} tileproof_named_value;

// Order in which the CPU executor runs the threads of a block and the blocks of a grid. CUDA subjects ignore it.
typedef enum tileproof_order { TILEPROOF_FORWARD = 0, TILEPROOF_REVERSE = 1, TILEPROOF_SHUFFLED = 2 } tileproof_order;

typedef struct tileproof_launch {
  uint32_t struct_size;  // sizeof(tileproof_launch) of the caller
  int32_t device;        // device ordinal for cuda, 0 for cpu
  const tileproof_tensor* tensors;
  size_t tensor_count;
  const tileproof_named_value* scalars;  // everything the operation takes by value (head_num, emb_dim, inverse, ...)
  size_t scalar_count;
  const tileproof_named_value* tiling;  // block_h, num_warps, ...
  size_t tiling_count;
  int32_t thread_order;  // tileproof_order
  int32_t block_order;   // tileproof_order
  uint64_t order_seed;   // for TILEPROOF_SHUFFLED
  void* stream;   // cudaStream_t for cuda, not the default stream and sometimes captured in a graph; NULL for cpu
  char* message;  // where a refusal or failure is explained, one line, NUL-terminated
  size_t message_size;
} tileproof_launch;

typedef enum tileproof_status {
  TILEPROOF_LAUNCHED = 0,  // work was submitted (cuda) or done (cpu)
  TILEPROOF_REFUSED = 1,   // the subject does not take this problem; message says why; nothing was written
  TILEPROOF_FAILED = 2     // a launch error; message names it
} tileproof_status;

typedef enum tileproof_precision {
  TILEPROOF_PRECISION_F32 = 0,
  TILEPROOF_PRECISION_STORAGE = 1,                  // the data type of the tensors
  TILEPROOF_PRECISION_STORAGE_IF_TABLES_MATCH = 2,  // storage when the tables have the data type too, else f32
} tileproof_precision;

// The arithmetic a subject promises; the reference derives its error bounds from it.
typedef struct tileproof_arithmetic {
  int32_t products;                // tileproof_precision: of products and of the sum of two products
  int32_t contraction_free;        // 1: the compiler may or may not fuse multiply and add; 0: pinned in the source
  int32_t accumulator;             // tileproof_precision of a sum over heads
  int32_t order_free;              // 1: a sum over heads has any order; 0: the same order for every tiling
  int32_t sum_rounded_to_storage;  // 1: a sum over heads is rounded to the data type before further arithmetic
  int32_t flush_to_zero;           // 1: subnormal inputs and results of the arithmetic may become zero
} tileproof_arithmetic;

typedef struct tileproof_subject {
  uint32_t struct_size;
  const char* operation;  // e.g. "mla_rope_q_fwd"
  const char* device;     // "cpu" or "cuda"
  const char* variant;    // "" for a plain subject, "@fault" or ":plug-in" otherwise
  const char* expected;   // for a fault: the properties expected to find it, separated by ','; else NULL
  const char* note;       // one line for `list`; may be NULL
  // Limits, one per line of text: "KEY in A..B", "KEY in x,y,z", "KEY multiple of N", "KEY multiple of N*KEY",
  // "KEY power of two". KEY is a parameter of the operation, a tiling key, or "alignment" (bytes).
  const char* const* limits;
  size_t limit_count;
  tileproof_arithmetic arithmetic;
  int32_t (*launch)(const tileproof_launch*);  // returns tileproof_status
} tileproof_subject;

typedef struct tileproof_plugin {
  uint32_t abi_version;  // TILEPROOF_ABI_VERSION
  const char* name;
  const tileproof_subject* const* subjects;
  size_t subject_count;
} tileproof_plugin;

// The one symbol a shared library exports.
typedef const tileproof_plugin* (*tileproof_plugin_entry)(void);
#define TILEPROOF_PLUGIN_ENTRY "tileproof_plugin_v1"

#ifdef __cplusplus
}
#endif

#endif
