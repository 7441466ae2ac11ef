# tileproof_add_kernels(NAME name SOURCE_DIR dir KERNELS a b [PATCH file] [VARIANT text] [EXPECTED text]
#                       [INCLUDE_DIRECTORIES dir...] [SANITIZE] [TRACE] [CUDA])
#
# Builds dir/a.cu, dir/b.cu, which are ordinary CUDA C++, up to five times:
#   <name>_cpu             object library for the CPU executor
#   <name>_cpu_sanitizing  with SANITIZE: static library whose every access is watched (harness/docs/sanitizer.md);
#                          locals without a value hold a pattern
#   <name>_cpu_zeroed      with SANITIZE: static library in which locals without a value hold zero
#   <name>_cpu_traced      with TRACE: static library that tells a fuzzer of every edge (-fsanitize-coverage=trace-pc)
#   <name>_cuda            with CUDA where nvcc was found: static library (TILEPROOF_HAVE_CUDA says whether there was one)
# TILEPROOF_EXPORT_SUBJECT(operation, ...) in a source defines tileproof_subject_<operation>__<name>() in the first of
# them, and the same with _sanitizing, _zeroed, _traced and _cuda behind it in the others. PATCH is applied to a copy of the whole
# directory first. VARIANT ("@fault") and EXPECTED (the properties that find it) become part of the subjects'
# declarations. Editing a source, a header or the patch prepares the copies anew, and what changed in them is compiled.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-mno-fma TILEPROOF_HAVE_MNO_FMA)
if(TILEPROOF_HAVE_MNO_FMA)
  set(TILEPROOF_NO_FMA -mno-fma)
endif()

# Packets are 16 bytes. Wider vectors would be loaded where two narrower ones were just stored, which stalls.
check_cxx_compiler_flag(-mprefer-vector-width=128 TILEPROOF_HAVE_VECTOR_WIDTH)
if(TILEPROOF_HAVE_VECTOR_WIDTH)
  set(TILEPROOF_VECTOR_WIDTH -mprefer-vector-width=128)
endif()

# g++ unrolls the short loops over lanes before it looks for vectors, and then finds few. clang has no such parameter.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(TILEPROOF_KEEP_LOOPS --param=max-completely-peel-times=2)
endif()

# The sanitizing build. Every access must come as one call with its address: no vectors, no loads or stores that the
# source does not have, frames that can be walked, lines that can be named. What an initialisation in a loop sets must be
# set in every turn (g++ hoists it). The zeroed build is the fast one but for what it sets.
set(tileproof_plain_accesses -fno-vectorize -fno-slp-vectorize)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Without the last two a vector that is loaded whole, and then used lane by lane, comes as many small loads.
  set(tileproof_plain_accesses -fno-tree-vectorize -fno-tree-loop-im -flifetime-dse=0 -fno-tree-sra
      --param=max-completely-peel-times=0)
endif()
set(tileproof_sanitizing_flags -O2 ${tileproof_plain_accesses} -ftrivial-auto-var-init=pattern -g1
    -fno-omit-frame-pointer -fno-optimize-sibling-calls -fno-gnu-unique -fno-sanitize=all -fsanitize=thread)
set(tileproof_zeroed_flags -ftrivial-auto-var-init=zero)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND tileproof_sanitizing_flags --param=tsan-instrument-func-entry-exit=0)
else()
  list(REMOVE_ITEM tileproof_sanitizing_flags -fno-gnu-unique)
  list(APPEND tileproof_sanitizing_flags "SHELL:-mllvm -tsan-instrument-read-before-write=1"
       "SHELL:-mllvm -tsan-instrument-func-entry-exit=0")
  list(APPEND tileproof_zeroed_flags -enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang)
endif()

set(TILEPROOF_CUDA_ARCHITECTURES "90-real;90-virtual" CACHE STRING "What nvcc compiles for: NN-real is code, NN-virtual PTX")

set(tileproof_cmake_dir ${CMAKE_CURRENT_LIST_DIR})

if(TILEPROOF_CUDA)
  find_program(TILEPROOF_NVCC nvcc HINTS /usr/local/cuda/bin)
