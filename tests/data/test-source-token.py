#!/usr/bin/env python3
"""When a source may be read: token files and jitter (daemon/worker/source-token.h).

Each test was seen failing with a worker that takes no token, or that counts the wait for a token
as a stall of the source."""
import fcntl
import os
import time

from harness import Worker, main, remove, scratch

CONTENT = b"content " * 50_000
FAR = 3_600_000


class Source:
    """A file, and a directory of tokens of which the test holds `held`."""

    def __init__(self, n_tokens=2, held=0):
        self.top = scratch()
        self.path, self.dir = self.top + "/file", self.top + "/tokens"
        with open(self.path, "wb") as f:
            f.write(CONTENT)
        os.mkdir(self.dir)
        self.tokens = [open(f"{self.dir}/{i}", "w") for i in range(n_tokens)]
        for t in self.tokens[:held]:
            fcntl.flock(t, fcntl.LOCK_EX)

    def free(self):
        """How many a reader could have now"""
        n = 0
        for t in self.tokens:
            try:
                fcntl.flock(t, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            fcntl.flock(t, fcntl.LOCK_UN)
            n += 1
        return n

    def worker(self, options="", **task):
        task = dict(dict(tokendir=self.dir, tokenwait=FAR), **task)
        return Worker(f"x={self.path}{options}", **task)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for t in self.tokens:
            t.close()
        remove(self.top)


def listen(w, seconds):
    """Answers, if there is something; not the end"""
    try:
        m = w.receive(seconds)
    except TimeoutError:
        return
    assert m and m["op"] not in ("ready", "error"), m


def waits(w, seconds=1.5):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        listen(w, 0.2)


def is_staged(w):
    w.ready()
    with open(w.path, "rb") as f:
        assert f.read() == CONTENT


def test_a_token_is_held_while_it_is_read_and_given_back():
    with Source() as s, s.worker(maxrate=200_000) as w:
        while s.free() == 2:
            listen(w, 0.01)
        assert s.free() == 1
        is_staged(w)
        assert s.free() == 2
        assert not w.warnings()


def test_it_waits_until_one_is_given_back():
    with Source(held=2) as s, s.worker(stall=500) as w:
        waits(w)
        assert "2 tokens" in w.warnings()[0], w.warnings()
        fcntl.flock(s.tokens[1], fcntl.LOCK_UN)
        is_staged(w)


def test_it_does_not_wait_for_ever():
    with Source(held=2) as s, s.worker(tokenwait=1000) as w:
        is_staged(w)
        assert "within TokenWait=" in w.warnings()[-1], w.warnings()


def test_tokens_that_are_not_there_are_a_warning():
    with Source(n_tokens=0) as s:
        for path, why in (s.dir, "there are none"), (s.top + "/no", "there are none"), (s.path, "Not a dir"):
            with s.worker(tokendir=path) as w:
                is_staged(w)
                assert why in w.warnings()[-1], w.warnings()


def test_what_is_no_file_is_no_token():
    with Source(n_tokens=0) as s:
        os.mkfifo(s.dir + "/fifo")
        os.symlink(s.path, s.dir + "/link")
        with s.worker() as w:
            is_staged(w)
            assert "without a token" in w.warnings()[-1], w.warnings()


def test_what_is_not_read_waits_for_nobody():
    with Source(held=2) as s, s.worker("::method=link") as w:
        w.ready()
        assert os.readlink(w.path) == s.path
        assert not w.warnings()


def test_cancelled_while_it_waits():
    with Source(held=2) as s, s.worker() as w:
        waits(w, 0.5)
        w.send({"op": "cancel"})
        assert "cancelled" in w.error()["text"]


def test_it_begins_at_a_moment_of_its_own():
    with Source() as s:
        with s.worker(tokendir="", jitter=FAR, stall=500) as w:
            waits(w)
            w.send({"op": "cancel"})
            w.error()
        with s.worker(tokendir="", jitter=0) as w:
            is_staged(w)


main(globals())
