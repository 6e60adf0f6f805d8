#!/bin/bash
# Starts one server on a loopback port, runs the drivers' work straight against it (reader = writer = direct),
# stops it: tells whether a failure through the router is the router's or the runner's.
#
#   tests/drivers/direct.sh [mariadb|mysql] [<runner>...] (run.sh names them; all but the drivers' own suites
#   without)
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH=$PATH:/usr/sbin:/sbin

kind=mariadb
case ${1:-} in mariadb | mysql) kind=$1; shift ;; esac
[ $# -gt 0 ] || set -- pymysql mysql-connector-python go mysql2 connector-j mariadb-connector-j go-suite sysbench
tests/drivers/prepare.sh
data=$(mktemp -d)
server=""
stop() {
    if [ -n "$server" ]; then kill "$server" 2>/dev/null && wait "$server" || true; fi
    rm -rf "$data"
}
trap stop EXIT
trap 'exit 130' INT TERM

user=() ; [ "$(id -u)" != 0 ] || user=(--user=root)
port=$(python3 -Ic 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
common=("${user[@]}" --datadir="$data/d" --port="$port" --bind-address=127.0.0.1 --socket="$data/s" --pid-file="$data/pid"
    --skip-name-resolve --max-allowed-packet=64M --local-infile=1 --ssl-cert="$PWD/target/drivers/tls/cert.pem" --ssl-key="$PWD/target/drivers/tls/key.pem"
    --log-bin="$data/bin" --server-id=1)
if [ "$kind" = mysql ]; then
    scripts/mysql-root.sh mysql
    target/mysql/mysqld "${user[@]}" --initialize-insecure --datadir="$data/d" >"$data/log" 2>&1
    target/mysql/mysqld "${common[@]}" --mysqlx=OFF >>"$data/log" 2>&1 &
else
    mariadb-install-db --no-defaults "${user[@]}" --datadir="$data/d" --auth-root-authentication-method=normal --skip-test-db >"$data/log" 2>&1
    mariadbd --no-defaults "${common[@]}" >>"$data/log" 2>&1 &
fi
server=$!
client() { if [ "$kind" = mysql ]; then target/mysql/mysql "$@"; else mariadb --no-defaults "$@"; fi; }
for _ in $(seq 300); do
    client -uroot -S "$data/s" -e 'SELECT 1' >/dev/null 2>&1 && break
    kill -0 "$server" 2>/dev/null || { tail -n 20 "$data/log" >&2; exit 1; }
    sleep 0.1
done
client -uroot -S "$data/s" -e "CREATE USER app@'%' IDENTIFIED BY 'geheim'; GRANT ALL ON *.* TO app@'%' WITH GRANT OPTION"

status=0
at=(--reader "127.0.0.1:$port" --writer "127.0.0.1:$port" --direct "127.0.0.1:$port"
    --reader-socket "$data/s" --writer-socket "$data/s" --user app --password geheim)
for runner in "$@"; do
    tests/drivers/run.sh "$runner" "${at[@]}" || status=1
done
exit $status
