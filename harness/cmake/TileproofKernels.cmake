# tileproof_add_kernels(NAME name SOURCE_DIR dir KERNELS a b [PATCH file] [VARIANT text] [EXPECTED text]
#                       [INCLUDE_DIRECTORIES dir...] [CUDA])
#
# Builds dir/a.cu, dir/b.cu for the CPU executor as object library <name>_cpu and, with CUDA where nvcc was found, as
# static library <name>_cuda (TILEPROOF_HAVE_CUDA says whether there was one). PATCH is applied to a copy of the whole directory first. VARIANT ("@fault") and EXPECTED (the properties
# that find it) become part of the subjects' declarations. Editing a source, a header or the patch prepares the copies
# anew, and what changed in them is compiled.
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

function(tileproof_add_kernels)
  cmake_parse_arguments(arg "CUDA" "NAME;SOURCE_DIR;PATCH;VARIANT;EXPECTED" "KERNELS;INCLUDE_DIRECTORIES" ${ARGN})
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

  set(definitions TILEPROOF_BUILD=${arg_NAME} "TILEPROOF_VARIANT=\"${arg_VARIANT}\""
                  "TILEPROOF_EXPECTED=\"${arg_EXPECTED}\"")
  set_source_files_properties(${host_sources} PROPERTIES GENERATED TRUE)
  add_library(${arg_NAME}_cpu OBJECT ${host_sources})
  add_dependencies(${arg_NAME}_cpu ${arg_NAME}_prepare)
  target_include_directories(${arg_NAME}_cpu BEFORE PRIVATE
    ${PROJECT_SOURCE_DIR}/harness/include/tileproof/shims ${PROJECT_SOURCE_DIR}/harness/include
    ${arg_INCLUDE_DIRECTORIES})
  # Kernels move vectors of one type over storage of another, as CUDA allows.
  # g++ 12 fuses alternating sums and differences (vfmaddsub) in spite of -ffp-contract=off, so the host gets no such
  # instruction: contraction is pinned by the source alone.
  target_compile_options(${arg_NAME}_cpu PRIVATE
    ${TILEPROOF_NO_FMA} ${TILEPROOF_KEEP_LOOPS} ${TILEPROOF_VECTOR_WIDTH} -ffp-contract=off -fno-strict-aliasing -Wno-unused-function -Wno-unknown-pragmas)
  target_compile_definitions(${arg_NAME}_cpu PRIVATE TILEPROOF_ON_CPU "TILEPROOF_DEVICE=\"cpu\"" ${definitions})

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
