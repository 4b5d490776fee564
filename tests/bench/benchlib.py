"""What the benchmarks have in common.

A benchmark is a program in this directory that prints a JSON object a line on stdout and what it is
doing on stderr. tools/bench runs them all. A row of a table:

	{"table": "archives", "row": "plain tar, 14,000 images", "unit": "s",
	 "ours": [0.51, ...], "peer": "GNU tar", "theirs": [1.60, ...], "target": 3.0, "note": "..."}

The ratio is median(theirs) / median(ours); target is what it should be at least. limit, in its
place: what the median of ours should be at most; such a row needs no peer. cpu_ours, cpu_theirs:
user and system seconds. A row that could not be measured has failed, a text, in place of ours. A
point of a curve:

	{"curve": "files", "series": "tar", "x": 1000, "xlabel": "files", "unit": "s", "ours": [...],
	 "peer": "GNU tar", "theirs": [...]}

In a program:

	bench = Bench("untar")
	src = bench.data.get("A.tar")
	bench.compare("archives", "plain tar", [bench.staged(src, tree), bench.peer("GNU tar", [...])], {"GNU tar": 3})
	bench.end()

Fairness: runs of ours and the peers' alternate, every second round in reverse. Before each run the
source is read, so that it is cached, and as much memory as the run will fill is written and freed,
in pages of 4 KB and, where files are big, in huge pages: on virtual machines the first touch of
memory may be ten times slower than the next. Afterwards every byte that came out is compared with
the source. Peers write to a fresh tmpfs with the options of this machine's /dev/shm.
"""
import argparse
import json
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import time

from benchdata import Data
from benchjob import (AS_USER, ENV, HUGE, SHM, Failed, Installed, Job, enter, fresh_shm, mount_huge,
                      sh, timed, write_conf)
from benchreport import BARE

PAGE = 4096
BIG_FILE = 1 << 20  # on average, so that a good part lies in huge pages
median = statistics.median


class Bench:
    def __init__(self, name, argv=None, namespaces=True):
        p = argparse.ArgumentParser(prog="bench-" + name)
        p.add_argument("--quick", action="store_true", help="less data, fewer runs")
        p.add_argument("--runs", type=int, metavar="N", help="of each (default 5; quick: 3)")
        p.add_argument("--data", default="/var/tmp/stage-bench", metavar="DIR",
                       help="where the data is kept (default %(default)s)")
        p.add_argument("--prefix", metavar="DIR", help="where stage-data is installed")
        p.add_argument("--probe", default=os.environ.get("STAGE_BENCH_PROBE", "probe"),
                       help="tests/bench/probe of the build directory")
        p.add_argument("only", nargs="*", metavar="PATTERN", help="rows whose name contains it")
        args = p.parse_args(argv)
        self.name, self.quick, self.only = name, args.quick, args.only
        self.runs = args.runs or (3 if args.quick else 5)
        self.top = args.data
        if namespaces:
            enter()
            write_conf(args.data)
            self.installed = Installed(args.prefix)
            mount_huge()
        self.probe_path = shutil.which(args.probe) or sys.exit("no probe; say --probe")
        self.data = Data(args.data, args.quick, self.say)
        self.sums = {}
        self.failed = False

    def say(self, text):
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)

    def emit(self, **fields):
        print(json.dumps({k: v for k, v in fields.items() if v is not None}), flush=True)

    def probe(self, *argv, **kw):
        return sh(self.probe_path, *map(str, argv), **kw).strip()

    def sum_of(self, path, sub=""):
        """"FILES DIRS BYTES HASH" of a source; looked at once."""
        key = (path, sub)
        if key not in self.sums:
            self.sums[key] = self.probe("sum", path, sub)
        return self.sums[key]

    def staged(self, source, tree, sub="", options=""):
        return Staged(self, source, tree, sub, options)

    def peer(self, name, argv, source, tree, sub="", out="", info=False):
        return Peer(self, name, argv, source, tree, sub, out, info)

    def bare(self, filling, *argv, beside=None):
        """filling: the side of ours whose limit that is; beside: a command that runs with it."""
        return Bare(self, filling, argv, beside)

    def wanted(self, name):
        return not self.only or any(p in name for p in self.only)

    def measure(self, name, sides, runs=None):
        """{side: Results}, and what failed for want of it."""
        results = {s: Results() for s in sides}
        for i in range(runs or self.runs):
            for side in sides if i % 2 == 0 else sides[::-1]:
                if results[side].failed or side.info and i:
                    continue
                try:
                    seconds, cpu = side.once()
                    results[side].add(seconds, cpu)
                except (Failed, OSError, subprocess.SubprocessError) as e:
                    results[side].failed = str(e)
                    self.failed = True
                    self.say(f"{name}: {side.name}: {e}")
            self.say(f"{name}: {i + 1}/{runs or self.runs} " + ", ".join(
                f"{s.name} {results[s].seconds[-1]:.3f}" for s in sides if results[s].seconds))
        return results

    def compare(self, table, row, sides, targets=None, note=None, runs=None, unit="s", limit=None):
        """sides: a list, or a function that makes it; the first is ours. targets: {peer: ratio}."""
        if not self.wanted(row):
            return
        sides = sides() if callable(sides) else sides
        if not targets and limit is None:
            runs = min(runs or self.runs, 3)
        results = self.measure(row, sides, runs)
        ours = results[sides[0]]
        for side in sides[1:]:
            theirs = results[side]
            self.emit(table=table, row=row, unit=unit, peer=side.name,
                      target=(targets or {}).get(side.name), limit=limit, note=note, info=side.info or None,
                      failed=ours.failed or theirs.failed, **ours.as_fields("ours"),
                      **theirs.as_fields("theirs"))

    def point(self, curve, series, x, sides, runs=None, xlabel=None, unit="s"):
        name = f"{curve} {series} {x:,}"
        if not self.wanted(name):
            return
        sides = sides() if callable(sides) else sides
        results = self.measure(name, sides, runs)
        ours = results[sides[0]]
        for side in sides[1:]:
            self.emit(curve=curve, series=series, x=x, xlabel=xlabel, unit=unit, peer=side.name,
                      failed=ours.failed or results[side].failed, **ours.as_fields("ours"),
                      **results[side].as_fields("theirs"))

    def end(self):
        sys.exit(1 if self.failed else 0)


