# libedit: the line editor of vklm-chat, whose lines the console edits on Windows.
if(NOT WIN32)
  find_path(VKLM_LIBEDIT_INCLUDE histedit.h)
  find_library(VKLM_LIBEDIT_LIBRARY edit)
  mark_as_advanced(VKLM_LIBEDIT_INCLUDE VKLM_LIBEDIT_LIBRARY)
  vklm_require("libedit (for vklm-chat; VKLM_SAMPLES=OFF goes without)" libedit-dev libedit
               VKLM_LIBEDIT_INCLUDE VKLM_LIBEDIT_LIBRARY)
  add_library(vklm_libedit INTERFACE)
  add_library(vklm::libedit ALIAS vklm_libedit)
  target_include_directories(vklm_libedit SYSTEM INTERFACE "${VKLM_LIBEDIT_INCLUDE}")
  target_link_libraries(vklm_libedit INTERFACE "${VKLM_LIBEDIT_LIBRARY}")
endif()
