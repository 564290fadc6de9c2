#!/usr/bin/env python3
"""A worker for Towline in one file, without dependencies (Python 3.9 or newer).

It asks a node for units over HTTP, renews their leases while it works, and reports what came of them:

    python3 towline_worker.py --url unix:/run/user/1000/towline/api.sock pull.py

where pull.py holds a function that does one unit:

    def work(unit, beat):
        for page in read(unit["source"], unit["window"]["from"], unit["window"]["to"]):
            beat.check()                        # raises LeaseLost: stop, and write nothing more
            ...
        return {"rows": 41}, {"cursor": "x"}    # result, and state for the next unit of the source and dataset; or result alone

What makes it safe, whatever clock this machine has and whatever dies:

- A unit is yours only while its lease is. The heartbeat renews it in a thread of its own; behind 410, or when it could not
  be renewed in time by this machine's monotonic clock, `beat.lost` is set and `beat.check()` raises LeaseLost.
- What you write carries the fence: `guard(db, unit)` in your own transaction refuses an attempt of which a newer one has
  written there. It is the only thing that keeps a worker that was suspended, and wakes up late, from overwriting.
- To report twice is harmless, so a report is repeated until it is answered or the lease is over. A worker that dies says
  nothing; its lease ends, and the node decides.

Raise RateLimited, Failure or HandBack to end a unit otherwise. Any other exception fails it as a provider_error.
"""

import argparse
import hashlib
import http.client
import importlib.util
import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
import urllib.parse


class Problem(Exception):
    """An answer that is no success: an RFC 9457 problem."""

    def __init__(self, status, problem):
        super().__init__("%s %s: %s" % (status, problem.get("code", "?"), problem.get("detail", "")))
        self.status, self.problem, self.code = status, problem, problem.get("code")


class LeaseLost(Exception):
    """The lease is no longer ours: expired, taken_over, cancelled or run_ended. Stop, and write nothing more."""


class Fenced(LeaseLost):
    """A newer attempt has written what this one would."""


class Failure(Exception):
    """Ends the unit badly: with one of the categories of the specification, such as network, auth or not_found."""

    def __init__(self, category, detail=""):
        super().__init__(detail or category)
        self.category, self.detail = category, detail


class RateLimited(Failure):
    """Ends the attempt: it is tried again when the limit is over, within the budget of the node."""

    def __init__(self, retry_after=None, detail="", account=""):
        super().__init__("rate_limit", detail)
        self.retry_after, self.account = retry_after, account


class HandBack(Exception):
    """Gives the unit back without using up a retry: a clean stop."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("towline", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Client:
    """Speaks to one node: unix:/path/to/api.sock, http://HOST:PORT or https://HOST:PORT."""

    def __init__(self, url, token=None):
        self._url, self._token = url, token

    def _connection(self, timeout):
        if self._url.startswith("unix:"):
            return _UnixConnection(self._url[len("unix:"):], timeout)
        parts = urllib.parse.urlsplit(self._url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname, parts.port, timeout=timeout)

    def post(self, path, body, lease_token=None, timeout=10.0):
        """Returns (status, answer). Raises Problem for what is no success, and OSError if the node cannot be reached."""
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = "Bearer " + self._token
        if lease_token:
            headers["Lease-Token"] = lease_token  # never in an address, and never in a log
        connection = self._connection(timeout)
        try:
            connection.request("POST", path, json.dumps(body).encode(), headers)
            response = connection.getresponse()
            text = response.read()
        except http.client.HTTPException as e:
            raise ConnectionError("the node has hung up: %s" % e) from e
        finally:
            connection.close()
        try:
            answer = json.loads(text) if text.strip() else {}
        except ValueError as e:  # what stands before the node has answered for it
            raise ConnectionError("no answer of a node: %d" % response.status) from e
        if response.status >= 400:
            raise Problem(response.status, answer)
        return response.status, answer

    def claim(self, unit, worker):
        """Claims the unit of a message. None: it is not ours; settle the message and do nothing."""
        try:
            _, lease = self.post("/v1/units/%s/claim" % urllib.parse.quote(unit, safe=""), {"worker": worker})
            return lease
        except Problem as e:
            if e.code in ("not_claimable", "too_early"):
                return None
            raise

    def claim_next(self, worker, wait=30.0, secret=None, **which):
        """Claims the next unit that waits for a worker; None: there was none for so long. Repeated with the same secret, because
        no answer came, it gives the lease that it had got; a secret is random, and new for each request."""
        body = dict(which, worker=worker, wait_ms=int(wait * 1000), max=1)
        if secret:
            body["secret"] = secret
        status, answer = self.post("/v1/leases/claim", body, timeout=wait + 10.0)
        return answer["leases"][0] if status == 200 else None


