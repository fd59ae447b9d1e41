# libpng: the pictures of vklm-game and vklm-desktop, which are left out without it. Sets vklm_lacks_libpng.
find_package(PNG QUIET)
set(vklm_lacks_libpng "libpng: Debian package libpng-dev, vcpkg port libpng")
if(TARGET PNG::PNG)
  set(vklm_lacks_libpng "")
endif()
