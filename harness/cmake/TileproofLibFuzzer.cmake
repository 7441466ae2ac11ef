# Finds libFuzzer's library, which the fuzz target links whatever the compiler is: it comes with the runtime libraries of
# clang (Debian: libclang-rt-14-dev). Sets TILEPROOF_LIBFUZZER; without it `tileproof fuzz` says what to install.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(tileproof_fuzzer_processor aarch64)
else()
  set(tileproof_fuzzer_processor x86_64)
endif()
file(GLOB tileproof_fuzzer_directories /usr/lib/llvm-*/lib/clang/*/lib/linux)
list(SORT tileproof_fuzzer_directories COMPARE NATURAL ORDER DESCENDING)
find_library(TILEPROOF_LIBFUZZER NAMES libclang_rt.fuzzer-${tileproof_fuzzer_processor}.a
             PATHS ${tileproof_fuzzer_directories} NO_DEFAULT_PATH)
if(TILEPROOF_LIBFUZZER)
  message(STATUS "tileproof: campaigns are searched by ${TILEPROOF_LIBFUZZER}")
else()
  message(STATUS "tileproof: no libFuzzer (libclang-rt-14-dev): no fuzz target")
endif()
