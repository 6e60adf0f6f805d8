#!/bin/bash
# sysbench's work through a router, unchanged: read-only and point selects on the reader, read-write on the
# writer, with prepared statements, without them, and with the compressed protocol; then the tables of the
# reader, the writer and the primary must be the same. Says how many queries were answered, never how fast
# they were.
#
# Prints one line of JSON; exit code 0 when every check passed, 1 when one failed, 64 on bad usage. Options
# are those of the other runners, and --seconds (4) for each load. The schema drivers_sb is made and dropped.
set -uo pipefail

schema=drivers_sb tables=4 rows=2000 threads=4 seconds=4 deadline_s=30
reader="" writer="" direct="" reader_socket="" writer_socket="" user="" password=${DRIVERS_PASSWORD:-}

usage() {
    echo "sysbench.sh: $1" >&2
    exit 64
}

while [ $# -gt 0 ]; do
    case $1 in
        --reader | --writer | --direct | --reader-socket | --writer-socket | --user | --password | --seconds)
            [ $# -gt 1 ] || usage "$1 wants a value"
            name=${1#--}
            printf -v "${name//-/_}" %s "$2"
            shift 2
            ;;
        *) usage "there is no option '$1'" ;;
    esac
done
[ -n "$reader" ] && [ -n "$writer" ] && [ -n "$direct" ] && [ -n "$user" ] || usage "--reader, --writer, --direct and --user are needed"
command -v sysbench >/dev/null || usage "sysbench is missing (scripts/install.sh bench)"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

checks="" passed=0 failed=0 skipped=0

main() {
    check "tables are prepared through the writer" prepare
    check "the reader has the tables" same_everywhere
    check "point selects on the reader" load reader oltp_point_select
    check "point selects on the reader, text protocol" load reader oltp_point_select --db-ps-mode=disable
    check "point selects on the reader, compressed" load reader oltp_point_select --mysql-compression=on
    check "read-only transactions on the reader" load reader oltp_read_only
    check "read-write transactions on the writer" load writer oltp_read_write
    if [ -n "$reader_socket" ]; then
        check "point selects on the reader's socket" load reader_socket oltp_point_select
    else
        result "point selects on the reader's socket" skipped "no --reader-socket given" 0
    fi
    check "reader, writer and primary hold the same rows" same_everywhere
    sql direct "DROP DATABASE IF EXISTS $schema" >/dev/null 2>&1
    printf '{"driver":"sysbench","version":"%s","passed":%d,"failed":%d,"skipped":%d,"checks":[%s]}\n' \
        "$(sysbench --version | cut -d' ' -f2)" "$passed" "$failed" "$skipped" "${checks#,}"
    [ "$failed" = 0 ]
}

# check <name> <function> <arguments>...: what the function says on failure becomes the reason.
check() {
    local name=$1 began=$EPOCHREALTIME why
    shift
    if why=$("$@" 2>&1); then why="" state=passed; else state=failed; fi
    result "$name" "$state" "$why" $(((${EPOCHREALTIME/./} - ${began/./}) / 1000))
}

result() {
    case $2 in passed) ((passed++)) ;; failed) ((failed++)) ;; skipped) ((skipped++)) ;; esac
    local why
    why=$(printf %s "$3" | tr '\n\t\r' '   ' | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g' | tail -c 400)
    checks+=$(printf ',{"name":"%s","state":"%s","why":"%s","took_ms":%d}' "$1" "$2" "$why" "$4")
}

prepare() {
    sql writer "DROP DATABASE IF EXISTS $schema; CREATE DATABASE $schema" || return 1
    bench writer oltp_read_write prepare
}

# load <via> <script> <options>...: no error, no reconnect, at least one query.
load() {
    local via=$1 script=$2 out errors reconnects queries
    shift 2
    out=$(bench "$via" "$script" run --time="$seconds" --mysql-ignore-errors=1213,1020 "$@") || {
        echo "$out" | grep -E 'FATAL|ALERT|error' | head -n 3
        return 1
    }
    queries=$(number "$out" 'queries:')
    errors=$(number "$out" 'ignored errors:')
    reconnects=$(number "$out" 'reconnects:')
    if [ "${queries:-0}" -lt 1 ] || [ "${reconnects:-1}" != 0 ]; then
        echo "$queries queries, $errors ignored errors, $reconnects reconnects"
        return 1
    fi
}

number() { echo "$1" | sed -n "s/^ *$2 *\([0-9]*\).*/\1/p" | tail -n 1; }

# bench <via> <script> <command> <options>...
bench() {
    local via=$1 script=$2 command=$3 address
    address=${!via}
    shift 3
    local where=(--mysql-host="${address%:*}" --mysql-port="${address##*:}")
    [[ $via != *socket ]] || where=(--mysql-socket="$address")
    sysbench "$script" "${where[@]}" --mysql-user="$user" --mysql-password="$password" --mysql-db="$schema" \
        --tables="$tables" --table-size="$rows" --threads="$threads" --rand-seed=7 "$@" "$command" 2>&1
}

# Waits until reader and writer say what the primary says of every table.
same_everywhere() {
    local end=$((SECONDS + deadline_s)) truth got via readers
    truth=$(checksums direct) || { echo "$truth"; return 1; }
    # The reader leads to several replicas, and each is as late as it is: this many sessions in a row meet all
    # of them.
    readers=$(printf 'reader %.0s' {1..12})
    for via in $readers writer; do
        until got=$(checksums "$via") && [ "$got" = "$truth" ]; do
            if [ $SECONDS -ge $end ]; then
                echo "not within $deadline_s s: $via says $got, the primary says $truth"
                return 1
            fi
            sleep 0.1
        done
    done
}

checksums() {
    local query="" n
    for ((n = 1; n <= tables; n++)); do
        query+="${query:+ UNION ALL }SELECT $n, COUNT(*), SUM(CRC32(CONCAT_WS('/', id, k, c, pad))) FROM $schema.sbtest$n"
    done
    sql "$1" "$query"
}

sql() {
    local address=${!1}
    MYSQL_PWD=$password mariadb --no-defaults --skip-ssl -N -B -h "${address%:*}" -P "${address##*:}" -u "$user" -e "$2" 2>&1
}

main
