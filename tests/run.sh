#!/bin/sh
# Builds everything with warnings as errors and runs the whole suite: the tests, the same with GLSL compiled at
# run time, the same under the sanitizers, and the programs on a real model. Installs what is missing first.
# usage: tests/run.sh [OPTION OF ctest ...]
set -eu
cd "$(dirname "$0")/.."

third_party/setup.sh
model=$(samples/get-model.sh smollm2) || {
    model=
    echo "tests: SmolLM2 cannot be fetched; the tests that run it are skipped" >&2
}
ninja=
[ -f build/CMakeCache.txt ] || ninja=$(command -v ninja || :)
cmake -S . -B build ${ninja:+-G Ninja} -DCMAKE_BUILD_TYPE=Release -DVKLM_TESTS=ON -DVKLM_SAMPLES=ON \
    -DVKLM_WERROR=ON -DVKLM_TEST_VARIANTS=ON "-DVKLM_TEST_MODEL=$model"
cmake --build build --parallel "$(nproc)"
exec ctest --test-dir build --output-on-failure --parallel "$(nproc)" "$@" </dev/null
