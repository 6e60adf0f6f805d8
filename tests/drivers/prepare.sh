#!/bin/sh
# Makes what the runners need, under target/drivers: a venv with PyMySQL, the Go runner as one program. Silent and quick
# when it is there. Go's and pip's caches stay in target/drivers too.
set -eu
cd "$(dirname "$0")/../.."
target=$PWD/target/drivers
PATH=$PATH:/usr/local/go/bin
mkdir -p "$target"

venv() {
    wanted=$(cat tests/drivers/requirements.txt)
    [ -x "$target/venv/bin/python" ] && [ "$(cat "$target/venv/made-from" 2>/dev/null)" = "$wanted" ] && return 0
    rm -rf "$target/venv"
    quietly venv python3 -m venv "$target/venv"
    quietly venv "$target/venv/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check -r tests/drivers/requirements.txt
    echo "$wanted" >"$target/venv/made-from"
}

go_runner() {
    sum=$(cat tests/drivers/go/*.go tests/drivers/go/go.* | cksum)
    [ -x "$target/go-runner" ] && [ "$(cat "$target/go-runner.made-from" 2>/dev/null)" = "$sum" ] && return 0
    export GOMODCACHE="$target/go-mod" GOCACHE="$target/go-build" GOFLAGS="-modcacherw -buildvcs=false -mod=readonly" CGO_ENABLED=0 GOTOOLCHAIN=local
    (cd tests/drivers/go && quietly go go build -o "$target/go-runner" .)
    echo "$sum" >"$target/go-runner.made-from"
}

quietly() {
    log=$target/$1.log
    shift
    "$@" >"$log" 2>&1 || {
        tail -n 15 "$log" >&2
        echo "drivers: failed: $*" >&2
        exit 1
    }
}

venv
go_runner
command -v sysbench >/dev/null 2>&1 || {
    echo "drivers: sysbench is missing (scripts/install.sh drivers)" >&2
    exit 1
}
