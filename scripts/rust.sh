#!/bin/sh
# Sees to it that the Rust that rust-toolchain.toml pins is there; silent when it is.
#
# In order: rustup (its own or the distribution's) fetches the pinned toolchain; a cargo without rustup will do when it
# is new enough; else the distribution's rustup package is installed. Where none of this helps, one line says what to do.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)

main() {
    if command -v rustup >/dev/null 2>&1; then
        pin_with rustup
    elif command -v cargo >/dev/null 2>&1 && new_enough "$(cargo --version | cut -d' ' -f2)"; then
        has_clippy_and_fmt || give_up "cargo has no clippy or no rustfmt"
    elif apt-cache show rustup >/dev/null 2>&1; then
        sh scripts/install.sh rustup
        pin_with rustup
    else
        give_up "no cargo $channel, and this distribution has no rustup package"
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
