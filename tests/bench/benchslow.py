"""A source that is as slow as a loaded shared file system, and the ways to its data.

	with SlowSource(bench) as slow:
		bench.compare("slow source", "tree", [slow.staged(src, src), slow.peer("cp -r", [...], src, src)])

What lies below the data's directory is seen through slow-source, which takes the same time for the
same request, whoever asks. Where the data lies is read before, so that the disk plays no part.

A Way makes the data readable for the readers of an epoch: begin() -> path, end().
"""
import os
import shutil
import subprocess
import time

from benchdata import Data, run
from benchjob import AS_USER, SHM, Failed, Job, fresh_shm, sh, timed, write_conf

TOP = "/run/slow"
PROGRAM = os.environ.get("STAGE_BENCH_SLOW_SOURCE")
# Of what users measure on a file system that others use too. A path's directories stay known for a
# second, its files are asked for each time, and pages are gone when a file is opened again.
OPTIONS = {"meta-ms": 0.7, "read-ms": 0.2, "stream-mbps": 200, "total-mbps": 1000}
READ_AHEAD_KB = 4096
NOTE = "0.7 ms a metadata operation, 0.2 ms a read, 200 MB/s a stream, 1 GB/s in all"
WAIT = 20
CLASSES = 20


class SlowData(Data):
    """images-N: N files like those of A, 14 in a directory."""

    def make(self, name, path):
        if name.startswith("images-") and name[7:].isdigit():
            self.make_dirs(path, int(name[7:]) // 14, 14, "noise", 20_000, 200_000, 5)
        else:
            super().make(name, path)


class NestedData(SlowData):
    """classes-N: N files like those of A, in CLASSES directories. X.nested.tar: each directory of the tree X as a tar
    of its own, in a tar. X.indexed.tar: the same, with the index that stagectl makes."""

    def make(self, name, path):
        tree, _, form = name.partition(".")
        if form == "nested.tar":
            self.make_nested(self.get(tree), path)
        elif form == "indexed.tar":
            shutil.copy(self.get(tree + ".nested.tar"), path)
        elif tree.startswith("classes-") and not form:
            self.make_dirs(path, CLASSES, int(tree[8:]) // CLASSES, "noise", 20_000, 200_000, 9)
        else:
            super().make(name, path)

    def get(self, name):
        path = super().get(name)
        if name.endswith(".indexed.tar") and not os.path.exists(path + ".stage-index"):
            run(self.stage_index, path, path + ".stage-index", "nested")
        return path

    def make_nested(self, tree, path):
        top = path + ".tars"
        os.mkdir(top)
        for d in sorted(os.listdir(tree)):
            run("tar", "--sort=name", "--numeric-owner", "-C", f"{tree}/{d}", "-cf", f"{top}/{d}.tar", ".")
        run("tar", "--sort=name", "--numeric-owner", "-C", top, "-cf", path, ".")
        shutil.rmtree(top)


class SlowSource:
    """The data directory as it is from afar; options in place of those of OPTIONS."""
    n = 0

    def __init__(self, bench, **options):
        self.bench = bench
        self.options = dict(OPTIONS, **{k.replace("_", "-"): v for k, v in options.items()})

    def __enter__(self):
        SlowSource.n += 1
        self.dir = f"{TOP}/{SlowSource.n}"
        os.makedirs(self.dir)
        write_conf(TOP, self.bench.top)
        program = PROGRAM or os.path.join(os.path.dirname(self.bench.probe_path), "../slow-source")
        if not os.access(program, os.X_OK):
            raise Failed("no slow-source beside " + self.bench.probe_path)
        self.server = subprocess.Popen(
            [program, *(f"--{k}={v}" for k, v in self.options.items()), self.bench.data.top,
             self.dir], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.server.stdout.readline() != "ready\n":
            raise Failed(self.server.communicate()[1])
        device = os.stat(self.dir).st_dev
        with open(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb", "w") as f:
            f.write(str(READ_AHEAD_KB))
        return self

    def __exit__(self, *exc):
        self.server.terminate()
        self.bench.say(self.server.communicate(timeout=WAIT)[1].strip())

    def path(self, real):
        return os.path.join(self.dir, os.path.relpath(real, self.bench.data.top))

    def staged(self, real, tree, sub=""):
        side = self.bench.staged(real, tree, sub)
        side.value = "x=" + self.path(real)
        return side

    def peer(self, name, argv, real, *args, **kw):
        return self.bench.peer(name, [a.replace("{src}", self.path(real)) for a in argv], real,
                               *args, **kw)


class Straight:
    """No staging: the slow directory itself."""

    def __init__(self, name, path):
        self.name, self.path = name, path

    def begin(self):
        return self.path

    def end(self):
        pass


class Staging:
    """A job that stages; sub: what is read in what is staged."""

    def __init__(self, name, bench, source, sub=""):
        self.name, self.bench, self.source, self.sub = name, bench, source, sub

    def begin(self):
        self.job = Job(self.bench.installed, "x=" + self.source)
        self.job.start()
        self.job.wait()
        return os.path.join(self.job.path("x"), self.sub) if self.sub else self.job.path("x")

    def end(self):
        self.job.clean()


class Command:
    """What users type; {to} in argv is a directory in memory."""

    def __init__(self, name, argv, sub=""):
        self.name, self.argv, self.sub = name, argv, sub

    def begin(self):
        fresh_shm()
        to = SHM + "/peer"
        os.mkdir(to, 0o700)
        os.chown(to, AS_USER["user"], AS_USER["group"])
        timed([a.replace("{to}", to) for a in self.argv], cwd=to)
        return os.path.join(to, self.sub)

    def end(self):
        fresh_shm()


class Mount:
    """Debian's squashfuse on a slow image. Root mounts, where users may not open /dev/fuse."""

    def __init__(self, name, image):
        self.name, self.image, self.to = name, image, TOP + "/image"

    def begin(self):
        os.makedirs(self.to, exist_ok=True)
        sh("squashfuse_ll", "-o", "ro,allow_other", self.image, self.to)
        return self.to

    def end(self):
        for _ in range(100):
            if subprocess.run(["umount", self.to], stderr=subprocess.DEVNULL).returncode == 0:
                return
            time.sleep(0.05)
        raise Failed(self.to + " can't be unmounted")


def has(program):
    return shutil.which(program) is not None
