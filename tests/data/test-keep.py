#!/usr/bin/env python3
"""keep=: what a worker leaves for the user's next job, and what it finds from an earlier job."""
import fcntl
import glob
import os
import sys
import tarfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *  # noqa: E402


class Node:
    """A tier with the user's place in it, and sources."""

    def __init__(self):
        self.base, self.src = scratch(), scratch()
        self.place = f"{self.base}/tiers/stage-keep-{os.geteuid()}"
        os.makedirs(self.place, mode=0o700)
        os.makedirs(f"{self.src}/d/deep/er")
        for i in range(20):
            self.write(f"d/deep/f{i}", b"%d" % i * 1000)
        self.write("d/deep/er/f", b"last")
        self.write("f", b"x" * 100000)
        with tarfile.open(f"{self.src}/t.tar", "w") as t:
            t.add(f"{self.src}/d", "top")

    def write(self, name, data):
        with open(f"{self.src}/{name}", "wb") as f:
            f.write(data)

    def worker(self, item, job=1, **task):
        base = f"{self.base}/{job}"
        os.makedirs(base, exist_ok=True)
        os.path.lexists(f"{base}/tiers") or os.symlink(self.base + "/tiers", f"{base}/tiers")

        def tierdir(m):
            path = f"{self.base}/tiers/stage-data-{job}"
            os.makedirs(path, exist_ok=True)
            return dict(op="tierdir", path=path)
        answers = {"tier": tierdir, **task.pop("answers", {})}
        return Worker(item.replace("SRC", self.src), base=base, answers=answers,
                      **{"job": job, "keep": 3600000, **task})

    def stage(self, item, job=1, **task):
        with self.worker(item, job, **task) as w:
            w.ready()
            return w.path, w

    def kept(self):
        return sorted(n for n in os.listdir(self.place) if len(n) == 64)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        remove(self.base)
        remove(self.src)


def what(path):
    """The very files."""
    if os.path.isfile(path):
        st = os.stat(path)
        return [(st.st_ino, st.st_ctime_ns)]
    return sorted((os.stat(os.path.join(d, f)).st_ino, os.stat(os.path.join(d, f)).st_ctime_ns)
                  for d, _, files in os.walk(path) for f in files)


ITEMS = ("x=SRC/f:ssd:keep=1h", "x=SRC/d:ssd:keep=1h", "x=SRC/t.tar:ssd:keep=1h",
         "x=SRC/d/deep/f{1,2,3}:ssd:keep=1h")


def test_the_next_job_gets_the_very_files():
    for item in ITEMS:
        with Node() as n:
            first, _ = n.stage(item)
            assert os.readlink(first).startswith(n.place), os.readlink(first)
            assert os.listdir(f"{n.base}/tiers/stage-data-1") == []
            second, w = n.stage(item, 2)
            assert what(first) == what(second) and what(first), item
            assert "kept by an earlier job" in w.get("facts")[-1]["plan"], w.messages
            ready = w.get("ready")[0]
            assert int(ready["bytes"]) > 0 and int(ready["files"]) > 0, ready
            assert len(n.kept()) == 1 and len(os.listdir(n.place)) == 1
            entry = f"{n.place}/{n.kept()[0]}"
            assert sorted(os.listdir(entry)) == ["data", "job.1", "job.2", "record"]


def test_it_stays_for_as_long_as_one_of_them_wants():
    with Node() as n:
        for job, keep, expected in (1, 600000, 600000), (2, 1200000, 1200000), (3, 600000, 1200000):
            n.stage("x=SRC/d:ssd:keep=1h", job, keep=keep)
            with open(f"{n.place}/{n.kept()[0]}/record", "rb") as f:
                assert b"\0keep=%d\0" % expected in f.read(), (job, keep)


def test_what_links_lead_to_is_part_of_what_is_kept():
    with Node() as n:
        n.write("out", b"1")
        os.symlink(f"{n.src}/out", f"{n.src}/d/link")
        _, w = n.stage("x=SRC/d:ssd:keep=1h")
        assert "1 link leads out of it (link -> " in w.warnings()[-1], w.warnings()
        _, w = n.stage("x=SRC/d:ssd:keep=1h", 2)
        assert "kept by an earlier job" in w.get("facts")[-1]["plan"], w.messages
        assert "1 link leads out of it (link -> " in w.warnings()[-1], w.warnings()
        for job, data in (3, b"1"), (4, b"1"), (5, b"22"):
            n.write("out", data) if job == 5 else None
            path, w = n.stage("x=SRC/d:ssd:keep=1h+links=follow", job)
            assert ("kept by an earlier job" in w.get("facts")[-1]["plan"]) == (job == 4), (job, w.messages)
            assert w.warnings() == [] and not os.path.islink(f"{path}/link")
            with open(f"{path}/link", "rb") as f:
                assert f.read() == data


def test_what_is_kept_is_what_the_source_is():
    with Node() as n:
        first, _ = n.stage("x=SRC/d:ssd:keep=1h")
        same_trees(first, n.src + "/d")
        path, _ = n.stage("x=SRC/t.tar:ssd:keep=1h+strip=1", 2)
        same_trees(path + "/deep", n.src + "/d/deep", times=False)


