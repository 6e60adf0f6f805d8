#!/bin/bash
# Makes what a release consists of, in target/dist/out:
#
#   scripts/dist.sh [amd64] [arm64]          builds and packs (nothing named: this machine's architecture)
#   scripts/dist.sh pack <arch> <program>    packs a program that is built already
#   scripts/dist.sh stage <program> <folder> only lays the files out as they are installed
#
#   headroom_0.1.0-1_amd64.deb, headroom-0.1.0-1.x86_64.rpm, headroom-0.1.0-linux-amd64.tar.gz
#   headroom-0.1.0-linux-amd64.debug   symbols for the stripped program, to be put beside it
#   headroom-0.1.0.cdx.json            CycloneDX: every crate that is linked in, with version and licence
#   SHA256SUMS
#
# The same commit, compilers and packages give the same files wherever the tree lies: paths are mapped, and
# times are the commit's. The program runs on the C library of the machine that built it and on newer ones:
# build a release on the oldest (Debian 12). Packages of a newer distribution are for that one and newer ones,
# and say so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
PATH=$PWD/target/tools/bin:$PWD/target/rust/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
dist=$PWD/target/dist out=$PWD/target/dist/out
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The C library that a release promises to be enough.
promised=$(sed -n 's/^depends = .*libc6 (>= \([0-9.]*\)).*/\1/p' crates/headroom/Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

main() {
    case ${1:-} in
        stage) stage "$2" "$3" ;;
        pack)
            start
            pack "$2" "$(realpath "$3")"
            finish
            ;;
        *)
            start
            for arch in "${@:-$(dpkg --print-architecture)}"; do
                build "$arch"
                pack "$arch" "$dist/build/$(triple "$arch")/release/headroom"
            done
            finish
            ;;
    esac
}

start() {
    rm -rf "$out"
    mkdir -p "$out"
    [ -z "$(git status --porcelain 2>/dev/null)" ] || say "WARNING: the tree has changes that no commit holds: not for release"
    bill_of_materials
}

triple() {
    case $1 in
        amd64) echo x86_64-unknown-linux-gnu ;;
        arm64) echo aarch64-unknown-linux-gnu ;;
        *) stop "no architecture is called '$1': amd64, arm64" ;;
    esac
}

rpm_arch() { triple "$1" | cut -d- -f1; }

build() {
    local target home=${CARGO_HOME:-$HOME/.cargo}
    target=$(triple "$1")
    ! command -v rustup >/dev/null || rustup target list --installed | grep -qx "$target" || rustup target add "$target"
    say "building for $1 ..."
    RUSTFLAGS="--remap-path-prefix=$root=/usr/src/headroom --remap-path-prefix=$home=/usr/src/cargo" \
        CFLAGS="-ffile-prefix-map=$root=/usr/src/headroom -ffile-prefix-map=$home=/usr/src/cargo" \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        cargo build --release --locked -p headroom --target-dir "$dist/build" --target "$target"
}

pack() {
    local arch=$1 objcopy=objcopy name="headroom-$version-linux-$1"
    [ "$(uname -m)" = "$(rpm_arch "$arch")" ] || objcopy=$(rpm_arch "$arch")-linux-gnu-objcopy
    rm -rf "$dist/program" && mkdir -p "$dist/program"
    (
        cd "$dist/program"
        $objcopy --only-keep-debug --compress-debug-sections=zlib "$2" "$name.debug"
        $objcopy --strip-all --add-gnu-debuglink="$name.debug" "$2" headroom
    )
    mv "$dist/program/$name.debug" "$out/"
    c_library "$dist/program/headroom"
    stage "$dist/program/headroom" "$dist/stage"
    tarball "$name"
    debian "$arch"
    rpm_package "$arch"
}

