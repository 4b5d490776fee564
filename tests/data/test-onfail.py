#!/usr/bin/env python3
"""onfail=source, and the wait for a turn, from end to end: a real stagingd, and real workers that
are killed, fail or wait."""
import fcntl
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../control"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *  # noqa: E402
from stagingd import Daemon  # noqa: E402

CONF = """
[source all]
Match={src}/**
MaxRate=1M
[limits]
MaxMemoryPercent=90
KeepFreeMemory=1M
"""


def make(n):
    src = scratch()
    os.makedirs(f"{src}/d")
    for i in range(n):
        with open(f"{src}/d/f{i}", "wb") as f:
            f.write(b"1" * 100)
    return src


def run(src, value):
    return Daemon(value, conf=CONF.replace("{src}", src), worker=WORKER)


def entry(d):
    return os.path.join(d.rundir, "t/data/a")


def test_waiting_for_a_turn_is_no_stall():
    """Seen failing: stagingd killed the worker, which waited for a token or by Jitter=."""
    src = make(3)
    os.mkdir(f"{src}/tokens")
    conf = CONF.replace("{src}", src).replace("MaxRate=1M", f"TokenDir={src}/tokens\nTokenWait=1h")
    conf += "StallTimeout=1s\n[daemon]\nRunRules=yes\n"
    with open(f"{src}/tokens/1", "w") as token:
        fcntl.flock(token, fcntl.LOCK_EX)
        with Daemon(f"a={src}/d:shm", conf=conf, worker=WORKER) as d:
            time.sleep(4)
            s = d.status("a")
            assert s["state"] not in ("failed", "ready", "undoing"), s
            fcntl.flock(token, fcntl.LOCK_UN)
            d.wait(names="a")
            assert d.status("a")["state"] == "ready", d.status("a")
    remove(src)


def test_after_kill_9_another_worker_makes_the_link():
    src = make(5000)
    for _ in range(10):
        with run(src, f"a={src}/d:shm:onfail=source+method=copy+threads=1") as d:
            while (s := d.status("a"))["state"] in ("queued", "probing", "preparing"):
                pass
            if s["state"] != "staging":
                continue  # it was faster
            os.kill(int(s["pid"]), signal.SIGKILL)
            done = d.wait(names="a")
            s = d.status("a")
            if s["method"] == "copy" and s["state"] == "ready":
                continue
            assert done["code"] == "0" and s["state"] == "ready", (done, s)
            assert (s["method"], s["tier"]) == ("link", "source"), s
            assert "signal 9" in s["warning"], s
            assert os.readlink(entry(d)) == f"{src}/d"
            assert os.listdir(os.path.join(d.rundir, "t/.stage/tmp")) == []
            assert d.ask("release", names="a")[-1]["code"] == "0"
            assert not os.path.lexists(entry(d)) and os.path.exists(f"{src}/d/f0")
            break
    else:
        raise AssertionError("never caught it at work")
    remove(src)


def test_a_worker_that_fails_makes_the_link_itself():
    src = make(10)
    with run(src, f"a={src}/d:shm:onfail=source+max=1K") as d:
        assert d.wait(names="a")["code"] == "0", d.status("a")
        s = d.status("a")
        assert "staging failed" in s["warning"] and "raise max=" in s["warning"], s
        assert os.readlink(entry(d)) == f"{src}/d"
    remove(src)


def test_what_fails_its_checksum_is_not_shown():
    src = make(1)
    with run(src, f"a={src}/d/f0:shm:onfail=source+verify=sha256:{'0' * 64}") as d:
        assert d.wait(names="a")["code"] == "1"
        s = d.status("a")
        assert s["state"] == "failed" and "SHA-256" in s["reason"], s
        assert not os.path.lexists(entry(d))
    remove(src)


if __name__ == "__main__":
    main(globals())
