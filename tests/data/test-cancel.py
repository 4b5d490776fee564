#!/usr/bin/env python3
"""A worker ends, for any reason. Nothing is left, and no process waits for a file system that
does not answer."""
import os
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *  # noqa: E402

SLOW = os.environ.get("STAGE_TEST_SLOW", "")


def write(path, data=b"x"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


class SlowWorker(Worker):
    def __init__(self, *args, ms=50, **kw):
        self.env = {"LD_PRELOAD": SLOW, "SLOW_MS": str(ms)}
        super().__init__(*args, **kw)

    def start(self):
        popen = subprocess.Popen

        def with_env(argv, **kw):
            kw["env"].update(self.env)
            return popen(argv, **kw)

        subprocess.Popen = with_env
        try:
            super().start()
        finally:
            subprocess.Popen = popen


def sources():
    src = scratch()
    for i in range(20):
        write(f"{src}/tree/slow{i}", os.urandom(1 << 20))
    write(f"{src}/slow.bin", os.urandom(20 << 20))
    with tarfile.open(f"{src}/slow.tar", "w") as t:
        t.add(f"{src}/tree", "tree")
    return src


def test_cancel_takes_everything_away():
    src = sources()
    for item in ("tree", "slow.bin", "slow.tar"):
        for dest in ("", ":ssd"):
            with SlowWorker(f"x={src}/{item}{dest}") as w:
                assert w.run_until("progress")
                w.send(dict(op="cancel"))
                start = time.monotonic()
                m = w.error()
                assert "cancelled" in m["text"], m
                assert time.monotonic() - start < 1, "it did not stop at once"
    remove(src)


def test_cancel_while_it_waits_for_an_answer():
    src = sources()
    with Worker(f"x={src}/tree", answers={"reserve": lambda m: None}) as w:
        w.run_until("reserve")
        w.send(dict(op="cancel"))
        w.error()
    remove(src)


def test_the_end_of_the_socket_ends_it():
    src = sources()
    with SlowWorker(f"x={src}/tree") as w:
        assert w.run_until("progress")
        w.sock.close()
        assert w.end() == 1
        w.check_nothing_left()
    remove(src)


def test_a_hanging_source_is_not_waited_for():
    src = scratch()
    write(f"{src}/hang.bin", os.urandom(1 << 20))
    write(f"{src}/hang/f", os.urandom(1 << 20))
    for item in ("hang.bin", "hang"):
        for end in ("cancel", "close"):
            with SlowWorker(f"x={src}/{item}") as w:
                w.run_until("reserve")
                time.sleep(0.3)
                start = time.monotonic()
                if end == "cancel":
                    w.send(dict(op="cancel"))
                    w.error()
                else:
                    w.sock.close()
                    assert w.end() == 1
                    w.check_nothing_left()
                assert time.monotonic() - start < 5
    remove(src)


def test_a_stall_is_an_error_with_a_sentence():
    src = scratch()
    write(f"{src}/hang.bin", os.urandom(1 << 20))
    with SlowWorker(f"x={src}/hang.bin", stall=300) as w:
        m = w.error()
        assert m["code"] == "124" and "stall" in m["text"], m
    write(f"{src}/slow.bin", os.urandom(4 << 20))
    with SlowWorker(f"x={src}/slow.bin::timeout=500ms") as w:
        m = w.error()
        assert m["code"] == "124" and "timeout" in m["text"], m
    # slow, but it moves
    write(f"{src}/slow.small", os.urandom(1 << 20))
    with SlowWorker(f"x={src}/slow.small", stall=700, ms=60) as w:
        w.ready()
    # waiting for stagingd is no stall
    def late(m):
        time.sleep(1)
        return dict(op="grant", ok=1, have=GIB)
    with Worker(f"x={src}/slow.small", stall=300, answers={"reserve": late}) as w:
        w.ready()
    remove(src)


def test_after_a_kill_the_manifest_knows_everything():
    src = sources()
    for item in ("tree", "slow.bin", "slow.tar:ssd"):
        with SlowWorker(f"x={src}/{item}") as w:
            assert w.run_until("progress")
            w.proc.kill()
            w.proc.wait()
            manifest = open(f"{w.rundir}/t/.stage/manifest.x").read().splitlines()
            paths = [line.split(" ", 1)[1] for line in manifest]
            found = [os.path.join(d, n) for d in (w.tmp, w.data) for n in os.listdir(d)]
            for tier in os.listdir(w.tiers):
                found += [f"{w.tiers}/{tier}/{n}" for n in os.listdir(f"{w.tiers}/{tier}")]
            assert found and set(found) <= set(paths), (found, paths)
    remove(src)


def test_progress_comes_while_bytes_flow():
    src = sources()
    with SlowWorker(f"x={src}/slow.bin", ms=10) as w:
        times = []
        while True:
            m = w.receive()
            if m["op"] == "progress":
                times.append((time.monotonic(), int(m["bytes"])))
            elif m["op"] in ("ready", "error"):
                assert m["op"] == "ready"
                break
        gaps = [b[0] - a[0] for a, b in zip(times, times[1:])]
        assert len(times) > 5 and max(gaps) < 0.5, gaps
        assert sum(g < 0.09 for g in gaps) < len(gaps) / 4, "oftener than promised"
        assert [b for _, b in times] == sorted(b for _, b in times)
    remove(src)


def test_what_is_no_task_is_refused():
    bad = [dict(op="hello"), dict(op="task"), dict(op="task", name="../x"), dict(op="task", name=""),
           dict(op="task", data="relative"), dict(op="task", item="no such syntax ::::")]
    for fields in bad:
        with Worker("x=/etc/hostname", start=False) as w:
            if len(fields) == 1:
                w.task = fields
            else:
                w.task.update(fields)
            w.start()
            m = w.run_until("ready", "error")
            assert m is None or m["op"] == "error", m
            assert w.end() == 1


def test_plan_mode_makes_nothing():
    src = sources()
    for item, method in (("tree", "copy"), ("slow.tar", "extract"), ("slow.bin", "copy")):
        with Worker(f"x={src}/{item}", mode="plan") as w:
            w.run_until("none")
            assert w.end() == 0
            assert [m["op"] for m in w.messages] == ["facts"], w.messages
            facts = w.messages[0]
            assert facts["method"] == method and facts["plan"] and facts["why"], facts
            w.check_nothing_left()
    with Worker(f"x={src}/tree:shm", mode="plan", memlimit=1 << 20) as w:
        m = w.run_until("error")
        assert "--mem" in m["text"], m
    remove(src)


if __name__ == "__main__":
    if not os.path.exists(SLOW):
        print("1..0 # SKIP STAGE_TEST_SLOW does not name the library")
        sys.exit(1 if os.environ.get("STAGE_TEST_MUST", "0") not in ("", "0") else 77)
    main(globals())
