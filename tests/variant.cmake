# Builds the tests another way and runs them: VARIANT is sanitizers (address and undefined behaviour) or
# runtime_glsl (every shader compiled at run time).
# cmake -DVARIANT=sanitizers -DSOURCE=the project -DWORK=a build folder -DGENERATOR=Ninja -DMODEL=SmolLM2.gguf
#       -P variant.cmake
set(options_sanitizers -DCMAKE_BUILD_TYPE=Debug
    "-DCMAKE_C_FLAGS=-O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all")
set(options_runtime_glsl -DCMAKE_BUILD_TYPE=Release -DVKLM_RUNTIME_GLSL=ON)

# The drivers' own leaks, by the name of the library that made them.
set(ENV{LSAN_OPTIONS} "suppressions=${SOURCE}/tests/driver_leaks.txt:print_suppressions=0")
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
foreach(step configure build)
  set(configure -S "${SOURCE}" -B "${WORK}" -G "${GENERATOR}" ${options_${VARIANT}} -DVKLM_WERROR=ON
                -DVKLM_SAMPLES=OFF -DVKLM_TESTS=ON "-DVKLM_TEST_MODEL=${MODEL}")
  set(build --build "${WORK}" --parallel ${cores})
  execute_process(COMMAND "${CMAKE_COMMAND}" ${${step}} OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${said}")
  endif()
endforeach()
# Left out: what looks at the source tree or at the library as a file, which the main build's tests did; with
# sanitizers the kernels and decode in all its shapes, whose work is the driver's (test_forward and test_sessions run
# the code around them); with shaders compiled at run time what loads model after model, each of which would compile
# them all again (the kernels' own tests, test_forward and test_session do it a few times).
set(leave_out "test_layers|symbols|consume|spirv")
set(leave_out_sanitizers "test_kernel.*|test_decode")
set(leave_out_runtime_glsl "test_faults|test_start|test_decode|test_adopt|test_batch|test_cache|test_conversation")
string(APPEND leave_out_runtime_glsl "|test_estimate|test_save|test_sessions|test_source|test_stop")
execute_process(COMMAND "${CMAKE_CTEST_COMMAND}" --test-dir "${WORK}" --output-on-failure
                        -E "^(${leave_out}|${leave_out_${VARIANT}})$" COMMAND_ERROR_IS_FATAL ANY)
