#!/bin/sh
# Makes what the runners need, under target/drivers: a venv with the Python drivers, the Go runner as one
# program, the Node driver, the Java drivers and their runner, a certificate. Silent and quick when it is
# there. The caches of all package clients stay in target/drivers too.
set -eu
cd "$(dirname "$0")/../.."
target=$PWD/target/drivers
PATH=$PATH:/usr/local/go/bin
mkdir -p "$target"
# Tests that begin at the same time prepare once.
exec 9>"$target/prepare.lock"
flock 9

venv() {
    unchanged venv "$target/venv/bin/python" tests/drivers/python/requirements.txt && return 0
    rm -rf "$target/venv"
    quietly venv python3 -m venv "$target/venv"
    quietly venv "$target/venv/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check -r tests/drivers/python/requirements.txt
    made venv tests/drivers/python/requirements.txt
}

certificate() {
    [ -e "$target/tls/cert.pem" ] || quietly certificate "$target/venv/bin/python" tests/drivers/python/certificate.py "$target/tls"
}

go_runner() {
    # The last of the two that it makes proves both.
    unchanged go-runner "$target/go-suite" tests/drivers/go/*.go tests/drivers/go/go.* && return 0
    export GOMODCACHE="$target/go-mod" GOCACHE="$target/go-build" GOFLAGS="-modcacherw -buildvcs=false -mod=readonly" CGO_ENABLED=0 GOTOOLCHAIN=local
    (cd tests/drivers/go && quietly go go build -o "$target/go-runner" .)
    # The driver's own tests, as its module carries them.
    (cd tests/drivers/go && quietly go go test -c -o "$target/go-suite" github.com/go-sql-driver/mysql)
    made go-runner tests/drivers/go/*.go tests/drivers/go/go.*
}

node_driver() {
    unchanged node "$target/node/node_modules/mysql2/package.json" tests/drivers/node/package.json && return 0
    rm -rf "$target/node"
    mkdir -p "$target/node"
    cp tests/drivers/node/package.json "$target/node/"
    (cd "$target/node" && quietly node npm install --silent --no-audit --no-fund --no-package-lock --ignore-scripts --cache "$target/npm-cache")
    made node tests/drivers/node/package.json
}

java_drivers() {
    unchanged java "$target/java/classes/Runner.class" tests/drivers/java/* && return 0
    rm -rf "$target/java"
    mkdir -p "$target/java/classes"
    quietly java mvn --quiet --batch-mode --file tests/drivers/java/pom.xml -Dmaven.repo.local="$target/maven" \
        dependency:copy-dependencies -DoutputDirectory="$target/java/jars"
    quietly java javac -d "$target/java/classes" -cp "$target/java/jars/*" tests/drivers/java/*.java
    made java tests/drivers/java/*
}


# unchanged <what> <the file that proves it> <what it is made from>...
unchanged() {
    what=$1 proof=$2
    shift 2
    [ -e "$proof" ] && [ "$(cat "$target/$what.made-from" 2>/dev/null)" = "$(cat "$@" | cksum)" ]
}

made() {
    what=$1
    shift
    cat "$@" | cksum >"$target/$what.made-from"
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
certificate
go_runner
node_driver
java_drivers
command -v sysbench >/dev/null 2>&1 || {
    echo "drivers: sysbench is missing (scripts/install.sh drivers)" >&2
    exit 1
}
