#!/usr/bin/env python3
"""Each line that the daemons log is in the table of docs/admin.md, and each line of the table is
logged. Arguments: the source directory. With --print, the lines of the sources are printed."""
import os
import re
import sys
import unittest

TOP = os.path.abspath(next((a for a in sys.argv[1:] if not a.startswith("-")), "."))
CALL = re.compile(r"\b(log_error|log_warning|log_info|log_print|slurm_error)\(")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
CONVERSION = re.compile(r"%[-+ #0]*[0-9.*]*(?:ll|l|z|h)*[a-z]")


def end_of_call(text, i):
    """Behind the parenthesis that closes what is open at i."""
    depth = 1
    while depth:
        string = STRING.match(text, i)
        if string:
            i = string.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        i += 1
    return i


def format_of(call):
    """The format, its pieces joined and each conversion an ellipsis."""
    first = STRING.search(call)
    if not first:
        return None
    text, i = "", first.start()
    while True:
        piece = STRING.match(call, i)
        if not piece:
            break
        text += piece.group(1)
        i = piece.end() + len(re.match(r"\s*", call[piece.end():]).group())
    return re.sub("…+", "…", CONVERSION.sub("…", text))


def logged():
    """{text: where}. Of what is nothing but a conversion the sentence is made elsewhere."""
    found = {}
    for folder in "common", "daemon", "spank":
        for path, _, names in os.walk(os.path.join(TOP, folder)):
            for name in sorted(names):
                if not name.endswith(".c"):
                    continue
                with open(os.path.join(path, name)) as f:
                    text = f.read()
                for m in CALL.finditer(text):
                    line = format_of(text[m.end():end_of_call(text, m.end())])
                    if line and line.strip("… "):
                        found[line] = f"{os.path.relpath(path, TOP)}/{name}"
    return found


def documented():
    with open(os.path.join(TOP, "docs/admin.md")) as f:
        table = f.read().split("<!-- log lines -->")[1].split("<!-- end -->")[0]
    return [m.group(1) for m in re.finditer(r"^\| `([^`]*)` \|", table, re.M)]


class LogLines(unittest.TestCase):
    def test_each_line_is_in_the_table(self):
        found = logged()
        self.assertGreater(len(found), 40)
        missing = {line: where for line, where in found.items() if line not in documented()}
        self.assertEqual(missing, {}, "add these to the table of log lines in docs/admin.md")

    def test_each_line_of_the_table_is_logged(self):
        table = documented()
        self.assertEqual(sorted(set(table) - set(logged())), [], "take these out of the table")
        self.assertEqual(len(table), len(set(table)), "a line stands twice")


if __name__ == "__main__":
    if "--print" in sys.argv:
        for line, where in sorted(logged().items(), key=lambda x: x[1]):
            print(f"{where}: {line}")
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)
