#!/bin/sh
# Builds cargo-deny, by which lint checks licences, bans and sources, and audit the advisories. Silent when it
# is there: one of your own is as good, whatever its version.
#
# Without optimization, which takes a third of the time: what it does here takes two seconds all the same. The
# program goes to target/tools/bin: nothing is left outside of this folder.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/target/tools/bin:$PWD/target/rust/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
version=0.20.2

command -v cargo-deny >/dev/null 2>&1 && exit 0
echo "install: building cargo-deny $version ..." >&2
mkdir -p target
export CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 \
    CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
cargo install --locked --version "$version" cargo-deny --root target/tools --target-dir target/cargo-deny >target/cargo-deny.log 2>&1 || {
    tail -n 15 target/cargo-deny.log >&2
    echo "install: cargo could not build cargo-deny $version (all of its words are in target/cargo-deny.log)" >&2
    exit 1
}
rm -rf target/cargo-deny
echo "install: installed cargo-deny $version" >&2
