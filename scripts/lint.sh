#!/bin/sh
# Formatting, the English of comments and pages, clippy with warnings as errors, and what deny.toml says of licences and
# unwanted crates.
# The last needs no cargo-deny: without it the two lists are read from deny.toml and held against `cargo tree`.
#
#   scripts/lint.sh [fmt] [words] [clippy] [deny]      (nothing named: all; stops at the first that fails)
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/target/rust/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$PATH

main() {
    [ $# -gt 0 ] || set -- fmt words clippy deny
    for check in "$@"; do
        case $check in
            fmt) cargo fmt --all --check ;;
            words) words ;;
            clippy) cargo clippy --workspace --all-targets --locked -- -D warnings ;;
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
    if command -v cargo-deny >/dev/null 2>&1; then
        cargo deny check licenses bans sources
    else
        failed=0
        licences || failed=1
        bans || failed=1
        return $failed
    fi
}

# Every part of an AND must offer, among its ORs, one that is allowed.
licences() {
    allowed=$(sed -n '/^allow = \[/,/^\]/s/^ *"\(.*\)",$/\1/p' deny.toml)
    crates | awk -F'|' -v allowed="$allowed" '
        BEGIN { split(allowed, list, "\n"); for (i in list) ok[list[i]] = 1 }
        NF < 2 || seen[$1]++ || $1 ~ / \(\// { next }
        {
            text = $2; gsub(/[()]/, "", text); gsub(/\//, " OR ", text)
            fine = text != ""
            parts = split(text, part, / AND /)
            for (i = 1; i <= parts; i++) {
                any = 0
                choices = split(part[i], choice, / OR /)
                for (j = 1; j <= choices; j++) if (choice[j] in ok) any = 1
                if (!any) fine = 0
            }
            if (!fine) { print "lint: licence of " $1 " is not in deny.toml: \"" $2 "\""; bad = 1 }
        }
        END { if (NR == 0) { print "lint: cargo tree named no crate"; bad = 1 } exit bad }' >&2
}

bans() {
    banned=$(sed -n 's/^  { crate = "\([^"]*\)", reason = "\(.*\)" },$/\1|\2/p' deny.toml)
    crates | awk -F'|' -v banned="$banned" '
        BEGIN { n = split(banned, line, "\n"); for (i = 1; i <= n; i++) { split(line[i], f, "|"); why[f[1]] = f[2] } }
        { split($1, word, " ") }
        word[1] in why && !seen[word[1]]++ { print "lint: " $1 " is banned by deny.toml: " why[word[1]]; bad = 1 }
        END { exit bad }' >&2
}

# "name version|licence" of everything that is built or tested. Ours are shown with a path and carry our licence.
crates() {
    cargo tree --workspace --locked --prefix none --no-dedupe --format '{p}|{l}'
}

main "$@"
