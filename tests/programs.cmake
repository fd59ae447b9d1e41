# Runs the programs as people do: help, mistakes, and a real model where there is one.
# cmake -DBIN=build/bin [-DMODEL=SmolLM2.gguf] [-DEMULATOR=what runs them] [-DENDING=.exe] -P programs.cmake

# check(EXIT code OUT regex ERR regex [IN text] [ENV NAME=VALUE ...] RUN program argument...)
function(check)
  cmake_parse_arguments(want "" "EXIT;OUT;ERR;IN" "ENV;RUN" ${ARGN})
  list(POP_FRONT want_RUN program)
  file(WRITE "${BIN}/input.txt" "${want_IN}")
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env ${want_ENV} ${EMULATOR} "${BIN}/vklm-${program}${ENDING}" ${want_RUN}
                  INPUT_FILE "${BIN}/input.txt" RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  file(REMOVE "${BIN}/input.txt")
  foreach(which out err)
    string(TOUPPER ${which} key)
    if(NOT "${${which}}" MATCHES "${want_${key}}")
      message(SEND_ERROR "vklm-${program} ${want_RUN}: std${which} is not like ${want_${key}}:\n${${which}}")
    endif()
  endforeach()
  if(NOT code EQUAL want_EXIT)
    message(SEND_ERROR "vklm-${program} ${want_RUN}: ended with ${code} instead of ${want_EXIT}:\n${err}")
  endif()
endfunction()

# The program has left a picture.
function(check_png program file)
  file(READ "${file}" begin LIMIT 8 HEX)
  if(NOT begin STREQUAL "89504e470d0a1a0a")
    message(SEND_ERROR "vklm-${program} ${ARGN} has left no PNG file")
  endif()
  file(REMOVE "${file}")
endfunction()

set(ENV{XDG_CACHE_HOME} "${BIN}/user-cache")
set(no_file "${BIN}/no-such-file.gguf")
set(chat_needs -p Hello)
set(programs bench chat eval tokens)
set(game "")
if(EXISTS "${BIN}/vklm-game") # it is left out where its libraries are missing
  set(game yes)
  list(APPEND programs game)
  set(game_needs --headless --size 160x90)
endif()
foreach(program IN LISTS programs)
  check(EXIT 0 OUT "^[^\n]*vklm-${program}" ERR "^$" RUN ${program} --help)
  check(EXIT 0 OUT "[0-9]+\\.[0-9]+\\.[0-9]+" ERR "^$" RUN ${program} --version)
  check(EXIT 2 OUT "^$" ERR "no-such-option" RUN ${program} --no-such-option)
  check(EXIT 1 OUT "^$" ERR "no-such-file" RUN ${program} -m ${no_file} ${${program}_needs})
endforeach()
check(EXIT 2 OUT "^$" ERR "such as 15043.1.5 .*not '12'" RUN chat -m ${no_file} -p Hello --logit-bias 12)
check(EXIT 2 OUT "^$" ERR "not '12[+]x'" RUN chat -m ${no_file} -p Hello --logit-bias 12+x)
check(EXIT 2 OUT "^$" ERR "go together" RUN bench -m ${no_file} --plan --profile)
check(EXIT 2 OUT "^$" ERR "part of --profile" RUN bench -m ${no_file} --trace trace.json)
check(EXIT 2 OUT "^$" ERR "part of --tune" RUN bench -m ${no_file} --tune-field matmul8)
check(EXIT 2 OUT "^$" ERR "speeds alone" RUN bench -m ${no_file} --plan -o json)
check(EXIT 2 OUT "^$" ERR "usage" RUN hello)
check(EXIT 2 OUT "^$" ERR "usage" RUN adopt)
check(EXIT 1 OUT "^.?$" ERR "no-such-file" RUN adopt ${no_file})
check(EXIT 1 OUT "^$" ERR "no-such-file" RUN hello ${no_file})

