# What `cmake --install` puts where: headers, library, a CMake package and a pkg-config file. samples/ adds
# the programs. Tests: tests/consume/.
include(CMakePackageConfigHelpers)
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/vklm")
set(made "${PROJECT_BINARY_DIR}/package")

install(TARGETS vklm EXPORT vklmTargets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT vklmTargets NAMESPACE vklm:: DESTINATION "${package_folder}")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/vklmConfig.cmake.in" "${made}/vklmConfig.cmake"
                              INSTALL_DESTINATION "${package_folder}")
# Before 1.0 a new minor version may break programs.
write_basic_package_version_file("${made}/vklmConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${made}/vklmConfig.cmake" "${made}/vklmConfigVersion.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/pcre2.cmake" "${CMAKE_CURRENT_LIST_DIR}/glslang_library.cmake"
        DESTINATION "${package_folder}")

# In the pkg-config file a static library names what it needs in the open, so that a plain
# `pkg-config --libs vklm` links.
if(VKLM_RUNTIME_GLSL AND NOT BUILD_SHARED_LIBS)
  message(STATUS "No pkg-config file: a static vklm with glslang is found by its CMake package only")
  return()
endif()
set(requires libpcre2-8)
set(libs "")
if(UNIX)
  set(libs m ${CMAKE_DL_LIBS})
  list(TRANSFORM libs PREPEND -l)
  list(APPEND libs -pthread)
  list(JOIN libs " " libs)
endif()
if(BUILD_SHARED_LIBS)
  set(pc_private "Requires.private: ${requires}\nLibs.private: ${libs}")
else()
  set(pc_requires "${requires}")
  set(pc_flags "-DVKLM_STATIC")
  set(pc_libs "${libs}")
endif()
file(RELATIVE_PATH pc_up "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" pc_up "${pc_up}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/vklm.pc.in" "${made}/vklm.pc" @ONLY)
install(FILES "${made}/vklm.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
