# glslang: the program compiles the shaders at build time; its C library does so at run time, where asked.
find_program(VKLM_GLSLANG NAMES glslangValidator glslang HINTS "$ENV{VULKAN_SDK}/bin")
mark_as_advanced(VKLM_GLSLANG)
vklm_require("glslang's compiler" glslang-tools "glslang[tools]" VKLM_GLSLANG)

if(VKLM_GLSLANG)
  execute_process(COMMAND "${VKLM_GLSLANG}" --version OUTPUT_VARIABLE glslang_says ERROR_QUIET)
  string(REGEX MATCH "Glslang Version: ([0-9]+:)?([0-9.]+)" glslang_says "${glslang_says}")
  set(vklm_glslang_version "${CMAKE_MATCH_2}")
endif()

if(VKLM_RUNTIME_GLSL)
  include("${CMAKE_CURRENT_LIST_DIR}/glslang_library.cmake")
  vklm_require("glslang's library (for VKLM_RUNTIME_GLSL)" glslang-dev glslang glslang_FOUND)
endif()
