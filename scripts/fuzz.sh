#!/bin/sh
# Runs fuzz targets (fuzz/fuzz_targets), one after the other, and writes what came of it: executions, finds,
# the slowest.
#
#   scripts/fuzz.sh [target ...]                     all of them when none is named
#
#   FUZZ_SECONDS=60     this long each; the summary goes to target/bench/
#   FUZZ_RUNS=1000000   this many executions each instead; summary: benchmarks/runs/fuzz/YYYY-MM-DD-fuzz/
#   FUZZ_OUT=folder     another folder; targets that were run before stay in its summary
#
# A find does not keep the other targets from running; the exit code is 1 then, and the input lies in
# fuzz/artifacts/. Needs nightly Rust and cargo-fuzz, which nothing else here needs: both are asked for in one
# line, not installed.
set -eu
cd "$(dirname "$0")/.."
PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
built=target/fuzz

if ! cargo +nightly --version >/dev/null 2>&1 || ! command -v cargo-fuzz >/dev/null 2>&1; then
    echo "fuzz: first: rustup toolchain install nightly --profile minimal && cargo install --locked cargo-fuzz" >&2
    exit 1
fi
if [ -n "${FUZZ_RUNS:-}" ]; then
    limit="-runs=$FUZZ_RUNS" said="$FUZZ_RUNS executions" parent=benchmarks/runs/fuzz
else
    limit="-max_total_time=${FUZZ_SECONDS:-60}" said="${FUZZ_SECONDS:-60} s" parent=target/bench
fi
out=${FUZZ_OUT:-$parent/$(date -u +%F)-fuzz}
# Without a folder of its own a run is never mixed with an earlier one.
if [ -z "${FUZZ_OUT:-}" ]; then
    number=2
    while [ -e "$out" ]; do
        out=$parent/$(date -u +%F)-fuzz-$number
        number=$((number + 1))
    done
fi
mkdir -p "$out"

[ $# -gt 0 ] || set -- $(cargo +nightly fuzz list --fuzz-dir fuzz)
# The first corpus, from recorded sessions; what is there already stays.
python3 -I fuzz/seed.py
for name; do
    cargo +nightly fuzz build --fuzz-dir fuzz --target-dir "$built" "$name"
done
program=$(find "$built" -path "*/release/$1" -type f -perm -u+x)
found=0
for name; do
    echo "== fuzz $name, $said"
    mkdir -p "fuzz/corpus/$name" "fuzz/artifacts/$name"
    "${program%/*}/$name" "fuzz/corpus/$name" "-artifact_prefix=fuzz/artifacts/$name/" "$limit" -timeout=5 \
        -report_slow_units=1 -rss_limit_mb=1024 -print_final_stats=1 >"$out/$name.log" 2>&1 || found=$((found + 1))
    # What matters of many thousand lines is at the end; the corpus is told as it was left.
    tail -n 40 "$out/$name.log" >"$out/$name.log.end" && mv "$out/$name.log.end" "$out/$name.log"
    echo "corpus: $(find "fuzz/corpus/$name" -type f | wc -l)" >>"$out/$name.log"
    python3 -I fuzz/summary.py "$out"
done
cat "$out/summary.md"
[ "$found" = 0 ] || { echo "fuzz: $found targets with a find; their inputs are in fuzz/artifacts/" >&2; exit 1; }
