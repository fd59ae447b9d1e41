# What vklm-game needs beyond the other programs: its libraries, volk under its usual names, its shaders.
# vklm_game_missing: empty where all is here.
include("${PROJECT_SOURCE_DIR}/third_party/glfw.cmake")
include("${PROJECT_SOURCE_DIR}/third_party/freetype.cmake")
include("${PROJECT_SOURCE_DIR}/third_party/libpng.cmake")
set(vklm_game_missing ${vklm_lacks_glfw} ${vklm_lacks_freetype} ${vklm_lacks_libpng})
if(NOT CMAKE_USE_PTHREADS_INIT)
  list(APPEND vklm_game_missing "POSIX threads")
endif()

# Shaders as C headers: scene.frag becomes `const uint32_t scene_frag[]` in scene_frag.h.
function(vklm_game_shaders target)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/game_shaders")
  file(MAKE_DIRECTORY "${folder}")
  foreach(shader scene.vert scene.frag canvas.vert canvas.frag)
    string(REPLACE "." "_" name "${shader}")
    set(source "${CMAKE_CURRENT_SOURCE_DIR}/game/shaders/${shader}")
    add_custom_command(OUTPUT "${folder}/${name}.h" DEPENDS "${source}" VERBATIM COMMENT "Shader ${shader}"
                       COMMAND "${VKLM_GLSLANG}" --quiet -V --target-env vulkan1.2 -g0 --vn ${name}
                               -o "${folder}/${name}.h" "${source}")
    target_sources(${target} PRIVATE "${folder}/${name}.h")
  endforeach()
  target_include_directories(${target} SYSTEM PRIVATE "${folder}")
endfunction()

function(vklm_complete_game target)
  vklm_game_shaders(${target})
  # volk as a library of its own, for its code does not follow our warnings.
  add_library(vklm_game_volk STATIC "${VKLM_VOLK_INCLUDE}/volk.c")
  target_include_directories(vklm_game_volk SYSTEM PUBLIC "${VKLM_VOLK_INCLUDE}" "${VKLM_VULKAN_INCLUDE}")
  target_compile_definitions(vklm_game_volk PUBLIC VK_NO_PROTOTYPES)
  target_link_libraries(vklm_game_volk PUBLIC ${CMAKE_DL_LIBS})
  target_link_libraries(${target} PRIVATE vklm_game_volk glfw Freetype::Freetype PNG::PNG Threads::Threads)
endfunction()
