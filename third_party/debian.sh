# debian.sh - what apt knows of where this machine's Debian comes from. For other scripts to read in; sets codename.
# shellcheck shell=sh
# shellcheck source=/dev/null
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")

# Prints one field of what apt knows about this machine's source of Debian's own `main`.
debian_source() {
    apt-get indextargets --format "\$($1)" 'Created-By: Packages' 'Origin: Debian' 'Component: main' \
        "Codename: $codename" 2>/dev/null | head -n 1
}

# The key that the same source is checked with, where it names a key file.
debian_key() {
    entry=$(debian_source SOURCESENTRY)
    file=${entry%:*}
    [ -r "$file" ] || return 0
    sed -n -e 's/^Signed-By: *\(\/[^ ]*\)$/\1/p' \
        -e "s/^deb .*signed-by=\([^] ]*\).*$codename.*/\1/p" "$file" | head -n 1
}
