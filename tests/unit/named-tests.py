#!/usr/bin/env python3
"""Each test that docs/faults.md, docs/bad-inputs.md, docs/attacks.md and tests/cluster/mistakes
name is there, and each row of their tables names one. The mistakes fit the sources, and
tools/mutate has sources. Commands and output in the documents for users and administrators are
typed or made by a test. Argument: the source directory.

`…` and `*` stand for any text. A row may say "the same", or name a manual page for what is no
matter of a test.

Each was seen failing: with a row that names none, with names in a row, in the text and of a mistake
that are not there, with a mistake for text that is gone, with a part of one that changes nothing,
and with a source in tools/mutate that is gone; with a new block, one that is typed in a document
that no test types, a row for a block that is gone, and a row that names no test."""
import fnmatch
import glob
import os
import re
import subprocess
import sys
import unittest

import docutils.core
import docutils.nodes

TOP = os.path.abspath(next((a for a in sys.argv[1:] if not a.startswith("-")), "."))
DOCS = ("docs/faults.md", "docs/bad-inputs.md", "docs/attacks.md")
DEFINITION = re.compile(r"^\s*(?:static void |def |)(test_\w+)\s*\(", re.M)
GUIDES = ("README.md", "docs/getting-started.md", "docs/getting-started-admin.md", "docs/user.md", "docs/admin.md",
          "docs/troubleshooting.md", "docs/packages.md", "docs/performance.md", "docs/attacks.md")
MOST_NOT_TRIED = 6  # may only shrink
COMMAND = re.compile(r"(?:[`*(]|\bsudo |\$ |\bsrun |^ *)stagectl\s+([a-z][a-z-]+)([^\n`|;&)]*)", re.M)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
NO_TEST = re.compile(r"the same|[a-z-]+\(\d\)")


def read(path):
    with open(os.path.join(TOP, path)) as f:
        return f.read()


def files(pattern):
    for path in sorted(glob.glob(os.path.join(TOP, "tests", pattern), recursive=True)):
        yield os.path.splitext(os.path.basename(path))[0], read(path)


def all_names():
    """Of programs, of suites' tests, of functions; those of the cluster with their topic as
    well."""
    names = set()
    for topic, text in files("cluster/[0-9]*.sh"):
        found = DEFINITION.findall(text)
        names |= {topic, *found, *(f"{topic}/{name}" for name in found)}
    for stem, text in [*files("unit/**/test-*.c"), *files("data/test-*.py"), *files("control/*-test.py"), *files("fuzz/fuzz-*.c"),
                       *files("fuzz/oracle-*.c"), *files("data/squashfs-test"), *files("psslurm/*"), *files("package/[0-9]*.sh"), *files("systemd/test-units"),
                       *files("unit/named-tests.py")]:
        name = re.sub(r"^(test|fuzz|oracle)-|-test$", "", stem)
        names |= {stem, f"{stem}.py", name, *DEFINITION.findall(text), *re.findall(r"^@test\ndef (\w+)", text, re.M)}
        names |= {f"{name}-{suite.lower()}" for suite in re.findall(r"^class (\w+)\(unittest", text, re.M)}
    return names | {name + end for name in names for end in ("-4.18", "-4.18-refused")}


def rows(path):
    """The last cell of each row of a table whose last column is that of tests."""
    wanted = False
    for number, line in enumerate(read(path).splitlines(), 1):
        cells = [c.strip() for c in line.strip().strip("|").split(" | ")]
        if not line.startswith("|"):
            wanted = False
        elif cells[-1] == "test":
            wanted = True
        elif wanted and not line.startswith("|--"):
            yield number, cells[-1]


def blocks():
    """(document, first line) of each block of commands or output that tests/cluster/98-guides.sh
    does not type as it stands."""
    typed = re.findall(r"^\ttype_guide ([\w-]+)", read("tests/cluster/98-guides.sh"), re.M)
    for path in GUIDES:
        for info, text in re.findall(r"^ *```([^\n]*)\n(.*?)^ *```$", read(path), re.M | re.S):
            if not (info.startswith(("bash ", "ini ")) and os.path.basename(path)[:-3] in typed):
                yield path, text.splitlines()[0].strip()
    for path in sorted(glob.glob(os.path.join(TOP, "docs/man/*.rst"))):
        path = os.path.relpath(path, TOP)
        tree = docutils.core.publish_doctree(read(path), settings_overrides={"report_level": 5})
        for node in getattr(tree, "findall", tree.traverse)(docutils.nodes.literal_block):
            yield path, node.astext().splitlines()[0].strip()


def end_of(text, at, n):
    """Behind the n-th delimiter from text[at - 1] on, which is the first one."""
    delimiter = text[at - 1]
    while n:
        n -= text[at] == delimiter
        at += 2 if text[at] == "\\" else 1
    return at


def parts(command, address=""):
    """The commands of sed that it consists of, each alone; those in braces with the address before
    the braces. "n" and "N" belong to the command behind it."""
    part = ""
    while command and (command[0] not in "};" or (command[0] == ";" and part.strip() in list("nN"))):
        if command[0] in "/sy{":
            if command[0] == "{":
                while command[0] != "}":
                    command = yield from parts(command[1:], address + part)
                part, command = "", command[1:]
                continue
            n = end_of(command, 1, 1) if command[0] == "/" else end_of(command, 2, 2)
        else:
            n = 2 if command[0] == "\\" else 1
            if command[0] in "aic":
                n = len(command)
        part, command = part + command[:n], command[n:]
    if part.strip():
        yield address + "{" + part.strip() + "\n}" if address else part.strip()
    return command


def all_parts(command):
    while command:
        command = (yield from parts(command)).lstrip(";}")