def order_of(top):
    """The files of a tree for `probe read`, in a random order that is always the same."""
    names = sorted(os.path.relpath(os.path.join(d, f), top)
                   for d, _, files in os.walk(top) for f in files)
    random.Random(11).shuffle(names)
    return "\n".join(names) + "\n"


class Results:
    def __init__(self):
        self.seconds, self.cpus, self.failed = [], [], None

    def add(self, seconds, cpu):
        self.seconds.append(round(seconds, 5))
        if cpu is not None:
            self.cpus.append(round(cpu, 3))

    def as_fields(self, who):
        return {who: self.seconds or None, "cpu_" + who: self.cpus or None}


class Side:
    """One of those that are compared: prepare(), run() -> (seconds, cpu seconds), check(),
    clear()."""
    info = False  # measured once: nobody doubts it

    def once(self):
        self.prepare()
        try:
            result = self.run()
            self.check()
            return result
        finally:
            self.clear()

    def prepare(self):
        pass

    def check(self):
        pass

    def clear(self):
        pass


class Filling(Side):
    """One that fills memory with a copy of tree, or of tree/sub, from source."""

    def __init__(self, bench, source, tree, sub):
        self.bench, self.source, self.tree, self.sub = bench, source, tree, sub

    def prepare(self):
        files, dirs, size, _ = self.bench.sum_of(self.tree, self.sub).split()
        self.bench.probe("warm", self.source)
        # Half a page is lost at the end of each file; a kilobyte is what inode and name take.
        size = int(size) + int(files) * (PAGE // 2 + 1024) + (32 << 20)
        self.bench.probe("touch", size, SHM)
        if size > int(files) * BIG_FILE:
            self.bench.probe("touch", size, HUGE)

    def compare_with_source(self, path):
        got, expected = self.bench.probe("sum", path), self.bench.sum_of(self.tree, self.sub)
        if got != expected:
            raise Failed(f"{self.name}: came out as {got}, not {expected}")


class Staged(Filling):
    name = "stage-data"

    def __init__(self, bench, source, tree, sub="", options=""):
        super().__init__(bench, source, tree, sub)
        self.value = f"x={source}{options}"

    def run(self):
        self.job = Job(self.bench.installed, self.value)
        start = time.monotonic()
        self.job.start()
        self.job.wait()
        seconds = time.monotonic() - start
        return seconds, self.job.cpu()

    def check(self):
        self.compare_with_source(self.job.path("x"))

    def clear(self):
        self.job.clean()


class Bare(Side):
    """Threads that do nothing but what any engine has to ask the kernel for: how fast it could be
    at most. argv: of the probe; {to}: a fresh directory, as the job's tmpfs is."""
    name = BARE

    def __init__(self, bench, filling, argv, beside=None):
        self.bench, self.filling, self.argv = bench, filling, argv
        self.beside = shlex.join(beside) + " >/dev/null & " if beside else ""

    def prepare(self):
        self.filling.prepare()
        self.to = HUGE + "/bare"
        os.mkdir(self.to, 0o700)
        os.chown(self.to, AS_USER["user"], AS_USER["group"])

    def run(self):
        argv = [self.bench.probe_path, *(str(a).replace("{to}", self.to) for a in self.argv)]
        if self.beside:  # done when both are
            argv = ["bash", "-ec", f"{self.beside}{shlex.join(argv)}; wait $!"]
        return timed(argv)

    def clear(self):
        shutil.rmtree(self.to)


class Peer(Filling):
    """A command of the user's; {to} in argv: a fresh directory, {out}: the name below it that
    the copy gets."""

    def __init__(self, bench, name, argv, source, tree, sub="", out="", info=False):
        super().__init__(bench, source, tree, sub)
        self.name, self.argv, self.out, self.info = name, argv, out, info

    def prepare(self):
        super().prepare()
        fresh_shm()
        self.to = SHM + "/peer"
        os.mkdir(self.to, 0o700)
        os.chown(self.to, AS_USER["user"], AS_USER["group"])

    def run(self):
        return timed([a.replace("{to}", self.to).replace("{src}", self.source)
                      for a in self.argv], cwd=self.to)

    def check(self):
        self.compare_with_source(os.path.join(self.to, self.out) if self.out else self.to)

    def clear(self):
        fresh_shm()
