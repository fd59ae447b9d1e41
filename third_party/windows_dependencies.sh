#!/bin/sh
# Builds what vklm needs on Windows by mingw-w64 and puts it into a folder: PCRE2 and Check from Debian's own sources
# (which apt fetches from where this machine's Debian comes from, and checks), the Vulkan headers and volk as they
# are installed here. Does nothing where all is there. Needs third_party/setup.sh --windows.
# usage: third_party/windows_dependencies.sh [FOLDER]     FOLDER: build-windows/dependencies where none is given
set -eu
exec >&2 </dev/null
here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:-$here/../build-windows/dependencies}
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)

say() { echo "windows: $*"; }

# Runs a command, silent unless it fails.
quietly() {
    if ! "$@" >"$work/log" 2>&1; then
        cat "$work/log"
        return 1
    fi
}

# Fetches the source packages into $work, with lists and cache of our own, so that it takes no root.
fetch_sources() {
    # shellcheck source=debian.sh
    . "$here/debian.sh"
    uri=$(debian_source REPO_URI)
    key=$(debian_key)
    if [ -z "$uri" ]; then
        say "apt knows no source of Debian $codename; install PCRE2 and Check for mingw-w64 in $prefix yourself"
        return 1
    fi
    mkdir -p lists/partial cache/archives/partial
    printf 'Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\n%s' "$uri" "$codename" \
        "${key:+Signed-By: $key
}" >sources.sources
    set -- -o "Dir::Etc::SourceList=$work/sources.sources" -o Dir::Etc::SourceParts=- \
        -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root
    quietly apt-get "$@" update
    quietly apt-get "$@" source --download-only pcre2 check
}

# build NAME OPTION...: from the NAME_VERSION.orig.tar.* in $work into $prefix.
build() {
    name=$1
    shift
    mkdir "$name"
    tar -xf "$name"_*.orig.tar.[gx]z -C "$name" --strip-components=1
    say "building $(basename "$(echo "$name"_*.dsc)" .dsc | tr _ ' ')"
    quietly cmake -S "$name" -B "$name-build" $ninja "-DCMAKE_TOOLCHAIN_FILE=$here/mingw-w64.cmake" \
        "-DVKLM_WINDOWS_PREFIX=$prefix" "-DCMAKE_INSTALL_PREFIX=$prefix" -DCMAKE_BUILD_TYPE=Release \
        -DBUILD_SHARED_LIBS=OFF -DCMAKE_POLICY_VERSION_MINIMUM=3.5 "$@"
    quietly cmake --build "$name-build" --parallel "$(nproc)"
    quietly cmake --install "$name-build"
}

if [ -f "$prefix/complete" ]; then exit 0; fi
ninja=$(command -v ninja >/dev/null && echo "-G Ninja" || :)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fetch_sources
build pcre2 -DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_BUILD_TESTS=OFF -DPCRE2_SUPPORT_JIT=ON
build check -DCHECK_ENABLE_TESTS=OFF -DCHECK_ENABLE_TIMEOUT_TESTS=OFF -DHAVE_FORK=OFF
rm -f "$prefix"/*/libcheck.dll* # the tests take the archive
cp -r /usr/include/vulkan /usr/include/volk.? "$prefix/include/"
if [ -d /usr/include/vk_video ]; then cp -r /usr/include/vk_video "$prefix/include/"; fi
touch "$prefix/complete"
