# Installs the library as a static and as a shared one, checks their symbols, and builds and runs the program
# of this folder against them by each way in.
# cmake -DSOURCE=the project -DWORK=an empty folder -DNM=nm -DGENERATOR=Ninja -P run.cmake
set(common -G "${GENERATOR}" -DCMAKE_BUILD_TYPE=Debug --no-warn-unused-cli)
file(REMOVE_RECURSE "${WORK}")

function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE out ERROR_VARIABLE out RESULT_VARIABLE failed)
  if(failed)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${out}")
  endif()
endfunction()

function(build source folder)
  run("${CMAKE_COMMAND}" -S "${source}" -B "${folder}" ${common} ${ARGN})
  run("${CMAKE_COMMAND}" --build "${folder}" --parallel 2)
endfunction()

function(consume how folder)
  build("${SOURCE}/tests/consume" "${folder}" -DHOW=${how} ${ARGN})
  run("${CMAKE_CTEST_COMMAND}" --test-dir "${folder}" --output-on-failure)
  message(STATUS "${folder}: built and ran")
endfunction()

foreach(kind static shared)
  string(COMPARE EQUAL ${kind} shared shared)
  set(prefix "${WORK}/${kind}")
  build("${SOURCE}" "${prefix}-build" -DBUILD_SHARED_LIBS=${shared} -DVKLM_TESTS=OFF -DVKLM_SAMPLES=OFF
        "-DCMAKE_INSTALL_PREFIX=${prefix}" -DCMAKE_INSTALL_LIBDIR=lib)
  run("${CMAKE_COMMAND}" --install "${prefix}-build")
  file(GLOB library "${prefix}/lib/libvklm.a" "${prefix}/lib/libvklm.so")
  run("${CMAKE_COMMAND}" "-DNM=${NM}" "-DLIBRARY=${library}" -P "${SOURCE}/tests/symbols.cmake")
  consume(package "${prefix}-package" "-DCMAKE_PREFIX_PATH=${prefix}")
  if(EXISTS "${PKG_CONFIG}")
    consume(pkgconfig "${prefix}-pkgconfig" "-DCMAKE_PREFIX_PATH=${prefix}")
  endif()
endforeach()
consume(subdirectory "${WORK}/subdirectory" "-DVKLM_SOURCE=${SOURCE}")
