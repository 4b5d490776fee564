#!/usr/bin/env python3
"""tools/site makes pages of all documents, with search, that load nothing from other hosts.
Argument: the source directory.

Each was seen failing: with a document that no table of contents names, with dashes, and with a
style sheet and a script of another host."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import chromium  # noqa: E402

TOP = os.path.abspath(next((a for a in sys.argv[1:] if not a.startswith("-")), "."))
# What a browser fetches without being asked. Links that a reader follows (<a href=...>) may lead
# anywhere.
LOADED = re.compile(r"<(?:script|img|iframe|source|video|audio|embed|object|link)\b[^>]*?(?:src|srcset|href|data)=\"(?:https?:)?//[^\"]*\"|"
                    r"url\([\"']?(?:https?:)?//[^)]*\)|@import [\"'](?:https?:)?//", re.I)


def has_packages():
    return subprocess.run(["/usr/bin/python3", "-c", "import sphinx, myst_parser, furo"], stderr=subprocess.DEVNULL,
                          timeout=60).returncode == 0


def loads(text):
    return [m for m in LOADED.findall(text) if 'rel="canonical"' not in m]


def luminance(colour):
    """Of #rrggbb or #rgb, as the guidelines for the accessibility of web pages have it."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[i:i + 2], 16) / 255 for i in (0, 2, 4)]
    parts = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not has_packages():
            if {"sphinx", "all"} & set(os.environ.get("STAGE_TEST_MUST", "").split(",")):
                raise AssertionError("Sphinx, myst-parser and furo must be there (STAGE_TEST_MUST)")
            raise unittest.SkipTest("tools/deps site has not installed Sphinx, myst-parser and furo")
        cls.dir = tempfile.TemporaryDirectory(prefix="site-")
        cls.result = subprocess.run([f"{TOP}/tools/site", "--no-deps", cls.dir.name], stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, universal_newlines=True, timeout=300)

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def pages(self, ending):
        for path in glob.glob(f"{self.dir.name}/**/*.{ending}", recursive=True):
            with open(path, errors="replace") as f:
                yield os.path.relpath(path, self.dir.name), f.read()

    def test_it_is_made_without_a_warning(self):
        self.assertEqual((self.result.returncode, self.result.stdout), (0, f"{self.dir.name}/index.html\n"))

    def test_each_document_is_a_page(self):
        documents = {os.path.relpath(p, TOP) for pattern in ("*.md", "docs/**/*.md", "docs/man/*.rst", "etc/**/*.md")
                     for p in glob.glob(os.path.join(TOP, pattern), recursive=True)} - {"docs/site/index.md", "README.md"}
        made = {name for name, _ in self.pages("html")}
        self.assertEqual({d for d in documents if f"{os.path.splitext(d)[0]}.html" not in made}, set())
        self.assertIn("search.html", made)

    def test_options_are_not_written_with_dashes_of_prose(self):
        pages = dict(self.pages("html"))
        self.assertIn("--json", pages["docs/man/stagectl.1.html"])
        self.assertIn("#SBATCH --stage-data=", re.sub("<[^>]*>", "", pages["index.html"]))

    def test_words_of_the_manual_pages_are_found(self):
        ((_, index),) = [page for page in self.pages("js") if page[0] == "searchindex.js"]
        for word in "KeepFreeMemory", "hydrate", "squashfs":
            self.assertIn(word.lower()[:6], index.lower(), word)

    def test_nothing_is_loaded_from_other_hosts(self):
        for ending in "html", "css":
            for name, text in self.pages(ending):
                self.assertEqual(loads(text), [], name)

    def test_dark_pages_can_be_read(self):
        """Debian's furo has no dark colours: ours are for both ways to ask for them, and have a
        contrast of 4.5 to 1 at least. Seen failing with links of furo's own #2a5adf, and with a
        colour in one of the two alone."""
        with open(f"{TOP}/docs/site/site.css") as f:
            blocks = re.findall(r"body(?:\[data-theme=\"dark\"\]|:not\(\[data-theme=\"light\"\]\)) {(.*?)}", f.read(), re.S)
        chosen, preferred = (dict(re.findall(r"--color-([\w-]+): (#\w+);", block)) for block in blocks)
        self.assertEqual(chosen, preferred)
        for page in "background-primary", "background-secondary":
            for name in "foreground-primary", "foreground-secondary", "foreground-muted", "brand-primary", "brand-content":
                one, other = sorted((luminance(chosen[name]), luminance(chosen[page])))
                self.assertGreaterEqual((other + 0.05) / (one + 0.05), 4.5, (name, page))

    @unittest.skipUnless(chromium.PROGRAM or "chromium" in os.environ.get("STAGE_TEST_MUST", "").split(","), "no chromium")
    def test_pages_fit_a_phone_and_are_dark_in_dark_mode(self):
        """By a browser. Seen failing with a table of 500 pixels outside of its box, and without our
        colours."""
        with chromium.Chromium() as c:
            for name, _ in self.pages("html"):
                c.show(f"file://{self.dir.name}/{name}", 390, dark=True)
                self.assertLessEqual(c.evaluate("document.documentElement.scrollWidth"), 390, name)
                colour = c.evaluate("getComputedStyle(document.body).backgroundColor")
                self.assertLess(max(map(int, re.findall(r"\d+", colour)[:3])), 64, f"{name}: {colour}")

    def test_what_would_be_loaded_is_seen(self):
        for text in ('<script src="https://x/y.js">', '<link rel="stylesheet" href="//x/y.css">', "a { background: url(http://x/y) }",
                     '<img alt="a" src="https://x/y.svg">'):
            self.assertTrue(loads(text), text)
        self.assertEqual(loads('<a href="https://x/y"><img src="y.svg"></a>'), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
