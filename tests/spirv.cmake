# Validates every module of the shader table.   cmake -DSPIRV_VAL=spirv-val -DLIST=shaders/list.txt -P spirv.cmake
get_filename_component(folder "${LIST}" DIRECTORY)
file(STRINGS "${LIST}" lines)
foreach(line IN LISTS lines)
  string(REGEX REPLACE " .*$" "" name "${line}")
  execute_process(COMMAND "${SPIRV_VAL}" --target-env vulkan1.2 "${folder}/${name}.spv"
                  RESULT_VARIABLE refused ERROR_VARIABLE why OUTPUT_VARIABLE why)
  if(refused)
    message(SEND_ERROR "${name}: ${why}")
  endif()
endforeach()
