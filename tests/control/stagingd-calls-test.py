#!/usr/bin/env python3
"""Calls into the kernel of the real stagingd fail, each once. Each client then gets an answer, or
its connection is closed. stagingd does not die of a signal, and it ends when it is asked to.

usage: stagingd-calls-test.py FAILCALLS PART/PARTS
Environment: STAGINGD

FAILCALLS is failcalls.c, built to be preloaded: its header says which calls count as one. Of these,
the PART-th of PARTS shares fails. The keeper and the workers are those of stagingd.py.
"""
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback

from stagingd import STAGINGD, Client, Daemon, Keeper

FAILCALLS, PART = os.path.abspath(sys.argv[1]), sys.argv[2]
DEATH = "death"  # FAILCALLS_DEATH
SEEN_SIZE = 8 + 8 * 8192  # struct seen of failcalls.c
MOST = 2000
MISSES = 2  # after so many runs without a failure, the walk ends: times differ
SILENCE_S = 15
READY = "facts.reserve1000.progress500.link.ready"


def reset(path):
    """Nothing has failed in this run yet."""
    with open(path, "r+b") as f:
        f.write(bytes(4))


def has_failed(path):
    with open(path, "rb") as f:
        return f.read(4) != bytes(4)


def spell(call):
    """The name, and the places it was called from."""
    name, *at = call.split()
    lines = subprocess.run(["addr2line", "-e", STAGINGD, "-s", "-f", *[hex(int(a, 16) - 1) for a in at]],
                           capture_output=True, text=True, check=False).stdout.split("\n") if at else []
    return name + " of " + " < ".join(f"{f} {where}" for f, where in zip(lines[::2], lines[1::2]))


def connect(daemon):
    """None: stagingd has ended."""
    end = time.monotonic() + SILENCE_S
    while time.monotonic() < end:
        if daemon.process.poll() is not None:
            return None
        with contextlib.suppress(OSError):
            return Client(daemon.socket_path, SILENCE_S)
        time.sleep(0.005)
    raise AssertionError("no connection")


def ask(daemon, op, **fields):
    """The answer; None: there is no more stagingd, or it has closed this connection."""
    client = connect(daemon)
    if not client:
        return None
    try:
        return client.ask(op, **fields)
    except TimeoutError as e:
        raise AssertionError(f"no answer to {op}") from e
    except (EOFError, OSError):
        return None
    finally:
        client.close()


def use(daemon):
    """Each kind of request, a worker that fails, one that dies, and one that is released."""
    done = ask(daemon, "wait", progress="1")
    states = {m["name"]: m for m in ask(daemon, "status", history="1") or [] if m["op"] == "dataset"}
    if done and done[-1]["code"] == "0":
        assert all(m["state"] == "ready" for m in states.values()), f"wait says that all is ready: {states}"
    for m in states.values():
        assert m["state"] != "failed" or m.get("reason"), f"a failure without a reason: {m}"
    ask(daemon, "add", item="late=/fake/silent.tar")
    for op, fields in ("env", {}), ("log", {}), ("warnings", {}), ("release", {"names": "late"}), \
            ("add", {"item": f"again=/fake/{READY}"}), ("wait", {"names": "again"}), ("nonsense", {}):
        ask(daemon, op, **fields)
    daemon.keeper.say(Keeper.MEMORY, 0, 1 << 30, 1 << 20)
    ask(daemon, "status")


def run(seen, told):
    under = ["env", "LD_PRELOAD=" + FAILCALLS, "FAILCALLS_SEEN=" + seen, "FAILCALLS_TOLD=" + told, "FAILCALLS_PART=" + PART]
    items = f"a=/fake/{READY},b=/fake/facts.warning.error7,c=/fake/facts.exit3,d=/fake/facts.mount.place.ready:ssd"
    with Daemon(items, keeper=True, under=under) as daemon:
        use(daemon)
        daemon.keeper.say(Keeper.CANCEL)
        status = daemon.end(SILENCE_S) if daemon.process.poll() is None else daemon.process.returncode
        assert status >= 0, f"died of signal {-status}"
        assert status == 0 or daemon.log(), f"status {status} without a line in the log"


def main():
    top = tempfile.mkdtemp(prefix="stagingd-calls-", dir="/dev/shm")
    os.chmod(top, 0o755)
    seen, told = f"{top}/seen", f"{top}/told"
    with open(seen, "wb") as f:
        f.truncate(SEEN_SIZE)
    open(told, "w").close()
    for path in seen, told:
        os.chmod(path, 0o666)
    bad = n_failed = n_missed = 0
    start = time.monotonic()
    while n_missed < MISSES and n_failed < MOST:
        reset(seen)
        os.truncate(told, 0)
        problem = None
        try:
            run(seen, told)
        except Exception as e:  # the rest is of interest too
            where = traceback.extract_tb(e.__traceback__)[-1]
            problem = f"{where.name}:{where.lineno}: {e!r}"
        with open(told) as f:
            calls = f.read().split("\n")[:-1]
        if DEATH in calls and not problem:
            problem = "stagingd died of a signal"
        if problem:
            bad += 1
            print(f"NOT OK stagingd: {[spell(call) for call in calls]}: {re.sub(chr(10), ' | ', problem)}", flush=True)
        n_missed = 0 if has_failed(seen) else n_missed + 1
        n_failed += has_failed(seen)
    with open(seen, "rb") as f:
        assert f.read(8)[4:] == bytes(4), "MAX_SEEN of failcalls.c is too small"
    for path in seen, told:
        os.unlink(path)
    os.rmdir(top)
    print(f"{'NOT OK' if bad else 'ok'} stagingd: {n_failed} calls failed, {time.monotonic() - start:.1f} s", flush=True)
    sys.exit(bool(bad) or not n_failed)


main()
