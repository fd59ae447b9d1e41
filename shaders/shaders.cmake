# Compiles the shaders to SPIR-V and makes the table that src/gpu/pipeline.h declares.
#
# Every NAME.comp here is one module "NAME", but those of `by_format`, which are compiled once for each
# weight format as "NAME_FORMAT": with -DFORMAT_NAME=q4_0 and -DFORMAT_Q4_0=1, by which lib/format.glsl
# includes format/q4_0.glsl. A new format is a name in `formats`, a file in format/ and a line there.
#
# A shader that requires an extension which the installed glslang does not know is left out.
set(by_format embed matmul matmul8 matmul_coop matmul_coop8 matmul_tile8 matvec matvec8)
set(float_formats f32 f16 bf16) # have no int8 variant
set(formats ${float_formats} q8_0 q4_0 q4_1 q5_0 q5_1 q4_k q6_k)

set(shader_folder "${CMAKE_CURRENT_LIST_DIR}")
set(flags -V --target-env vulkan1.2 -g0 "-I${shader_folder}")
set(spirv_folder "${PROJECT_BINARY_DIR}/shaders")
set(vklm_shader_table "${vklm_generated}/vki_shaders.c")
file(GLOB shader_files CONFIGURE_DEPENDS "${shader_folder}/*.comp")
file(GLOB_RECURSE included CONFIGURE_DEPENDS "${shader_folder}/lib/*" "${shader_folder}/format/*")

# Sets `result` to the extensions that file requires and this glslang refuses.
function(find_unknown_extensions file result)
  set(unknown "")
  file(STRINGS "${file}" lines REGEX "^#extension [A-Za-z0-9_]+ *: *require")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^#extension ([A-Za-z0-9_]+).*$" "\\1" extension "${line}")
    if(NOT DEFINED VKLM_GLSLANG_${vklm_glslang_version}_${extension})
      set(probe "${spirv_folder}/probe.comp")
      file(WRITE "${probe}" "#version 460\n#extension ${extension} : require\nvoid main() {}\n")
      execute_process(COMMAND "${VKLM_GLSLANG}" ${flags} -o "${probe}.spv" "${probe}"
                      RESULT_VARIABLE refused OUTPUT_QUIET ERROR_QUIET)
      string(COMPARE EQUAL "${refused}" 0 known)
      set(VKLM_GLSLANG_${vklm_glslang_version}_${extension} ${known} CACHE INTERNAL "")
    endif()
    if(NOT VKLM_GLSLANG_${vklm_glslang_version}_${extension})
      list(APPEND unknown ${extension})
    endif()
  endforeach()
  set(${result} ${unknown} PARENT_SCOPE)
endfunction()

# Older glslang cannot say which files it read: there every shader depends on all that may be included.
execute_process(COMMAND "${VKLM_GLSLANG}" --help OUTPUT_VARIABLE help ERROR_QUIET)
string(FIND "${help}" "--depfile" says_depfile)

# Adds the module `name`, compiled from `source` with the NAME=VALUE definitions that follow.
function(add_module name source)
  set(spirv "${spirv_folder}/${name}.spv")
  list(TRANSFORM ARGN PREPEND -D OUTPUT_VARIABLE defines)
  set(read_files DEPENDS "${source}" ${included})
  set(write_depfile "")
  if(says_depfile GREATER -1)
    set(read_files DEPENDS "${source}" DEPFILE "${spirv}.d")
    set(write_depfile --depfile "${spirv}.d")
  endif()
  add_custom_command(OUTPUT "${spirv}" ${read_files} VERBATIM COMMENT "Shader ${name}"
                     COMMAND "${VKLM_GLSLANG}" --quiet ${flags} ${defines} ${write_depfile}
                             -o "${spirv}" "${source}")
  get_filename_component(file "${source}" NAME)
  list(JOIN ARGN " " words)
  set(modules ${modules} ${name} PARENT_SCOPE)
  set(spirv_files ${spirv_files} "${spirv}" PARENT_SCOPE)
  set(list_text "${list_text}${name} ${file} ${words}\n" PARENT_SCOPE)
endfunction()

set(modules "")
set(spirv_files "")
set(list_text "")
set(left_out "")
foreach(source IN LISTS shader_files)
  get_filename_component(name "${source}" NAME_WE)
  find_unknown_extensions("${source}" unknown)
  if(unknown)
    list(JOIN unknown ", " unknown)
    list(APPEND left_out "${name} (this glslang lacks ${unknown})")
  elseif(name IN_LIST by_format)
    foreach(format IN LISTS formats)
      string(TOUPPER "${format}" upper)
      if(name MATCHES "8$" AND format IN_LIST float_formats)
        continue()
      endif()
      if(EXISTS "${shader_folder}/format/${format}.glsl")
        add_module(${name}_${format} "${source}" FORMAT_NAME=${format} FORMAT_${upper}=1)
      else()
        list(APPEND left_out "${name}_${format} (no format/${format}.glsl)")
      endif()
    endforeach()
  else()
    add_module(${name} "${source}")
  endif()
endforeach()

file(CONFIGURE OUTPUT "${spirv_folder}/list.txt" CONTENT "${list_text}" @ONLY)
add_custom_command(OUTPUT "${vklm_shader_table}" VERBATIM COMMENT "Shader table"
                   DEPENDS ${spirv_files} "${spirv_folder}/list.txt" "${shader_folder}/embed.cmake"
                   COMMAND "${CMAKE_COMMAND}" "-DLIST=${spirv_folder}/list.txt" "-DTABLE=${vklm_shader_table}"
                           -P "${shader_folder}/embed.cmake")

list(LENGTH modules n_modules)
message(STATUS "Shaders: ${n_modules} modules, glslang ${vklm_glslang_version}")
foreach(what IN LISTS left_out)
  message(STATUS "Shaders: left out ${what}")
endforeach()
