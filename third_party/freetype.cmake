# FreeType: the text of vklm-game, which is left out without it. Sets vklm_lacks_freetype.
find_package(Freetype QUIET)
set(vklm_lacks_freetype "FreeType: Debian package libfreetype-dev, vcpkg port freetype")
if(TARGET Freetype::Freetype)
  set(vklm_lacks_freetype "")
endif()
