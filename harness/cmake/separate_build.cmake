# cmake -DARCHIVE=... -DSUFFIX=... -DNM=... -DOBJCOPY=... [-DWATCH=ON] -P separate_build.cmake
#
# Gives every symbol that the archive defines, but for the functions that hand out subjects, a name of its own by a
# suffix: several builds of one source can then share a program, and an inline function of one never stands in for that
# of another. WATCH: calls of memcpy and its like go to the sanitizer.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${NM} --defined-only --extern-only --format=posix ${ARCHIVE}
                OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
set(names "")
if(WATCH)
  string(APPEND names "memcpy tileproof_watched_memcpy\nmemmove tileproof_watched_memmove\n"
                      "memset tileproof_watched_memset\n")
endif()
string(REGEX MATCHALL "[^\n]+" lines "${symbols}")
set(defined "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE " .*" "" name "${line}")
  # Lines without a blank name members of the archive.
  if(line MATCHES " " AND NOT name MATCHES "^tileproof_subject_|^DW[.]ref[.]")
    list(APPEND defined ${name})
  endif()
endforeach()
list(REMOVE_DUPLICATES defined)
foreach(name IN LISTS defined)
  string(APPEND names "${name} ${name}.${SUFFIX}\n")
endforeach()
file(WRITE ${ARCHIVE}.names "${names}")
execute_process(COMMAND ${OBJCOPY} --redefine-syms=${ARCHIVE}.names ${ARCHIVE} COMMAND_ERROR_IS_FATAL ANY)
