#!/usr/bin/env python3
"""Which folder includes which: the tables below are the plan of the tree. Each header of another
project is included by one folder or file, files have names of their own, tests/unit mirrors the
folders, and CONTRIBUTING.md names them. Sources are formatted by clang-format, and their lines,
functions and files are short. Files that call each other in a circle are in the list CIRCLES.
Arguments: the source directory, and that of the build, whose objects tell who calls whom.

Each was seen failing: with an #include of a folder above, of curl/curl.h elsewhere and of a header
that nobody knows, with two files of one name, with a folder that is in no table, without sources,
and with a file in CONTRIBUTING.md that is not there, with a blank too many, a line of 101 columns,
a function of 61 lines, a file of 501 and one more file of 79, with a circle that is not in the
list, one file too many and one too few in a circle of it, without objects, with a nested
conditional expression in root's code and in another line, and with a comment of 101 columns in a
script and in a module, and with a line of 101 columns in a meson.build."""
import ast
import functools
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

TOP, BUILD = map(os.path.abspath, [a for a in sys.argv[1:] if not a.startswith("-")][:2])
PARTS = ("client", "common", "daemon", "spank")

# In common/ each may include those in front of it.
COMMON = ["common/" + name for name in ("util", "sandbox", "slurm", "protocol", "keep", "dataset", "config", "policy")]
ENGINES = ["daemon/engines/" + name for name in ("copy", "archive", "image", "web")]
WORKER = ["daemon/worker" + name for name in ("", "/broadcast", "/schemes", "/stagers", "/web")]

def common(*names):
    return ["common/" + name for name in names]

ALLOWED = {folder: COMMON[:i] for i, folder in enumerate(COMMON)} | {
    "client": COMMON,
    "spank": common("util", "slurm", "protocol", "dataset", "config", "policy"),
    "daemon/keeper": common("util", "protocol"),
    "daemon/manager": common("util", "sandbox", "slurm", "protocol", "config", "policy"),
    # stage-helper is the manager, too: its main() calls the manager's.
    "daemon/helper": [*common("util", "slurm", "protocol", "keep", "config", "policy"), "daemon/manager"],
    "daemon/stagingd": COMMON,
    "daemon/broadcast": common("util", "protocol"),
    "daemon/fetch": [*common("util", "sandbox", "protocol"), "daemon/engines/web"],
    "daemon/index": [*common("util", "dataset"), "daemon/engines/archive"],
    "daemon/slurm": common("util", "slurm"),
    "daemon/mover": [*common("util", "dataset"), "daemon/engines/copy"],
    "daemon/engines/copy": common("util", "dataset"),
    "daemon/engines/archive": [*common("util", "sandbox", "dataset"), "daemon/engines/copy"],
    "daemon/engines/image": [*common("util", "sandbox", "dataset"), "daemon/engines/copy", "daemon/engines/archive"],
    "daemon/engines/web": common("util"),
} | {folder: [*COMMON, *ENGINES, *WORKER] for folder in WORKER}