endif()
set(TILEPROOF_HAVE_CUDA FALSE)
if(TILEPROOF_CUDA AND TILEPROOF_NVCC)
  # The runtime library of the toolkit that nvcc belongs to, linked statically: the binary runs where no driver is.
  get_filename_component(tileproof_nvcc_real ${TILEPROOF_NVCC} REALPATH)
  get_filename_component(tileproof_nvcc_bin ${tileproof_nvcc_real} DIRECTORY)
  get_filename_component(CUDAToolkit_ROOT ${tileproof_nvcc_bin} DIRECTORY)
  find_package(CUDAToolkit QUIET)
  if(TARGET CUDA::cudart_static)
    set(TILEPROOF_HAVE_CUDA TRUE)
  endif()
endif()
if(TILEPROOF_HAVE_CUDA)
  message(STATUS "tileproof: every kernel is compiled by ${TILEPROOF_NVCC} (${CUDAToolkit_VERSION}) too")
elseif(TILEPROOF_CUDA AND TILEPROOF_NVCC)
  message(STATUS "tileproof: ${TILEPROOF_NVCC} comes without libcudart_static.a: CPU only")
else()
  message(STATUS "tileproof: no CUDA toolkit: CPU only")
endif()

set(tileproof_nvcc_targets "")
foreach(architecture IN LISTS TILEPROOF_CUDA_ARCHITECTURES)
  if(NOT architecture MATCHES "^([0-9]+[a-z]?)-(real|virtual)$")
    message(FATAL_ERROR "TILEPROOF_CUDA_ARCHITECTURES: '${architecture}' given, expected NN-real or NN-virtual")
  endif()
  set(number ${CMAKE_MATCH_1})
  if(CMAKE_MATCH_2 STREQUAL "real")
    list(APPEND tileproof_nvcc_targets -gencode arch=compute_${number},code=sm_${number})
  else()
    list(APPEND tileproof_nvcc_targets -gencode arch=compute_${number},code=compute_${number})
  endif()
endforeach()

# tileproof_compile_cuda(source object [flag...]): a rule of the calling directory that makes the object with nvcc.
function(tileproof_compile_cuda source object)
  get_filename_component(name ${object} NAME)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${TILEPROOF_NVCC} -std=c++17 -O3 --fmad=false -Xcompiler -fPIC ${tileproof_nvcc_targets}
            -MD -MF ${object}.d -I${PROJECT_SOURCE_DIR}/harness/include ${ARGN} -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d
    COMMENT "nvcc ${name}" VERBATIM)
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
endfunction()

# Of tileproof_add_kernels(), whose variables it reads: one build of its kernels by the host compiler.
function(tileproof_add_host_build target kind device flavour build)
  add_library(${target} ${kind} ${host_sources})
  add_dependencies(${target} ${arg_NAME}_prepare)
  target_include_directories(${target} BEFORE PRIVATE
    ${PROJECT_SOURCE_DIR}/harness/include/tileproof/shims ${PROJECT_SOURCE_DIR}/harness/include
    ${arg_INCLUDE_DIRECTORIES})
  # Kernels move vectors of one type over storage of another, as CUDA allows.
  # g++ 12 fuses alternating sums and differences (vfmaddsub) in spite of -ffp-contract=off, so the host gets no such
  # instruction: contraction is pinned by the source alone. Locals without a value are for the sanitizing build to judge.
  target_compile_options(${target} PRIVATE ${TILEPROOF_NO_FMA} ${TILEPROOF_KEEP_LOOPS} ${TILEPROOF_VECTOR_WIDTH}
    -ffp-contract=off -fno-strict-aliasing -Wno-unused-function -Wno-unknown-pragmas -Wno-uninitialized
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_compile_definitions(${target} PRIVATE TILEPROOF_ON_CPU TILEPROOF_CPU_FLAVOUR=${flavour}
    "TILEPROOF_DEVICE=\"${device}\"" TILEPROOF_BUILD=${build} "TILEPROOF_VARIANT=\"${arg_VARIANT}\""
    "TILEPROOF_EXPECTED=\"${arg_EXPECTED}\"")
endfunction()

# Lets the static library share a program with other builds of the same sources.
function(tileproof_separate_build target)
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -DARCHIVE=$<TARGET_FILE:${target}> -DSUFFIX=${target} -DNM=${CMAKE_NM}
            -DOBJCOPY=${CMAKE_OBJCOPY} ${ARGN} -P ${tileproof_cmake_dir}/separate_build.cmake VERBATIM)
endfunction()

