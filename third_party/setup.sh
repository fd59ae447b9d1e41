#!/bin/sh
# Installs what building, testing and trying vklm needs, on Debian 12 or newer (and what descends from it).
# As root or through sudo. Does nothing, and quickly, where all is there. Says what it does on stderr.
# VKLM_NO_SETUP=1 skips it.   usage: third_party/setup.sh [--windows]
# --windows: also what building for Windows and running that takes (mingw-w64, Wine and a display for it).
set -eu
exec >&2 </dev/null

packages="
  gcc g++ libc6-dev cmake ninja-build pkg-config
  libvulkan-dev libvulkan-volk-dev glslang-tools glslang-dev libpcre2-dev libedit-dev
  libglfw3-dev libfreetype-dev libpng-dev fonts-dejavu-core fonts-wqy-microhei
  check spirv-tools
  libvulkan1 mesa-vulkan-drivers
  ca-certificates python3 python3-pip"
# For vklm-desktop alone, which is left out where they cannot be had.
extras="libsdl2-dev libsdl2-ttf-dev"
[ "${1:-}" != --windows ] || packages="$packages
  gcc-mingw-w64-x86-64 g++-mingw-w64-x86-64 wine wine64 xvfb xauth"
here=$(dirname "$0")

say() { echo "setup: $*"; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# The version of an installed package; nothing where it is not installed.
installed() {
    # shellcheck disable=SC2016 # the ${} are dpkg-query's
    dpkg-query -W -f '${db:Status-Status} ${Version}' "$1" 2>/dev/null | sed -n 's/^installed //p'
}

# apt-get, silent unless it fails.
apt() {
    log=$(mktemp)
    if as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=120 "$@" >"$log" 2>&1; then
        rm -f "$log"
    else
        cat "$log"
        rm -f "$log"
        return 1
    fi
}

# Debian 12's own Mesa (22.3) reads memory lane by lane in its software Vulkan, which makes it 5 to 60 times
# slower than later ones. Debian's backports have a later one; their address is that of the machine's own source.
backport_mesa() {
    suite=$codename-backports
    if ! apt-cache policy 2>/dev/null | grep -q "n=$suite"; then
        uri=$(debian_source REPO_URI)
        if [ -z "$uri" ]; then
            say "apt knows no source of Debian $codename, so Mesa stays as it is: slow without a GPU"
            return 0
        fi
        list=/etc/apt/sources.list.d/vklm-backports.sources
        key=$(debian_key)
        say "this Mesa's software Vulkan is 5 to 60 times slower than a newer one; adding $suite for it, in $list"
        printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n%s' "$uri" "$suite" \
            "${key:+Signed-By: $key
}" | as_root tee "$list" >/dev/null
        if ! apt update -o Dir::Etc::SourceList="$list" -o Dir::Etc::SourceParts=- \
            -o APT::Get::List-Cleanup=0; then
            as_root rm -f "$list"
            say "there is no $suite at that address, so Mesa stays as it is: slow without a GPU"
            return 0
        fi
    fi
    say "installing mesa-vulkan-drivers from $suite"
    apt install --no-install-recommends -t "$suite" mesa-vulkan-drivers ||
        say "that failed, so Mesa stays as it is: slow without a GPU"
}

[ "${VKLM_NO_SETUP:-}" != 1 ] || exit 0
if ! command -v apt-get >/dev/null; then
    # shellcheck disable=SC2086 # a list of words
    say "this is no Debian; install the like of these yourself:" $packages
    exit 0
fi

# Those of the given packages that are not installed.
not_installed() {
    for package; do
        [ -n "$(installed "$package")" ] || printf ' %s' "$package"
    done
}

# SDL2 comes with the headers of libdrm and libgbm, which must be of the same version as these.
install_extras() {
    say "installing$1"
    case $(installed libdrm2) in
    *~bpo*) apt install --no-install-recommends -t "$codename-backports" libdrm-dev libgbm-dev || return 1 ;;
    esac
    # shellcheck disable=SC2086 # a list of words
    apt install --no-install-recommends $1
}

# shellcheck disable=SC2086 # lists of words
missing=$(not_installed $packages)
# shellcheck disable=SC2086
missing_extras=$(not_installed $extras)
# shellcheck source=debian.sh
. "$here/debian.sh"
old_mesa=
if [ "$codename" = bookworm ]; then
    mesa=$(installed mesa-vulkan-drivers)
    [ "${mesa%%.*}" -ge 24 ] 2>/dev/null || old_mesa=1
fi
[ -n "$missing$missing_extras$old_mesa" ] || exit 0

if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    if [ -z "$missing" ]; then
        [ -z "$old_mesa" ] ||
            say "a newer mesa-vulkan-drivers would be 5 to 60 times faster without a GPU; going on without root"
        [ -z "$missing_extras" ] || say "vklm-desktop would need$missing_extras; going on without root"
        exit 0
    fi
    say "run this as root, or have these installed, or set VKLM_NO_SETUP=1:$missing"
    exit 1
fi
apt update || say "apt-get update failed; going on with the package lists that are here"
[ -z "$old_mesa" ] || backport_mesa
# shellcheck disable=SC2086
missing=$(not_installed $packages)
if [ -n "$missing" ]; then
    say "installing$missing"
    # shellcheck disable=SC2086 # a list of words
    apt install --no-install-recommends $missing
fi
[ -z "$missing_extras" ] || install_extras "$missing_extras" ||
    say "that failed, so vklm-desktop is left out:$missing_extras"
