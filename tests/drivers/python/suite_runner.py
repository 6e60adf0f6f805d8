"""go-sql-driver's own tests, as its module carries them, straight at the primary and through the writer at once.

A test that passes directly must pass through the router; one that does not pass directly says nothing, and is skipped. Some
of them are timed, and miss on a busy machine with or without a router: what failed either way is tried once more, alone.
Prints the line of JSON that every runner prints.
"""

import os
import pathlib
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pymysql
from checks import options, report

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCHEMA = "drivers_go_suite"
# A hang; on an idle machine all of them take 20 s.
LIMIT_S = 150
# It dials an address on the internet.
LEFT_OUT = {"TestConnectorReturnsTimeout"}
SUITE = ROOT / "target/drivers/go-suite"


def names():
    listed = subprocess.run([SUITE, "-test.list", "^Test"], capture_output=True, text=True, check=True).stdout.split()
    return [name for name in listed if name not in LEFT_OUT]


def outcomes(options, via, names):
    """What became of each test: PASS, FAIL or SKIP, the seconds it took, and all that was said."""
    environment = {
        "MYSQL_TEST_ADDR": getattr(options, via), "MYSQL_TEST_PROT": "tcp", "MYSQL_TEST_USER": options.user,
        "MYSQL_TEST_PASS": options.password, "MYSQL_TEST_DBNAME": f"{SCHEMA}_{via}",
    }
    command = [SUITE, "-test.v", f"-test.run=^({'|'.join(names)})$", f"-test.timeout={LIMIT_S}s"]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, errors="replace", timeout=LIMIT_S + 20)
    found = re.findall(r"^--- (PASS|FAIL|SKIP): (\w+) \(([\d.]+)s\)", done.stdout, re.MULTILINE)
    return {name: (outcome, float(seconds), done.stdout) for outcome, name, seconds in found}


def words(log, name):
    """What the test said."""
    after = re.split(rf"^=== RUN   {name}$", log, maxsplit=1, flags=re.MULTILINE)[-1]
    return " ".join(re.split(r"^=== RUN", after, maxsplit=1, flags=re.MULTILINE)[0].split())[:400]


def execute(options, *statements):
    host, port = options.direct.rsplit(":", 1)
    connection = pymysql.connect(host=host, port=int(port), user=options.user, password=options.password)
    with connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def run(options):
    ways = ("direct", "writer")
    for via in ways:
        execute(options, f"DROP DATABASE IF EXISTS {SCHEMA}_{via}", f"CREATE DATABASE {SCHEMA}_{via}")
    with ThreadPoolExecutor() as pool:
        direct, through = pool.map(lambda via: outcomes(options, via, names()), ways)
    for via, found in zip(ways, (direct, through)):
        failed = [name for name in direct if found.get(name, ("FAIL",))[0] == "FAIL"]
        if 0 < len(failed) < 20:
            found.update(outcomes(options, via, failed))
    for via in ways:
        execute(options, f"DROP DATABASE {SCHEMA}_{via}")
    results = []
    for name, (outcome, _, log) in direct.items():
        state, why = "passed", ""
        got, seconds, said = through.get(name, ("nothing", 0, ""))
        if outcome != "PASS":
            state, why = "skipped", f"directly it is {outcome} too: {words(log, name)}"
        elif got != "PASS":
            state, why = "failed", f"passes directly, {got} through the router: {words(said, name)}"
        results.append({"name": name, "state": state, "why": why, "took_ms": round(seconds * 1000)})
    if len(results) < 50:
        results.append({"name": "the driver's tests run", "state": "failed", "why": f"only {len(results)} did", "took_ms": 0})
    return results


def version():
    text = (ROOT / "tests/drivers/go/go.mod").read_text()
    return re.search(r"go-sql-driver/mysql (\S+)", text)[1]


options = options(__doc__)
report("go-sql-driver's own tests", version(), run(options))
