"""Starts a real stagingd for a test: without keeper, or with a keeper that the test plays."""
import errno
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

STAGINGD = os.environ["STAGINGD"]
FAKE_WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake-worker")
OTHER_UID = 65534  # whom stagingd runs as when the test is root's

CONF = """
[daemon]
RunRules=yes
[source fake]
Match=/fake/**
[source closed]
Match=/closed/**
DenyUsers=*
[source copyonly]
Match=/copyonly/**
Methods=copy
[tier shm]
Kind=memory
[tier ssd]
Kind=disk
Path={top}/ssd
[tier scratch]
Kind=shared
Path={top}/scratch
[limits]
MaxItems=30
MaxMemoryPercent=90
KeepFreeMemory=1M
StallTimeout=10m
CleanupTimeout=5s
"""


def encode(**fields):
    return b"".join(f"{k}={v}".encode() + b"\0" for k, v in fields.items())


def decode(packet):
    return dict(f.decode("utf-8", "surrogateescape").split("=", 1)
                for f in packet.split(b"\0")[:-1])


def wait_for(condition, timeout=10, what="condition"):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"{what}: not within {timeout} s")


class Client:
    def __init__(self, path, timeout=20):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(timeout)
        self.sock.connect(path)

    def send(self, op, **fields):
        self.sock.send(encode(**{"proto": 1, "op": op, "id": "7", **fields}))

    def receive(self):
        packet = self.sock.recv(65536)
        return decode(packet) if packet else None

    def answer(self):
        """All messages up to `done`."""
        got = []
        while True:
            m = self.receive()
            if m is None:
                raise EOFError("stagingd has hung up")
            assert m.get("id", "7") == "7", m
            got.append(m)
            if m["op"] == "done":
                return got

    def ask(self, op, **fields):
        self.send(op, **fields)
        return self.answer()

    def close(self):
        self.sock.close()


class Keeper(threading.Thread):
    """Verbs of common/protocol/keeper-verbs.h, with plain processes for workers and /dev/null for
    mounts."""
    MSG = struct.Struct("IIqq40s")
    SPAWN, KILL, MOUNT, UNMOUNT, TIER, END, COUNT, SERVES, PLACE, UNPLACE = range(1, 11)
    REPLY, EXITED, MEMORY, CANCEL = range(64, 68)

    def __init__(self, worker, run_as, tier_dir):
        super().__init__(daemon=True)
        self.sock, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.worker, self.run_as, self.tier_dir = worker, run_as, tier_dir
        self.children, self.log, self.ending = {}, [], False
        self.deaf = set()  # verbs that are not answered
        self.fail = {}     # verb -> errno
        self.places = []   # (verb, name, inodes of what came beside it)
        self.counts = {}   # by common/protocol/counts.h

    def say(self, verb, ident=0, arg0=0, arg1=0, fds=()):
        try:
            socket.send_fds(self.sock, [self.MSG.pack(verb, ident, arg0, arg1, b"")], list(fds))
        except OSError:
            self.ending = True

    def spawn(self, ident, fd):
        def as_worker():
            os.dup2(fd, 3)
            os.set_inheritable(3, True)
            if fd != 3:
                os.close(fd)  # a worker that closes fd 3 has no other copy
        p = subprocess.Popen([self.worker], preexec_fn=as_worker, close_fds=False,
                             stdin=subprocess.DEVNULL, **self.run_as)
        self.children[ident] = p
        return p.pid

    def handle(self, verb, ident, arg0, arg1, name, fds):
        self.log.append((verb, ident, arg0, arg1))
        if verb in (self.PLACE, self.UNPLACE):
            self.places.append((verb, name.rstrip(b"\0").decode(), [os.fstat(fd).st_ino for fd in fds]))
        if verb in self.deaf:
            return
        if verb == self.COUNT:
            self.counts[ident] = arg0
            return
        if verb in self.fail:
            self.say(self.REPLY, ident, -self.fail[verb])
        elif verb == self.SPAWN:
            self.say(self.REPLY, ident, 0, self.spawn(ident, fds[0]))
        elif verb == self.KILL:
            p = self.children.get(ident)
            if p:
                p.send_signal(arg0)
            self.say(self.REPLY, ident, 0 if p else -errno.ESRCH)
        elif verb == self.MOUNT:
            nulls = [os.open("/dev/null", os.O_RDWR) for _ in range(arg1)]
            self.say(self.REPLY, ident, 0, 0, nulls)
            for fd in nulls:
                os.close(fd)
        elif verb == self.TIER:
            os.makedirs(self.tier_dir, exist_ok=True)
            self.say(self.REPLY, ident)
        elif verb == self.END:
            self.sock.shutdown(socket.SHUT_RDWR)
        else:
            self.say(self.REPLY, ident)

    def reap(self):
        for ident, p in list(self.children.items()):
            code = p.poll()
            if code is not None:
                del self.children[ident]
                self.say(self.EXITED, ident, -code if code < 0 else code << 8)

    def run(self):
        while not self.ending:
            if select.select([self.sock], [], [], 0.01)[0]:
                try:
                    packet, fds, _, _ = socket.recv_fds(self.sock, self.MSG.size, 4)
                except OSError:
                    break
                if not packet:
                    break
                self.handle(*self.MSG.unpack(packet), fds)
                for fd in fds:
                    os.close(fd)
            self.reap()

    def stop(self):
        self.ending = True
        self.join()
        for p in self.children.values():
            p.kill()
            p.wait()
        self.sock.close()


