#!/bin/sh
# Runs each fuzz target (fuzz/, crates/*/fuzz) for FUZZ_SECONDS (60), one after the other; stops at the first
# find. Needs nightly Rust and cargo-fuzz, which nothing else here needs: both are asked for in one line, not installed.
set -eu
cd "$(dirname "$0")/.."
PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
seconds=${FUZZ_SECONDS:-60}

if ! cargo +nightly --version >/dev/null 2>&1 || ! command -v cargo-fuzz >/dev/null 2>&1; then
    echo "fuzz: first: rustup toolchain install nightly --profile minimal && cargo install --locked cargo-fuzz" >&2
    exit 1
fi
# The first corpus, from the recorded sessions; what is there already stays.
python3 -I fuzz/seed.py
ran=0
for folder in fuzz crates/*/fuzz; do
    [ -e "$folder/Cargo.toml" ] || continue
    for name in $(cargo +nightly fuzz list --fuzz-dir "$folder"); do
        echo "== fuzz $folder $name, $seconds s"
        cargo +nightly fuzz run --fuzz-dir "$folder" --target-dir target/fuzz "$name" -- -max_total_time="$seconds" -timeout=5
        ran=$((ran + 1))
    done
done
if [ "$ran" = 0 ]; then
    echo "fuzz: there is no fuzz/ or crates/*/fuzz with a target" >&2
    exit 1
fi
echo "fuzz: $ran targets, $seconds s each, nothing found"
