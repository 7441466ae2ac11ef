# Kernels that are not those of the project, built by the same function from sources that know nothing of the
# sanitizer: clean, and each fault from a patch.
set(small_dir ${CMAKE_CURRENT_SOURCE_DIR}/unit/kernels/small)
tileproof_add_kernels(NAME small SOURCE_DIR ${small_dir} KERNELS block_sum last_block_sum softmax_row transpose
                      SANITIZE CUDA)
target_link_libraries(tileproof_unit_tests PRIVATE small_cpu small_cpu_sanitizing small_cpu_zeroed)
foreach(fault block_sum_deadlock block_sum_no_barrier block_sum_barrier_in_branch last_block_sum_no_fence last_block_sum_no_sync
              softmax_row_shuffle_in_branch softmax_row_lane_without_value transpose_no_barrier transpose_no_bound)
  string(REGEX MATCH "^(block_sum|last_block_sum|softmax_row|transpose)" kernel ${fault})
  tileproof_add_kernels(NAME ${fault} SOURCE_DIR ${small_dir} KERNELS ${kernel} VARIANT @${fault} SANITIZE
                        PATCH ${CMAKE_CURRENT_SOURCE_DIR}/unit/kernels/small_faults/${fault}.patch)
  target_link_libraries(tileproof_unit_tests PRIVATE ${fault}_cpu_sanitizing ${fault}_cpu_zeroed)
endforeach()