class Daemon:
    def __init__(self, value, keeper=False, conf=CONF, worker=FAKE_WORKER, spec=None, memory=(0, 0),
                 job=4711, lease=True, preexec=None, rundir=None, top=None, under=()):
        self.own_top = top is None
        self.top = top or tempfile.mkdtemp(prefix="stagingd-", dir="/dev/shm")
        self.rundir = rundir or f"{self.top}/{job}"
        for name in ("ssd", "scratch"):
            os.makedirs(f"{self.top}/{name}", exist_ok=True)
        os.makedirs(self.rundir, exist_ok=True)
        os.chmod(self.rundir, 0o700)
        self.run_as = {}
        if os.geteuid() == 0 and keeper:
            self.run_as = {"user": OTHER_UID, "group": OTHER_UID, "extra_groups": []}
        if keeper:
            for d in ("t/.stage/tmp", "t/data", "m"):
                os.makedirs(f"{self.rundir}/{d}")
        conf_path = f"{self.top}/stage-data.conf"
        if conf is not None:
            with open(conf_path, "w") as f:
                f.write(conf.format(top=self.top))
            os.chmod(conf_path, 0o644)
        self.socket_path = f"{self.rundir}/sock"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(self.socket_path)
        if not keeper:
            listener.listen(1200)
        fields = spec or {"spec": f"1:no:{'0' * 16}:{value}", "node": "n1", "nodelist": "n[1-3]",
                          "nnodes": "3"}
        spec_fd = fields if isinstance(fields, int) else os.memfd_create("spec")
        if not isinstance(fields, int):
            os.write(spec_fd, encode(**fields) if isinstance(fields, dict) else fields)
        self.keeper = Keeper(worker, self.run_as, f"{self.top}/ssd/stage-data-{job}/data") if keeper else None
        if self.run_as:
            self.chown(self.top)
        args = [*under, STAGINGD, "--keeper" if keeper else "--local", "--rundir", self.rundir,
                "--job", str(job), "--worker", worker, "--conf", conf_path]
        sources = {3: spec_fd, 5: listener.fileno()}
        if keeper:
            sources[4] = self.keeper.theirs.fileno()
        copies = {n: os.dup(fd) for n, fd in sources.items()}
        high = {n: self.move_up(fd) for n, fd in copies.items()}

        def as_daemon():
            for n, fd in high.items():
                os.dup2(fd, n)
                os.set_inheritable(n, True)
            if preexec:
                preexec()
            os.closerange(6, 1024)

        self.log_path = f"{self.top}/log"
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(args, preexec_fn=as_daemon, close_fds=False, stderr=log,
                                            stdin=subprocess.DEVNULL, **self.run_as)
        for fd in list(high.values()) + [spec_fd]:
            os.close(fd)
        listener.close()
        if keeper:
            self.keeper.theirs.close()
            self.keeper.start()
            if memory is not None:
                self.keeper.say(Keeper.MEMORY, 0, *memory)
        self.lease = None
        if lease and not keeper:
            self.lease = self.client()
            assert self.lease.ask("lease")[-1]["code"] == "0"

    def chown(self, path):
        for base, dirs, files in os.walk(path):
            for name in [base] + [os.path.join(base, n) for n in dirs + files]:
                os.chown(name, OTHER_UID, OTHER_UID)

    @staticmethod
    def move_up(fd):
        import fcntl
        up = fcntl.fcntl(fd, fcntl.F_DUPFD, 100)
        os.close(fd)
        return up

    def client(self, timeout=20):
        def connect():
            try:
                return Client(self.socket_path, timeout)
            except (ConnectionRefusedError, FileNotFoundError):
                assert self.process.poll() is None, self.log()
                return None
        return wait_for(connect, what="connection")

    def ask(self, op, **fields):
        c = self.client()
        try:
            return c.ask(op, **fields)
        finally:
            c.close()

    def wait(self, **fields):
        return self.ask("wait", **fields)[-1]

    def status(self, name):
        for m in self.ask("status", names=name):
            if m["op"] == "dataset":
                return m
        raise AssertionError(f"no dataset {name}")

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def end(self, timeout=10):
        """Ends it by SIGTERM; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def close(self):
        if self.lease:
            self.lease.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError("stagingd did not end: " + self.log())
        if self.keeper:
            self.keeper.stop()
        log = self.log()
        if self.own_top:
            shutil.rmtree(self.top, ignore_errors=True)
        if any(word in log for word in ("bug:", "Sanitizer", "runtime error")):
            raise AssertionError(log)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind:
            print("--- log of stagingd:\n" + self.log())
        self.close()