# Header of another project, the folder or file that knows it
OTHERS = {
    "archive.h": ["daemon/engines/archive/archive-late.c", "daemon/engines/archive/decode-stream.c", "daemon/engines/archive/decode.c"],
    "archive_entry.h": ["daemon/engines/archive/archive-late.c", "daemon/engines/archive/decode-stream.c", "daemon/engines/archive/decode.c"],
    "curl/": ["daemon/fetch/http-exchange.c", "daemon/fetch/http-get.c"],
    "fuse_lowlevel.h": ["daemon/engines/image"],
    "ini.h": ["common/config/conf-parse.c"],
    "isa-l/": ["daemon/engines/archive/inflate-isal.c"],
    "libdeflate.h": ["daemon/engines/image/sqfs-codec.c"],
    "lz4.h": ["daemon/engines/archive/unlz4.c"],
    "nettle/": ["daemon/engines/copy/hash.c", "daemon/fetch/s3-sign.c"],
    "slurm/": ["daemon/slurm", "spank/slurm-compat.h"],
    "squashfuse/": ["daemon/engines/image/sqfs-codec.c"],
    "xxhash.h": ["daemon/engines/archive", "daemon/mover/sum.c"],
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

# Files of a folder that call each other in a circle yet: no circle may get more files, and there
# may be no other.
CIRCLES = [
    # An image has an index of its directories, which is read by the image's own cursor.
    ("daemon/engines/image", "sqfs-image sqfs-index sqfs-meta"),
    # The table names all operations, and each of them gives its answer by a function beside the
    # table.
    ("daemon/keeper", "ask privop-dir privop-dispatch privop-fuse privop-mount privop-outside privop-process"),
    # A run starts its worker, and what the worker says drives the run.
    ("daemon/stagingd", "stage-run worker-messages"),
]
CIRCLES = [{f"{folder}/{name}.c" for name in names.split()} for folder, names in CIRCLES]
MAX_LINES, MAX_FUNCTION = 500, 60
# Scripts with longer comments or doc strings yet: the list may only become shorter.
LONG_TEXTS = set("""
    tests/bench/benchepoch.py tests/bench/benchlib.py tests/bench/benchreport.py
    tests/bench/benchslow.py tests/bench/cluster-start
    tests/cluster/guide-blocks tests/cluster/hostile-actions tests/cluster/outside-of-job
    tests/cluster/process-state tests/control/fake-worker tests/control/stagectl-test.py
    tests/data/test-fixes.py tests/data/test-meant.py tests/lib/audit tests/lib/data
    tests/unit/prose-test.py tools/mutate
""".split())
ROOT = ("daemon/keeper/", "spank/keeper-call", "spank/node")
# So many .c files may have fewer than SHORT lines: one that has a clear subject is no fault, a tree
# full of them is. It may only become fewer.
SHORT, SHORT_FILES = 80, 65
# Names that two files have yet; those in OWN_NAMES are words of the user's, and main.c is every
# program's.
SAME_NAMES = set()
OWN_NAMES = ("daemon/worker/schemes", "daemon/worker/stagers")

@functools.cache
def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        return f.read()

def find_sources(*parts):
    for part in parts:
        for at, _, names in os.walk(os.path.join(TOP, part)):
            yield from (os.path.relpath(os.path.join(at, name), TOP) for name in names if name.endswith((".c", ".h", ".c.in")))

def find_scripts(*parts):
    """Path and text of what is shell or Python."""
    for part in parts:
        for at, _, names in os.walk(os.path.join(TOP, part)):
            for path in (os.path.join(at, name) for name in names):
                with open(path, "rb") as f:
                    data = f.read(1 << 20)
                first = data.split(b"\n")[0]
                if path.endswith((".py", ".sh")) or first.startswith(b"#!") and b"sh" in first or \
                        first.startswith(b"#!") and b"python" in first:
                    yield os.path.relpath(path, TOP), data.decode("utf-8", "replace")

def find_doc_strings(text):
    """The numbers of their lines"""
    lines = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            lines |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return lines

def find_nested(text):
    """Lines with a conditional operator in an expression that has one already, whatever is in
    brackets in it."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    text = re.sub(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|\?:", "0", text)
    line, depths, found = 1, [0], []
    for c in text:
        line += c == "\n"
        if c in "([{":
            depths.append(0)
        elif c in ")]}" and len(depths) > 1:
            depths.pop()
        if c in ";,{}":
            depths[-1] = 0
        elif c == "?":
            depths[-1] += 1
            if depths[-1] > 1:
                found.append(line)
    return found

def find_circles(calls):
    """Tarjan's: the sets of more than one name that are reached from each other."""
    number, lowest, stack, circles = {}, {}, [], []

    def visit(name):
        number[name] = lowest[name] = len(number)
        stack.append(name)
        for other in calls.get(name, ()):
            if other not in number:
                visit(other)
            if other in stack:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == number[name]:
            i = stack.index(name)
            circles.append(set(stack[i:]))
            del stack[i:]

    for name in calls:
        if name not in number:
            visit(name)
    return [circle for circle in circles if len(circle) > 1]

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
        for source, name in self.includes('"', '"'):
            at, of = os.path.dirname(source), os.path.dirname(name)
            if name == "stage-build.h":     # written by meson
                continue
            with self.subTest(source):
                self.assertTrue(os.path.exists(os.path.join(TOP, name)), f"{name} is not there: paths begin at the top")
                self.assertTrue(at == of or of in ALLOWED[at], f"{at}/ may not include what is in {of}/")

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

    def code(self):
        files = sorted({*self.sources, *find_sources("tests")})
        self.assertGreater(len(files), 700)
        return [source for source in files if not source.endswith(".in")]

    def test_sources_are_formatted(self):
        program = shutil.which("clang-format")
        if not program:
            self.assertNotIn("clang-format", os.environ.get("STAGE_TEST_MUST", ""), "it is not installed")
            self.skipTest("clang-format is not installed")
        said = subprocess.run([program, "--dry-run", "-Werror", *self.code()], cwd=TOP, capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, "clang-format -i FILE...\n" + said.stderr[:2000])

    def test_lines_fit_100_columns(self):
        """Texts in quotes stay whole, so that they can be found, and tables are lined up by
        hand."""
        for source in self.code():
            text = re.sub(r"/\* clang-format off \*/.*?/\* clang-format on \*/", lambda m: "\n" * m.group().count("\n"), read(source), flags=re.S)
            for i, line in enumerate(text.split("\n"), 1):
                self.assertFalse('"' not in line and len(line.expandtabs(8)) > 100, f"{source}:{i} has more than 100 columns")

    def test_meson_files_fit_100_columns(self):
        parts = (*PARTS, "docs", "etc", "packaging", "systemd", "tests")
        paths = [os.path.join(at, "meson.build") for part in parts for at, _, names in os.walk(os.path.join(TOP, part))
                 if "meson.build" in names]
        self.assertGreater(len(paths), 20)
        for path in [*paths, "meson.build", "meson_options.txt"]:
            long = [i for i, line in enumerate(read(path).split("\n"), 1) if len(line) > 100]
            self.assertEqual(long, [], f"{path}: lines with more than 100 columns")

    def test_texts_of_scripts_fit_100_columns(self):
        """Comments and doc strings of shell and Python; a table of options is lined up by hand."""
        n = 0
        for path, text in find_scripts("tests", "tools", "packaging", "client", "etc", "docs", "examples"):
            n += 1
            lines = {i for i, line in enumerate(text.split("\n"), 1)
                     if line.lstrip().startswith("# ")}
            if path.endswith(".py") or "python" in text.split("\n")[0]:
                lines |= find_doc_strings(text)
            long = [i for i in lines if len(text.split("\n")[i - 1].expandtabs(8)) > 100]
            with self.subTest(path):
                self.assertFalse(long and path not in LONG_TEXTS, f"lines {sorted(long)}")
                self.assertTrue(long or path not in LONG_TEXTS, "is short: take it out of LONG_TEXTS")
        self.assertGreater(n, 150)

    def test_comments_of_other_files_fit_100_columns(self):
        """Configurations and files of packages."""
        patterns = "etc/**/*.conf", "etc/*.lua", "debian/rules", "packaging/rpm/*.spec", "client/bash-completion/*"
        paths = [path for pattern in patterns for path in glob.glob(os.path.join(TOP, pattern), recursive=True)]
        self.assertGreater(len(paths), 8)
        for path in paths:
            long = [i for i, line in enumerate(read(path).split("\n"), 1)
                    if line.lstrip().startswith(("# ", "-- ")) and len(line.expandtabs(8)) > 100]
            self.assertEqual(long, [], f"{path}: comments with more than 100 columns")

    def test_files_are_short(self):
        for source in self.sources:
            with self.subTest(source):
                self.assertLessEqual(read(source).count("\n"), MAX_LINES)

    def test_the_architecture_is_short(self):
        self.assertLessEqual(read("ARCHITECTURE.md").count("\n"), 250)

    def test_few_files_are_very_short(self):
        short = [source for source in self.sources if source.endswith(".c") and read(source).count("\n") < SHORT]
        self.assertGreater(len(short), 20)
        self.assertLessEqual(len(short), SHORT_FILES, "put it to its subject, or merge others: " + " ".join(short))

    def test_functions_are_short(self):
        n = 0
        for source in self.sources:
            for body in re.findall(r"^\{\n(.*?)^\}", read(source), re.M | re.S):
                n += 1
                self.assertLessEqual(body.count("\n"), MAX_FUNCTION, f"{source}: {body[:200]}")
        self.assertGreater(n, 3000)

    def test_conditional_expressions_are_not_nested(self):
        """At most one in an expression of root's code, and in a line of the others: a chain of
        cases has a line for each case."""
        self.assertEqual(find_nested("x = a ? b : c;"), [])
        self.assertEqual(find_nested("f(a ? b : c, d ? e : f);"), [])
        self.assertEqual(find_nested("x = a ? b\n : c ? d : e;"), [2])
        self.assertEqual(find_nested("x = (a ? b : c) ? d : e;"), [])
        for source in self.sources:
            lines = find_nested(read(source))
            if not source.startswith(ROOT):
                lines = [i for i in lines if read(source).split("\n")[i - 1].count("?") > 1]
            self.assertEqual(lines, [], f"{source}: lines with nested conditional expressions")

    def objects(self):
        """Of what is installed: the object, and the source it is made of."""
        with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as f:
            made = {os.path.join(BUILD, c["output"]): os.path.relpath(os.path.join(c["directory"], c["file"]), TOP) for c in json.load(f)}
        return {out: source for out, source in made.items() if source.split("/")[0] in PARTS and os.path.exists(out)}

    def test_files_do_not_call_each_other_in_circles(self):
        objects = self.objects()
        self.assertGreater(len(objects), 300)
        made, used = {}, {}
        for line in subprocess.run(["nm", "-A", "-g", *objects], capture_output=True, text=True, check=True).stdout.splitlines():
            at, _, rest = line.rpartition(":")
            *_, kind, symbol = rest.split()
            (used if kind in "Uw" else made).setdefault(symbol, set()).add(objects[at])
        calls = {source: set() for source in objects.values()}
        for symbol, callers in used.items():
            for caller in callers:
                calls[caller] |= made.get(symbol, set()) - {caller}
        self.assertGreater(sum(map(len, calls.values())), 1500)
        circles = find_circles(calls)
        for circle in circles:
            self.assertTrue(any(circle <= known for known in CIRCLES), f"these call each other: {sorted(circle)}")
        for known in CIRCLES:
            gone = {file for file in known if not os.path.exists(os.path.join(TOP, file))}
            self.assertFalse(gone, "not there any more: take them out of CIRCLES")
            if known <= set(calls):     # a build without images lacks some
                self.assertIn(known, circles, f"smaller, or no circle any more: {sorted(known)}")

    def test_the_map_names_each_folder(self):
        text = read("CONTRIBUTING.md")
        for folder in self.folders:
            self.assertTrue(f"| `{folder}/` |" in text, f"CONTRIBUTING.md: {folder}/ has no line")
        for folder in re.findall(r"^\| `((?:client|common|daemon|spank)[\w/]*)/` \|", text, re.M):
            self.assertTrue(os.path.isdir(os.path.join(TOP, folder)), f"CONTRIBUTING.md: {folder}/ is not there")

    def test_the_files_that_it_names_are_there(self):
        """NAME, FOLDER and the like stand for any text."""
        named = re.findall(r"`((?:client|common|daemon|debian|docs|etc|packaging|spank|tests|tools)/[\w./*-]+)`", read("CONTRIBUTING.md"))
        self.assertGreater(len(named), 80)
        for name in named:
            pattern = re.sub(r"\b(NAME|TARGET|FOLDER|NN-TOPIC)\b", "*", name)
            with self.subTest(name):
                self.assertTrue(glob.glob(os.path.join(TOP, pattern)), "not there")

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
