#!/bin/bash
# Runs the parts of the test suite, each to its end whatever became of the one before, and closes with one
# line:
#
#   212 passed, 0 failed, 0 skipped
#
#   scripts/test.sh [lint] [tests] [drivers] [mysql]      (nothing named: all four)
#   scripts/test.sh count <file> what a log of test programs says: passed, failed, skipped
#
#   lint      formatting, words, clippy, licences and bans: each counts as one
#   tests     unit, property, session and integration tests on MariaDB, doc examples
#   drivers   real drivers and sysbench through the router (the module `drivers` of a crate's tests)
#   mysql     the modules `mysql`, on the mysqld of scripts/mysql-root.sh
#
# Each crate has one program of unit tests and one of integration tests (crates/*/tests/it). They run in
# lanes:
#
#   first     everything in no module named below, crate by crate; more at a time once `beside` is done
#   beside    the modules `waiting` (they let a server stand still, or a minute pass, and look at what is
#             reported), then `mysql`, which mostly wait for servers
#   idle      clippy, cargo-deny and doc examples, on what processor time the others leave
#   drivers   the modules `drivers` and `mysql::driver_suites`, when all of that is done: each of their tests
#             starts five runtimes at once, beside which nothing else would be in time
#   alone     the modules `alone`, which need the whole machine: one at a time, when all else is done
#   again     integration tests that failed above, at most six, once more with nothing beside them. One that
#             passes now counts as passed and is named before the tally: a machine too full, or a race
#
# The counts are those that the test programs print themselves. A part that counts nothing, that ends with an
# error no count explains, or that has no tests at all is a failure of its own and is named.
#
# A test that cannot run here (it needs root) says "NOT TESTED: <test>: <reason>" on standard error, once, and
# returns. The test program calls that passed; here it is skipped. The line goes straight to the descriptor,
# so that it is seen although the output of tests that pass is captured.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PWD/target/rust/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$PATH:/usr/local/go/bin:/usr/sbin:/sbin
folder=$PWD/target/tally
# Tests at a time in the first lane, and in the lane beside it: half of what a lab's test does is to wait. The
# first lane has two more when the other is done.
first_threads=3 beside_threads=4 drivers_threads=2
lanes=(alone waiting mysql drivers)

main() {
    [ $# -gt 0 ] || set -- lint tests drivers mysql
    if [ "$1" = count ]; then
        [ $# = 2 ] || { echo "test: count takes one file" >&2; exit 64; }
        counts_of "$2"
        exit
    fi
    rm -rf "$folder"
    mkdir -p "$folder"
    trap 'stop_lanes; echo "interrupted: no tally" >&2; exit 130' INT TERM
    local part
    for part in "$@"; do
        case $part in
            lint | tests | drivers | mysql) ;;
            *)
                echo "test: no part is called '$part': lint, tests, drivers, mysql" >&2
                exit 64
                ;;
        esac
    done
    local parts=" $* " beside=() idle=()
    wanted() { case $parts in *" $1 "*) ;; *) return 1 ;; esac }
    # What needs no build is told first.
    if wanted lint; then lint fmt words; fi
    if wanted tests || wanted drivers || wanted mysql; then build "$@"; fi
    ! wanted tests || beside+=(waiting)
    ! wanted mysql || beside+=(mysql)
    ! wanted lint || idle+=("lint clippy" "lint deny")
    ! wanted tests || idle+=(doc)
    begin_lane beside "${beside[@]}"
    begin_lane idle "${idle[@]}"
    if wanted tests; then
        unit
        integration
    fi
    wait_lanes
    ! wanted drivers || lane drivers "$drivers_threads"
    # Without a mysqld that is a failure already.
    if wanted mysql && [ -e target/mysql/mysqld ]; then lane mysql::driver_suites "$drivers_threads" mysql; fi
    ! wanted tests || lane alone 1 tests
    again
    tally "$@"
}

# Writes down the programs of all tests: crate's folder, kind (lib, bin or test), program. They are started
# without Cargo, which lets one build at a time: clippy and doc examples are another.
build() {
    announce "build"
    if ! cargo test --workspace --locked --no-run --message-format json-render-diagnostics >"$folder/build.json"; then
        broken build "it did not build (above)"
        tally "$@" build
    fi
    sed -n 's|^{"reason":"compiler-artifact".*"manifest_path":"\([^"]*\)/Cargo.toml".*"kind":\["\([a-z]*\)".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\1 \2 \3|p' \
        "$folder/build.json" | sort >"$folder/programs"
}