def put_back(path, change):
    st = os.stat(path)
    change()
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


def test_another_source_is_staged_anew():
    def touch(n): os.utime(n.src + "/d/deep/er/f")
    def longer(n): n.write("d/deep/f3", b"longer")
    def secretly(n): put_back(n.src + "/d/deep/f3", lambda: n.write("d/deep/f3", b"9" * 1000))
    def more(n): n.write("d/deep/er/more", b"")
    def less(n): os.unlink(n.src + "/d/deep/er/f")
    def renamed(n): os.rename(n.src + "/d/deep/er/f", n.src + "/d/deep/er/g")
    def mode(n): os.chmod(n.src + "/d/deep/f4", 0o600)
    for change in touch, longer, secretly, more, less, renamed, mode:
        with Node() as n:
            first, _ = n.stage("x=SRC/d:ssd:keep=1h")
            before = what(first)
            change(n)
            second, w = n.stage("x=SRC/d:ssd:keep=1h", 2)
            assert not set(before) & set(what(second)), change.__name__
            same_trees(second, n.src + "/d")
    for change in (lambda n: put_back(n.src + "/f", lambda: n.write("f", b"y" * 100000)),
                   lambda n: (os.unlink(n.src + "/f"), n.write("f", b"x" * 100000))):
        with Node() as n:
            n.stage("x=SRC/f:ssd:keep=1h")
            change(n)
            path, _ = n.stage("x=SRC/f:ssd:keep=1h", 2)
            assert open(path, "rb").read() == open(n.src + "/f", "rb").read()
            assert len(n.kept()) == 2


def test_options_that_shape_it_and_others():
    cases = (("strip=1", False), ("include=*f1", False), ("exclude=*f1", False), ("subdir=top/deep", False),
             ("threads=1", True), ("timeout=1h", True), ("max=1G", True), ("onfail=ignore", True))
    with Node() as n:
        n.stage("x=SRC/t.tar:ssd:keep=1h")
        for job, (option, same) in enumerate(cases, 2):
            _, w = n.stage(f"x=SRC/t.tar:ssd:keep=1h+{option}", job)
            assert ("earlier job" in w.get("facts")[-1]["plan"]) == same, option


def test_what_was_changed_since_is_not_used():
    def content(path): open(path + "/deep/f1", "r+b").write(b"x")
    def gone(path): os.unlink(path + "/deep/f1")
    def more(path): open(path + "/deep/mine", "w").close()
    for change in content, gone, more:
        with Node() as n:
            first, _ = n.stage("x=SRC/d:ssd:keep=1h")
            change(first)
            second, _ = n.stage("x=SRC/d:ssd:keep=1h", 2)
            same_trees(second, n.src + "/d")
            assert len(n.kept()) == 1, change.__name__


def test_a_record_that_is_damaged():
    for text in b"", b"x", b"boot=1\0", b"\xff" * 5000:
        with Node() as n:
            n.stage("x=SRC/d:ssd:keep=1h")
            with open(f"{n.place}/{n.kept()[0]}/record", "wb") as f:
                f.write(text)
            path, w = n.stage("x=SRC/d:ssd:keep=1h", 2)
            assert "earlier job" not in w.get("facts")[-1]["plan"]
            same_trees(path, n.src + "/d")
            assert os.readlink(path).startswith(n.place) and w.warnings() == []


def test_a_directory_that_may_not_be_written():
    with Node() as n:
        os.chmod(n.src + "/d", 0o555)
        first, _ = n.stage("x=SRC/d:ssd:keep=1h")
        second, _ = n.stage("x=SRC/d:ssd:keep=1h", 2)
        assert what(first) == what(second)
        assert os.stat(second).st_mode & 0o777 == 0o555


def being_made(n):
    return glob.glob(n.place + "/new-*")


def begin_slowly(n, size=5000000):
    n.write("big", b"z" * size)
    w = n.worker("x=SRC/big:ssd:keep=1h", 1, maxrate=500000, maxreaders=1)
    while not being_made(n):
        assert w.receive(), "it has ended"
    return w


def both_ready(first, second):
    t = threading.Thread(target=first.ready)
    t.start()
    second.ready()
    t.join()
    assert what(first.path) == what(second.path)
    assert "earlier job" in second.get("facts")[-1]["plan"]


def test_two_at_once_stage_once():
    with Node() as n, begin_slowly(n, 1000000) as first:
        with n.worker("x=SRC/big:ssd:keep=1h", 2) as second:
            both_ready(first, second)


def test_the_first_is_killed_and_the_second_stages():
    with Node() as n, begin_slowly(n) as first:
        with n.worker("x=SRC/big:ssd:keep=1h", 2) as second:
            first.proc.kill()
            second.ready()
            assert "earlier job" not in second.get("facts")[-1]["plan"]
            assert open(second.path, "rb").read() == b"z" * 5000000
            assert len(n.kept()) == 1 and not being_made(n)


