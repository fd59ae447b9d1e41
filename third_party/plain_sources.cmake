# The target plain_sources: a folder for build systems that know no CMake, with all C of the library, what CMake
# makes of the shaders and of volk.h included. Any C11 compiler builds it in one command; PLAIN.md there names it.
# This file is also the script that fills the folder.   Test: tests/consume/.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(plain_folder "${PROJECT_BINARY_DIR}/plain_sources")
  add_custom_target(plain_sources DEPENDS "${vklm_shader_table}" VERBATIM COMMENT "Plain sources in ${plain_folder}"
                    COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DFOLDER=${plain_folder}"
                            "-DVOLK=${VKLM_VOLK_INCLUDE}" "-DMADE=${vklm_generated}" "-DVERSION=${PROJECT_VERSION}"
                            -P "${CMAKE_CURRENT_LIST_DIR}/plain_sources.cmake")
  return()
endif()

file(REMOVE_RECURSE "${FOLDER}")
file(COPY "${SOURCE}/include" "${SOURCE}/src" "${SOURCE}/LICENSE" DESTINATION "${FOLDER}")
file(COPY "${SOURCE}/shaders/lib/push.h" DESTINATION "${FOLDER}/src/lib")
file(COPY "${MADE}/volk_names.h" "${VOLK}/volk.h" "${VOLK}/volk.c" DESTINATION "${FOLDER}/volk")
file(COPY "${MADE}/vki_shaders.c" DESTINATION "${FOLDER}/src/gpu")
file(GLOB sources RELATIVE "${FOLDER}" "${FOLDER}/src/*/*.c")
list(JOIN sources "\n" lines)
file(WRITE "${FOLDER}/sources.txt" "${lines}\n")
file(WRITE "${FOLDER}/PLAIN.md" "# vklm ${VERSION}, plain sources

Compile src/*/*.c (the same files, a line each: sources.txt) as C11 with include/, src/ and volk/ among the include
folders, and link PCRE2 (8 bit). The Vulkan headers are the system's or the SDK's; no Vulkan library is linked.

    cc -std=c11 -O2 -ffp-contract=off -Iinclude -Isrc -Ivolk yours.c src/*/*.c -lpcre2-8 -lm -ldl -pthread -o yours

On Windows add -DVKLM_STATIC (for your own files that include vklm.h as well), -DPCRE2_STATIC where PCRE2 is a static
library; leave out -lm -ldl -pthread. volk/volk.c is not compiled
by itself. Without -ffp-contract=off some results differ in their last bits from machine to machine.
")
