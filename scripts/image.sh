#!/bin/bash
# Builds a container image out of the tar.gz that `make dist` has made for this machine's architecture,
# whatever other architectures it packed after it:
#
#   scripts/image.sh        target/dist/out/headroom-0.1.0-linux-amd64.oci.tar, by buildah or podman
#
# Its checksum is added to SHA256SUMS.
#
# The image is the program with this machine's C library and certificates (packaging/Containerfile): load it
# with `podman load` or `docker load`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dist=target/dist image=target/dist/image
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
name=headroom-$version-linux-$(dpkg --print-architecture)
archive=$dist/out/$name.oci.tar

main() {
    [ -e "$dist/out/$name.tar.gz" ] || stop "there is no $dist/out/$name.tar.gz: make dist"
    lay_out
    rm -f "$archive"
    if command -v buildah >/dev/null; then
        # Storage of its own, no namespaces, which some machines do not allow: no step runs anything.
        store=(--root "$PWD/$image/store" --runroot "$PWD/$image/run" --storage-driver vfs)
        buildah "${store[@]}" build --isolation chroot --timestamp "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" \
            --tag "headroom:$version" --file packaging/Containerfile $image
        buildah "${store[@]}" push "headroom:$version" "oci-archive:$archive:headroom:$version"
    elif command -v podman >/dev/null; then
        podman build --tag "headroom:$version" --file packaging/Containerfile $image
        podman save --format oci-archive --output "$archive" "headroom:$version"
    else
        stop "needs buildah or podman"
    fi
    add_checksum
    echo "image: $archive" >&2
}

unpack() { tar -C $image/root --strip-components=1 -xzf "$dist/out/$name.tar.gz"; }

# In the place of an earlier one.
add_checksum() (
    cd "$dist/out"
    { grep -v " $name\.oci\.tar$" SHA256SUMS || true; } >"../SHA256SUMS"
    sha256sum -- "$name.oci.tar" >>"../SHA256SUMS"
    mv ../SHA256SUMS .
)

# The program, what it is linked with, where names and certificates are looked up, directories of its user.
lay_out() {
    rm -rf $image
    mkdir -p $image/root/{etc/ssl/certs,run,tmp,var/lib}
    unpack
    rm -rf $image/root/usr/{lib,share/{man,bash-completion,zsh,fish}}
    ldd $image/root/usr/bin/headroom | grep -o '/[^ ]*' | while read -r library; do
        install -D -m 755 "$(realpath "$library")" "$image/root$library"
    done
    cp /etc/ssl/certs/ca-certificates.crt $image/root/etc/ssl/certs/
    for package in libc6 libgcc-s1 ca-certificates; do
        install -D -m 644 -t "$image/root/usr/share/doc/$package" "/usr/share/doc/$package/copyright"
    done
    echo 'headroom:x:65532:65532::/var/lib/headroom:/sbin/nologin' >$image/root/etc/passwd
    echo 'headroom:x:65532:' >$image/root/etc/group
    echo 'hosts: files dns' >$image/root/etc/nsswitch.conf
    own_directories
    chmod 1777 $image/root/tmp
}

# Those that the container's user writes to; the Containerfile gives them to it.
own_directories() { install -d -m 700 "$image/own/run/headroom" "$image/own/lib/headroom"; }

stop() {
    echo "image: $*" >&2
    exit 1
}

[ "${BASH_SOURCE[0]}" != "$0" ] || main "$@"
