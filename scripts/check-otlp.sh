#!/bin/bash
# Tries Headroom's OTLP (feature `otlp`) on a real collector: builds both, starts a lab with a router, an
# agent and a guard that send to it, and compares what it writes down with what their /metrics say
# (tests/collector/check.py). The example of deploy/otel-collector, by which a collector scrapes instead, is
# tried beside it.
#
#   scripts/check-otlp.sh [--pushed-only]      (without the example)
#
# The collector is built from Go modules (Go 1.26), some minutes the first time. Everything lies under
# target/collector, listens on loopback, and is ended. Exit code 0: all is as it should be.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/target/rust/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$PATH:/usr/local/go/bin:/usr/sbin:/sbin
folder=$PWD/target/collector
# The longest that the check itself may take.
limit_s=600

main() {
    local example=deploy/otel-collector/headroom.example.yml
    case ${1:-} in
        "") ;;
        --pushed-only) example="" ;;
        *)
            echo "check-otlp: no option is called '$1': --pushed-only" >&2
            exit 64
            ;;
    esac
    command -v go >/dev/null || stop "Go 1.26 is missing"
    mkdir -p "$folder"
    cargo build --locked -p headroom --features otlp
    # The next build without the feature would replace it.
    cp "${CARGO_TARGET_DIR:-target}/debug/headroom" "$folder/headroom"
    [[ $("$folder/headroom" --version) == *otlp* ]] || stop "headroom --version does not name otlp"
    collector
    rm -rf "$folder/run"
    mkdir -p "$folder/run"
    timeout --kill-after=30 "$limit_s" python3 -B tests/collector/check.py "$folder/headroom" "$folder/collector" "$folder/run" $example
}

# Without the ways of finding targets in clouds, which a host does not need and which are most of its size.
collector() {
    local from
    from=$(cat tests/collector/*.go tests/collector/go.* | cksum)
    if [ -x "$folder/collector" ] && [ "$(cat "$folder/made-from" 2>/dev/null)" = "$from" ]; then return; fi
    echo "check-otlp: building a collector of OpenTelemetry from Go modules; its log is target/collector/build.log"
    (
        cd tests/collector
        export GOMODCACHE="${GOMODCACHE:-$folder/go-mod}" GOCACHE="${GOCACHE:-$folder/go-build}"
        export GOFLAGS="-modcacherw -buildvcs=false -mod=readonly" CGO_ENABLED=0 GOTOOLCHAIN=local
        go build -tags remove_all_sd -ldflags '-s -w' -o "$folder/collector" .
    ) >"$folder/build.log" 2>&1 || {
        tail -n 15 "$folder/build.log" >&2
        stop "the collector was not built"
    }
    echo "$from" >"$folder/made-from"
}

stop() {
    echo "check-otlp: $1" >&2
    exit 1
}

main "$@"
