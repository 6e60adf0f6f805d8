#!/bin/sh
# Builds tools of Cargo that are missing; silent about those that are there (one of your own is as good,
# whatever its version):
#
#   scripts/cargo-tool.sh deny                        licences, bans and sources (lint), advisories (audit)
#   scripts/cargo-tool.sh deb generate-rpm cyclonedx  packages and the list of what is in them (dist)
#   scripts/cargo-tool.sh mdbook                      the site (docs)
#
# With little optimization, which takes a third of the time; those that compress have some. The programs go to
# target/tools/bin: nothing is left outside of this folder.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/target/tools/bin:$PWD/target/rust/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$PATH

version_of() {
    case $1 in
        deny) echo 0.20.2 ;;
        deb) echo 3.8.0 ;;
        generate-rpm) echo 0.21.1 ;;
        cyclonedx) echo 0.5.9 ;;
        mdbook) echo 0.5.4 ;;
        *)
            echo "install: no tool is called '$1': deny, deb, generate-rpm, cyclonedx, mdbook" >&2
            exit 64
            ;;
    esac
}

for tool in "$@"; do
    version=$(version_of "$tool")
    # What only serves and watches is left out of mdbook.
    case $tool in
        mdbook) program=mdbook features="--no-default-features --features search" ;;
        *) program=cargo-$tool features="" ;;
    esac
    command -v "$program" >/dev/null 2>&1 && continue
    echo "install: building $program $version ..." >&2
    mkdir -p target
    optimization=0
    case $tool in deb | generate-rpm) optimization=1 ;; esac
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=$optimization CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
    # shellcheck disable=SC2086 # several words, or none
    cargo install --locked --version "$version" "$program" $features --root target/tools \
        --target-dir target/cargo-tool >"target/$program.log" 2>&1 || {
        tail -n 15 "target/$program.log" >&2
        echo "install: cargo could not build $program $version (all of its words are in target/$program.log)" >&2
        exit 1
    }
    echo "install: installed $program $version" >&2
done
rm -rf target/cargo-tool
