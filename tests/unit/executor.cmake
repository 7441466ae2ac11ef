# Tests of the CPU executor. Their kernels go through the same step as the shipped ones.
tileproof_add_kernels(NAME executor_kernels SOURCE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/unit/kernels
                      KERNELS executor_kernels CUDA INCLUDE_DIRECTORIES ${CMAKE_CURRENT_SOURCE_DIR}/unit/kernels)
add_executable(tileproof_executor_tests unit/cuda_on_cpu_test.cpp unit/kernels/prepare_kernel_test.cpp)
target_link_libraries(tileproof_executor_tests PRIVATE executor_kernels_cpu tileproof_harness Eigen3::Eigen
                      GTest::gtest_main)
target_include_directories(tileproof_executor_tests PRIVATE unit/kernels)
target_compile_definitions(tileproof_executor_tests PRIVATE
  TILEPROOF_CMAKE="${CMAKE_COMMAND}" TILEPROOF_PREPARE="${PROJECT_SOURCE_DIR}/harness/cmake/prepare_kernel.cmake")
gtest_discover_tests(tileproof_executor_tests PROPERTIES TIMEOUT 120)
