"""Jobs as Slurm's prolog starts them, without Slurm, in namespaces of our own.

enter() puts the program into mount and pid namespaces of its own, with fresh run directory, /run
and /dev/shm: whatever happens to it, no process, mount or byte of memory is left. Job is the
installed stage-keeper with the real stagingd and workers, which run as an unprivileged user.
"""
import os
import pwd
import re
import signal
import socket
import stat
import subprocess
import sys
import time

import benchgroup

INSIDE = "STAGE_BENCH_INSIDE"  # in the environment: number and /dev/shm's options from outside
SHM = "/dev/shm"
HUGE = "/run/huge"  # with huge pages where a job's tmpfs has them
CONF = "/run/stage-bench.conf"
USER = pwd.getpwnam("nobody")
AS_USER = dict(user=USER.pw_uid, group=USER.pw_gid, extra_groups=[], umask=0o077)
SYSTEM_USER, SYSTEM_UID = "stage-data", 490
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": SHM}
LOG = "/run/stage-bench.log"
CONF_TEXT = f"""\
[daemon]
LogFile={LOG}
[limits]
KeepFreeMemory=64M
MaxMemoryPercent=90
[tier shm]
Kind=memory
"""
outside = {}


class Failed(Exception):
    """What could not be measured, or came out wrong."""


def sh(*argv, **kw):
    r = subprocess.run(argv, capture_output=True, text=True, **kw)
    if r.returncode:
        raise Failed(f"{' '.join(argv)[:200]}: {r.stderr.strip()[-300:] or r.returncode}")
    return r.stdout


def shm_options():
    """As this machine mounts it, so that the peers get what they would have."""
    for line in open("/proc/self/mounts"):
        fields = line.split()
        if fields[1] == SHM:
            return fields[3]
    return "nosuid,nodev,mode=1777"


def enter():
    if os.geteuid():
        sys.exit("benchmarks need root, to start jobs and to mount; the data is handled as nobody")
    if INSIDE not in os.environ:
        benchgroup.remove_leftovers()
        os.environ[INSIDE] = f"{os.getpid()} {shm_options()}"
        os.execvp("unshare", ["unshare", "-m", "-p", "--fork", "--kill-child", "--mount-proc",
                              "--propagation", "private", sys.executable, *sys.argv])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    outside["pid"], outside["shm"] = os.environ[INSIDE].split()
    outside["groups"] = benchgroup.Groups(outside["pid"])
    sh("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run")
    sh("mount", "-t", "tmpfs", "-o", outside["shm"], "tmpfs", SHM)
    add_system_user()
    open_fuse()


def add_system_user():
    """Where no package has made it: for this namespace alone."""
    lines = {"passwd": f"{SYSTEM_USER}:x:{SYSTEM_UID}:{SYSTEM_UID}::/nonexistent:/usr/sbin/nologin\n",
             "group": f"{SYSTEM_USER}:x:{SYSTEM_UID}:\n"}
    for name, line in lines.items():
        with open(f"/etc/{name}") as f:
            text = f.read()
        if any(known.startswith(f"{SYSTEM_USER}:") for known in text.splitlines()):
            continue
        with open(f"/run/{name}", "w") as f:
            f.write(text + line)
        sh("mount", "--bind", f"/run/{name}", f"/etc/{name}")


def mount_huge():
    """After the programs are in place: what covers /run would cover it too."""
    os.mkdir(HUGE)
    if subprocess.call(["mount", "-t", "tmpfs", "-o", "huge=within_size", "tmpfs", HUGE]):
        sh("mount", "-t", "tmpfs", "tmpfs", HUGE)


def open_fuse():
    """Everybody may mount with FUSE, as is usual; some containers leave it to root."""
    if os.path.exists("/dev/fuse") and os.stat("/dev/fuse").st_mode & 0o006 != 0o006:
        os.mknod("/run/fuse", stat.S_IFCHR | 0o666, os.stat("/dev/fuse").st_rdev)
        os.chmod("/run/fuse", 0o666)
        sh("mount", "--bind", "/run/fuse", "/dev/fuse")


def write_conf(*allowed, text=""):
    """What stands below these directories may be staged; text: more sections."""
    with open(CONF, "w") as f:
        f.write(CONF_TEXT + text)
        for i, top in enumerate(allowed):
            f.write(f"[source s{i}]\nMatch={os.path.realpath(top)}/**\n")


def fresh_shm():
    """What was written there is freed."""
    sh("umount", SHM)
    sh("mount", "-t", "tmpfs", "-o", outside["shm"], "tmpfs", SHM)


def cover(directory, name):
    """From now on what is written to directory goes to memory."""
    upper, work = f"/run/{name}/upper", f"/run/{name}/work"
    os.makedirs(upper)
    os.makedirs(work)
    sh("mount", "-t", "overlay", "overlay", "-o",
       f"lowerdir={directory},upperdir={upper},workdir={work}", directory)


class Installed:
    """The programs: below a prefix, or those of a build directory, which are put in place here."""

    def __init__(self, prefix=None, rundir=None):
        self.rundir = rundir or os.environ.get("STAGE_BENCH_RUNDIR", "/run/stage-data")
        self.libexec = f"{prefix}/libexec/stage-data"
        self.stagectl = f"{prefix}/bin/stagectl"
        programs = os.environ.get("STAGE_BENCH_PROGRAMS")
        if not prefix and programs:
            self.put_in_place(programs.split(":"))
        if not os.access(f"{self.libexec}/stage-keeper", os.X_OK):
            sys.exit(f"no stage-keeper in {self.libexec}; say --prefix, or use tools/bench")
        if not os.path.isdir(self.rundir):
            cover(existing_above(self.rundir), "rundir")

    def put_in_place(self, programs):
        self.libexec, *programs = programs
        cover(existing_above(self.libexec), "libexec")
        os.makedirs(self.libexec, exist_ok=True)
        for path in programs:
            name = os.path.basename(path)
            sh("cp", path, f"{self.libexec}/{name}")
        self.stagectl = f"{self.libexec}/stagectl"


