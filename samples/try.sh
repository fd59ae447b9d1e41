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

# So small a model wanders at the usual temperature: 0.2 and 0.9 are its authors' values. Later options win.

case ${1:--} in
-*) exec build/bin/vklm-chat -m "$model" --temp 0.2 --top-p 0.9 "$@" ;;
esac
question=$1
shift
exec build/bin/vklm-chat -m "$model" --temp 0.2 --top-p 0.9 -p "$question" "$@"
