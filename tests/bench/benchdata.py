"""The data that is staged: always the same, made once below a directory and kept there.

	A   14,000 files of 20 to 200 KB that don't compress, like pictures, in 1,000 directories
	B   200,000 files of 1 to 4 KB of text in 200 directories
	C   2 files of 1.1 GB
	D   48 files of 16 MB of text, which compresses three times
	E   one file of 400 MB of text
	F   one file of a few bytes

A quick run has less of each (SIZES). get("A"), get("B.tar.zst"), get("A.gzip.sqsh") return the path
of a tree, an archive, an image, get("files-1000.tar") of the archive of a tree that data_files()
makes.
"""
import os
import random
import shutil
import subprocess
import sys

SIZES = {
    "full": {"A": (1000, 14), "B": (200, 1000), "C": (2, 1_100_000_000), "D": (48, 16_000_000),
             "E": (1, 400_000_000), "F": (1, 10)},
    "quick": {"A": (100, 14), "B": (20, 1000), "C": (2, 110_000_000), "D": (6, 16_000_000),
              "E": (1, 80_000_000), "F": (1, 10)},
}
VERSION = "1"  # of what is made: another one makes everything again
MTIME = 1_600_000_000
NOISE = 64 << 20
PACKERS = {
    "gz": ["gzip", "-n"], "zst": ["zstd", "-q", "-3", "-T0"], "lz4": ["lz4", "-q"],
    "xz": ["xz", "-1", "-T0"],
}


class Data:
    def __init__(self, top, quick=False, log=None):
        self.kind = "quick" if quick else "full"
        self.top = os.path.join(top, self.kind)
        self.log = log or (lambda text: print(text, file=sys.stderr))
        self.noise = self.text = None
        os.makedirs(self.top, exist_ok=True)
        os.chmod(self.top, 0o755)
        self.forget_other_version()

    def forget_other_version(self):
        stamp = os.path.join(self.top, "version")
        if os.path.exists(stamp) and open(stamp).read() == VERSION:
            return
        for entry in os.scandir(self.top):
            shutil.rmtree(entry) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)
        with open(stamp, "w") as f:
            f.write(VERSION)

    def size(self, name):
        return SIZES[self.kind][name]

    def n_files(self, name):
        n, each = self.size(name)
        return n * each if name in "AB" else n

    def get(self, name):
        """The path of what has that name; made when it is not there."""
        path = os.path.join(self.top, name)
        if os.path.exists(path):
            return path
        self.log(f"making {name}")
        tmp = os.path.join(self.top, ".making-" + name)
        shutil.rmtree(tmp, ignore_errors=True)
        os.makedirs(tmp)
        old = os.umask(0o022)
        self.make(name, os.path.join(tmp, name))
        os.umask(old)
        os.rename(os.path.join(tmp, name), path)
        os.rmdir(tmp)
        return path

    def make(self, name, path):
        tree, _, form = name.partition(".")
        if name.endswith(".sqsh"):
            run("mksquashfs", self.get(tree), path, "-comp", form.split(".")[0], "-no-progress",
                "-quiet", "-no-exports", "-all-time", str(MTIME), "-mkfs-time", str(MTIME))
        elif form == "tar":
            run("tar", "--sort=name", "--numeric-owner", "-C", self.top, "-cf", path,
                os.path.basename(self.get(tree)))
        elif form.startswith("tar."):
            with open(self.get(tree + ".tar"), "rb") as src, open(path, "wb") as dst:
                run(*PACKERS[form[4:]], "-c", stdin=src, stdout=dst)
        elif name.startswith("files-"):
            self.make_files(path, int(name[6:]))
        elif name.startswith("bytes-"):
            self.make_big(path, int(name[6:]), int(name[6:]))
        else:
            getattr(self, "make_" + name)(path)

    def stuff(self):
        """Noise and text to cut pieces from."""
        if not self.noise:
            rng = random.Random(7)
            self.noise = rng.randbytes(NOISE)
            words = [bytes(rng.choices(b"abcdefghijklmnopqrstuvwxyz ", k=rng.randint(3, 9)))
                     for _ in range(3000)]
            self.text = b" ".join(rng.choices(words, k=3_000_000))

    def make_dirs(self, path, n_dirs, n_each, source, low, high, seed):
        self.stuff()
        source = getattr(self, source)
        rng = random.Random(seed)
        for d in range(n_dirs):
            top = f"{path}/d{d:04}"
            os.makedirs(top)
            for i in range(n_each):
                n = rng.randint(low, high)
                at = rng.randrange(len(source) - n)
                with open(f"{top}/f{i:04}", "wb") as f:
                    f.write(source[at:at + n])

    def make_A(self, path):
        self.make_dirs(path, *self.size("A"), "noise", 20_000, 200_000, 1)

    def make_B(self, path):
        self.make_dirs(path, *self.size("B"), "text", 1_000, 4_000, 2)

    def make_C(self, path):
        n, size = self.size("C")
        os.makedirs(path)
        for i in range(n):
            self.make_big(f"{path}/big{i}.h5", size, i)

    def make_D(self, path, name="D"):
        self.stuff()
        n, size = self.size(name)
        rng = random.Random(name)
        os.makedirs(path)
        for i in range(n):
            at = rng.randrange(len(self.text))
            with open(f"{path}/t{i:02}.csv", "wb") as f:
                f.write((self.text[at:] + self.text * (size // len(self.text) + 1))[:size])

    def make_E(self, path):
        self.make_D(path, "E")

    def make_F(self, path):
        self.make_D(path, "F")

    def make_files(self, path, n):
        """n files of 1 to 4 KB, 1,000 in a directory."""
        self.make_dirs(path, max(1, n // 1000), min(n, 1000), "text", 1_000, 4_000, n)

    def make_big(self, path, size, seed):
        """The noise again and again, each time from another byte on."""
        self.stuff()
        rng = random.Random(seed)
        view = memoryview(self.noise)
        with open(path, "wb") as f:
            left = size
            while left:
                at = rng.randrange(NOISE // 2)
                left -= f.write(view[at:at + min(left, NOISE // 2)])


def run(*argv, **kw):
    kw.setdefault("stdout", subprocess.DEVNULL)
    subprocess.run(argv, check=True, **kw)
