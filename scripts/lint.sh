#!/bin/sh
# Formatting, the English of comments and pages, clippy with warnings as errors, and what deny.toml says of
# licences, unwanted crates and sources.
#
#   scripts/lint.sh [fmt] [words] [clippy] [deny]      (nothing named: all; stops at the first that fails)
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/target/tools/bin:$PWD/target/rust/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$PATH

main() {
    [ $# -gt 0 ] || set -- fmt words clippy deny
    for check in "$@"; do
        case $check in
            fmt) cargo fmt --all --check ;;
            words) words ;;
            # With the feature that is off by default: what stands in its place is built by every test.
            clippy) cargo clippy --workspace --all-targets --locked --features headroom/otlp -- -D warnings ;;
            deny) deny ;;
            *)
                echo "lint: no check is called '$check': fmt, words, clippy, deny" >&2
                exit 64
                ;;
        esac
    done
}

# Everything that people wrote here; not what a program recorded, nor what the list of phrases is in.
words() {
    git ls-files '*.rs' '*.md' '*.sh' '*.toml' '*.c' '*.h' '*.js' '*.css' Makefile ':!benchmarks/runs' ':!scripts/words.awk' |
        LC_ALL=C xargs awk -f scripts/words.awk
}

deny() {
    sh scripts/cargo-tool.sh deny
    cargo deny --locked check licenses bans sources
}

main "$@"
