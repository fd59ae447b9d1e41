#!/bin/sh
# Builds everything for Windows with mingw-w64 and runs it by Wine: the tests, programs that link the library as an
# archive and as a DLL, and the programs on a real model. Vulkan is this machine's: Wine passes it on, and wants a
# display for it, which Xvfb is. Installs what is missing first.
# Left out, unless options say otherwise: the tests of kernels and decode, whose work is the driver's, the same as on
# Linux.   usage: tests/windows.sh [OPTION OF ctest ...]
set -eu
cd "$(dirname "$0")/.."

third_party/setup.sh --windows
[ -n "${DISPLAY:-}" ] || exec xvfb-run --auto-servernum tests/windows.sh "$@"
third_party/windows_dependencies.sh
model=$(samples/get-model.sh smollm2) || {
    model=
    echo "tests: SmolLM2 cannot be fetched; the tests that run it are skipped" >&2
}
ninja=
[ -f build-windows/CMakeCache.txt ] || ninja=$(command -v ninja || :)
cmake --preset windows ${ninja:+-G Ninja} -DVKLM_TESTS=ON -DVKLM_SAMPLES=ON "-DVKLM_TEST_MODEL=$model"
cmake --build build-windows --parallel "$(nproc)"

export WINEPREFIX="$PWD/build-windows/wine"
third_party/wine.sh wineboot --init # so that no test waits for it
[ $# -gt 0 ] || set -- -E '^(test_kernel.*|test_decode|test_faults|spirv)$'
ctest --test-dir build-windows --output-on-failure --parallel "$(nproc)" "$@" </dev/null
