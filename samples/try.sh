#!/bin/sh
# From a fresh clone to a conversation: installs what is missing, builds, fetches a small model, starts the chat.
# usage: samples/try.sh [QUESTION] [OPTION OF vklm-chat ...]
# With a question: prints one answer on stdout, and nothing else there.
set -eu
cd "$(dirname "$0")/.."

third_party/setup.sh
ninja=$(command -v ninja || :)
{
    if [ ! -f build/CMakeCache.txt ]; then
        cmake -S . -B build -DCMAKE_BUILD_TYPE=Release ${ninja:+-G Ninja}
    fi
    cmake --build build --target programs --parallel "$(nproc)"
} >&2
model=$(samples/get-model.sh smollm2)

# So small a model wanders when drawn at random, or rounded: the likeliest token, f32 activations. Later options win.

case ${1:--} in
-*) exec build/bin/vklm-chat -m "$model" --precision high --temp 0 "$@" ;;
esac
question=$1
shift
exec build/bin/vklm-chat -m "$model" --precision high --temp 0 -p "$question" "$@"