# Breaks where waiting counts as a stall.
def test_who_waits_for_longer_than_a_stall_gets_it():
    with Node() as n, begin_slowly(n, 3000000) as first:
        with n.worker("x=SRC/big:ssd:keep=1h", 2, stall=3000) as second:
            both_ready(first, second)
            assert "waits for another job" in second.get("facts")[2]["plan"]


# Breaks where what can't get its name is not moved back.
def test_the_name_is_taken_meanwhile():
    for item in "x=SRC/big:ssd:keep=1h", "x=SRC/d:ssd:keep=1h":
        with Node() as n:
            n.write("big", b"z" * 1000000)
            n.write("d/big", b"z" * 1000000)
            os.chmod(n.src + "/d", 0o555)
            with n.worker(item, 1, maxrate=500000, maxreaders=1) as w:
                while not being_made(n):
                    assert w.receive(), "it has ended"
                taken = being_made(n)[0].replace("new-", "")
                os.mkdir(taken)
                w.ready()
                assert os.readlink(w.path) == f"{n.base}/tiers/stage-data-1/x", os.readlink(w.path)
                assert ["File exists" in t for t in w.warnings()] == [True], w.warnings()
                if "/d:" in item:
                    same_trees(w.path, n.src + "/d")
                    assert os.stat(w.path).st_mode & 0o777 == 0o555
                assert os.listdir(taken) == []


def test_two_datasets_of_one_job():
    with Node() as n:
        first, _ = n.stage("x=SRC/d:ssd:keep=1h")
        second, _ = n.stage("y=SRC/d:ssd:keep=1h", 1, name="y")
        assert what(first) == what(second)
        # the job changes it, and asks once more: it may be using it
        with open(first + "/deep/f1", "r+b") as f:
            f.write(b"changed")
        third, w = n.stage("z=SRC/d:ssd:keep=1h", 1, name="z")
        same_trees(third, n.src + "/d")
        assert "is in use" in w.warnings()[0], w.warnings()
        assert what(first) == what(second) and len(n.kept()) == 1


# Breaks where a tier that is not granted is the end, and not the next one tried.
def test_what_is_kept_counts_and_may_not_fit():
    with Node() as n:
        n.stage("x=SRC/d:ssd:keep=1h")

        def grant(m):
            return dict(op="grant", ok=int(m["tier"] != "ssd"), have=1000, why="Quota leaves 1000 bytes")
        path, w = n.stage("x=SRC/d::keep=1h", 2, answers={"reserve": grant}, tiers="ssd,shm")
        same_trees(path, n.src + "/d")
        assert w.get("facts")[-1]["tier"] == "shm", w.messages


def test_who_waits_can_be_cancelled():
    with Node() as n, begin_slowly(n):
        with n.worker("x=SRC/big:ssd:keep=1h", 2) as second:
            for _ in "looked for", "waited for":
                second.run_until("tier")
            second.send(dict(op="cancel"))
            assert second.run_until("ready", "error")["op"] == "error"
            assert second.end() == 1


def test_who_waits_for_too_long_stages_his_own():
    with Node() as n:
        path, _ = n.stage("x=SRC/f:ssd:keep=1h")
        name = n.kept()[0]
        remove(f"{n.place}/{name}")
        os.mkdir(f"{n.place}/new-{name}")
        fd = os.open(f"{n.place}/new-{name}", os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_EX)
        _, w = n.stage("x=SRC/f:ssd:keep=1h+timeout=10", 2)
        os.close(fd)
        assert "staging the same for long" in w.warnings()[0], w.warnings()


def test_a_place_that_is_locked_or_not_there():
    with Node() as n:
        fd = os.open(n.place, os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_EX)
        path, w = n.stage("x=SRC/f:ssd:keep=1h")
        assert "not kept" in w.warnings()[0] and n.kept() == []
        os.close(fd)
        os.chmod(n.place, 0o755)
        assert "not kept" in n.stage("x=SRC/f:ssd:keep=1h", 2)[1].warnings()[0]
        os.rmdir(n.place)
        assert "no place" in n.stage("x=SRC/f:ssd:keep=1h", 3)[1].warnings()[0]
        os.symlink("/tmp", n.place)
        assert "not kept" in n.stage("x=SRC/f:ssd:keep=1h", 4)[1].warnings()[0]


def test_what_is_not_kept_says_so():
    with Node() as n:
        for job, (item, task, text) in enumerate((
                ("x=SRC/f:ssd:keep=1h", dict(keep=0), "nothing is kept between jobs"),
                ("x=SRC/f:shm:keep=1h", {}, "in memory goes with the job"),
                ("x=SRC/f:source:keep=1h", {}, "stays where it is")), 1):
            _, w = n.stage(item, job, **task)
            assert text in w.warnings()[0], w.warnings()
        _, w = n.stage("x=SRC/f:ssd", 9)
        assert w.warnings() == [] and n.kept() == []


if __name__ == "__main__":
    main(globals())
