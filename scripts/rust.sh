#!/bin/sh
# Sees to it that the Rust that rust-toolchain.toml pins is there; silent when it is.
#
# In order: rustup (its own or the distribution's) fetches the pinned toolchain; a cargo without rustup will
# do when it is new enough; else the distribution's rustup package is installed, and where its suite has none
# (Debian 12), the unstable suite's is unpacked under target/ and keeps the toolchain there too:
# target/rust/bin, which the Makefile and the scripts have in their PATH. Where none of this helps, one line
# says what to do.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/target/rust/bin:$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)

main() {
    if command -v rustup >/dev/null 2>&1; then
        rm -f target/rust/bin
        pin_with rustup
    elif command -v cargo >/dev/null 2>&1 && has_clippy_and_fmt && new_enough "$(cargo --version | cut -d' ' -f2)"; then
        return 0
    elif apt-cache policy rustup 2>/dev/null | grep -q 'Candidate: [0-9]'; then
        sh scripts/install.sh rustup
        pin_with rustup
    elif command -v apt-get >/dev/null 2>&1; then
        own_toolchain
    else
        give_up "no cargo $channel"
    fi
}

pin_with() {
    # Looking at the folder costs a millisecond, starting rustup fifty.
    [ -x "$(toolchain)/bin/cargo" ] && [ -x "$(toolchain)/bin/cargo-clippy" ] && return 0
    say "fetching Rust $channel ..."
    mkdir -p target
    "$1" toolchain install "$channel" --profile minimal --component clippy --component rustfmt >target/rust.log 2>&1 || {
        tail -n 5 target/rust.log >&2
        give_up "rustup could not fetch Rust $channel (see target/rust.log)"
    }
    say "installed Rust $channel"
}

own_toolchain() {
    sh scripts/mysql-root.sh rustup || give_up "no cargo $channel, and no rustup package is available"
    export RUSTUP_HOME="$PWD/target/rust"
    pin_with target/rustup/rustup
    ln -sfn "$(toolchain)/bin" target/rust/bin
}

toolchain() {
    echo "${RUSTUP_HOME:-$HOME/.rustup}/toolchains/$channel-$(uname -m)-unknown-linux-gnu"
}

new_enough() { [ "$(printf '%s\n%s\n' "$channel" "$1" | sort -V | head -n 1)" = "$channel" ]; }

has_clippy_and_fmt() { command -v cargo-clippy >/dev/null 2>&1 && command -v cargo-fmt >/dev/null 2>&1; }

give_up() {
    say "$1: install rustup as rustup.rs shows, then run this again"
    exit 1
}

say() { echo "install: $*" >&2; }

main
