#!/usr/bin/env python3
"""Links of the documents lead to files and headings that are there. Argument: the source directory.

Each was seen failing: with a file that is not there, with a heading of another file and of the same
one that is not there, with a link in HTML and with a reference."""
import glob
import os
import re
import sys
import unittest

TOP = os.path.abspath(next((a for a in sys.argv[1:] if not a.startswith("-")), "."))
DOCUMENTS = ("*.md", "docs/**/*.md", "docs/**/*.rst", "etc/**/*.md")
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)|^\[[^\]]+\]: (\S+)|(?:href|src|srcset)=\"([^\"]+)\"|`[^`<]*<([^>]+)>`_", re.M)


def read_prose(path):
    """Without code: what stands there is no link and no heading."""
    with open(path) as f:
        text = re.sub(r"^( *)(```|~~~).*?^\1\2", "", f.read(), flags=re.M | re.S)
    return re.sub(r"(`+)(?!`)[^`\n]*\1(?!_)", "`", text) if path.endswith(".md") else text


def anchors(path):
    """Of headings, as GitHub makes them; with HTML's id= and name=."""
    with open(path) as f:
        text = re.sub(r"^( *)(```|~~~).*?^\1\2", "", f.read(), flags=re.M | re.S)
    found = set(re.findall(r"<\w+ (?:id|name)=\"([^\"]+)\"", text))
    for heading in re.findall(r"^#+ +(.*?) *#*$", text, re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        base = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        name, n = base, 0
        while name in found:
            n += 1
            name = f"{base}-{n}"
        found.add(name)
    return found


def links():
    for pattern in DOCUMENTS:
        for path in glob.glob(os.path.join(TOP, pattern), recursive=True):
            for groups in LINK.findall(read_prose(path)):
                target = "".join(groups)
                if not re.match(r"[a-z]+:", target):
                    yield path, target


class Links(unittest.TestCase):
    def test_each_leads_somewhere(self):
        bad, n = [], 0
        for path, target in links():
            n += 1
            name, _, anchor = target.partition("#")
            to = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if not os.path.exists(to):
                bad.append(f"{os.path.relpath(path, TOP)}: {target}: no such file")
            elif anchor and to.endswith(".md") and anchor not in anchors(to):
                bad.append(f"{os.path.relpath(path, TOP)}: {target}: no such heading")
        self.assertEqual(bad, [])
        self.assertGreater(n, 50)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