function(tileproof_add_kernels)
  cmake_parse_arguments(arg "CUDA;SANITIZE;TRACE" "NAME;SOURCE_DIR;PATCH;VARIANT;EXPECTED" "KERNELS;INCLUDE_DIRECTORIES" ${ARGN})
  list(TRANSFORM arg_INCLUDE_DIRECTORIES PREPEND -I OUTPUT_VARIABLE include_flags)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME})
  get_filename_component(dir_name ${arg_SOURCE_DIR} NAME)
  file(GLOB inputs CONFIGURE_DEPENDS ${arg_SOURCE_DIR}/*.cu ${arg_SOURCE_DIR}/*.cuh)
  set(host_sources)
  foreach(kernel IN LISTS arg_KERNELS)
    list(APPEND host_sources ${out}/host/${dir_name}/${kernel}.cpp)
  endforeach()
  # Headers too: what includes them is compiled again in the same build.
  set(copies)
  foreach(input IN LISTS inputs)
    get_filename_component(file ${input} NAME)
    string(REGEX REPLACE "[.]cu$" ".cpp" host_file ${file})
    list(APPEND copies ${out}/${dir_name}/${file} ${out}/host/${dir_name}/${host_file})
  endforeach()
  add_custom_command(
    OUTPUT ${out}/prepared BYPRODUCTS ${copies}
    COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${arg_SOURCE_DIR} -DOUTPUT_DIR=${out} -DPATCH=${arg_PATCH}
            -P ${tileproof_cmake_dir}/prepare_kernel.cmake
    DEPENDS ${inputs} ${arg_PATCH} ${tileproof_cmake_dir}/prepare_kernel.cmake
    COMMENT "Preparing kernels ${arg_NAME}" VERBATIM)
  add_custom_target(${arg_NAME}_prepare DEPENDS ${out}/prepared)

  set_source_files_properties(${host_sources} PROPERTIES GENERATED TRUE)
  tileproof_add_host_build(${arg_NAME}_cpu OBJECT cpu fast ${arg_NAME})
  if(arg_SANITIZE)
    tileproof_add_host_build(${arg_NAME}_cpu_sanitizing STATIC cpu-sanitizing sanitizing ${arg_NAME}_sanitizing)
    target_compile_options(${arg_NAME}_cpu_sanitizing PRIVATE ${tileproof_sanitizing_flags})
    target_compile_definitions(${arg_NAME}_cpu_sanitizing PRIVATE TILEPROOF_SANITIZING)
    tileproof_separate_build(${arg_NAME}_cpu_sanitizing -DWATCH=ON)
    target_link_libraries(${arg_NAME}_cpu_sanitizing INTERFACE tileproof_harness)
    tileproof_add_host_build(${arg_NAME}_cpu_zeroed STATIC cpu-zeroed zeroed ${arg_NAME}_zeroed)
    target_compile_options(${arg_NAME}_cpu_zeroed PRIVATE ${tileproof_zeroed_flags})
    tileproof_separate_build(${arg_NAME}_cpu_zeroed)
  endif()
  if(arg_TRACE)
    tileproof_add_host_build(${arg_NAME}_cpu_traced STATIC cpu-traced traced ${arg_NAME}_traced)
    target_compile_options(${arg_NAME}_cpu_traced PRIVATE -fsanitize-coverage=trace-pc)
    tileproof_separate_build(${arg_NAME}_cpu_traced)
  endif()

  if(arg_CUDA AND TILEPROOF_HAVE_CUDA)
    set(objects)
    foreach(kernel IN LISTS arg_KERNELS)
      tileproof_compile_cuda(${out}/${dir_name}/${kernel}.cu ${out}/${kernel}.cuda.o ${include_flags}
        -DTILEPROOF_BUILD=${arg_NAME}_cuda -DTILEPROOF_DEVICE=\"cuda\" "-DTILEPROOF_VARIANT=\"${arg_VARIANT}\""
        "-DTILEPROOF_EXPECTED=\"${arg_EXPECTED}\"")
      list(APPEND objects ${out}/${kernel}.cuda.o)
    endforeach()
    add_library(${arg_NAME}_cuda STATIC ${objects})
    set_target_properties(${arg_NAME}_cuda PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(${arg_NAME}_cuda PUBLIC CUDA::cudart_static)
    add_dependencies(${arg_NAME}_cuda ${arg_NAME}_prepare)
  endif()
endfunction()
