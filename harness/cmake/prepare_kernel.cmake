# cmake -DSOURCE_DIR=... -DOUTPUT_DIR=... [-DPATCH=...] -P prepare_kernel.cmake
#
# Copies the CUDA sources of SOURCE_DIR to OUTPUT_DIR/<name of SOURCE_DIR>, applies PATCH (paths a/<name>/x.cu), and
# writes beside each x.cu a x.cpp for the host compiler. Two spellings of CUDA are no C++; they are rewritten in place,
# so that line numbers stay:
#   kernel<<<grid, block, shared, stream>>>(...)   ->  ::tileproof::cpu::launcher(kernel, grid, block, shared, stream)(...)
#   extern __shared__ T name[];                    ->  T* const name = static_cast<T*>(::tileproof::cpu::dynamic_shared());
get_filename_component(name ${SOURCE_DIR} NAME)
set(target ${OUTPUT_DIR}/${name})
file(REMOVE_RECURSE ${target})
file(GLOB sources ${SOURCE_DIR}/*.cu ${SOURCE_DIR}/*.cuh)
file(MAKE_DIRECTORY ${target})
file(COPY ${sources} DESTINATION ${target})

if(PATCH)
  execute_process(COMMAND patch --batch --fuzz=0 -p1 -d ${OUTPUT_DIR} -i ${PATCH}
                  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(failed)
    get_filename_component(patch_name ${PATCH} NAME)
    string(STRIP "${said}" said)
    message(FATAL_ERROR "kernels/faults/${patch_name} does not apply to the clean kernels; make it anew from the changed "
                        "source. patch said:\n${said}")
  endif()
endif()

file(GLOB kernels ${target}/*.cu)
foreach(kernel IN LISTS kernels)
  file(READ ${kernel} text)
  string(REGEX REPLACE "([A-Za-z_][A-Za-z0-9_:]*(<[^<>;{}]*>)?)<<<([^;]*)>>>[(]"
                       "::tileproof::cpu::launcher(\\1, \\3)(" text "${text}")
  string(REGEX REPLACE "extern __shared__ ([A-Za-z_][A-Za-z0-9_:]*) ([A-Za-z_][A-Za-z0-9_]*)[[][]];"
                       "\\1* const \\2 = static_cast<\\1*>(::tileproof::cpu::dynamic_shared());" text "${text}")
  string(REGEX REPLACE "[.]cu$" ".cpp" host ${kernel})
  file(WRITE ${host} "#line 1 \"${kernel}\"\n${text}")
endforeach()
file(TOUCH ${OUTPUT_DIR}/prepared)