# The game without a window, under the validation layer where that is installed: a message makes its exit code 1.
set(picture "${BIN}/game.png")
set(play --headless --validate --size 320x180 --layers 1 --pause 0)
if(game)
  check(EXIT 2 OUT "^$" ERR "--no-model" RUN game --headless)
  check(EXIT 2 OUT "^$" ERR "no size" RUN game --no-model --size 12y4)
  check(EXIT 1 OUT "^$" ERR "no font that FreeType can read" RUN game --no-model --headless --font "${BIN}/vklm-eval")
  check(EXIT 1 OUT "^$" ERR "Vulkan" ENV VK_DRIVER_FILES=/none VK_ICD_FILENAMES=/none RUN game --no-model --headless)
  check(EXIT 1 OUT "^$" ERR "--headless" ENV DISPLAY= WAYLAND_DISPLAY= RUN game --no-model)
  check(EXIT 0 OUT "320x180.* 5 frames .* 0 tokens" ERR "" RUN game ${play} --no-model --frames 5 --out ${picture})
  check_png(game ${picture} --no-model)
endif()

# The window, drawn into memory.
set(window "${BIN}/window.png")
set(unseen SDL_VIDEODRIVER=dummy)
set(desktop "")
if(EXISTS "${BIN}/vklm-desktop")
  set(desktop yes)
else()
  message(STATUS "No vklm-desktop (its build needs SDL2): it is not tested")
endif()
if(desktop)
  check(EXIT 0 OUT "^[^\n]*vklm-desktop" ERR "^$" RUN desktop --help)
  check(EXIT 2 OUT "^$" ERR "no-such-option" RUN desktop --no-such-option)
  check(EXIT 2 OUT "^$" ERR "--window takes W,H" RUN desktop --window 400)
  check(EXIT 1 OUT "^$" ERR "there is no window" ENV SDL_VIDEODRIVER=none RUN desktop)
  check(EXIT 1 OUT "no model" ERR "no-such-file.gguf cannot be read. samples/get-model.sh fetches one" ENV ${unseen}
        RUN desktop -m ${no_file} --exit-after-reply --report --screenshot ${window})
  check_png(desktop ${window} -m ${no_file})
  check(EXIT 1 OUT "^$" ERR "The model cannot be loaded: .*GGUF" ENV ${unseen}
        RUN desktop -m ${BIN}/vklm-desktop --exit-after-reply)
endif()

if(NOT EXISTS "${MODEL}")
  message(STATUS "No model: the rest is skipped")
  return()
endif()
check(EXIT 1 OUT "^$" ERR "Vulkan" ENV VK_DRIVER_FILES=/none VK_ICD_FILENAMES=/none RUN eval -m ${MODEL})
check(EXIT 0 OUT "^6403 1980 253 655\n28 260 2240 282 23324 27108 436 253\n$" ERR "" IN "Once upon a time"
      RUN eval -m ${MODEL} -n 8 --precision high --kv f32)
check(EXIT 0 OUT "^6403 1980 253 655\n?$" ERR "" IN "Once upon a time" RUN tokens -m ${MODEL})
check(EXIT 0 OUT "^Once upon a time\n?$" ERR "" IN "6403 1980 253 655" RUN tokens -m ${MODEL} --decode)
# By a name that is not ASCII, and a question that is not.
file(MAKE_DIRECTORY "${BIN}/模型")
set(named "${BIN}/模型/é.gguf")
file(CREATE_LINK "${MODEL}" "${named}" SYMBOLIC COPY_ON_ERROR)
check(EXIT 0 OUT "Paris" ERR ""
      RUN chat -m ${named} --precision high --temp 0 -n 16 -p "今天天气很好. Reply: what is the capital of France?")
check(EXIT 0 OUT "^The capital of France is \n$" ERR ""
      RUN chat -m ${named} --precision high --temp 0 -n 16 -p "What is the capital of France?" --stop xyz --stop Paris)
check(EXIT 0 OUT "^ *Paris *Paris" ERR ""
      RUN chat -m ${named} --precision high --temp 0 -n 4 -p Hello --logit-bias 1-inf --logit-bias 7042+100)
