#!/usr/bin/env python3
"""All nodes of a job share one copy on a shared tier. Several workers play the nodes."""
import os
import signal
import sys
import tarfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *  # noqa: E402


class Job:
    """A shared tier, and sources."""

    def __init__(self):
        self.base, self.src = scratch(), scratch()
        self.shared = f"{self.base}/shared/stage-data-1"
        os.makedirs(f"{self.src}/d/deep")
        for i in range(20):
            with open(f"{self.src}/d/deep/f{i}", "wb") as f:
                f.write(b"%d" % i * 100000)
        with tarfile.open(f"{self.src}/t.tar", "w") as t:
            t.add(f"{self.src}/d", "top")
        with open(f"{self.src}/t.tar", "rb") as f, open(f"{self.src}/half.tar", "wb") as half:
            half.write(f.read(1000000))

    def worker(self, node, item, **task):
        def tierdir(m):
            path = f"{self.shared}-{node}"
            os.makedirs(path, mode=0o700, exist_ok=True)
            return dict(op="tierdir", path=path, shared=self.shared)
        base = f"{self.base}/{node}"
        os.makedirs(base, exist_ok=True)
        return Worker(item.replace("SRC", self.src), base=base, answers={"tier": tierdir},
                      **{"node": node, "nodes": 3, **task})

    def find(self, name):
        return [os.path.join(d, name) for d, dirs, files in os.walk(self.shared) if name in dirs + files]

    def begin(self, worker):
        """Answers the worker in a thread, which ends with its ready or error; returns when it makes
        the copy."""
        def answer():
            try:
                worker.run_until("ready", "error")
            except (OSError, ValueError):
                pass # the test has ended it
        worker.thread = threading.Thread(target=answer, daemon=True)
        worker.thread.start()
        end = time.monotonic() + 20
        while not self.find("state"):
            assert time.monotonic() < end, "nobody makes the copy"
            time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        remove(self.base)
        remove(self.src)


SLOW = dict(maxrate=1000000)


def lines(w):
    return [m.get("plan", "") for m in w.messages]


# Fails with a copy for each node, as it was in the first versions.
def test_the_nodes_of_a_job_use_one_copy():
    for item in "x=SRC/t.tar:scratch", "x=SRC/d:scratch", "x=SRC/d/deep/f3:scratch":
        with Job() as job:
            with job.worker("n1", item) as first, job.worker("n2", item) as second:
                sizes = [(w.ready()["bytes"], w.messages[-1]["files"]) for w in (first, second)]
                assert sizes[0] == sizes[1], sizes
                assert os.readlink(first.path) == os.readlink(second.path) == job.find("data")[0]
                assert sum("made by node" in str(lines(w)) for w in (first, second)) == 1
                assert [n for n in os.listdir(f"{job.base}/shared") if os.listdir(f"{job.base}/shared/{n}")] == ["stage-data-1"]
                want = {"x=SRC/t.tar:scratch": f"{job.src}/d"}.get(item, item.split(":")[0].replace("x=SRC", job.src))
                got = first.path + ("/top" if "tar" in item else "")
                if os.path.isdir(want):
                    same_trees(want, os.path.realpath(got), times=False)
                else:
                    with open(want, "rb") as a, open(got, "rb") as b:
                        assert a.read() == b.read()


# Fails when a node that waits reads the source as well, and when it takes a copy that is not whole.
def test_a_node_waits_until_the_copy_is_whole():
    with Job() as job, job.worker("n1", "x=SRC/t.tar:scratch", **SLOW) as first:
        job.begin(first)
        with job.worker("n2", "x=SRC/t.tar:scratch") as second:
            second.ready()
            assert "waits for node n1" in str(lines(second)), lines(second)
            assert not [m for m in second.get("progress") if int(m.get("bytes", 0))], second.get("progress")
            same_trees(f"{job.src}/d", os.path.realpath(second.path + "/top"), times=False)
        first.thread.join()
        assert first.messages[-1]["op"] == "ready", first.messages[-1]


# Fails when the waiting node stages by itself, or waits for ever.
def test_the_failure_of_the_node_that_makes_it_is_the_failure_of_all():
    with Job() as job, job.worker("n1", "x=SRC/half.tar:scratch", **SLOW) as first:
        job.begin(first)
        with job.worker("n2", "x=SRC/half.tar:scratch") as second:
            second.run_until("ready", "error")
            text = second.messages[-1].get("text", "")
            first.thread.join()
            assert "node n1, which makes the copy for all nodes of the job, has failed" in text, text
            assert first.messages[-1]["text"] in text, (first.messages[-1], text)


# Fails when nobody looks whether the maker's lease is still there.
def test_another_node_makes_it_when_the_maker_leaves():
    with Job() as job, job.worker("n1", "x=SRC/t.tar:scratch", **SLOW) as first:
        job.begin(first)
        with job.worker("n2", "x=SRC/t.tar:scratch") as second:
            while not any("waits for node n1" in line for line in lines(second)):
                second.receive()
            first.proc.kill()
            first.proc.wait()
            os.unlink(job.find("use.n1")[0]) # which its stagingd does
            second.ready()
            same_trees(f"{job.src}/d", os.path.realpath(second.path + "/top"), times=False)
            with open(job.find("state")[0], "rb") as f:
                assert b"maker=n2\0state=ready\0" in f.read()


