# Writes the table of shaders as C, from LIST (lines: NAME SOURCE DEFINITION...) and NAME.spv beside it.
# Usage: cmake -DLIST=build/shaders/list.txt -DTABLE=vki_shaders.c -P embed.cmake
get_filename_component(folder "${LIST}" DIRECTORY)
file(STRINGS "${LIST}" lines)
set(arrays "")
set(rows "")
foreach(line IN LISTS lines)
  string(REGEX MATCH "^([^ ]+) ([^ ]+) ?(.*)$" line "${line}")
  set(name "${CMAKE_MATCH_1}")
  set(source "${CMAKE_MATCH_2}")
  string(REPLACE " " "\\n" defines "${CMAKE_MATCH_3}")
  file(READ "${folder}/${name}.spv" words HEX)
  # SPIR-V is a row of 32-bit words; glslang writes them with the low byte first.
  string(REGEX REPLACE "(..)(..)(..)(..)" "0x\\4\\3\\2\\1," words "${words}")
  string(REGEX REPLACE "(0x........,0x........,0x........,0x........,0x........,0x........,0x........,0x........,)"
         "\\1\n" words "${words}")
  string(APPEND arrays "static const uint32_t spv_${name}[] = {\n${words}};\n")
  string(APPEND rows "    {\"${name}\", spv_${name}, sizeof spv_${name}, \"${source}\", \"${defines}\"},\n")
endforeach()
# C has no array of no elements: the row of zeros at the end is not counted.
file(WRITE "${TABLE}" "/* Made from shaders/ by embed.cmake. */\n#include \"gpu/pipeline.h\"\n\n${arrays}
const vki_shader vki_shaders[] = {\n${rows}    {0},\n};
const size_t vki_shader_count = sizeof vki_shaders / sizeof *vki_shaders - 1;\n")
