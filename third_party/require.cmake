# Dependencies are looked for one after another and complained about together, each with the packages
# that bring it. FOUND: the names of variables that must all be true.
set(vklm_missing "")

function(vklm_require what debian vcpkg)
  foreach(variable IN LISTS ARGN)
    if(NOT ${variable})
      set(vklm_missing "${vklm_missing}\n  ${what}: Debian package ${debian}, vcpkg port ${vcpkg}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

macro(vklm_end_of_requirements)
  if(vklm_missing)
    message(FATAL_ERROR "vklm needs what is not installed here:${vklm_missing}\n"
            "On Debian 12 or newer third_party/setup.sh installs all of it.")
  endif()
endmacro()