# Fails when a node waits for itself.
def test_the_second_attempt_of_a_node_goes_on():
    with Job() as job:
        with job.worker("n1", "x=SRC/t.tar:scratch", **SLOW) as first:
            job.begin(first)
            first.proc.kill()
            first.proc.wait()
        with job.worker("n1", "x=SRC/t.tar:scratch") as again:
            again.ready()
            same_trees(f"{job.src}/d", os.path.realpath(again.path + "/top"), times=False)


# Fails without the maker's sign of life, when a sign of life does not count, and when a maker that
# wakes up replaces what another node has made.
def test_another_node_makes_it_when_the_maker_stands_still():
    with Job() as job, job.worker("n1", "x=SRC/t.tar:scratch", maxrate=300000) as first:
        job.begin(first)
        with job.worker("n2", "x=SRC/t.tar:scratch", stall=2500) as second:
            second.receive()
            time.sleep(3.5)
            assert not second.warnings(), second.messages
            first.proc.send_signal(signal.SIGSTOP)
            second.ready()
            assert "node n1, which makes the copy for all nodes of the job, has given no sign of life for 2 s" in \
                second.warnings()[0], second.warnings()
            before = os.stat(job.find("data")[0]).st_ino
            first.proc.send_signal(signal.SIGCONT)
            first.thread.join()
            assert "another one makes the copy" in first.messages[-1].get("text", ""), first.messages[-1]
            assert os.stat(job.find("data")[0]).st_ino == before
            with open(job.find("state")[0], "rb") as f:
                assert b"maker=n2\0state=ready\0" in f.read()


# Fails when the copy of a directory is found by its path alone.
def test_a_directory_that_has_changed_is_copied_again():
    with Job() as job:
        with job.worker("n1", "x=SRC/d:scratch") as w:
            w.ready()
        with open(f"{job.src}/d/deep/f0", "w") as f:
            f.write("changed")
        with job.worker("n2", "x=SRC/d:scratch") as w:
            w.ready()
            with open(f"{w.path}/deep/f0") as f:
                assert f.read() == "changed"


# Where everybody may make directories another user has made the job's. Fails when only what is
# below is looked at.
def test_a_directory_of_the_job_that_another_user_has_made_is_refused():
    if os.geteuid() != 0:
        return "must be root"
    for spoil in (lambda p: (os.mkdir(p), os.chown(p, 65534, 65534)), lambda p: (os.mkdir(p), os.chmod(p, 0o777)),
                  lambda p: os.symlink("/tmp", p)):
        with Job() as job:
            os.mkdir(os.path.dirname(job.shared))
            spoil(job.shared)
            with job.worker("n1", "x=SRC/t.tar:scratch") as w:
                w.run_until("ready", "error")
                assert "is not the job's alone" in w.messages[-1].get("text", ""), w.messages[-1]


# Fails when an empty record holds up all nodes.
def test_a_record_without_content_is_replaced():
    with Job() as job:
        with job.worker("n1", "x=SRC/t.tar:scratch") as w:
            w.ready()
        os.truncate(job.find("state")[0], 0)
        with job.worker("n2", "x=SRC/t.tar:scratch") as w:
            w.ready()


def test_a_node_that_waits_can_be_cancelled():
    with Job() as job, job.worker("n1", "x=SRC/t.tar:scratch", **SLOW) as first:
        job.begin(first)
        with job.worker("n2", "x=SRC/t.tar:scratch") as second:
            while not any("waits for node n1" in line for line in lines(second)):
                second.receive()
            second.send({"op": "cancel"})
            begun = time.monotonic()
            second.end()
            assert time.monotonic() - begun < 5


# Fails when the directory is taken whatever it is.
def test_a_directory_that_is_not_the_jobs_own_is_refused():
    for spoil in (lambda p: os.chmod(p, 0o777), lambda p: (os.rename(p, p + ".x"), os.symlink(p + ".x", p))):
        with Job() as job:
            with job.worker("n1", "x=SRC/t.tar:scratch") as w:
                w.ready()
            spoil(os.path.dirname(job.find("data")[0]))
            with job.worker("n2", "x=SRC/t.tar:scratch") as w:
                w.run_until("ready", "error")
                assert w.messages[-1]["op"] == "error", w.messages[-1]


def test_a_record_that_is_none_holds_nobody_for_ever():
    for spoil in (lambda p: os.truncate(p, 10), lambda p: (os.unlink(p), os.mkfifo(p)), lambda p: os.truncate(p, 1 << 30)):
        with Job() as job:
            with job.worker("n1", "x=SRC/t.tar:scratch") as w:
                w.ready()
            spoil(job.find("state")[0])
            with job.worker("n2", "x=SRC/t.tar:scratch", stall=1500) as w:
                w.run_until("ready", "error", timeout=40)
                assert w.messages[-1]["op"] == "ready", w.messages[-1]


# A share of a set is another one on each node.
def test_shares_of_nodes_are_not_shared():
    with Job() as job:
        item = "x=SRC/d/deep/f{0..5}:scratch:shard=node"
        with job.worker("n1", item, nodeindex=0) as a, job.worker("n2", item, nodeindex=1) as b:
            a.ready(), b.ready()
            assert os.readlink(a.path) != os.readlink(b.path)
            assert not set(os.listdir(a.path)) & set(os.listdir(b.path))


# The line that has the lease removed is there before the lease is.
def test_the_lease_is_recorded():
    with Job() as job:
        with job.worker("n1", "x=SRC/t.tar:scratch") as w:
            w.ready()
            with open(f"{w.rundir}/t/.stage/manifest.x") as f:
                assert f"lease {job.find('use.n1')[0]}\n" in f.readlines()


if __name__ == "__main__":
    main(globals())
