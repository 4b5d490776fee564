#!/usr/bin/env python3
"""Numbers that the documents name are those of the code and of the measurements. Argument: the
source directory.

A number that is decided in the code (a bound, a time, a default) is read from there; one that was
measured is read from docs/development/measurements.md, which is made of performance.json. What a
document says beside them must be the same, or go. Nothing counts the tests, and nothing is written
twice that common/ has once.

Each was seen failing: with the number of the document changed, and of the code, with a count of
tests, and with a second copy of the hash, of a suffix and of the parser of mountinfo."""
import glob
import os
import re
import sys
import unittest

TOP = os.path.abspath(next((a for a in sys.argv[1:] if not a.startswith("-")), "."))
DOCS = ("*.md", "docs/*.md", "docs/man/*.rst")
CONF5 = "docs/man/stage-data.conf.5.rst"
MEASUREMENTS = "docs/development/measurements.md"

# source, what stands before the number, how it is told; then: document, its sentence with the
# number as a group
DECIDED = [
    ("memory-limits.h", r"#define MEMORY_LIMITS_JOB_SHARE ", int,
     [("docs/man/stage-data.7.rst", r"at most (\d+) % of the job's memory, minus"),
      ("docs/user.md", r"is (\d+) % of `--mem`, minus what"),
      ("docs/troubleshooting.md", r"datasets get at most (\d+) % of the job's memory")]),
    ("prolog-epilog-waits.h", r"#define KEEPER_CALL_CLEAN_WAIT_MS ", lambda ms: ms // 1000,
     [(CONF5, r"The epilog waits at most (\d+) seconds"), (CONF5, r"keep it above (\d+) seconds"),
      ("docs/man/stagingd.8.rst", r"The epilog waits at most (\d+) seconds"),
      ("docs/admin.md", r"\*\*The epilog waits at most (\d+) seconds\.\*\*")]),
    # keeper_call_clean() has the clean-up kill a keeper a second before
    ("prolog-epilog-waits.h", r"#define KEEPER_CALL_CLEAN_WAIT_MS ", lambda ms: ms // 1000 - 1,
     [(CONF5, r"has not ended after (\d+) seconds"),
      ("docs/man/stagingd.8.rst", r"after (\d+) seconds it kills the keeper")]),
    ("prolog-epilog-waits.h", r"#define KEEPER_CALL_RUN_WAIT_MS ", int,
     [("docs/admin.md", r"less than 100 ms \(test\), (\d+) ms at most"),
      ("docs/admin.md", r"that run as root wait at most (\d+) ms")]),
    ("fetch-concurrency.h", r"#define FETCH_CONCURRENCY_USUAL ", int, [(CONF5, r"up to (\d+) connections")]),
    ("fetch-concurrency.h", r"#define FETCH_CONCURRENCY_MAX ", int,
     [(CONF5, r"A number above (\d+) counts as 64"), (CONF5, r"A number above 64 counts as (\d+)")]),
    ("copy-concurrency.h", r"#define COPY_CONCURRENCY_MAX ", int,
     [(CONF5, r"two, and up to (\d+) if"), (CONF5, r"A number above 64 counts as (\d+)")]),
    ("stream-read-ahead.c", r"#define READ_THREADS ", int, [(CONF5, r"Up to (\d+) parts of it are read ahead")]),
    ("archive-open.c", r"#define OPEN_READERS ", int, [(CONF5, r"0 means (\d+), and a number above 32")]),
    ("archive-open.c", r"#define OPEN_MAX_READERS ", int,
     [(CONF5, r"and a number above (\d+) counts as 32"), (CONF5, r"and a number above 32 counts as (\d+)")]),
    ("ctx-task.c", r"#define CTX_DEFAULT_THREADS ", int, [(CONF5, r"CPUs on the node, at\s+most (\d+)")]),
    ("ctx-task.c", r"#define CTX_MAX_THREADS ", int,
     [(CONF5, r"A number\s+above (\d+) counts as 256"), (CONF5, r"A number\s+above 256 counts as (\d+)")]),
    ("job-memory.c", r"#define FIRST \(", int, [("docs/admin.md", r"each keeps (\d+) MiB; a server")]),
    ("job-memory.c", r"#define LEAST \(", int, [("docs/admin.md", r"and at least (\d+) MiB \(or 16 blocks")]),
    ("job-memory.c", r"#define BESIDE \(", int,
     [("docs/admin.md", r"server needs about\s+(\d+) MiB"), ("docs/troubleshooting.md", r"and about (\d+) MiB more")]),
]

