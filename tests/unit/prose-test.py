#!/usr/bin/env python3
"""What people read has short lines, sentences and paragraphs. Argument: the source directory.

No line of a Markdown or rst file is over 100 columns, tables aside. In the manual pages no paragraph has more than 80
words, and no sentence more than 30. A literal counts as one word. There are no exceptions. Messages, and documents for users
and administrators, have no words that a reader has to decode.

Each was seen failing: with a line of 101 columns in a Markdown file and in a manual page, a sentence of 31 words, a
paragraph of 81, a README of 121 lines, a message with "take it away or hint it", and a document with "options stand behind"."""
import glob
import os
import re
import sys
import unittest

import docutils.core
import docutils.nodes

TOP = os.path.abspath(next((a for a in sys.argv[1:] if not a.startswith("-")), "."))
MAX_COLUMNS = 100
MAX_SENTENCE = 30
MAX_PARAGRAPH = 80
END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[^a-z])")
IDIOMS = re.compile(r"""\b(anew|by\ lot|in\ place\ of|(takes?|taken|taking)\ (\w+\ ){0,5}away|go(es|ing|ne)?\ on|behind
    |mend(s|ed)?|can't\ be\ had|(is|are)\ told|tells\ (all|from|for|more|what)|says\ so
    |held\ against|nobody\ out|hint\ (it|the)|stands?(?!\ for)|nobody's|root's\ own|as\ ever|at\ length|meanwhile|come(s)?\ to|whoever)\b""", re.X)
# A comment, a character, or a message: in a message nothing is a comment, and a quote in the others begins no message.
TOKEN = re.compile(r"""/\*.*?\*/|'(?:[^'\\\n]|\\.)'|("(?:[^"\\\n]|\\.)*"(?:\s*(?:PRI\w+\s*)?"(?:[^"\\\n]|\\.)*")*)""", re.S)
GUIDES = ("README.md", "NEWS.md", "SECURITY.md", "docs/getting-started.md", "docs/getting-started-admin.md", "docs/user.md",
          "docs/admin.md", "docs/troubleshooting.md", "docs/glossary.md", "docs/comparison.md", "docs/packages.md",
          "docs/schema/README.md", "docs/examples/README.md", "etc/examples/README.md", "etc/stage-data.conf")
RULE = re.compile(r"^\s*=+( +=+)+$", re.M)


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        return f.read()


def documents(*endings):
    for at, folders, names in os.walk(TOP):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "build")))
        yield from (os.path.relpath(os.path.join(at, name), TOP) for name in sorted(names) if name.endswith(endings))


def long_lines(path):
    """(number, columns) of lines that are no part of a table: a table's rows begin with a bar, or have a rule among them."""
    number = 1
    for block in re.split(r"(?<=\n)(?=\n)", read(path)):
        lines = block.split("\n")
        if not RULE.search(block):
            yield from ((number + i, len(line)) for i, line in enumerate(lines)
                        if len(line) > MAX_COLUMNS and not line.lstrip().startswith("|"))
        number += len(lines) - 1


def text_of(node):
    """Its text, with each literal as one word. A sentence may begin with a word in another font."""
    if isinstance(node, docutils.nodes.literal):
        return "Literal"
    if isinstance(node, docutils.nodes.Text):
        return node.astext()
    text = "".join(text_of(child) for child in node.children)
    return text[:1].upper() + text[1:] if isinstance(node, (docutils.nodes.emphasis, docutils.nodes.strong)) else text


def paragraphs(path):
    """(line, text) of each."""
    tree = docutils.core.publish_doctree(read(path), settings_overrides={"report_level": 5})
    find = getattr(tree, "findall", tree.traverse)      # since docutils 0.18
    for node in find(docutils.nodes.paragraph):
        yield node.line, text_of(node)


class Prose(unittest.TestCase):
    def setUp(self):
        self.manuals = sorted(os.path.relpath(path, TOP) for path in glob.glob(os.path.join(TOP, "docs/man/*.rst")))
        self.assertGreater(len(self.manuals), 3)

    def test_lines_end_at_column_100(self):
        found = list(documents(".md", ".rst"))
        self.assertGreater(len(found), 20)
        for path in found:
            with self.subTest(path):
                self.assertEqual(list(long_lines(path)), [], "(line, columns)")

    def test_first_pages_are_short(self):
        for path, n_lines in (("README.md", 120), ("docs/roadmap.md", 60)):
            with self.subTest(path):
                self.assertLessEqual(len(read(path).splitlines()), n_lines)

    def test_sentences_of_the_manual_are_short(self):
        n_sentences = 0
        for path in self.manuals:
            for line, text in paragraphs(path):
                for sentence in END.split(text):
                    n_sentences += 1
                    n_words = len(sentence.split())
                    with self.subTest(f"{path}:{line}"):
                        self.assertLessEqual(n_words, MAX_SENTENCE, sentence)
        self.assertGreater(n_sentences, 1000)

    def test_paragraphs_of_the_manual_are_short(self):
        for path in self.manuals:
            for line, text in paragraphs(path):
                with self.subTest(f"{path}:{line}"):
                    self.assertLessEqual(len(text.split()), MAX_PARAGRAPH, text)

    def test_messages_are_plain(self):
        n_messages = 0
        for path in documents(".c", ".h"):
            if path.startswith("tests"):
                continue
            for message in filter(None, (m.group(1) for m in TOKEN.finditer(read(path)))):
                n_messages += 1
                text = re.sub(r'"\s*"', "", message)
                with self.subTest(path):
                    self.assertIsNone(IDIOMS.search(text), text)
        self.assertGreater(n_messages, 3000)

    def test_documents_are_plain(self):
        for path in (*GUIDES, *self.manuals):
            for m in IDIOMS.finditer(re.sub(r"\s+", " ", read(path))):
                with self.subTest(path):
                    self.fail(m.string[max(m.start() - 60, 0):m.end() + 30])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