class Heartbeat:
    """Renews a lease in a thread until it is closed, or lost. Its times are relative, by the monotonic clock of this machine."""

    def __init__(self, client, lease):
        self._client, self._token = client, lease["lease_token"]
        self._every = lease["renew_every_ms"] / 1000.0
        self._ends = time.monotonic() + lease["expires_in_ms"] / 1000.0
        self._done = threading.Event()
        self.lost = threading.Event()
        self.reason = None
        self.progress = None  # {"done": n, "total": m}: goes out with the next renewal
        self._thread = threading.Thread(target=self._run, name="towline-heartbeat", daemon=True)
        self._thread.start()

    def _lose(self, reason):
        self.reason = self.reason or reason
        self.lost.set()

    def check(self):
        """Raises LeaseLost if the lease is lost, also if this process was suspended for longer than it lasts."""
        if time.monotonic() >= self._ends:
            self._lose("expired")
        if self.lost.is_set():
            raise LeaseLost(self.reason)

    def left(self):
        """Seconds until the lease ends if it is not renewed."""
        return self._ends - time.monotonic()

    def _run(self):
        wait = self._every
        while not self._done.wait(wait):
            wait = self._every
            asked = time.monotonic()
            if asked >= self._ends:
                return self._lose("expired")
            try:
                body = {"progress": self.progress} if self.progress else {}
                patience = max(min(self._every, self.left()) / 2, 0.1)  # an answer that never comes leaves time for another call
                _, lease = self._client.post("/v1/leases/renew", body, self._token, timeout=patience)
                self._ends = asked + lease["expires_in_ms"] / 1000.0  # counted from before the answer: never too long
            except Problem as e:
                if e.code == "lease_lost":
                    return self._lose(e.problem.get("reason"))
                wait = min(1.0, self._every)  # the node cannot write now: it may soon
            except OSError:
                wait = min(1.0, self._every)

    def close(self):
        self._done.set()
        self._thread.join()


def _report(client, lease, beat, path, body):
    """Reports how an attempt ended, again and again while the lease may still be ours: the same report twice is one."""
    while True:
        try:
            client.post(path, body, lease["lease_token"])
            return True
        except Problem as e:
            if e.code == "lease_lost":
                return False
            if e.status < 500:
                raise
        except OSError:
            pass
        if beat.left() <= 0:
            return False
        time.sleep(0.2)


def do(client, lease, work, log=lambda text: None):
    """Does one unit under its lease, and reports what came of it. Returns the state in which it left it, for people."""
    beat = Heartbeat(client, lease)
    name = lease["alias"]
    try:
        try:
            returned = work(lease, beat)
            result, state = returned if isinstance(returned, tuple) else (returned, None)  # without state, result alone will do
            beat.check()
            path, body, word = "/v1/leases/complete", {"result": result or {}}, "succeeded"
            if state is not None:
                body["state"] = state
        except LeaseLost as e:
            log("%s: lease lost (%s): stopped, and wrote nothing more" % (name, e))
            return "lost"
        except RateLimited as e:
            path, word = "/v1/leases/fail", "rate limited"
            body = {"category": e.category, "detail": e.detail, "account": e.account}
            if e.retry_after is not None:
                body["retry_after_ms"] = int(e.retry_after * 1000)
        except Failure as e:
            path, body, word = "/v1/leases/fail", {"category": e.category, "detail": e.detail}, "failed"
        except HandBack as e:
            path, body, word = "/v1/leases/release", {"reason": str(e)}, "handed back"
        except Exception as e:  # pylint: disable=broad-except
            path, body, word = "/v1/leases/fail", {"category": "provider_error", "detail": "%s: %s" % (type(e).__name__, e)}, "failed"
        try:
            reported = _report(client, lease, beat, path, body)
        except (Problem, TypeError, ValueError) as e:  # too large, or no JSON: the unit fails of it, and not each worker in turn
            path, body, word = "/v1/leases/fail", {"category": "provider_error", "detail": "what it reports is not taken: %s" % e}, "failed"
            reported = _report(client, lease, beat, path, body)
        if not reported:
            log("%s: %s, but too late: it changes nothing" % (name, word))
            return "late"
        log("%s: %s" % (name, word))
        return word
    finally:
        beat.close()


