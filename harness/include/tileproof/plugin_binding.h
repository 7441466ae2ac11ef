// tileproof/plugin_binding.h: small helpers over the plug-in ABI for authors of kernels, on host and CUDA compilers.
#ifndef TILEPROOF_PLUGIN_BINDING_H
#define TILEPROOF_PLUGIN_BINDING_H

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "tileproof/plugin.h"

#ifdef TILEPROOF_ON_CPU
#include "tileproof/cuda_on_cpu.h"
#endif

#ifndef TILEPROOF_CPU_FLAVOUR
#define TILEPROOF_CPU_FLAVOUR fast
#endif

namespace tileproof {
inline namespace TILEPROOF_CPU_FLAVOUR {

// The tensor of that name, or null where the problem has none.
inline const tileproof_tensor* find_tensor(const tileproof_launch* launch, const char* name) {
  for (size_t i = 0; i < launch->tensor_count; ++i) {
    if (std::strcmp(launch->tensors[i].name, name) == 0) return &launch->tensors[i];
  }
  return nullptr;
}

namespace binding {

inline int64_t value_of(const tileproof_named_value* values, size_t count, const char* name, int64_t fallback) {
  for (size_t i = 0; i < count; ++i) {
    if (std::strcmp(values[i].name, name) == 0) return values[i].value;
  }
  return fallback;
}

inline int32_t explain(const tileproof_launch* launch, const char* message, tileproof_status status) {
  if (launch->message != nullptr && launch->message_size > 0) {
    std::snprintf(launch->message, launch->message_size, "%s", message);
  }
  return status;
}

#ifdef TILEPROOF_ON_CPU
// Launches in the orders of the request.
inline int32_t run_scheduled(const tileproof_launch* launch, int32_t (*function)(const tileproof_launch*)) {
  const cpu::Schedule schedule(launch->thread_order, launch->block_order, launch->order_seed);
  return function(launch);
}
#endif

}  // namespace binding

// A value of the operation or of the tiling; `fallback` where the caller does not name it.
inline int64_t scalar(const tileproof_launch* launch, const char* name, int64_t fallback = 0) {
  return binding::value_of(launch->scalars, launch->scalar_count, name, fallback);
}
inline int64_t tiling(const tileproof_launch* launch, const char* name, int64_t fallback = 1) {
  return binding::value_of(launch->tiling, launch->tiling_count, name, fallback);
}

inline int32_t refuse(const tileproof_launch* launch, const char* message) {
  return binding::explain(launch, message, TILEPROOF_REFUSED);
}
inline int32_t fail(const tileproof_launch* launch, const char* message) {
  return binding::explain(launch, message, TILEPROOF_FAILED);
}

}  // namespace TILEPROOF_CPU_FLAVOUR
}  // namespace tileproof

#define TILEPROOF_JOIN_(a, b) a##b
#define TILEPROOF_JOIN(a, b) TILEPROOF_JOIN_(a, b)

#ifdef TILEPROOF_ON_CPU
#define TILEPROOF_RUN_(launch_function, request) \
  tileproof::binding::run_scheduled(request, [](const tileproof_launch* r) { return launch_function(r); })
#else
#define TILEPROOF_RUN_(launch_function, request) launch_function(request)
#endif

// Defines the function through which the build finds this subject: tileproof_subject_<operation>__<TILEPROOF_BUILD>().
// TILEPROOF_BUILD, TILEPROOF_VARIANT, TILEPROOF_EXPECTED ("" for none) and TILEPROOF_DEVICE come from the build.
#define TILEPROOF_EXPORT_SUBJECT(operation_name, launch_function, limits_array, arithmetic_value)                 \
  extern "C" const tileproof_subject* TILEPROOF_JOIN(tileproof_subject_##operation_name##__, TILEPROOF_BUILD)() { \
    static const tileproof_subject subject = {                                                                    \
        sizeof(tileproof_subject),                                                                                \
        #operation_name,                                                                                          \
        TILEPROOF_DEVICE,                                                                                         \
        TILEPROOF_VARIANT,                                                                                        \
        TILEPROOF_EXPECTED[0] == '\0' ? nullptr : TILEPROOF_EXPECTED,                                             \
        nullptr,                                                                                                  \
        limits_array,                                                                                             \
        sizeof(limits_array) / sizeof(limits_array[0]),                                                           \
        arithmetic_value,                                                                                         \
        [](const tileproof_launch* request) -> int32_t { return TILEPROOF_RUN_(launch_function, request); }};     \
    return &subject;                                                                                              \
  }

#endif
