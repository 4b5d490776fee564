"""Sides that mount an image, ours and the peers', and what is then done with the mount.

A mount is fresh in each run, and making it is not part of the time. The image is read before.
"""
import os
import random
import shutil
import subprocess
import time

from benchjob import AS_USER, ENV, SHM, Failed, Job, reap_orphans, sh, timed
from benchlib import Side
from benchreport import BARE

POINT = SHM + "/mount"


class Mounter:
    """mount(image) -> path; unmount(). Where the time counts: prepare(image); begin(image) ->
    path."""
    name = "stage-data"
    by_user = True

    def __init__(self, bench):
        self.bench = bench

    def mount(self, image):
        self.job = Job(self.bench.installed, f"x={image}")
        self.job.start()
        self.job.wait()
        return self.job.path("x")

    def prepare(self, image):
        """A job that runs, to which the image is added."""
        self.job = Job(self.bench.installed, f"other={image}::method=link")
        self.job.start()
        self.job.wait()

    def begin(self, image):
        self.job.ask("add", item=f"x={image}")
        self.job.ask("wait", names="x", progress=0)
        return self.job.path("x")

    def unmount(self):
        self.job.clean()


class Peer(Mounter):
    """Makes its mount below /dev/shm, where it is an ordinary user's."""
    command = []

    def prepare(self, _image):
        os.makedirs(POINT, exist_ok=True)
        os.chown(POINT, AS_USER["user"], AS_USER["group"])

    def mount(self, image):
        self.prepare(image)
        in_child(lambda: bool(self.begin(image)) + 0, self.by_user)
        return POINT

    def begin(self, image):
        """A server that stays must not hold anything of ours."""
        argv = [a.replace("{image}", image) for a in self.command]
        null = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in range(3)]
        pid = os.posix_spawnp(argv[0], argv, ENV, file_actions=null)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            raise Failed(f"{' '.join(argv)}: exit {status}")
        return POINT

    def unmount(self):
        # The user's mount is closed to root: nothing else would tell.
        if any(line.split()[1] == POINT for line in open("/proc/self/mounts")):
            sh("umount", POINT)
        reap_orphans()


class Squashfuse(Peer):
    name, command = "squashfuse_ll", ["squashfuse_ll", "{image}", POINT]


class Kernel(Peer):
    name, command = "kernel, loop", ["mount", "-t", "squashfs", "-o", "loop,ro", "{image}", POINT]
    by_user = False


class Names(Peer):
    """Mounts a tree's names and attributes, which it has in memory."""
    name = BARE

    def __init__(self, bench, tree):
        super().__init__(bench)
        self.command = [bench.probe_path, "names", tree, POINT]


def mounters(bench):
    found = [Mounter(bench)]
    if shutil.which("squashfuse_ll"):
        found.append(Squashfuse(bench))
    else:
        bench.say("no squashfuse_ll here")
    if "\tsquashfs\n" in open("/proc/filesystems").read() or not subprocess.call(["modprobe", "-q", "squashfs"]):
        found.append(Kernel(bench))
    else:
        bench.say("this kernel has no squashfs")
    return found


class Use(Side):
    """Something that is done with a mount."""

    def __init__(self, mounter, image):
        self.mounter, self.image, self.bench = mounter, image, mounter.bench
        self.name = mounter.name

    def prepare(self):
        self.bench.probe("warm", self.image)
        self.path = self.mounter.mount(self.image)

    def clear(self):
        self.mounter.unmount()


class Reading(Use):
    """Files of the list, whole, by n_readers threads; all that is read is compared."""

    def __init__(self, mounter, image, tree, names, n_readers):
        super().__init__(mounter, image)
        self.tree, self.names, self.n_readers = tree, names, n_readers

    def read(self, n_readers, path, **kw):
        return self.bench.probe("read", n_readers, path, input="\n".join(self.names) + "\n",
                                **kw).split(" ", 1)

    def run(self):
        key = (self.tree, len(self.names), self.names[0])
        sums = self.bench.sums
        if key not in sums:
            sums[key] = self.read(1, self.tree)[1]
        seconds, self.got = self.read(self.n_readers, self.path, **AS_USER)
        self.expected = sums[key]
        return float(seconds), None

    def check(self):
        if self.got != self.expected:
            raise Failed(f"{self.name}: read {self.got}, not {self.expected}")


class Inflating(Side):
    """Threads that inflate the blocks of an image of one file, for one who reads them in order."""
    name = BARE

    def __init__(self, bench, image, tree):
        self.bench, self.image, self.tree = bench, image, tree

    def prepare(self):
        self.bench.probe("warm", self.image)

    def run(self):
        seconds, self.size = self.bench.probe("inflate", os.cpu_count(), self.image, **AS_USER).split()
        return float(seconds), None

    def check(self):
        if self.size != self.bench.sum_of(self.tree).split()[2]:
            raise Failed(f"{self.name}: inflated {self.size} bytes, not what is in {self.tree}")


class Listing(Use):
    """find -ls of everything."""

    def __init__(self, mounter, image, tree):
        super().__init__(mounter, image)
        self.tree = tree

    def run(self):
        with open("/run/listing", "wb") as f:
            seconds, _ = timed(["find", self.path + "/", "-ls"], stdout=f)
        return seconds, None

    def check(self):
        files, dirs = self.bench.sum_of(self.tree).split()[:2]
        with open("/run/listing", "rb") as f:
            n = sum(1 for _ in f)
        if n != int(files) + int(dirs) + 1:
            raise Failed(f"{self.name}: listed {n} entries of {int(files) + int(dirs) + 1}")


class Beginning(Use):
    """From asking for the mount until its directory has been read, in milliseconds; by a process
    that is there already, because starting one takes as long as a mount."""

    def prepare(self):
        self.bench.probe("warm", self.image)
        self.mounter.prepare(self.image)

    def run(self):
        return in_child(self.begin, self.mounter.by_user), None

    def begin(self):
        start = time.monotonic()
        with os.scandir(self.mounter.begin(self.image)) as entries:
            next(entries)
        return 1000 * (time.monotonic() - start)


def in_child(fn, by_user):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if by_user:
                os.setgroups([])
                os.setresgid(*3 * [AS_USER["group"]])
                os.setresuid(*3 * [AS_USER["user"]])
            os.write(w, str(fn()).encode())
            os._exit(0)
        except BaseException as e:
            os.write(w, repr(e).encode())
            os._exit(1)
    os.close(w)
    with os.fdopen(r) as f:
        text = f.read()
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise Failed(text)
    return float(text)


def files_of(tree):
    names = []
    for path, _, files in os.walk(tree):
        names += [os.path.relpath(os.path.join(path, f), tree) for f in files]
    return sorted(names)


def some_of(tree, n):
    """n files in an order that is random, and always the same."""
    names = files_of(tree)
    return random.Random(5).sample(names, min(n, len(names)))