def run(client, name, work, stop, wait=30.0, log=lambda text: None, **which):
    """Asks for units and does them, one after the other, until stop is set. A node that is away is asked again."""
    pause, secret = 0.2, secrets.token_hex(16)
    while not stop.is_set():
        try:
            lease = client.claim_next(name, wait=wait, secret=secret, **which)
            pause, secret = 0.2, secrets.token_hex(16)
        except (OSError, Problem) as e:
            if isinstance(e, Problem) and e.status in (401, 403):
                raise
            log("the node cannot be asked (%s); again in %.1f s" % (e, pause))
            stop.wait(pause)
            pause = min(pause * 2, 10.0)
            continue
        if lease is not None:
            do(client, lease, work, log)


# The fence, for tables of one's own in SQLite: the same table and keys as sink.Guard in Go.

FENCES = """CREATE TABLE IF NOT EXISTS towline_fences (
  scope_key    VARCHAR(64) NOT NULL PRIMARY KEY,
  source       TEXT        NOT NULL,
  dataset      TEXT        NOT NULL,
  window_name  TEXT        NOT NULL,
  fence        VARCHAR(64) NOT NULL,
  store        VARCHAR(64) NOT NULL,
  run          VARCHAR(32) NOT NULL,
  unit         VARCHAR(32) NOT NULL,
  attempt      INTEGER     NOT NULL,
  committed_at VARCHAR(32) NOT NULL
)"""


def guard(db, unit):
    """Call it first in the transaction (BEGIN IMMEDIATE) that replaces the rows of unit's source, dataset and window. It raises
    Fenced, and then the transaction is to be rolled back; else the fence is written with your rows."""
    for window in ("", unit["window"]["name"]):  # the first row says to which store the dataset belongs
        key = _scope_key(unit["source"], unit["dataset"], window)
        row = db.execute("SELECT fence, store FROM towline_fences WHERE scope_key = ?", (key,)).fetchone()
        if row and row[1] != unit["store"]:
            raise Fenced("the rows belong to store %s" % row[1])
        if row and not window:
            continue
        if row and row[0] > unit["fence"]:
            raise Fenced("fence %s has written here, ours is %s" % (row[0], unit["fence"]))
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        db.execute(
            "INSERT OR REPLACE INTO towline_fences VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (key, unit["source"], unit["dataset"], window, unit["fence"], unit["store"], unit["run"], unit["unit"], unit["attempt"], at),
        )


def _scope_key(*parts):
    text = "".join("%d:%s" % (len(part.encode()), part) for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()


def _load(path):
    name, _, function = path.partition(":")
    spec = importlib.util.spec_from_file_location("towline_work", name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function or "work")


def main(argv=None):
    p = argparse.ArgumentParser(description="Does the units of a Towline node with a function of yours.")
    p.add_argument("work", help="FILE.py, which holds a function work(unit, beat), or FILE.py:FUNCTION")
    p.add_argument("--url", default=os.environ.get("TOWLINE_URL", "http://127.0.0.1:7480"), help="of the node: unix:PATH, or http://HOST:PORT")
    p.add_argument("--token-file", help="of the worker token; not needed over the socket or loopback")
    p.add_argument("--name", default="%s:%d" % (socket.gethostname(), os.getpid()), help="of this worker, for people")
    p.add_argument("--sync", action="append", help="take units of this sync only; may be repeated")
    a = p.parse_args(argv)
    token = None
    if a.token_file:
        with open(a.token_file, encoding="utf-8") as f:
            token = f.read().strip()
    sys.modules.setdefault("towline_worker", sys.modules[__name__])  # so that FILE.py can import its names
    stop = threading.Event()
    for s in (signal.SIGTERM, signal.SIGINT):
        signal.signal(s, lambda *_: stop.set())
    which = {"syncs": a.sync} if a.sync else {}

    def log(text):
        print(text, file=sys.stderr, flush=True)

    run(Client(a.url, token), a.name, _load(a.work), stop, wait=5.0, log=log, **which)


if __name__ == "__main__":
    main()
