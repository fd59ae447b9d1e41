# GLFW: the window of vklm-game, which is left out without it. Sets vklm_lacks_glfw.
find_package(glfw3 3.3 CONFIG QUIET)
set(vklm_lacks_glfw "GLFW: Debian package libglfw3-dev, vcpkg port glfw3")
if(TARGET glfw)
  set(vklm_lacks_glfw "")
endif()
