# Check: the frame of the tests. Debian brings it with a pkg-config file, vcpkg with a CMake package.
find_path(VKLM_CHECK_INCLUDE check.h)
find_library(VKLM_CHECK_LIBRARY NAMES check checkDynamic)
mark_as_advanced(VKLM_CHECK_INCLUDE VKLM_CHECK_LIBRARY)
vklm_require("Check (for the tests; VKLM_TESTS=OFF goes without)" check check
             VKLM_CHECK_INCLUDE VKLM_CHECK_LIBRARY)
add_library(vklm_check INTERFACE)
add_library(vklm::check ALIAS vklm_check)
target_include_directories(vklm_check SYSTEM INTERFACE "${VKLM_CHECK_INCLUDE}")
target_link_libraries(vklm_check INTERFACE "${VKLM_CHECK_LIBRARY}")
if(MINGW) # mingw-w64's own POSIX threads, as an archive
  find_library(VKLM_WINPTHREAD_LIBRARY NAMES libwinpthread.a)
  mark_as_advanced(VKLM_WINPTHREAD_LIBRARY)
  target_link_libraries(vklm_check INTERFACE "${VKLM_WINPTHREAD_LIBRARY}")
elseif(UNIX AND NOT APPLE)
  # What the static libcheck leans on; parts of the C library since glibc 2.34, but for subunit.
  find_library(VKLM_SUBUNIT_LIBRARY subunit)
  mark_as_advanced(VKLM_SUBUNIT_LIBRARY)
  find_package(Threads REQUIRED)
  target_link_libraries(vklm_check INTERFACE Threads::Threads rt m
                        $<$<BOOL:${VKLM_SUBUNIT_LIBRARY}>:${VKLM_SUBUNIT_LIBRARY}>)
endif()