# Which C library the packages demand (library): the one that a release promises to be enough, which stands in
# the packages' metadata, or the newer one that this program needs.
c_library() {
    local needs
    needs=$(objdump -T "$1" 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1 | cut -d_ -f2)
    library=$(printf '%s\n' "$needs" "$promised" | sort -V | tail -n 1)
    is_for_release || say "WARNING: the program needs glibc $library, and a release promises $promised"
}

is_for_release() { [ "$library" = "$promised" ]; }

# stage <program> <folder>: every file at its place, with the mode it gets.
stage() {
    local to=$2 man completion
    rm -rf "$to"
    put 755 usr/bin/headroom "$1"
    put 644 etc/headroom/headroom.toml headroom.example.toml
    for unit in route agent guard; do
        put 644 "usr/lib/systemd/system/headroom-$unit.service" "packaging/systemd/headroom-$unit.service"
    done
    put 644 usr/lib/sysusers.d/headroom.conf packaging/systemd/sysusers.conf
    put 644 usr/share/headroom/zero-hop.conf packaging/systemd/zero-hop.conf
    put 644 usr/share/headroom/headroom.example.toml headroom.example.toml
    put 644 usr/share/headroom/headroom.schema.json headroom.schema.json
    put 644 usr/share/doc/headroom/LICENSE LICENSE
    put 644 usr/share/doc/headroom/changelog CHANGELOG.md
    [ ! -e "$out/headroom-$version.cdx.json" ] || put 644 usr/share/doc/headroom/sbom.cdx.json "$out/headroom-$version.cdx.json"
    for page in README.md SECURITY.md docs/guide/*.md docs/decisions/*.md; do page "$page"; done
    for file in deploy/*/*; do put 644 "usr/share/headroom/${file#deploy/}" "$file"; done
    generated "$1" "$to"
    gzip -9n "$to/usr/share/doc/headroom/changelog"
}

# Man pages and completions, made by the program itself: by the one that is packed, or where that is for
# another architecture, by this machine's, packed before.
generated() {
    local program=$1 to=$2
    "$program" --version >/dev/null 2>&1 || program=$dist/native/headroom
    "$program" --version >/dev/null 2>&1 || stop "no program that runs here makes the man pages: pack this machine's architecture first"
    mkdir -p "$dist/native"
    [ "$program" -ef "$dist/native/headroom" ] || cp "$program" "$dist/native/headroom"
    "$program" man --directory "$to/usr/share/man/man1" >/dev/null
    gzip -9n "$to"/usr/share/man/man1/*
    mkdir -p "$to/usr/share/bash-completion/completions" "$to/usr/share/zsh/vendor-completions" "$to/usr/share/fish/vendor_completions.d"
    "$program" completions bash >"$to/usr/share/bash-completion/completions/headroom"
    "$program" completions zsh >"$to/usr/share/zsh/vendor-completions/_headroom"
    "$program" completions fish >"$to/usr/share/fish/vendor_completions.d/headroom.fish"
}

# page <file>: a page, with links that hold where it is installed. What is not installed is named in words
# only.
page() {
    local place="$to/usr/share/doc/headroom/${1#docs/}" top="" above=""
    case $1 in docs/*/*) top='\.\./\.\./' above=../ ;; esac
    mkdir -p "${place%/*}"
    # A link's words may go over the end of a line: the page is read as one.
    sed -z -E \
        -e "s#\]\(${top}(headroom\.(example\.toml|schema\.json))#](/usr/share/headroom/\1#g" \
        -e "s#\]\(${top}packaging/systemd/(headroom-[a-z]+\.service)#](/usr/lib/systemd/system/\1#g" \
        -e "s#\]\(${top}packaging/systemd/zero-hop\.conf#](/usr/share/headroom/zero-hop.conf#g" \
        -e "s#\]\(${top}docs/#](${above}#g" \
        -e "s#\]\(${top}(README|SECURITY)\.md#](${above}\1.md#g" \
        -e "s#\[([^][]*)\]\((\.\./\.\./|(\.\./)?examples/|benchmarks/|(ARCHITECTURE|CONTRIBUTING|RELEASING|CHANGELOG)\.md|deny\.toml)[^)]*\)#\1#g" \
        "$1" >"$place"
    chmod 644 "$place"
}

