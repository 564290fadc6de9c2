"""What the test's workers do: write one row for each unit, behind the fence, when the test lets them.

The test talks with them by files: NAME.ready appears when the worker hears signals, NAME.started when
a unit was claimed, and the work goes on when NAME.go is there.
"""

import os
import sqlite3
import time

from towline_worker import FENCES, Failure, HandBack, RateLimited, guard

FOLDER, NAME, MODE = os.environ["TEST_FOLDER"], os.environ["TEST_NAME"], os.environ.get("TEST_MODE", "")


def path(name):
    return os.path.join(FOLDER, name)


with open(path(NAME + ".ready"), "w", encoding="utf-8"):
    pass  # the worker loads this file behind its signal handlers


def work(unit, beat):
    if MODE == "categories" and unit["attempt"] == 1:
        ends(unit["window"]["name"])
    if MODE == "unreportable":
        return reports(unit["window"]["name"])
    if MODE in ("wait", "blind"):
        with open(path(NAME + ".started"), "w", encoding="utf-8") as f:
            f.write(unit["unit"])
        while not os.path.exists(path(NAME + ".go")):
            if MODE == "wait":
                beat.check()
            time.sleep(0.005)
    db = sqlite3.connect(path("rows.db"), timeout=30, isolation_level=None)
    try:
        db.execute(FENCES)
        db.execute("CREATE TABLE IF NOT EXISTS rows (source TEXT, win TEXT, worker TEXT)")
        db.execute("BEGIN IMMEDIATE")
        guard(db, unit)
        db.execute("DELETE FROM rows WHERE source = ? AND win = ?", (unit["source"], unit["window"]["name"]))
        db.execute("INSERT INTO rows VALUES (?, ?, ?)", (unit["source"], unit["window"]["name"], NAME))
        db.execute("COMMIT")
    finally:
        db.close()
    beat.progress = {"done": 1, "total": 1}
    return {"rows": 1}, {"last": unit["window"]["name"], "big": 1234567890123456789}


def reports(window):
    """What no node takes, by the day of the window."""
    return {
        "28": ({"rows": 1}, "x" * (70 << 10)),
        "27": ({"rows": 1}, {1, 2}),
        "26": ({"rows": 1}, float("nan")),
        "25": ({"rows": 1}, "x" * (300 << 10)),
        "24": ({"lines": 1}, None),
    }.get(window[-2:], {"rows": 1})  # the result alone, without state


def ends(window):
    """Each way to end an attempt that is no success, by the day of the window."""
    day = window[-2:]
    if day == "28":
        raise RateLimited(retry_after=0.05, detail="slow down")
    if day == "27":
        raise HandBack("not now")
    if day == "26":
        raise Failure("network", "no route; token=abc123")
    if day == "25":
        raise ValueError("unexpected")
