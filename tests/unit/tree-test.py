#!/usr/bin/env python3
"""Which folder includes which: the tables below are the plan of the tree, and EXCEPTIONS what does not follow it yet, which may
only become fewer. Each header of another project is included by one folder or file, files have names of their own, tests/unit
mirrors the folders, and CONTRIBUTING.md names them. Argument: the source directory.

Each was seen failing: with an #include of a folder above, of curl/curl.h elsewhere and of a header that nobody knows, without
an exception and with one too many, with two files of one name, with a folder that is in no table, and without sources."""
import os
import re
import sys
import unittest

TOP = os.path.abspath(next((a for a in sys.argv[1:] if not a.startswith("-")), "."))
PARTS = ("client", "common", "daemon", "spank")

# In common/ each may include those in front of it.
COMMON = ["common/" + name for name in ("util", "sandbox", "slurm", "protocol", "keep", "dataset", "config", "policy")]
ENGINES = ["daemon/engines/" + name for name in ("copy", "archive", "image", "web")]
WORKER = ["daemon/worker" + name for name in ("", "/schemes", "/spread", "/stagers", "/web")]


def common(*names):
    return ["common/" + name for name in names]


ALLOWED = {folder: COMMON[:i] for i, folder in enumerate(COMMON)} | {
    "client": COMMON,
    "spank": common("util", "slurm", "protocol", "dataset", "config", "policy"),
    "daemon/keeper": common("util", "protocol"),
    "daemon/manager": common("util", "sandbox", "slurm", "protocol", "config", "policy"),
    "daemon/helper": common("util", "slurm", "protocol", "keep", "config", "policy"),
    "daemon/stagingd": COMMON,
    "daemon/broadcast": common("util", "protocol"),
    "daemon/fetch": [*common("util", "sandbox", "protocol"), "daemon/engines/web"],
    "daemon/mover": [*common("util", "dataset"), "daemon/engines/copy"],
    "daemon/engines/copy": common("util", "dataset"),
    "daemon/engines/archive": [*common("util", "sandbox", "dataset"), "daemon/engines/copy"],
    "daemon/engines/image": [*common("util", "sandbox", "dataset"), "daemon/engines/copy"],
    "daemon/engines/web": common("util"),
} | {folder: [*COMMON, *ENGINES, *WORKER] for folder in WORKER}

# Header of another project, the folder or file that knows it
OTHERS = {
    "archive.h": ["daemon/engines/archive/archive-late.c", "daemon/engines/archive/decode.c"],
    "archive_entry.h": ["daemon/engines/archive/archive-late.c", "daemon/engines/archive/decode.c"],
    "curl/": ["daemon/fetch/http-get.c"],
    "fuse_lowlevel.h": ["daemon/engines/image"],
    "ini.h": ["common/config/conf-parse.c"],
    "isa-l/": ["daemon/engines/archive/inflate-isal.c"],
    "libdeflate.h": ["daemon/engines/image/sqfs-codec.c"],
    "lz4.h": ["daemon/engines/archive/unlz4.c"],
    "nettle/": ["daemon/engines/copy/hash.c", "daemon/fetch/s3-sign.c"],
    "slurm/": ["spank/slurm-compat.h"],
    "squashfuse/": ["daemon/engines/image/sqfs-codec.c"],
    "xxhash.h": ["daemon/engines/archive", "daemon/mover/sum-xxh.c"],
    "zlib.h": ["daemon/engines/archive/inflate-zlib.c"],
    "zstd.h": ["daemon/engines/archive/unzstd.c", "daemon/engines/image/sqfs-codec.c"],
    "zstd_errors.h": ["daemon/engines/archive/unzstd.c"],
}
# libc's and the kernel's
SYSTEM = re.compile(r"(arpa|asm|linux|net|netinet|sys)/\w+\.h")
LIBC = {name + ".h" for name in (
    "assert ctype dirent dlfcn elf endian err errno fcntl float fnmatch ftw getopt glob grp inttypes limits locale malloc math mntent "
    "netdb poll pthread pwd sched search semaphore setjmp signal spawn stdarg stdatomic stdbool stddef stdint stdio stdlib string "
    "strings syslog termios time unistd utime wchar").split()}

