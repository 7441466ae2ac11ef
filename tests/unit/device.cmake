# The device side of the harness over a runtime that is no GPU's.
set(cuda_dir ${PROJECT_SOURCE_DIR}/harness/execute/cuda)
tileproof_add_kernels(NAME device_kernels SOURCE_DIR ${cuda_dir} KERNELS kernels
                      INCLUDE_DIRECTORIES ${PROJECT_SOURCE_DIR}/harness)
target_compile_definitions(device_kernels_cpu PRIVATE TILEPROOF_CUDA_RUNTIME=fake_cuda)
target_include_directories(device_kernels_cpu PRIVATE ${PROJECT_SOURCE_DIR}/harness)
add_executable(tileproof_device_tests unit/main.cpp unit/device_executor_test.cpp ${cuda_dir}/batch_image.cpp
               ${cuda_dir}/checked.cpp ${cuda_dir}/damage.cpp
               ${cuda_dir}/device_executor.cpp ${cuda_dir}/sparse_memory.cpp ${cuda_dir}/walks.cpp unit/fake_cuda/address_space.cpp unit/fake_cuda/grid_limits.cpp
               unit/fake_cuda/launch_graph.cpp)
target_link_libraries(tileproof_device_tests PRIVATE device_kernels_cpu tileproof_harness tileproof_reference
                      tileproof_properties tileproof_kernels rapidcheck GTest::gtest)
target_include_directories(tileproof_device_tests BEFORE PRIVATE unit/fake_cuda .
                           ${PROJECT_SOURCE_DIR}/reference)
target_compile_definitions(tileproof_device_tests PRIVATE TILEPROOF_CUDA_RUNTIME=fake_cuda TILEPROOF_ON_CPU)
gtest_discover_tests(tileproof_device_tests PROPERTIES TIMEOUT 300 DISCOVERY_TIMEOUT 60)
