"""What the runners in Python share: the addresses under test, a list of checks, and the one line of JSON at the end.

A runner gives its driver's `connect` to a subclass of Tier, marks its checks with @check and calls main(). Writes go through
the writer address; the reader address is only read. See README.md one folder up.
"""

import argparse
import hashlib
import json
import os
import time

DEADLINE_S = 20
# The reader leads to several replicas, and each is as late as it is: so many sessions in a row meet all of them.
IN_A_ROW = 12
MIB = 1 << 20
CHECKS = []


class Skip(Exception):
    """A check that cannot be made here, with the reason."""


def check(function):
    CHECKS.append(function)
    return function


class Tier:
    """The addresses under test: the router's reader and writer, and the primary itself."""

    schema = None

    def __init__(self, options):
        self.options = options

    def address(self, via):
        """("unix", path), or ("tcp", (host, port))."""
        address = getattr(self.options, via)
        if address is None:
            raise Skip(f"no --{via.replace('_', '-')} given")
        if "socket" in via:
            return "unix", address
        host, port = address.rsplit(":", 1)
        return "tcp", (host, int(port))

    def connect(self, via, **more):
        """A connection of the driver, closed at the end of a with block. `database` is among `more` where it is not the schema."""
        raise NotImplementedError

    def first_login(self):
        """For drivers that cannot log in everywhere without it."""

    def ask(self, via, sql, *arguments, **more):
        with self.connect(via, **more) as connection:
            cursor = connection.cursor()
            cursor.execute(sql, arguments or None)
            return tuple(cursor.fetchall()) if cursor.description else ()

    def every_reader(self, sql, *arguments, answers=bool):
        """Whether all readers answer so: with any rows, or as `answers` says."""
        return all(answers(self.ask("reader", sql, *arguments)) for _ in range(IN_A_ROW))

    def same_everywhere(self, sql):
        """The rows of `sql`, after all readers have caught up with what the primary itself answers."""
        truth = self.ask("direct", sql)
        until(lambda: self.every_reader(sql, answers=lambda rows: rows == truth), f"the readers answer like the primary to: {sql[:80]}")
        assert self.ask("writer", sql) == truth, f"the writer answers otherwise than the primary to: {sql[:80]}"
        return truth

    def processes(self, number):
        return self.ask("direct", "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s", number)[0][0]


def until(true, what):
    end = time.monotonic() + DEADLINE_S
    last = None
    while time.monotonic() < end:
        try:
            if true():
                return
        except Exception as error:
            last = error
        time.sleep(0.02)
    raise AssertionError(f"not within {DEADLINE_S} s: {what}" + (f" (last error: {last})" if last else ""))


def block_of_bytes(seed, length):
    unit = b"".join(hashlib.sha512(f"{seed}/{n}".encode()).digest() for n in range(1024))
    return (unit * (length // len(unit) + 1))[:length]


def digest(rows):
    total = hashlib.sha256()
    for row in rows:
        total.update(repr(row).encode())
    return total.hexdigest()


def prepare(tier):
    tier.first_login()
    tier.ask("writer", f"DROP DATABASE IF EXISTS {tier.schema}", database=None)
    tier.ask("writer", f"CREATE DATABASE {tier.schema} CHARACTER SET utf8mb4", database=None)
    # On the schema: it has reached every reader.
    tier.same_everywhere("SELECT 1")


def run(tier):
    results = []
    prepare(tier)
    for function in CHECKS:
        began = time.monotonic()
        state, why = "passed", ""
        try:
            function(tier)
        except Skip as skip:
            state, why = "skipped", str(skip)
        except Exception as error:
            state, why = "failed", f"{type(error).__name__}: {error}"[:500]
        took_ms = round((time.monotonic() - began) * 1000)
        results.append({"name": function.__name__.replace("_", " "), "state": state, "why": why, "took_ms": took_ms})
    tier.ask("writer", f"DROP DATABASE IF EXISTS {tier.schema}", database=None)
    return results


def options(description):
    parser = argparse.ArgumentParser(description=description)
    for name in ("reader", "writer", "direct"):
        parser.add_argument(f"--{name}", required=True, metavar="HOST:PORT")
    for name in ("reader-socket", "writer-socket"):
        parser.add_argument(f"--{name}", metavar="PATH")
    parser.add_argument("--user", required=True)
    parser.add_argument("--password", default=os.environ.get("DRIVERS_PASSWORD", ""))
    try:
        return parser.parse_args()
    except SystemExit as stop:
        raise SystemExit(64 if stop.code else 0) from None


def report(driver, version, results):
    """Prints the line and ends with its exit code."""
    counts = {state: sum(result["state"] == state for result in results) for state in ("passed", "failed", "skipped")}
    print(json.dumps({"driver": driver, "version": version, **counts, "checks": results}))
    raise SystemExit(1 if counts["failed"] else 0)


def main(driver, version, tier, description):
    tier = tier(options(description))
    try:
        results = run(tier)
    except Exception as error:
        results = [{"name": "the tier can be reached", "state": "failed", "why": f"{type(error).__name__}: {error}", "took_ms": 0}]
    report(driver, version, results)
