# glslang's C library, C++ inside. Also installed with the CMake package, for programs that link the static library.
find_package(Threads QUIET) # which the package of glslang 12 forgets
find_package(glslang CONFIG QUIET)
if(NOT TARGET vklm::glslang AND glslang_FOUND)
  set(libraries glslang::glslang glslang::SPIRV glslang::glslang-default-resource-limits)
  if(APPLE)
    list(APPEND libraries c++)
  elseif(UNIX) # the program may be C alone
    list(APPEND libraries stdc++ m)
  endif()
  add_library(vklm::glslang INTERFACE IMPORTED)
  set_target_properties(vklm::glslang PROPERTIES INTERFACE_LINK_LIBRARIES "${libraries}")
endif()