def existing_above(path):
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


class Job:
    """A job that asks for `value`. with Job(...) as j: j.wait(); j.path("x")"""
    next_id = 4000

    def __init__(self, installed, value, conf=CONF):
        Job.next_id += 1
        self.id, self.installed, self.value, self.conf = Job.next_id, installed, value, conf
        self.dir = f"{installed.rundir}/{self.id}"
        self.env = dict(ENV, SLURM_JOB_ID=str(self.id), STAGE_DATA_SOCKET=self.dir + "/sock",
                        STAGE_DATA_DIR=self.dir + "/t/data")

    def start(self):
        """From the prolog's exec until the keeper has answered."""
        self.group = outside["groups"].job(USER.pw_uid, self.id)
        memfd = os.memfd_create("spec")
        fields = dict(spec=f"1:no:{0:016}:{self.value}", node="localhost", nodelist="localhost",
                      nnodes=1, partition="", restart=0)
        os.write(memfd, b"".join(f"{k}={v}\0".encode() for k, v in fields.items()))
        os.lseek(memfd, 0, os.SEEK_SET)
        r, w = os.pipe()
        self.process = subprocess.Popen(
            [f"{self.installed.libexec}/stage-keeper", "run", "--job", str(self.id), "--uid",
             str(USER.pw_uid), "--gid", str(USER.pw_gid), "--restart", "0", "--conf", self.conf],
            stdin=memfd, stdout=w, env={"PATH": ENV["PATH"], "LANG": ENV["LANG"]})
        os.close(memfd)
        os.close(w)
        answer = b"".join(iter(lambda: os.read(r, 4096), b"")).decode()
        os.close(r)
        if answer[:1] != "R":
            raise Failed("stage-keeper: " + (answer[1:] or "no answer"))

    def ctl(self, *argv):
        r = subprocess.run([self.installed.stagectl, *argv], env=self.env, capture_output=True,
                           text=True, **AS_USER)
        if r.returncode:
            raise Failed(f"stagectl {argv[0]}: {r.stderr.strip()[-300:]}")
        return r.stdout

    def wait(self):
        """As a job's script does, which begins when stagingd has long been there."""
        while not self.answers():
            if self.process.poll() is not None:
                raise Failed("stage-keeper has ended: " + open(LOG).read()[-300:])
            time.sleep(0.001)
        self.ctl("wait", "-q")

    def answers(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            try:
                s.connect(self.dir + "/sock")
                return True
            except OSError:
                return False

    def path(self, name):
        return f"{self.dir}/t/data/{name}"

    def cpu(self):
        """User and system seconds of the keeper, what it has reaped (the workers) and stagingd."""
        while True:
            own = stat_of(self.process.pid)
            ticks = sum(own[:4]) + sum(sum(child[:4]) for child in map(stat_of, pids())
                                       if child and child[4] == self.process.pid)
            if stat_of(self.process.pid) == own:  # else it has just reaped one
                return ticks / os.sysconf("SC_CLK_TCK")

    def ask(self, op, **fields):
        """Speaks to stagingd itself, where a millisecond matters; the fields of `done`."""
        fields = {"proto": 1, "op": op, "id": 1, **fields}
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(60)
            s.connect(self.dir + "/sock")
            s.send(b"".join(f"{k}={v}\0".encode() for k, v in fields.items()))
            while packet := s.recv(65536):
                done = dict(f.split("=", 1) for f in packet.decode(errors="replace").split("\0")[:-1])
                if done["op"] == "done":
                    if done["code"] != "0":
                        raise Failed(f"{op}: {done.get('text', done['code'])}")
                    return done
        raise Failed(f"{op}: stagingd has hung up")

    def clean(self):
        sh(f"{self.installed.libexec}/stage-keeper", "clean", "--job", str(self.id),
           "--timeout", "60000")
        self.process.wait(60)
        reap_orphans(self.process.pid)
        if self.group:
            benchgroup.remove(self.group)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.clean()


def pids():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def stat_of(pid):
    """[utime, stime, cutime, cstime, ppid] or None"""
    try:
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return [int(f) for f in fields[11:15]] + [int(fields[1])]


def reap_orphans(*but):
    """We are init here."""
    for pid in pids():
        try:
            text = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
            if text[:2] == ["Z", str(os.getpid())] and pid not in but:
                os.waitpid(pid, os.WNOHANG)
        except OSError:
            pass


def timed(argv, stdout=subprocess.DEVNULL, **kw):
    """Runs it as the user; (seconds, user and system seconds)."""
    before = os.times()
    start = time.monotonic()
    r = subprocess.run(argv, env=ENV, stdout=stdout, stderr=subprocess.PIPE,
                       stdin=subprocess.DEVNULL, **AS_USER, **kw)
    seconds = time.monotonic() - start
    after = os.times()
    if r.returncode:
        text = re.sub(r"\s+", " ", r.stderr.decode(errors="replace")).strip()
        raise Failed(f"{' '.join(argv)[:100]}: exit {r.returncode}: {text[-300:]}")
    return seconds, (after.children_user + after.children_system
                     - before.children_user - before.children_system)
