#!/bin/sh
# One name for every runner: tests/drivers/run.sh <runner> <options> (README.md beside this file).
set -eu
cd "$(dirname "$0")/../.."
runner=${1:-}
[ $# = 0 ] || shift
jdbc() { exec java -cp "target/drivers/java/classes:target/drivers/java/jars/*" Runner "$@"; }
python() { exec target/drivers/venv/bin/python "$@"; }
case $runner in
    pymysql) python tests/drivers/python/pymysql_runner.py "$@" ;;
    mysql-connector-python) python tests/drivers/python/connector_runner.py "$@" ;;
    go) exec target/drivers/go-runner "$@" ;;
    mysql2) exec env NODE_PATH=target/drivers/node/node_modules node tests/drivers/node/runner.cjs "$@" ;;
    connector-j) jdbc --driver mysql "$@" ;;
    mariadb-connector-j) jdbc --driver mariadb "$@" ;;
    go-suite) python tests/drivers/python/suite_runner.py "$@" ;;
    sysbench) exec tests/drivers/sysbench.sh "$@" ;;
    *)
        echo "drivers: no runner is called '$runner': pymysql, mysql-connector-python, go, mysql2, connector-j, mariadb-connector-j, go-suite, sysbench" >&2
        exit 64
        ;;
esac
