# volk (a Vulkan loader in one C file) and the Vulkan headers. The library compiles volk's C file itself,
# with every global renamed from vkX and volkX to vki_vkX and vki_volkX: see src/gpu/vulkan.h.
find_path(VKLM_VULKAN_INCLUDE vulkan/vulkan_core.h HINTS "$ENV{VULKAN_SDK}/include")
find_path(VKLM_VOLK_INCLUDE NAMES volk.c PATH_SUFFIXES volk HINTS "$ENV{VULKAN_SDK}/include")
mark_as_advanced(VKLM_VULKAN_INCLUDE VKLM_VOLK_INCLUDE)
vklm_require("the Vulkan headers" libvulkan-dev vulkan-headers VKLM_VULKAN_INCLUDE)
vklm_require("volk" libvulkan-volk-dev volk VKLM_VOLK_INCLUDE)

set(vklm_generated "${PROJECT_BINARY_DIR}/generated")
if(VKLM_VOLK_INCLUDE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${VKLM_VOLK_INCLUDE}/volk.h")
  file(READ "${VKLM_VOLK_INCLUDE}/volk.h" volk_header)
  string(REGEX MATCHALL "extern PFN_vk[A-Za-z0-9_]+ vk[A-Za-z0-9_]+" pointers "${volk_header}")
  list(TRANSFORM pointers REPLACE "^.* " "")
  string(REGEX MATCHALL "volk[A-Z][A-Za-z0-9]*\\(" functions "${volk_header}")
  list(TRANSFORM functions REPLACE "\\($" "")
  set(names ${pointers} ${functions})
  list(REMOVE_DUPLICATES names)
  list(TRANSFORM names REPLACE "^(.+)$" "#define \\1 vki_\\1")
  list(JOIN names "\n" names)
  file(CONFIGURE OUTPUT "${vklm_generated}/volk_names.h" @ONLY CONTENT
       "/* Made from the installed volk.h: the library's own names for volk's globals. */\n@names@\n")
endif()

add_library(vklm_volk INTERFACE)
add_library(vklm::volk ALIAS vklm_volk)
target_include_directories(vklm_volk SYSTEM INTERFACE "${VKLM_VOLK_INCLUDE}" "${VKLM_VULKAN_INCLUDE}")