TAR = r"^\| plain tar, 14,000 images \| ([\d.]+) "
GNU_TAR = r"^\| plain tar, 14,000 images \|.*\| GNU tar \| ([\d.]+) "
RANDOM = r"^\| 4,000 random files, images, gzip, 8 readers \| ([\d.]+) "
RANDOM_PEER = r"^\| 4,000 random files, images, gzip, 8 readers \|.*\| squashfuse_ll \| ([\d.]+) "
LIST = r"^\| find -ls, 200,000 files \| ([\d.]+) "
LIST_PEER = r"^\| find -ls, 200,000 files \|.*\| squashfuse_ll \| ([\d.]+) "
MOUNT = r"^\| mount to first readdir, 200,200 entries.*?\| ([\d.]+) "
MOUNT_PEER = r"^\| mount to first readdir, 200,200 entries.*\| squashfuse_ll \| ([\d.]+) "

# document, its sentence; the first line of measurements.md that fits. As many digits as the
# document has.
MEASURED = [
    ("README.md", r"^\| extract a tar of 14,000 files .*?\| ([\d.]+) s", TAR),
    ("README.md", r"^\| extract a tar of 14,000 files .*\| ([\d.]+) s, GNU", GNU_TAR),
    ("README.md", r"^\| read 4,000 random files .*?\| ([\d.]+) s", RANDOM),
    ("README.md", r"^\| read 4,000 random files .*\| ([\d.]+) s, squash", RANDOM_PEER),
    ("README.md", r"^\| list 200,000 files .*?\| ([\d.]+) s", LIST),
    ("README.md", r"^\| list 200,000 files .*\| ([\d.]+) s, squash", LIST_PEER),
    ("README.md", r"^\| mount an image of 200,200 entries and .*?\| ([\d.]+) ms", MOUNT),
    ("README.md", r"^\| mount an image of 200,200 entries and .*\| ([\d.]+) ms, squash", MOUNT_PEER),
    ("docs/comparison.md", r"14,000 files was extracted in ([\d.]+) s", TAR),
    ("docs/comparison.md", r"by GNU tar in ([\d.]+) s", GNU_TAR),
    ("docs/comparison.md", r"was copied\s+in ([\d.]+) s", r"^\| tree, 14,000 images \| ([\d.]+) "),
    ("docs/comparison.md", r"by `cp -r` in ([\d.]+) s", r"^\| tree, 14,000 images \|.*\| cp -r \| ([\d.]+) "),
    ("docs/comparison.md", r"was ready in ([\d.]+) ms", MOUNT_PEER),
    ("docs/comparison.md", r"needs ([\d.]+) ms", MOUNT),
    ("docs/comparison.md", r"were read in ([\d.]+) s", RANDOM),
    ("docs/comparison.md", r"with squashfuse_ll in ([\d.]+) s", RANDOM_PEER),
    ("docs/admin.md", r"start of the first dataset \| about ([\d.]+) ms", r"A start takes about ([\d.]+) ms"),
    ("docs/admin.md", r"one dataset \| ([\d.]+) and [\d.]+ MiB of", r"^\| stage-keeper, one dataset \(\d\) \| ([\d.]+) "),
    ("docs/admin.md", r"one dataset \| [\d.]+ and ([\d.]+) MiB of", r"^\| stagingd, one dataset \(\d\) \| ([\d.]+) "),
    ("docs/admin.md", r"RSS ([\d.]+) and [\d.]+ MiB", r"stage-keeper, one dataset: RSS ([\d.]+) "),
    ("docs/admin.md", r"RSS [\d.]+ and ([\d.]+) MiB", r"stagingd, one dataset: RSS ([\d.]+) "),
    ("docs/admin.md", r"from ([\d.]+) MiB \(a tree\)", r"^\| stage-worker, a tree of 1,000 files \| ([\d.]+) "),
    ("docs/admin.md", r"to ([\d.]+) MiB \(an image, ", r"^\| stage-worker, an image of tiny files, extracted \| ([\d.]+) "),
    ("docs/admin.md", r"([\d.]+) MiB of the job's memory with 8", r"^\| stage-worker, .* served to 8 readers.*?\| ([\d.]+) "),
    ("docs/admin.md", r"with 9 GB in memory \| ([\d.]+) s longer than", r"^\| 9 GB, more than without staging \| ([\d.]+) "),
    ("docs/admin.md", r"1,000,000 files in memory \| ([\d.]+) s longer than", r"^\| 1,000,000 files, more than without staging \| ([\d.]+) "),
    ("docs/admin.md", r"9 GB in memory \|.*? memory is free ([\d.]+) s after the node", r"memory of 9 GB is free ([\d.]+) s"),
    ("docs/admin.md", r"1,000,000 files in memory \|.*? memory is free ([\d.]+) s after the node", r"memory of 1,000,000 files is free ([\d.]+) s"),
    ("docs/admin.md", r"([\d.]+) % while a tar.zst is staged", r"while a tar.zst is staged\.\*\* The program of the other\s+job was ([\d.]+) % slower"),
]