# programs <kind>...
programs() {
    local kind
    for kind in "$@"; do awk -v kind="$kind" '$2 == kind { print $1, $3 }' "$folder/programs"; done
}

unit() {
    local crate program
    while read -r crate program; do
        run tests "$crate" "$program"
    done < <(programs lib bin)
}

integration() {
    local crate program threads
    while read -r crate program; do
        threads=$first_threads
        [ ! -e "$folder/beside.done" ] || threads=$((first_threads + 2))
        run tests "$crate" "$program" --test-threads "$threads" $(printf -- '--skip %s:: ' "${lanes[@]}")
    done < <(programs test)
}

# lane <module> <tests at a time> [<part that counts it> [<more options>...]]: this module of every crate that
# has it.
lane() {
    local module=$1 threads=$2 part=${3:-$1} crate program
    shift $(($# < 3 ? $# : 3))
    while read -r crate program; do
        [ -e "$crate/tests/it/${module//:://}.rs" ] || continue
        run "$part" "$crate" "$program" --test-threads "$threads" "$module::" "$@"
    done < <(programs test)
}

steps() {
    local step
    for step in "$@"; do
        case $step in
            waiting) lane waiting 8 tests ;;
            mysql)
                if sh scripts/mysql-root.sh mysql; then lane mysql "$beside_threads" mysql --skip driver_suites; else broken mysql "no mysqld is available (above)"; fi
                ;;
            "lint "*) lint "${step#lint }" ;;
            doc) run tests . cargo test --workspace --locked --no-fail-fast --doc ;;
        esac
    done
}

# More than six failures are no accident, and are not tried again.
again() {
    local part crate program name
    [ -s "$folder/failed" ] && [ "$(wc -l <"$folder/failed")" -le 6 ] || return 0
    while read -r part crate program name; do
        announce "again: ${crate#"$PWD/"}: $name"
        if (cd "$crate" && exec "$program" --exact "$name") </dev/null; then
            count "$part" 1 -1 0 0
            echo "PASSED ONLY WHEN RUN ALONE: $name" >>"$folder/unsteady"
        fi
    done <"$folder/failed"
}

# Each of its own process group, so that an interruption ends the test programs too.
running=()
begin_lane() {
    local name=$1
    shift
    [ $# -gt 0 ] || return 0
    set -m
    {
        [ "$name" != idle ] || renice -n 19 "$BASHPID" >/dev/null
        steps "$@"
        : >"$folder/$name.done"
    } >"$folder/$name.out" 2>&1 &
    running+=("$name $!")
    set +m
}

wait_lanes() {
    local lane
    for lane in "${running[@]}"; do
        wait "${lane#* }"
        cat "$folder/${lane% *}.out"
    done
    running=()
}

stop_lanes() {
    local lane
    for lane in "${running[@]}"; do kill -TERM -- "-${lane#* }" 2>/dev/null; done
}

lint() {
    local check
    for check in "$@"; do
        announce "lint $check"
        if scripts/lint.sh "$check"; then count lint 1 0 0 0; else count lint 0 1 0 0; fi
    done
}

# run <part> <folder> <command>...: shows what the command says, and counts its "test result:" lines.
run() {
    local part=$1 crate=$2 log
    shift 2
    log=$folder/$part.$BASHPID
    announce "$part: ${crate#"$PWD/"}: ${*#"$PWD/"}"
    (cd "$crate" && exec "$@") 2>&1 | tee "$log.now"
    local status=${PIPESTATUS[0]}
    cat "$log.now" >>"$folder/$part.log"
    # A program exits with an error when a test failed; when none did, something else went wrong (it did not
    # build, or a test program died), and that is one failure more.
    count "$part" $(counts_of "$log.now") "$status"
    if [[ $crate == */* && $1 == */it-* ]]; then
        sed -n 's/^test \([a-z0-9_:]*\) \.\.\. .*FAILED$/\1/p' "$log.now" | sort -u |
            sed "s|.*|$part $crate $1 &|" >>"$folder/failed"
    fi
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
    [ ! -s "$folder/unsteady" ] || cat "$folder/unsteady"
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

# Read by another script, it only says how.
[ "${BASH_SOURCE[0]}" != "$0" ] || main "$@"
