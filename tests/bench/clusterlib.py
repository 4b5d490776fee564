"""What the benchmarks that need Slurm have in common: the cluster of tests/lib/cluster, with real
jobs of real users on three nodes of this machine.

A program in this directory that is called cluster-… prints a JSON object a line, as benchlib.py
tells, and takes its cluster up and down itself.
"""
import argparse
import contextlib
import io
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.path.join(HERE, "../lib/cluster")
WAITERS = os.path.join(HERE, "../lib/waiters")
POLL = 0.01
median = statistics.median


class Failed(Exception):
    """What could not be measured."""


class Bench:
    def __init__(self, name, argv=None):
        p = argparse.ArgumentParser(prog="cluster-" + name)
        p.add_argument("--quick", action="store_true", help="less data, fewer runs")
        p.add_argument("--runs", type=int, metavar="N", help="of each (default 5; quick: 3)")
        p.add_argument("--prefix", metavar="DIR", required=True, help="where stage-data is installed")
        p.add_argument("--data", default="/var/tmp/stage-bench", metavar="DIR",
                       help="where data and cluster are kept (default %(default)s)")
        p.add_argument("--probe", help="not needed here")
        p.add_argument("only", nargs="*", metavar="PATTERN", help="rows whose name contains it")
        args = p.parse_args(argv)
        if os.geteuid():
            sys.exit("benchmarks on a cluster need root, to make nodes and users")
        self.name, self.quick, self.only, self.prefix = name, args.quick, args.only, args.prefix
        self.runs = args.runs or (3 if args.quick else 5)
        self.store = os.path.join(args.data, "cluster-data")
        self.base = os.environ.setdefault("STAGE_CLUSTER", os.path.join(args.data, "cluster"))
        self.pfs = self.base + "/pfs"
        self.failed = False
        os.makedirs(self.store, exist_ok=True)

    def say(self, text):
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)

    def emit(self, **fields):
        print(json.dumps({k: v for k, v in fields.items() if v is not None}), flush=True)

    def wanted(self, row):
        return not self.only or any(p in row for p in self.only)

    @contextlib.contextmanager
    def row(self, name, **fields):
        """What goes wrong in it is the row's failure: the others are measured all the same."""
        try:
            yield
        except (Failed, OSError, subprocess.SubprocessError) as e:
            self.failed = True
            self.say(f"{name}: {e}")
            self.emit(row=name, failed=str(e), **fields)

    def end(self):
        sys.exit(1 if self.failed else 0)

    # --- the cluster

    @contextlib.contextmanager
    def cluster(self, *options, conf=""):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        self.tool("up", "--prefix", self.prefix, *options)
        try:
            with open(self.base + "/etc/stage-data/conf.d/50-bench.conf", "w") as f:
                f.write(conf)
            yield
        finally:
            self.tool("down")

    def tool(self, *argv, **kw):
        r = subprocess.run([TOOL, *map(str, argv)], text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, env=dict(os.environ, STAGE_CLUSTER=self.base), **kw)
        if r.returncode:
            raise Failed(f"{' '.join(map(str, argv))[:150]}: {r.stderr.strip()[-300:] or r.returncode}")
        return r.stdout

    def on(self, node, *argv, **kw):
        return self.tool("in", node, *argv, **kw)

    def as_on(self, user, node, *argv, **kw):
        return self.tool("as", user, node, *argv, **kw)

    # --- data

    def archive(self, n_files, size, per_dir=1000):
        """The path on the nodes of a tar of so many files, which is made once."""
        path = f"{self.store}/{n_files}x{size}.tar"
        if not os.path.exists(path):
            self.say(f"making {os.path.basename(path)}")
            text = os.urandom(1 << 20)
            with tarfile.open(path + ".new", "w", format=tarfile.GNU_FORMAT) as tar:
                for i in range(n_files):
                    member = tarfile.TarInfo(f"{i // per_dir:04}/{i:07}")
                    member.size = size
                    tar.addfile(member, Repeated(text, size))
            os.rename(path + ".new", path)
        return self.give(path)

    def give(self, path):
        """Puts a file where the nodes see it."""
        to = f"{self.pfs}/{os.path.basename(path)}"
        if not os.path.exists(to):
            try:
                os.link(path, to)
            except OSError:
                shutil.copyfile(path, to)
        return "/srv/pfs/" + os.path.basename(path)

    def read(self, *paths):
        """So that they are cached: paths as the nodes see them."""
        for path in paths:
            subprocess.run(["cat", self.pfs + path.removeprefix("/srv/pfs")], check=True,
                           stdout=subprocess.DEVNULL)

    @contextlib.contextmanager
    def gate(self, node="n1"):
        """/srv/pfs/gate/file on the node, which nobody can read until open() is called: a FUSE
        mount whose server is stopped."""
        image, mount = self.pfs + "/gate.sqsh", "/srv/pfs/gate"
        os.makedirs(self.pfs + "/gate", exist_ok=True)
        if not os.path.exists(image):
            with open(self.pfs + "/gate/file", "w") as f:
                f.write("data\n")
            subprocess.run(["mksquashfs", self.pfs + "/gate", image, "-quiet", "-no-progress"],
                           check=True, stdout=subprocess.DEVNULL)
        self.on(node, "squashfuse_ll", "-o", "allow_other,ro", "/srv/pfs/gate.sqsh", mount)
        server = self.on(node, "pgrep", "-f", "^squashfuse_ll .*gate").split()[0]
        self.on(node, "kill", "-STOP", server)
        try:
            yield lambda: self.on(node, "kill", "-CONT", server)
        finally:
            self.on(node, "kill", "-CONT", server)
            self.on(node, "umount", "-l", mount)

    def touch(self, mib):
        """Writes and frees memory: on virtual machines the first touch is slow."""
        path = "/dev/shm/stage-bench-touch"
        try:
            with open(path, "wb") as f:
                for _ in range(mib // 16):
                    f.write(bytes(16 << 20))
        finally:
            os.unlink(path)

    # --- jobs

    def submit(self, script, *options, user="alice", node="n1"):
        where = ("-w", node, "-n1") if node else ()
        return Job(self, self.as_on(user, "ctl", "sbatch", "--parsable", *where, *options,
                                    input="#!/bin/bash\n" + script + "\n").strip(), user)


class Job:
    def __init__(self, bench, id_, user):
        self.bench, self.id = bench, id_
        self.path = f"{bench.pfs}/home/{user}/slurm-{id_}.out"

    def output(self):
        try:
            with open(self.path) as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def field(self, name):
        out = self.bench.on("ctl", "scontrol", "show", "job", "-o", self.id)
        return next(w for w in out.split() if w.startswith(name + "="))[len(name) + 1:]

    def is_over(self):
        return self.field("JobState") not in ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING")

    def wait_says(self, text, seconds=120):
        end = time.monotonic() + seconds
        while text not in self.output():
            if time.monotonic() > end or self.is_over() and text not in self.output():
                raise Failed(f"job {self.id} does not say '{text}': {self.output()[-300:]}")
            time.sleep(POLL)

    def wait(self, seconds=300):
        end = time.monotonic() + seconds
        while not self.is_over():
            if time.monotonic() > end:
                raise Failed(f"job {self.id} is not over")
            time.sleep(POLL)

    def done(self, seconds=300):
        """What it wrote."""
        self.wait(seconds)
        if self.field("JobState") != "COMPLETED":
            raise Failed(f"job {self.id}: {self.field('JobState')}: {self.output()[-300:]}")
        return self.output()

    def cancel(self):
        self.bench.on("ctl", "scancel", self.id)
        self.wait()

    def end_to_idle(self, node="n1"):
        """Seconds from what the job's script printed last, the time, until its node is idle."""
        ended = float(self.done().split()[-1])
        idle = self.bench.on("ctl", "bash", "-c", "until [[ $(scontrol show node $1) == "
                             "*State=IDLE* ]]; do :; done; echo $EPOCHREALTIME", "-", node)
        return float(idle) - ended


class Repeated(io.RawIOBase):
    """A file of so many bytes that repeats a text."""

    def __init__(self, text, size):
        self.text, self.left = text, size

    def read(self, n=-1):
        n = min(self.left, len(self.text), n if n >= 0 else self.left)
        self.left -= n
        return self.text[:n]