def is_there(name, names):
    pattern = name.replace("…", "*")
    return any(fnmatch.fnmatchcase(n, pattern) for n in names)


class NamedTests(unittest.TestCase):
    def setUp(self):
        self.names = all_names()
        self.assertGreater(len(self.names), 1000)

    def test_each_row_names_tests_that_are_there(self):
        for path in DOCS:
            found = list(rows(path))
            self.assertGreater(len(found), 15, path)
            for number, cell in found:
                named = re.findall(r"`([^`]*)`", cell)
                with self.subTest(f"{path}:{number}"):
                    self.assertTrue(named or NO_TEST.search(cell), f"no test in: {cell}")
                    self.assertEqual([n for n in named if not is_there(n, self.names)], [], "not there")

    def test_what_the_text_names_is_there(self):
        for path in DOCS:
            named = re.findall(r"`((?:\d\d-[a-z-]+/)?test_[^`]*)`", read(path))
            self.assertEqual([n for n in named if not is_there(n, self.names)], [], path)

    def test_each_mistake_is_for_a_test(self):
        for line in read("tests/cluster/mistakes").splitlines():
            if not line.startswith("#"):
                self.assertTrue(is_there(line.split("\t")[0] + "*", self.names), line)

    def changes(self, command, source):
        made = subprocess.run(["sed", command, os.path.join(TOP, source)], capture_output=True, text=True, check=False)
        self.assertEqual(made.stderr, "", command)
        return made.stdout != read(source)

    def test_each_mistake_fits_its_sources(self):
        for path in "tests/cluster/mistakes", "tests/fuzz/mistakes":
            for line in read(path).splitlines():
                if line.startswith("#"):
                    continue
                _, sources, command = line.split("\t")
                with self.subTest(line):
                    for source in sources.split(","):
                        self.assertTrue(self.changes(command, source), f"it makes no mistake in {source}")
                    found = list(all_parts(command))
                    for part in found if len(found) > 1 else ():
                        self.assertTrue(any(self.changes(part, source) for source in sources.split(",")),
                                        f"{part} changes nothing")

    def test_each_part_of_a_mistake_is_tried(self):
        self.assertEqual(list(all_parts(r"/^a;/,/^}/{/b/d; s/^{$/{\n;}/;}; s/x\/;/y/g; s|a|;|")),
                         ["/^a;/,/^}/{/b/d\n}", "/^a;/,/^}/{s/^{$/{\\n;}/\n}", "s/x\\/;/y/g", "s|a|;|"])
        self.assertEqual(list(all_parts("/a/{n;s/b/c/}")), ["/a/{n;s/b/c/\n}"])

    def test_each_block_of_a_guide_is_tried(self):
        table = [line.split("\t") for line in read("tests/unit/doc-blocks").splitlines() if not line.startswith("#")]
        self.assertEqual(sorted(blocks()), sorted((path, first) for path, first, _ in table))
        for path, first, how in table:
            with self.subTest(f"{path}: {first}"):
                self.assertTrue(re.match("not tried: .", how) or all(is_there(n, self.names) for n in how.split()), how)
        self.assertLessEqual(sum(how.startswith("not tried") for _, _, how in table), MOST_NOT_TRIED)

    def test_programs_of_the_repository_find_what_documents_name(self):
        """What a document gives to `tools/bench` or `tests/cluster/run` selects something. Seen
        failing with a pattern that no program and no test has."""
        n_found = 0
        for path in GUIDES:
            for program, rest in re.findall(r"^(?:sudo (?:\w+=\S+ )*)?(tools/bench|tests/cluster/run)\b([^#\n]*)", read(path), re.M):
                options = [word for word in rest.split() if word.startswith("--")]
                patterns = [] if "--but" in options else [word for word in rest.split() if not word.startswith("--")]
                for given in ([pattern] for pattern in patterns) if patterns else [rest.split()]:
                    n_found += 1
                    with self.subTest(f"{path}: {program} {given}"):
                        r = subprocess.run([os.path.join(TOP, program), "--list", *given], capture_output=True, text=True, check=False)
                        self.assertEqual((r.returncode, r.stderr), (0, ""))
                        self.assertNotEqual(r.stdout, "")
        self.assertGreaterEqual(n_found, 7)

    def test_commands_in_documents_exist(self):
        """A command `stagectl COMMAND --option` in any document has its COMMAND and options in
        stagectl(1), which stagectl-test compares with the program. Seen failing with `stagectl
        show` and `stagectl list --all-nodes`."""
        _, *sections = re.split(r"^([a-z-]+)\n-{3,}\n", read("docs/man/stagectl.1.rst"), flags=re.M)
        options = {name: set(OPTION.findall(text)) | {"--help"} for name, text in zip(sections[::2], sections[1::2])}
        options["help"] = {"--help"}
        n_found = 0
        documents = [path for pattern in ("*.md", "docs/**/*.md", "docs/man/*.rst", "docs/examples/*.sh", "etc/examples/*.md")
                     for path in glob.glob(os.path.join(TOP, pattern), recursive=True)]
        for path in sorted(documents):
            for name, rest in COMMAND.findall(re.sub(r"\\\n\s*", " ", read(path))):
                n_found += 1
                with self.subTest(f"{path}: stagectl {name}{rest}"):
                    self.assertIn(name, options)
                    words = set(OPTION.findall(rest.split(" -- ")[0])) if name != "submit" else set()
                    self.assertLessEqual(words, options[name] | ({"--hold"} if name == "wait" else set()))
        self.assertGreater(n_found, 150)

    def test_what_is_mutated_is_there(self):
        text = read("tools/mutate")
        groups = re.findall(r"^    '(\w+)': \(", text, re.M)
        self.assertGreater(len(groups), 5)
        subprocess.run([os.path.join(TOP, "tools/mutate"), "--list", *groups], stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
