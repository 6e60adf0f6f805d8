#!/bin/sh
# One name for every runner: tests/drivers/run.sh pymysql|go|sysbench <options> (README.md beside this file).
set -eu
cd "$(dirname "$0")/../.."
runner=${1:-}
[ $# = 0 ] || shift
case $runner in
    pymysql) exec target/drivers/venv/bin/python tests/drivers/pymysql_runner.py "$@" ;;
    go) exec target/drivers/go-runner "$@" ;;
    sysbench) exec tests/drivers/sysbench.sh "$@" ;;
    *)
        echo "drivers: no runner is called '$runner': pymysql, go, sysbench" >&2
        exit 64
        ;;
esac