def read(path):
    with open(os.path.join(TOP, path)) as f:
        return f.read()


def documents():
    for pattern in DOCS:
        for path in sorted(glob.glob(os.path.join(TOP, pattern))):
            yield os.path.relpath(path, TOP)


def sources():
    for folder in ("client", "common", "daemon", "spank"):
        for path in sorted(glob.glob(os.path.join(TOP, folder, "**", "*.[ch]"), recursive=True)):
            yield os.path.relpath(path, TOP)


def find_source(name, pattern):
    """The source of that name, in whatever folder, that has the pattern."""
    found = [path for path in sources() if os.path.basename(path) == name and re.search(pattern, read(path), re.M)]
    return found[0] if len(found) == 1 else f"{len(found)} sources {name} with {pattern}"


class NumbersTest(unittest.TestCase):
    def find(self, path, pattern):
        """A sentence of a document may be broken into lines anywhere."""
        broken = pattern if path == MEASUREMENTS else re.sub(r" (?![*?+])", r"\\s+", pattern)
        found = re.findall(broken, read(path), re.M)
        self.assertTrue(found, f"{path}: nothing like {pattern}")
        return found

    def test_what_is_decided_in_the_code(self):
        for source, before, tell, said in DECIDED:
            numbers = self.find(find_source(source, before), before + r"(?:\s*\\\n\s*)?(\d+)")
            self.assertEqual(len(numbers), 1, f"{source}: {before}")
            for document, pattern in said:
                for number in self.find(document, pattern):
                    with self.subTest(f"{document}: {pattern}"):
                        self.assertEqual(int(number), tell(int(numbers[0])), f"{source}: {before}")

    def test_what_was_measured(self):
        for document, pattern, line in MEASURED:
            measured = self.find(MEASUREMENTS, line)
            for number in self.find(document, pattern):
                digits = len(number.partition(".")[2])
                with self.subTest(f"{document}: {pattern}"):
                    self.assertAlmostEqual(float(number), round(float(measured[0]), digits), digits, line)

    def test_defaults_of_keys(self):
        """Where a text names a key with its value: *MaxMemoryPercent*, 50 % by default, and
        `CacheSize` (64 MiB by default)."""
        keys = dict(re.findall(r'^\t\{ "\w+", "(\w+)", "\w+", "([^"]*)",', read(find_source("conf-keys.c", "MaxItems")), re.M))
        self.assertGreater(len(keys), 40)
        n_found = 0
        for path in documents():
            for key, value, unit in re.findall(r"[`*](\w+)=?[`*]{1,2},? \(?(\d+) ?(%|[KMGT]i?B?|ms|s|m)?"
                                               r"(?: by default[),]|\))", read(path)):
                if key in keys:
                    n_found += 1
                    with self.subTest(f"{path}: {key}"):
                        self.assertEqual(value + re.sub(r"%|(?<=[KMGT])i?B", "", unit), keys[key])
        self.assertGreater(n_found, 2)

    def test_the_example_with_imagenet_has_room_for_it(self):
        """What a job asks for in memory times the share that datasets may use is the size at
        least."""
        share = int(re.search(r'"MaxMemoryPercent", "\w+", "(\d+)"', read(find_source("conf-keys.c", "MaxItems"))).group(1))
        size = int(re.search(r"ImageNet's training tar has (\d+) GiB", read("docs/examples/nested.sh")).group(1))
        for path, pattern in ("docs/examples/nested.sh", r"--mem=(\d+)G"), ("docs/user.md", r"file=nested.sh[^`]*?--mem=(\d+)G"):
            with self.subTest(path):
                self.assertGreaterEqual(int(re.search(pattern, read(path)).group(1)) * share // 100, size)

    def test_nothing_counts_the_tests(self):
        for path in documents():
            found = re.findall(r"\b\d{2,} (?:of the )?(?:\w+ )?tests\b(?! passed)", read(path))
            self.assertEqual(found, [], path)

    def test_nothing_is_written_twice(self):
        once = {
            r"(?i)0x0*100000001b3|1099511628211|cbf29ce484222325": ["fnv.h"],
            r"\.sqfs\"|\.squashfs\"|\.tzst\"": ["suffix.c"],
            # root's code reads two numbers that a line begins with, by the mount's id, and no names
            r"sscanf\(\w+, \"%\*(?:s|\[0-9\]) %\*[su]": ["mountinfo.c"],
        }
        for pattern, places in once.items():
            found = [os.path.basename(path) for path in sources() if re.search(pattern, read(path))]
            self.assertEqual(found, places, pattern)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
