#!/bin/sh
# One name for every runner: tests/drivers/run.sh <runner> <options> (README.md beside this file).
set -eu
cd "$(dirname "$0")/../.."
runner=${1:-}
[ $# = 0 ] || shift
jdbc() { exec java -cp "target/drivers/java/classes:target/drivers/java/jars/*" Runner "$@"; }
hikari() {
    window=$1
    shift
    exec java -Dcom.zaxxer.hikari.aliveBypassWindowMs="$window" -cp "target/drivers/java/classes:target/drivers/java/jars/*" Pool "$@"
}
python() { exec target/drivers/venv/bin/python "$@"; }
case $runner in
    pymysql) python tests/drivers/python/pymysql_runner.py "$@" ;;
    mysql-connector-python) python tests/drivers/python/connector_runner.py "$@" ;;
    go) exec target/drivers/go-runner "$@" ;;
    mysql2) exec env NODE_PATH=target/drivers/node/node_modules node tests/drivers/node/runner.cjs "$@" ;;
    connector-j) jdbc --driver mysql "$@" ;;
    mariadb-connector-j) jdbc --driver mariadb "$@" ;;
    go-suite) python tests/drivers/python/suite_runner.py "$@" ;;
    # Pools under a primary that moves: --writer, --user and --base alone.
    go-pool) exec target/drivers/go-runner pool "$@" ;;
    sqlalchemy) python tests/drivers/python/pool.py "$@" ;;
    mysql2-pool) exec env NODE_PATH=target/drivers/node/node_modules node tests/drivers/node/pool.cjs "$@" ;;
    hikari) hikari 500 "$@" ;;
    hikari-checked) hikari 0 "$@" ;;
    sysbench) exec tests/drivers/sysbench.sh "$@" ;;
    *)
        echo "drivers: no runner is called '$runner': pymysql, mysql-connector-python, go, mysql2, connector-j, mariadb-connector-j, go-suite, sysbench, go-pool, sqlalchemy, mysql2-pool, hikari, hikari-checked" >&2
        exit 64
        ;;
esac