file(REMOVE_RECURSE "${BIN}/模型")
check(EXIT 0 OUT "[a-z]+" ERR "program's own again" RUN adopt ${MODEL} "What is the capital of France?")
check(EXIT 0 OUT "[a-z]+" ERR "" RUN hello ${MODEL} "What is the capital of France?")
check(EXIT 0 OUT "pp16.*tg4" ERR "" RUN bench -m ${MODEL} -p 16 -n 4 -r 1)
check(EXIT 0 OUT "pp16.*embed.*A step of decode at a depth of 9.*153 dispatches" ERR "^$"
      RUN bench -m ${MODEL} -p 16 -n 4 -d 9 --plan)
check(EXIT 0 OUT "A step of decode.*attention_local.*present.*[.]attention_local = [0-9]+,\n" ERR "^$"
      RUN bench -m ${MODEL} -p 0 -n 4 --tune --tune-field attention_local --tune-seconds 600)
if(desktop)
  check(EXIT 1 OUT "^$" ERR "There is no Vulkan device that a model could run on"
        ENV ${unseen} VK_DRIVER_FILES=/none VK_ICD_FILENAMES=/none RUN desktop -m ${MODEL} --exit-after-reply)
  check(EXIT 0 OUT "loading .*\nreading .*\nwriting " ERR "^$" ENV ${unseen}
        RUN desktop -m ${MODEL} --prompt Hello -n 3 --exit-after-reply --report --screenshot ${window})
  check_png(desktop ${window} -m ${MODEL})
  check(EXIT 0 OUT "" ERR "^$" ENV ${unseen} RUN desktop -m ${MODEL} --prompt Hello --exit-after 0.2)
  check(EXIT 1 OUT "^$" ERR "The message cannot be answered: .*context" ENV ${unseen}
        RUN desktop -m ${MODEL} --prompt "A message of many words" -c 8 --exit-after-reply)
endif()
set(trace "${BIN}/trace.json")
check(EXIT 0 OUT "pp16.*share.*sum .*A step.*head.*sum .* in 153 dispatches" ERR "^$"
      RUN bench -m ${MODEL} -p 16 -n 4 -r 1 --profile --trace ${trace})
file(READ "${trace}" events)
file(REMOVE "${trace}")
string(JSON n_events LENGTH "${events}" traceEvents)
string(REGEX MATCHALL "\"ph\":\"X\"" dispatches "${events}")
list(LENGTH dispatches n_dispatches)
math(EXPR n_named "${n_dispatches} + 2") # and the names of two threads
if(n_dispatches LESS 306 OR NOT n_events EQUAL n_named)
  message(SEND_ERROR "vklm-bench --trace wrote ${n_events} events, ${n_dispatches} of them dispatches")
endif()
if(game)
  check(EXIT 0 OUT "\"budget_ms\": 500.0, .*\"tokens\": [3-9]" ERR ""
        RUN game ${play} -m ${MODEL} --frames 5000 --tokens 3 --budget-ms 500 --json --out ${picture})
  check_png(game ${picture} -m ${MODEL})
endif()

# What the driver compiled is kept; a file that is damaged is told of once, and replaced.
set(kept "${BIN}/user-cache/vklm/pipelines")
set(short -m ${MODEL} --ids 1 -n 1)
if(UNIX AND NOT EMULATOR) # Wine keeps the folders of Windows elsewhere
  file(REMOVE "${kept}")
  check(EXIT 0 OUT "" ERR "^$" RUN eval ${short} --no-cache)
  if(EXISTS "${kept}")
    message(SEND_ERROR "--no-cache has written ${kept}")
  endif()
  check(EXIT 0 OUT "" ERR "^$" RUN eval ${short})
  file(WRITE "${kept}" "damaged")
  check(EXIT 0 OUT "" ERR "^$" RUN eval ${short} --no-cache)
  check(EXIT 0 OUT "" ERR "warning: the pipeline cache is damaged" RUN eval ${short})
  check(EXIT 0 OUT "" ERR "^$" RUN eval ${short})
endif()
check(EXIT 0 OUT "" ERR "loaded in .* by 1 threads.*first token after .*peak memory"
      RUN chat -m ${MODEL} -v --threads 1 --temp 0 -n 1 -p Hello)
