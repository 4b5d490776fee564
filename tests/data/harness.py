"""Plays stagingd to a real stage-worker on a socketpair (docs/protocol.md, "stagingd to
worker")."""
import os
import resource
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

WORKER = os.environ.get("STAGE_WORKER", "stage-worker")
GIB = 1 << 30
IMAGES = os.environ.get("STAGE_IMAGES", "1") == "1"  # built with images and mounts
ERROR_S = 2  # within which a bad input has to be told


def encode(fields):
    return b"".join(f"{k}={v}".encode("utf-8", "surrogateescape") + b"\0"
                    for k, v in fields.items())


def decode(data):
    assert data.endswith(b"\0"), data
    texts = data[:-1].decode("utf-8", "surrogateescape").split("\0")
    return dict(t.split("=", 1) for t in texts)


class Worker:
    """One worker and its run directory. answers: {op: function(message) -> fields or None}."""

    def __init__(self, item, name="x", base=None, answers=None, start=True, limits=None, env=None,
                 keys=None, **task):
        self.base = base or tempfile.mkdtemp(prefix="stage-data-", dir=os.environ.get("TMPDIR"))
        self.own_base = base is None
        self.rundir = os.path.join(self.base, "run")
        self.data = os.path.join(self.rundir, "t/data")
        self.tmp = os.path.join(self.rundir, "t/.stage/tmp")
        self.tiers = os.path.join(self.base, "tiers")
        for d in (self.data, self.tmp, self.tiers):
            os.makedirs(d, exist_ok=True)
        self.name = name
        self.path = os.path.join(self.data, name)
        self.messages = []
        self.answers = {"reserve": self.grant, "tier": self.tierdir}
        self.answers.update(answers or {})
        self.limits = limits
        self.keys = keys
        self.environ = dict({"PATH": os.environ["PATH"]}, **(env or {}))
        self.task = dict(proto=1, op="task", job=1, node="n1", name=name, item=item,
                         rundir=self.rundir, slot=0, data=self.data, tmp=self.tmp, mode="stage",
                         keeper=0, rule="all", rulematch="/**", methods="*", tiers="",
                         maxbytes=0, maxfiles=0, mempercent=100, keepfree=0, memlimit=0,
                         memused=0, ssd=1, cachesize=1 << 26, threads=2, stall=0, fuse=0, nodes=1,
                         nodeindex=0, user="u")
        self.task.update(task)
        self.granted = {}
        if start:
            self.start()

    def grant(self, m):
        tier = m["tier"]
        self.granted[tier] = self.granted.get(tier, 0) + int(m["bytes"])
        return dict(op="grant", ok=1, have=100 * GIB)

    def tierdir(self, m):
        path = os.path.join(self.tiers, os.path.basename(m["tier"]))
        os.makedirs(path, exist_ok=True)
        return dict(op="tierdir", path=path)

    uid = None      # of a worker that is not this process's: whose the connection has to be

    def start(self):
        own = os.geteuid()
        if self.uid is not None:
            os.seteuid(self.uid)
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        os.seteuid(own)

        def child():
            os.dup2(theirs.fileno(), 3, inheritable=True)
            if self.limits:
                self.limits()

        self.log = tempfile.TemporaryFile()
        self.proc = subprocess.Popen([WORKER], preexec_fn=child, pass_fds=(3,),
                                     stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                     env=self.environ)
        theirs.close()
        self.begun = time.monotonic()
        self.used_before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.send_task()

    def used(self):
        """(seconds of processors, waits) of a worker that has ended, and of what it started, while
        it was the only one."""
        a, b = self.used_before, resource.getrusage(resource.RUSAGE_CHILDREN)
        return b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime, b.ru_nvcsw - a.ru_nvcsw

    def send_task(self):
        """With self.keys beside it, as common/protocol/keys.h has them."""
        if not self.keys:
            self.send(self.task)
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.send(encode(self.keys))
        ours.close()
        socket.send_fds(self.sock, [encode(dict({"proto": 1}, **self.task))], [theirs.fileno()])
        theirs.close()

    def send(self, fields):
        self.sock.send(encode(dict({"proto": 1}, **fields)))

    def receive(self, timeout=60):
        """The next message, None at the end."""
        ready, _, _ = select.select([self.sock], [], [], timeout)
        if not ready:
            raise TimeoutError(f"nothing from the worker; so far {self.messages}")
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            return None
        m = decode(data)
        self.messages.append(m)
        answer = self.answers.get(m["op"])
        fields = answer(m) if answer else None
        try:
            if fields:
                self.send(fields)
        except BrokenPipeError:
            pass  # as for stagingd: one that was cancelled does not wait for it
        return m

    def run_until(self, *ops, timeout=60):
        """The first message of these ops; None if the worker ends before."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            m = self.receive(timeout)
            if m is None or m["op"] in ops:
                return m
        raise TimeoutError(str(self.messages[-3:]))

    def end(self, timeout=20):
        """Waits for the process; its exit status."""
        try:
            return self.proc.wait(timeout)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            raise

    def stderr(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def ready(self):
        m = self.run_until("ready", "error")
        assert m is not None, "the worker died: " + self.stderr()
        assert m["op"] == "ready", m
        assert self.end() == 0
        assert os.path.lexists(self.path), "ready, but nothing there"
        assert os.listdir(self.tmp) == [] or all(n.endswith(".links") for n in
                                                 os.listdir(self.tmp)), os.listdir(self.tmp)
        return m

    def error(self):
        """It fails, and has taken everything away before it says so."""
        m = self.run_until("ready", "error")
        self.took = time.monotonic() - self.begun
        assert m is not None, "the worker died: " + self.stderr()
        assert m["op"] == "error", m
        self.check_nothing_left()
        assert self.end() == 1
        return m

    def error_soon(self):
        """The same within 2 s: of processors always, by the clock with as much more as the machine
        is behind."""
        m = self.error()
        behind, (used, _) = os.getloadavg()[0] / os.cpu_count(), self.used()
        assert self.took < ERROR_S * (1 + behind), f"{self.took:.1f} s at a load of {behind:.1f}: {m['text']}"
        assert used < ERROR_S, f"{used:.1f} s of processors: {m['text']}"
        return m

    def check_nothing_left(self):
        assert os.listdir(self.data) == [], os.listdir(self.data)
        assert os.listdir(self.tmp) == [], os.listdir(self.tmp)
        for tier in os.listdir(self.tiers):
            left = os.listdir(os.path.join(self.tiers, tier))
            assert left == [], left

    def get(self, op):
        return [m for m in self.messages if m["op"] == op]

    def warnings(self):
        return [m["text"] for m in self.get("warning")]

    def close(self):
        if getattr(self, "proc", None) and self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        if hasattr(self, "sock"):
            self.sock.close()
        if self.own_base:
            remove(self.base)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class MountWorker(Worker):
    """One that serves a mount: it takes it away when stagingd hangs up."""

    def __exit__(self, *exc):
        self.sock.close()
        try:
            self.end()
        finally:
            self.close()


def remove(path):
    for root, dirs, _ in os.walk(path):
        for d in dirs:
            p = os.path.join(root, d)
            if not os.path.islink(p):
                os.chmod(p, 0o700)
    shutil.rmtree(path, ignore_errors=True)


def describe(top, times=True, special=False):
    """{relative path: what it is}: to compare trees by. Hard links are groups of names."""
    out, inodes = {}, {}
    for root, dirs, files in os.walk(top):
        for n in dirs + files + ([] if root != top else ["."]):
            p = os.path.join(root, n)
            rel = os.path.relpath(p, top)
            st = os.lstat(p)
            mode = stat.S_IMODE(st.st_mode) & 0o777
            if stat.S_ISLNK(st.st_mode):
                what = ("link", os.readlink(p), st.st_mtime_ns if times else 0)
            elif stat.S_ISDIR(st.st_mode):
                what = ("dir", mode, st.st_mtime_ns if times else 0)
            elif stat.S_ISREG(st.st_mode):
                with open(p, "rb") as f:
                    content = f.read() if st.st_size < (1 << 26) else f.read(1 << 20)
                what = ("file", mode, st.st_size, content, st.st_mtime_ns if times else 0)
                if st.st_nlink > 1:
                    inodes.setdefault((st.st_dev, st.st_ino), []).append(rel)
            elif special:
                what = ("special",)
            else:
                continue
            out[rel] = what
    out["hard links"] = sorted(sorted(v) for v in inodes.values())
    return out


def same_trees(a, b, times=True):
    x, y = describe(a, times), describe(b, times)
    for k in sorted(set(x) | set(y)):
        assert x.get(k) == y.get(k), f"{k}: {str(x.get(k))[:300]} != {str(y.get(k))[:300]}"


def watch_memory(pid):
    """[the most KiB that the process had in memory], as long as it runs."""
    peak = [0]

    def watch():
        while True:
            try:
                with open(f"/proc/{pid}/status") as f:
                    lines = [line.split() for line in f if line.startswith("VmHWM")]
            except OSError:
                return
            if not lines:
                return
            peak[0] = int(lines[0][1])
            time.sleep(0.005)

    threading.Thread(target=watch, daemon=True).start()
    return peak


def scratch():
    return tempfile.mkdtemp(prefix="stage-src-", dir=os.environ.get("TMPDIR"))


def run_as_nobody(name):
    """Has nobody run that test of the module."""
    base = tempfile.mkdtemp(prefix="stage-nobody-", dir=os.environ.get("TMPDIR"))
    os.chown(base, 65534, 65534)
    worker = os.path.join(base, "stage-worker")
    shutil.copy(WORKER, worker)
    os.chmod(worker, 0o755)
    here = os.path.join(base, "t")
    shutil.copytree(os.path.dirname(os.path.abspath(__file__)), here)

    def drop():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    r = subprocess.run([python, f"{here}/{os.path.basename(sys.argv[0])}", name],
                       preexec_fn=drop, env=dict(os.environ, TMPDIR=base, STAGE_WORKER=worker),
                       capture_output=True, text=True, cwd="/")
    remove(base)
    assert r.returncode == 0, r.stdout + r.stderr


def of_images(f):
    """A test of images or mounts. A build without them has test-no-images.py instead."""
    f.of_images = True
    return f


def main(namespace):
    """Runs every test_ function of a module; TAP."""
    tests = [(n, f) for n, f in namespace.items() if n.startswith("test_") and callable(f) and
             (IMAGES or not hasattr(f, "of_images"))]
    only = sys.argv[1:]
    tests = [(n, f) for n, f in tests if not only or n in only]
    print(f"1..{len(tests)}")
    failed = 0
    for i, (name, f) in enumerate(tests, 1):
        start = time.monotonic()
        try:
            reason = f()
        except Exception as e:
            import traceback
            failed += 1
            print(f"not ok {i} - {name}")
            for line in traceback.format_exc().splitlines():
                print("#", line)
            continue
        ms = (time.monotonic() - start) * 1000
        skip = f" # SKIP {reason}" if isinstance(reason, str) else ""
        must = os.environ.get("STAGE_TEST_MUST", "")
        if skip and must and must != "0":
            failed += 1
            print(f"not ok {i} - {name} # must not be skipped: {reason}")
        else:
            print(f"ok {i} - {name} ({ms:.0f} ms){skip}", flush=True)
    sys.exit(1 if failed else 0)
