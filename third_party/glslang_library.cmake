# glslang's C library. Also installed with the CMake package, for programs that link the static library.
find_package(glslang CONFIG QUIET)
if(NOT TARGET vklm::glslang AND glslang_FOUND)
  add_library(vklm::glslang INTERFACE IMPORTED)
  set_target_properties(vklm::glslang PROPERTIES INTERFACE_LINK_LIBRARIES
                        "glslang::glslang;glslang::SPIRV;glslang::glslang-default-resource-limits")
endif()