# put <mode> <place> <file>
put() { install -D -m "$1" "$3" "$to/$2"; }

tarball() {
    tar -C "$dist/stage" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --transform="s,^\.,$1," -cf - . | gzip -9n >"$out/$1.tar.gz"
}

debian() {
    mkdir -p "$dist/debian"
    printf 'headroom (%s-1) unstable; urgency=medium\n\n  * What changed: /usr/share/doc/headroom/changelog.gz\n\n -- %s  %s\n' \
        "$version" "$(sed -n 's/^maintainer = "\(.*\)"/\1/p' crates/headroom/Cargo.toml)" \
        "$(date -R -d "@$SOURCE_DATE_EPOCH")" >"$dist/debian/changelog"
    cargo deb --quiet --locked -p headroom --no-build --no-strip --no-dbgsym --target "$(triple "$1")" --output "$out/"
    is_for_release || raise_dependency "$out/headroom_$version-1_$1.deb"
    lintian --fail-on error --tag-display-limit 0 "$out/headroom_$version-1_$1.deb" ||
        stop "lintian has errors"
}

raise_dependency() {
    rm -rf "$dist/raised"
    dpkg-deb --raw-extract "$1" "$dist/raised"
    sed -i "s/libc6 (>= $promised)/libc6 (>= $library)/" "$dist/raised/DEBIAN/control"
    dpkg-deb --root-owner-group --build "$dist/raised" "$1" >/dev/null
}

# The same files as staged, each with its mode.
rpm_package() {
    local file mode more
    {
        # In place of those in the manifest, all of them.
        is_for_release || echo "requires = { glibc = \">= $library\", libgcc = \"*\", systemd = \"*\" }"
        echo "assets = ["
        (cd "$dist/stage" && find . -type f | sort) | while read -r file; do
            file=${file#./} mode=$(stat -c %a "$dist/stage/${file#./}") more=""
            case $file in
                etc/*) more=', config = "noreplace"' ;;
                usr/share/doc/*) more=', doc = true' ;;
            esac
            # Where Fedora's zsh looks.
            echo "  { source = \"target/dist/stage/$file\", dest = \"/${file/zsh\/vendor-completions/zsh\/site-functions}\", mode = \"$mode\"$more },"
        done
        echo "]"
    } >"$dist/rpm.toml"
    cargo generate-rpm -p crates/headroom --metadata-overwrite "$dist/rpm.toml" --auto-req disabled --payload-compress gzip \
        --target "$(triple "$1")" --target-dir "$dist/build" --output "$out/headroom-$version-1.$(rpm_arch "$1").rpm"
}

# cargo-cyclonedx writes a file beside every manifest of the workspace.
bill_of_materials() {
    cargo cyclonedx --quiet --manifest-path crates/headroom/Cargo.toml --format json --spec-version 1.5 \
        --target x86_64-unknown-linux-gnu --override-filename headroom-sbom
    sed "s,file://$root/,file:///usr/src/headroom/,g" crates/headroom/headroom-sbom.json >"$out/headroom-$version.cdx.json"
    rm -f crates/*/headroom-sbom.json
}

finish() {
    (cd "$out" && sha256sum -- * >"$dist/SHA256SUMS" && mv "$dist/SHA256SUMS" .)
    (cd "$out" && ls -l) | awk 'NR > 1 { printf "%6.1f MB  %s\n", $5 / 1e6, $9 }'
    say "all of it is in target/dist/out"
    is_for_release || say "not for release: for systems with glibc $library or newer, and a release promises $promised"
}

say() { echo "dist: $*" >&2; }

stop() {
    echo "dist: $*" >&2
    exit 1
}

[ "${BASH_SOURCE[0]}" != "$0" ] || main "$@"
