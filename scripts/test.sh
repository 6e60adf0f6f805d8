#!/bin/bash
# Runs the parts of the test suite, each to its end whatever became of the one before, and closes with one line:
#
#   212 passed, 0 failed, 0 skipped
#
#   scripts/test.sh [lint] [tests] [drivers] [mysql]      (nothing named: all four, in this order)
#   scripts/test.sh count <file>                          what a log of test programs says: passed, failed, skipped
#
#   lint      formatting, clippy, licences and bans: each counts as one
#   tests     unit, property, session and integration tests on MariaDB, doc examples
#   drivers   real drivers and sysbench through the router (crates/headroom/tests/drivers.rs)
#   mysql     every integration test file called mysql*, on the mysqld of scripts/mysql-root.sh
#
# Beside tests run those of its files that mostly wait (counted as "waiting"), and drivers and mysql when they are asked for too: most
# of what each does is to wait for servers. What they said is shown when tests is done.
#
# The counts are those that the test programs print themselves. A part that counts nothing, that ends with an error no
# count explains, or that has no tests at all is a failure of its own and is named.
#
# A test that cannot run here (it needs root) says "NOT TESTED: <test>: <reason>" on standard error, once, and
# returns. The test program calls that passed; here it is skipped. The line goes straight to the descriptor,
# so that it is seen although the output of tests that pass is captured.
set -uo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/target/rust/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$PATH:/usr/local/go/bin:/usr/sbin:/sbin
folder=target/tally
# What these do is to let a server stand still, or a minute pass, and see what is said of it.
waiting=(agent_gaps agent_objectives slow_readers tools watch_router)

main() {
    [ $# -gt 0 ] || set -- lint tests drivers mysql
    if [ "$1" = count ]; then
        [ $# = 2 ] || { echo "test: count takes one file" >&2; exit 64; }
        counts_of "$2"
        exit
    fi
    rm -rf "$folder"
    mkdir -p "$folder"
    trap 'stop_beside; echo "interrupted: no tally" >&2; exit 130' INT TERM
    local part first=() second=()
    for part in "$@"; do
        case $part in
            lint | tests) first+=("$part") ;;
            drivers | mysql) second+=("$part") ;;
            *)
                echo "test: no part is called '$part': lint, tests, drivers, mysql" >&2
                exit 64
                ;;
        esac
    done
    case " ${first[*]} " in
        *" lint "*) lint ;;
    esac
    case " ${first[*]} " in
        *" tests "*)
            # Built once, for both: cargo lets one at a time build, and what does not build is told there.
            announce "build"
            cargo test --workspace --locked --no-run
            begin_beside waiting "${second[@]}"
            tests
            wait_beside
            tally "$@" waiting
            ;;
        *)
            parts "${second[@]}"
            tally "$@"
            ;;
    esac
}

parts() {
    for part in "$@"; do
        case $part in
            waiting) run waiting cargo test --workspace --locked --no-fail-fast "${waiting[@]/#/--test=}" ;;
            drivers) files_called drivers 'drivers*.rs' ;;
            mysql) if sh scripts/mysql-root.sh mysql; then files_called mysql 'mysql*.rs'; else broken mysql "no mysqld could be had (above)"; fi ;;
        esac
    done
}

# Of its own process group, so that an interruption ends the test programs too.
beside=
begin_beside() {
    set -m
    parts "$@" >"$folder/beside.out" 2>&1 &
    beside=$!
    set +m
}

wait_beside() {
    [ -n "$beside" ] || return 0
    wait "$beside"
    beside=
    cat "$folder/beside.out"
}

stop_beside() {
    [ -z "$beside" ] || kill -TERM -- "-$beside" 2>/dev/null
}

lint() {
    for check in fmt clippy deny; do
        announce "lint $check"
        if scripts/lint.sh "$check"; then count lint 1 0 0 0; else count lint 0 1 0 0; fi
    done
}

# Everything but the files that the other parts run.
tests() {
    local names=()
    for name in $(integration_tests '*.rs'); do
        case " ${waiting[*]} " in *" $name "*) continue ;; esac
        case $name in drivers* | mysql*) ;; *) names+=(--test "$name") ;; esac
    done
    run tests cargo test --workspace --locked --no-fail-fast --lib --bins "${names[@]}"
    run tests cargo test --workspace --locked --no-fail-fast --doc
}

# files_called <part> <pattern of file names>
files_called() {
    local names=()
    for name in $(integration_tests "$2"); do names+=(--test "$name"); done
    if [ ${#names[@]} = 0 ]; then
        broken "$1" "there is no crates/*/tests/$2"
    else
        run "$1" cargo test --workspace --locked --no-fail-fast "${names[@]}"
    fi
}

integration_tests() {
    # A test is a file, or a folder with a main.rs.
    for file in crates/*/tests/$1 crates/*/tests/${1%.rs}/main.rs; do
        [ -e "$file" ] || continue
        case $file in */main.rs) basename "$(dirname "$file")" ;; *) basename "$file" .rs ;; esac
    done | sort -u
}

# run <part> <command>...: shows what the command says, and counts its "test result:" lines.
run() {
    local part=$1 log
    shift
    log=$folder/$part.log
    announce "$part: $*"
    "$@" 2>&1 | tee "$log.now"
    local status=${PIPESTATUS[0]}
    cat "$log.now" >>"$log"
    # cargo exits with an error when a test failed; when none did, something else went wrong (it did not build, or a
    # test program died), and that is one failure more.
    count "$part" $(counts_of "$log.now") "$status"
    grep -ho 'NOT TESTED: .*' "$log.now" >>"$folder/not-tested"
    rm -f "$log.now"
}

# What a log says: passed, failed, skipped. Two lines of "NOT TESTED" may share one with other output.
counts_of() {
    awk '
        { untested += gsub(/NOT TESTED: /, "&") }
        /^test result: / {
            for (i = 2; i <= NF; i++) {
                if ($i == "passed;") passed += $(i - 1)
                if ($i == "failed;") failed += $(i - 1)
                if ($i == "ignored;") skipped += $(i - 1)
            }
        }
        END {
            if (untested > passed) untested = passed
            print passed - untested, failed + 0, skipped + untested
        }' "$1"
}

broken() {
    announce "$1: $2"
    count "$1" 0 1 0 0
}

count() {
    local part=$1 passed=$2 failed=$3 skipped=$4 status=$5
    if [ "$status" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
    echo "$part $passed $failed $skipped" >>"$folder/counts"
}

announce() { echo "== $*"; }

tally() {
    echo
    [ ! -s "$folder/not-tested" ] || sort "$folder/not-tested" | uniq
    awk -v wanted="$*" '
        { passed[$1] += $2; failed[$1] += $3; skipped[$1] += $4 }
        END {
            n = split(wanted, part, " ")
            for (i = 1; i <= n; i++) {
                p = part[i]
                if (!(p in passed) || passed[p] + failed[p] == 0) { failed[p] += 1; note = "  did not run" } else note = ""
                printf "%-8s %5d passed %5d failed %5d skipped%s\n", p, passed[p], failed[p], skipped[p], note
                all_passed += passed[p]; all_failed += failed[p]; all_skipped += skipped[p]
            }
            printf "%d passed, %d failed, %d skipped\n", all_passed, all_failed, all_skipped
            exit all_failed != 0
        }' "$folder/counts" | tee "$folder/result"
    exit "${PIPESTATUS[0]}"
}

main "$@"
