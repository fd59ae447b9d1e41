# Toolchain: from Linux to 64-bit Windows by mingw-w64 (Debian's gcc-mingw-w64-x86-64), with the tests run by Wine.
# third_party/windows_dependencies.sh makes VKLM_WINDOWS_PREFIX; the preset "windows" names this file.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(triple x86_64-w64-mingw32)
# Debian has each compiler with the system's threads and with POSIX threads on top of them; vklm needs the first.
find_program(VKLM_MINGW_C NAMES ${triple}-gcc-win32 ${triple}-gcc)
find_program(VKLM_MINGW_CXX NAMES ${triple}-g++-win32 ${triple}-g++)
mark_as_advanced(VKLM_MINGW_C VKLM_MINGW_CXX)
if(NOT VKLM_MINGW_C)
  message(FATAL_ERROR "There is no mingw-w64 here: on Debian 12 or newer third_party/setup.sh --windows installs it.")
endif()
set(CMAKE_C_COMPILER "${VKLM_MINGW_C}")
if(VKLM_MINGW_CXX)
  set(CMAKE_CXX_COMPILER "${VKLM_MINGW_CXX}")
endif()
set(CMAKE_RC_COMPILER ${triple}-windres)

set(VKLM_WINDOWS_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../build-windows/dependencies" CACHE PATH
    "Where the dependencies for Windows are installed")
set(CMAKE_FIND_ROOT_PATH "${VKLM_WINDOWS_PREFIX}" ${CMAKE_PREFIX_PATH} /usr/${triple})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES VKLM_WINDOWS_PREFIX)

set(CMAKE_CROSSCOMPILING_EMULATOR "${CMAKE_CURRENT_LIST_DIR}/wine.sh")
