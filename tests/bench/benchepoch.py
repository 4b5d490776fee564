"""Epochs of readers: each reads its part of the files once, whole, in a random order that is the
same for all.

	readings = Readings(bench, "images-4200")
	sides = [readings.side(Staging(...), real), readings.side(Straight("straight", ...), readings.tree)]
	readings.compare("a directory", sides, {"first epoch": {"straight": 1.5}}, note)

A first epoch begins with nothing but the source: staging is part of it.
"""
import subprocess
import time

from benchjob import AS_USER, SHM, Failed
from benchlib import Side, order_of

READERS = 8
LATER = 2  # epochs


class Readings:
    """What is read: the files of a tree of the benchmark's data."""

    def __init__(self, bench, name):
        self.bench, self.tree = bench, bench.data.get(name)
        self.order = order_of(self.tree)
        self.total = int(bench.sum_of(self.tree).split()[2])
        self.expected = self.read(self.tree, self.order, 2)[1]

    def read(self, path, order, readers=READERS):
        r = subprocess.run([self.bench.probe_path, "read", str(readers), path], input=order,
                           capture_output=True, text=True, **AS_USER)
        if r.returncode:
            raise Failed(r.stderr.strip()[-300:])
        seconds, got = r.stdout.strip().split(" ", 1)
        return float(seconds), got

    def side(self, way, real, info=False):
        return Epochs(self, way, real, info)

    def compare(self, form, sides, rows, note):
        """rows: {"first file" or "first epoch" or "later epochs": {peer: target}}."""
        bench = self.bench
        if not any(bench.wanted(f"{what} of {form}") for what in rows):
            return
        results = bench.measure(form, sides)
        for what, targets in rows.items():
            for peer in sides[1:]:
                bench.emit(table="slow source", row=f"{what} of {form}", unit="s", peer=peer.name,
                           target=targets.get(peer.name), note=note, info=peer.info or None,
                           ours=sides[0].times(what), theirs=peer.times(what),
                           failed=results[sides[0]].failed or results[peer].failed)


class Epochs(Side):
    def __init__(self, readings, way, real, info):
        self.readings, self.way, self.real, self.info = readings, way, real, info
        self.name, self.all = way.name, {"first file": [], "first epoch": [], "later epochs": []}

    def times(self, what):
        return self.all[what]

    def note(self, what, seconds):
        self.all[what].append(round(seconds, 5))

    def prepare(self):
        bench = self.readings.bench
        bench.probe("warm", self.real)
        bench.probe("touch", self.readings.total + (64 << 20), SHM)

    def epoch(self, path):
        seconds, self.got = self.readings.read(path, self.readings.order)
        return seconds

    def run(self):
        start = time.monotonic()
        path = self.way.begin()
        self.readings.read(path, self.readings.order.split("\n", 1)[0] + "\n", 1)
        self.note("first file", time.monotonic() - start)
        self.epoch(path)
        seconds = time.monotonic() - start
        self.note("first epoch", seconds)
        self.note("later epochs", min(self.epoch(path) for _ in range(LATER)))
        return seconds, None

    def check(self):
        if self.got != self.readings.expected:
            raise Failed(f"{self.name}: read {self.got}, not {self.readings.expected}")

    def clear(self):
        self.way.end()
