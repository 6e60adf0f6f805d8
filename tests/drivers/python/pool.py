"""An application with SQLAlchemy's pool over PyMySQL that writes until its standard input ends, while the primary is
moved: what it was told is written down as one line of JSON. See ../README.md, "Pools".
"""

import argparse
import collections
import itertools
import json
import os
import sys
import threading
import time

import sqlalchemy
from sqlalchemy import text

INSERT = text("INSERT INTO writes VALUES (:id)")


class Run:
    def __init__(self, engine, base):
        self.engine, self.ids = engine, itertools.count(base + 1)
        self.stop = threading.Event()
        self.acknowledged, self.unknown = [], []
        self.errors, self.longest = collections.Counter(), 0.0

    def write(self, connection, statement=INSERT):
        number = next(self.ids)
        self.commit(lambda: connection.execute(statement, {"id": number}), number)

    def commit(self, doing, *ids):
        """What is not refused before the end of `doing` may have happened."""
        try:
            doing()
        except BaseException:
            self.unknown.extend(ids)
            raise
        self.acknowledged.extend(ids)

    def prepared(self):
        with self.engine.connect() as connection:
            self.write(connection)

    def statement(self):
        with self.engine.connect() as connection:
            self.write(connection, text("INSERT INTO writes SELECT :id + SLEEP(0.05)"))

    def transaction(self):
        with self.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            transaction = connection.begin()
            one, two = next(self.ids), next(self.ids)
            connection.execute(INSERT, {"id": one})
            time.sleep(0.02)
            connection.execute(INSERT, {"id": two})
            self.commit(transaction.commit, one, two)

    def held(self):
        """Keeps a connection for a second, with a variable, and uses it without a check."""
        with self.engine.connect() as connection:
            connection.execute(text("SET @kept = 7"))
            for _ in range(10):
                if self.stop.is_set():
                    return
                time.sleep(0.1)
                if connection.execute(text("SELECT @kept")).scalar() != 7:
                    raise RuntimeError("the variable is lost")
                self.write(connection)

    def work(self, kind):
        while not self.stop.is_set():
            began = time.monotonic()
            try:
                getattr(self, kind)()
                if kind != "held":
                    self.longest = max(self.longest, time.monotonic() - began)
            except sqlalchemy.exc.SQLAlchemyError as error:
                self.errors[f"{kind}: {getattr(error, 'orig', None) or error}"] += 1
            except RuntimeError as error:
                self.errors[f"{kind}: {error}"] += 1
            time.sleep(0.03)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--writer", required=True)
    parser.add_argument("--user", required=True)
    parser.add_argument("--base", type=int, default=0)
    options = parser.parse_args()
    host, port = options.writer.rsplit(":", 1)
    url = sqlalchemy.URL.create(
        "mysql+pymysql", options.user, os.environ["DRIVERS_PASSWORD"], host, int(port), "app", {"ssl_disabled": "true"}
    )
    engine = sqlalchemy.create_engine(
        url, pool_size=10, max_overflow=0, pool_pre_ping=True, isolation_level="AUTOCOMMIT"
    )
    run = Run(engine, options.base)
    kinds = ["prepared", "transaction", "statement", "held"] * 2
    workers = [threading.Thread(target=run.work, args=(kind,)) for kind in kinds]
    for worker in workers:
        worker.start()
    sys.stdin.read()
    run.stop.set()
    for worker in workers:
        worker.join()
    print(
        json.dumps(
            {
                "pool": "SQLAlchemy",
                "version": sqlalchemy.__version__,
                "acknowledged": run.acknowledged,
                "unknown": run.unknown,
                "errors": run.errors,
                "longest_ms": round(run.longest * 1000),
            }
        )
    )


main()
