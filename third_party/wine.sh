#!/bin/sh
# Runs a program for Windows by Wine, without its talk.   usage: third_party/wine.sh PROGRAM.exe [ARGUMENT ...]
# For Vulkan it needs an X display; tests/windows.sh makes one.
for wine in "${WINE:-}" wine64 /usr/lib/wine/wine64 wine; do
    if [ -n "$wine" ] && command -v "$wine" >/dev/null; then
        # Neither .NET nor HTML: their installers would ask for a download at the first start.
        # Paths and arguments are UTF-8.
        LC_ALL=C.UTF-8 WINEDEBUG=${WINEDEBUG:--all} WINEDLLOVERRIDES=${WINEDLLOVERRIDES:-mscoree,mshtml=} exec "$wine" "$@"
    fi
done
echo "wine.sh: there is no Wine here; Debian's package is wine64" >&2
exit 127
