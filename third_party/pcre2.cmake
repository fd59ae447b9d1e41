# PCRE2, 8-bit: the patterns that split text before BPE. This file is also installed with the CMake package,
# where it finds PCRE2 for programs that link the static library.
find_path(VKLM_PCRE2_INCLUDE pcre2.h)
find_library(VKLM_PCRE2_LIBRARY NAMES pcre2-8 pcre2-8-static pcre2-8d pcre2-8-staticd)
mark_as_advanced(VKLM_PCRE2_INCLUDE VKLM_PCRE2_LIBRARY)
if(COMMAND vklm_require)
  vklm_require("PCRE2" libpcre2-dev pcre2 VKLM_PCRE2_INCLUDE VKLM_PCRE2_LIBRARY)
endif()

if(NOT TARGET vklm::pcre2 AND VKLM_PCRE2_LIBRARY)
  add_library(vklm::pcre2 UNKNOWN IMPORTED)
  set_target_properties(vklm::pcre2 PROPERTIES IMPORTED_LOCATION "${VKLM_PCRE2_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${VKLM_PCRE2_INCLUDE}")
  # On Windows its header must be told of a static library.
  if(VKLM_PCRE2_LIBRARY MATCHES "-static|\\.a$" AND NOT VKLM_PCRE2_LIBRARY MATCHES "\\.dll\\.a$")
    set_property(TARGET vklm::pcre2 PROPERTY INTERFACE_COMPILE_DEFINITIONS PCRE2_STATIC)
  endif()
endif()