# What does not follow the tables yet
EXCEPTIONS = {
    "common/slurm/jobgroup.c": ["common/protocol/keeper-acts.h"],
    "daemon/engines/archive/seek-file.c": ["daemon/worker/ctx.h"],
    "daemon/engines/archive/stream-file.c": ["daemon/worker/ctx.h"],
    "daemon/engines/archive/stream-read-ahead.c": ["daemon/worker/ctx.h"],
    "daemon/engines/archive/untar-levels.c": ["daemon/worker/ctx.h", "daemon/worker/mend.h"],
    "daemon/engines/archive/untar-queue.c": ["daemon/worker/ctx.h"],
    "daemon/engines/archive/untar-writers.c": ["daemon/worker/ctx.h"],
    "daemon/engines/copy/copy-dir.c": ["daemon/worker/ctx.h"],
    "daemon/engines/copy/copy-engine.c": ["daemon/worker/ctx.h", "daemon/worker/source.h"],
    "daemon/engines/copy/copy-entry.c": ["daemon/worker/ctx.h", "daemon/worker/source.h"],
    "daemon/engines/copy/copy-file.c": ["daemon/worker/ctx.h"],
    "daemon/engines/copy/copy-pace.c": ["daemon/worker/policy.h"],
    "daemon/engines/copy/copy-ranges.c": ["daemon/worker/ctx.h"],
    "daemon/engines/copy/copy-recheck.c": ["daemon/worker/ctx.h", "daemon/worker/source.h"],
    "daemon/engines/copy/copy-report.c": ["daemon/worker/ctx.h"],
    "daemon/engines/copy/tree-dirs.c": ["daemon/worker/ctx.h"],
    "daemon/engines/copy/tree.c": ["daemon/worker/ctx.h"],
    "daemon/engines/copy/walk.c": ["daemon/worker/ctx.h"],
    "daemon/engines/image/sqfs-content.c": ["daemon/worker/ctx.h"],
    "daemon/engines/image/sqfs-extract-files.c": ["daemon/worker/ctx.h"],
    "daemon/engines/image/sqfs-extract-once.c": ["daemon/worker/ctx.h"],
    "daemon/engines/image/sqfs-extract.c": ["daemon/worker/ctx.h"],
    "daemon/engines/image/sqfs-hydrate.c": ["daemon/worker/ctx.h"],
    "daemon/fetch/fetch-main.c": ["daemon/worker/web/fetch.h"],
    "daemon/fetch/fetch-serve.c": ["daemon/worker/web/fetch.h"],
    "daemon/helper/main.c": ["daemon/manager/steward.h"],
    "daemon/mover/ctx.c": ["daemon/worker/ctx.h"],
    "daemon/mover/move.h": ["daemon/worker/ctx.h"],
    "daemon/worker/web/fetch.h": ["daemon/fetch/http-get.h"],
}
# Names that two files have yet; those in OWN_NAMES are words of the user's, and main.c is every program's.
SAME_NAMES = {"acts.c", "ctx.c", "filter.c", "filter.h", "hand.h", "launch.c", "launch.h", "metrics.c", "plan.c", "plan.h",
              "progress.c", "progress.h", "stage.c", "stage.h"}
OWN_NAMES = ("daemon/worker/schemes", "daemon/worker/stagers")


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        return f.read()


def find_sources(*parts):
    for part in parts:
        for at, _, names in os.walk(os.path.join(TOP, part)):
            yield from (os.path.relpath(os.path.join(at, name), TOP) for name in names if name.endswith((".c", ".h", ".c.in")))


class Tree(unittest.TestCase):
    def setUp(self):
        self.sources = sorted(find_sources(*PARTS))
        self.assertGreater(len(self.sources), 500)
        self.folders = {os.path.dirname(source) for source in self.sources}

    def includes(self, mark, end):
        found = [(source, name) for source in self.sources
                 for name in re.findall(rf"^\s*#\s*include\s*{mark}([^{end}\n]*){end}", read(source), re.M)]
        self.assertGreater(len(found), 1000)
        return found

    def test_each_folder_is_in_the_table(self):
        self.assertEqual(self.folders, set(ALLOWED))

    def test_a_folder_includes_what_it_may(self):
        unused = {(source, name) for source, names in EXCEPTIONS.items() for name in names}
        for source, name in self.includes('"', '"'):
            at, of = os.path.dirname(source), os.path.dirname(name)
            if name == "stage-build.h":     # written by meson
                continue
            with self.subTest(source):
                self.assertTrue(os.path.exists(os.path.join(TOP, name)), f"{name} is not there: paths begin at the top")
                if at != of and of not in ALLOWED[at]:
                    self.assertIn(name, EXCEPTIONS.get(source, []), f"{at}/ may not include what is in {of}/")
                    unused.discard((source, name))
        self.assertEqual(unused, set(), "exceptions that are none any more: take them out")

    def test_headers_of_others_are_included_where_they_are_known(self):
        for source, name in self.includes("<", ">"):
            if name in LIBC or SYSTEM.fullmatch(name):
                continue
            knows = OTHERS.get(name) or OTHERS.get(name.split("/")[0] + "/")
            with self.subTest(source):
                self.assertIsNotNone(knows, f"<{name}> is neither libc's nor in OTHERS")
                self.assertTrue(source in knows or os.path.dirname(source) in knows, f"<{name}> is for {', '.join(knows)}")

    def test_a_name_is_one_files(self):
        names = [os.path.basename(source) for source in self.sources if os.path.dirname(source) not in OWN_NAMES]
        self.assertEqual({name for name in names if names.count(name) > 1} - {"main.c"}, SAME_NAMES)

    def test_unit_tests_are_in_folders_as_the_sources_are(self):
        tests = [test for test in find_sources("tests/unit") if os.path.basename(test).startswith("test-")]
        self.assertGreater(len(tests), 50)
        for test in tests:
            self.assertIn(os.path.relpath(os.path.dirname(test), "tests/unit"), self.folders | {"common"}, test)

    def test_the_map_names_each_folder(self):
        text = read("CONTRIBUTING.md")
        for folder in self.folders:
            self.assertTrue(f"| `{folder}/` |" in text, f"CONTRIBUTING.md: {folder}/ has no line")
        for folder in re.findall(r"^\| `((?:client|common|daemon|spank)[\w/]*)/` \|", text, re.M):
            self.assertTrue(os.path.isdir(os.path.join(TOP, folder)), f"CONTRIBUTING.md: {folder}/ is not there")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
