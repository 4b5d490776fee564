#!/usr/bin/env python3
"""Each message about what a user has brought is in docs/bad-inputs.md, or in
tests/unit/messages-elsewhere with the reason why it is not. Argument: the source directory.

A message is the longest text in a call that makes an error or a warning; of it, the longest part
without values is looked for. Seen failing: with a new message in a source, with a row of the
document that is gone, with a line of the list that nothing needs, and with a new message that an
open line excuses."""
import collections
import fnmatch
import glob
import os
import re
import sys
import unittest

TOP = os.path.abspath(next((a for a in sys.argv[1:] if not a.startswith("-")), "."))
ELSEWHERE = "tests/unit/messages-elsewhere"
CALL = re.compile(r"\b(?:error_set|error_errno|error_exit|dataset_refuse|say_warn|stage_io_warn|add_warning|stage_add_warning|send_warning)\s*\(")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|/\*.*?\*/', re.S)
VALUE = re.compile(r"%%|%[-+ #0-9.*]*(?:ll|l|h|z|j)?[a-zA-Z]")


def read(path):
    with open(os.path.join(TOP, path)) as f:
        return f.read()


def arguments(text, start):
    """Of the call whose parenthesis is at start - 1: its text."""
    depth, i = 1, start
    while depth and i < len(text):
        literal = LITERAL.match(text, i) if text[i - 1] != "'" else None
        if literal:
            i = literal.end()
            continue
        depth += (text[i] == "(") - (text[i] == ")")
        i += 1
    return text[start:i]


def longest_part(message):
    plain = message.replace("%%", "\0").replace('\\"', '"').replace("\\n", "")
    return max((p.strip(" :;,.'\"()") for p in VALUE.split(plain)), key=len).replace("\0", "%")


def messages():
    """{(source, part of the message)}"""
    found = collections.OrderedDict()
    for top in ("common", "client", "daemon", "spank"):
        for path in sorted(glob.glob(os.path.join(TOP, top, "**/*.c"), recursive=True)):
            name = os.path.relpath(path, TOP)
            text = COMMENT.sub(lambda m: m.group(1) or "", read(name))
            text = re.sub(r'"\s*PRI\w+\s*"', "u", text)
            text = re.sub(r'"\s*\n\s*"', "", text)
            for call in CALL.finditer(text):
                literals = LITERAL.findall(arguments(text, call.end()))
                part = max(map(longest_part, literals), key=len, default="")
                if len(part) >= 4:
                    found[name, part] = None
    return list(found)


def elsewhere():
    """(number, pattern of sources, pattern of messages, how many it excuses at most) of each line;
    comments have the reasons"""
    for number, line in enumerate(read(ELSEWHERE).splitlines(), 1):
        if line and not line.startswith("#"):
            cells = [cell.strip() for cell in line.split(" | ")]
            source, message, most = cells + ["*", "0"][len(cells) - 1:]
            yield number, source, message, int(most)


def is_open(message):
    """Does a line with that pattern not name its messages?"""
    return message == "*" or message.endswith(" *")


class Messages(unittest.TestCase):
    maxDiff = None

    def test_each_message_about_an_input_is_in_the_table(self):
        table = re.sub(r"\s+", " ", read("docs/bad-inputs.md").replace("\\|", "|"))
        listed = list(elsewhere())
        used, missing = collections.Counter(), []
        found = messages()
        self.assertGreater(len(found), 500)
        for source, part in found:
            if part in table:
                continue
            lines = [(n, m) for n, s, m, _ in listed if fnmatch.fnmatchcase(source, s) and fnmatch.fnmatchcase(part, m)]
            lines = [n for n, m in lines if not is_open(m)] or [n for n, _ in lines]
            used.update(lines)
            if not lines:
                missing.append(f"{source} | {part}")
        self.assertEqual([], missing, f"neither in docs/bad-inputs.md nor in {ELSEWHERE}")
        self.assertEqual([], [n for n, *_ in listed if n not in used], f"lines of {ELSEWHERE} that no message needs")
        # A line that does not name its messages excuses so many, and no new one.
        more = [f"{ELSEWHERE}:{n} excuses {used[n]}, not {most}" for n, _, message, most in listed
                if is_open(message) and used[n] != most]
        self.assertEqual([], more, "put the new message into docs/bad-inputs.md, or name it in a line of its own")

    def test_each_line_of_the_list_has_a_reason(self):
        before = ""
        for line in read(ELSEWHERE).splitlines():
            if line and not line.startswith("#"):
                self.assertTrue(before, f"no reason above: {line}")
            before = line if line else ""


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
