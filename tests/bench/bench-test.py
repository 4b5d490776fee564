#!/usr/bin/env python3
"""Tests what the benchmarks print, and the documents that are made from it."""
import contextlib
import io
import json
import pathlib
import shutil
import tempfile
import unittest

import benchdata
import benchlib
import benchplot
import benchreport
import benchscaling

MACHINE = {"machine": {"processor": "P", "cores": 2, "memory": "3 GiB", "kernel": "6", "system": "S",
                       "virtual": False, "huge pages of tmpfs": "never", "squashfs": "none"},
           "versions": {"GNU tar": "1.34"}}
ROW = {"table": "archives", "row": "r", "unit": "s", "ours": [1.0, 9.0, 2.0], "peer": "GNU tar",
       "theirs": [6.0, 7.0, 8.0], "target": 3}


class Clock(benchlib.Side):
    """Takes the times that it is given; an exception is raised."""

    def __init__(self, name, times, log, info=False):
        self.name, self.times, self.log, self.info = name, iter(times), log, info

    def prepare(self):
        self.log.append("prepare " + self.name)

    def run(self):
        t = next(self.times)
        if isinstance(t, Exception):
            raise t
        return t, 0.5

    def check(self):
        self.log.append("check " + self.name)

    def clear(self):
        self.log.append("clear " + self.name)


def lines_of(fn, runs=3):
    """What a benchmark prints."""
    out = io.StringIO()
    with tempfile.TemporaryDirectory() as top, contextlib.redirect_stdout(out), \
            contextlib.redirect_stderr(io.StringIO()):
        bench = benchlib.Bench("test", ["--data", top, "--probe", "true", "--runs", str(runs)],
                               namespaces=False)
        fn(bench)
    return [json.loads(line) for line in out.getvalue().splitlines()], bench


class Measuring(unittest.TestCase):
    def test_order_alternates_and_every_run_is_checked(self):
        log = []
        sides = [Clock("a", [1, 2, 3], log), Clock("b", [4, 5, 6], log)]
        lines, bench = lines_of(lambda b: b.compare("t", "r", sides, {"b": 2}))
        self.assertEqual([entry for entry in log if entry.startswith("prepare")],
                         ["prepare " + c for c in "abbaab"])
        self.assertEqual(log[:3], ["prepare a", "check a", "clear a"])
        self.assertEqual(lines, [{"table": "t", "row": "r", "unit": "s", "peer": "b", "target": 2,
                                  "ours": [1, 2, 3], "cpu_ours": [.5] * 3, "theirs": [4, 5, 6],
                                  "cpu_theirs": [.5] * 3}])
        self.assertFalse(bench.failed)

    def test_failed_run_is_no_number(self):
        log = []
        sides = [Clock("a", [1, benchlib.Failed("wrong bytes"), 3], log), Clock("b", [4, 5, 6], log)]
        lines, bench = lines_of(lambda b: b.compare("t", "r", sides, {"b": 2}))
        self.assertEqual(lines[0]["failed"], "wrong bytes")
        self.assertTrue(bench.failed)
        self.assertEqual(log.count("clear a"), 2)
        self.assertEqual(benchreport.verdict(lines[0]), "failed")
        self.assertIsNone(benchreport.ratio_of(lines[0]))

    def test_info_is_measured_once(self):
        sides = [Clock("a", [1, 2, 3], []), Clock("b", [4], [], info=True)]
        lines, _ = lines_of(lambda b: b.compare("t", "r", sides))
        self.assertEqual(lines[0]["theirs"], [4])

    def test_rows_that_nobody_wants_make_no_data(self):
        def fn(bench):
            bench.only = ["other"]
            bench.compare("t", "r", lambda: self.fail("made"))
        self.assertEqual(lines_of(fn)[0], [])


class Reporting(unittest.TestCase):
    def setUp(self):
        self.out = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.out)

    def merge(self, program, *rows, machine=MACHINE):
        benchreport.merge(self.out, program, 0, [json.dumps(row) for row in rows], machine)

    def render(self):
        with contextlib.redirect_stderr(io.StringIO()):
            benchreport.render(self.out)
        return pathlib.Path(self.out, "development/measurements.md").read_text()

    def results(self):
        """The page for readers."""
        self.render()
        return pathlib.Path(self.out, "performance.md").read_text()

    def test_median_ratio_and_verdict(self):
        self.assertEqual(benchreport.ratio_of(ROW), 3.5)
        self.assertEqual(benchreport.verdict(ROW), "≥ 3×: met")
        self.assertEqual(benchreport.verdict({**ROW, "target": 3.6}), "≥ 3.6×: **missed**")
        self.assertEqual(benchreport.verdict({**ROW, "target": None, "limit": 2}), "≤ 2 s: met")
        self.assertEqual(benchreport.verdict({**ROW, "limit": 1.9}), "≤ 1.9 s: **missed**")
        self.assertEqual(benchreport.spread([3, 1, 2], "s"), "2 [1–3] s")

    def test_program_replaces_what_it_said_before(self):
        self.merge("bench-a", ROW, {**ROW, "row": "old"})
        self.merge("bench-b", {**ROW, "row": "other"})
        self.merge("bench-a", ROW)
        names = [row["row"] for row in benchreport.rows_of(benchreport.load(self.out), "table")]
        self.assertEqual(names, ["r", "other"])

    def test_a_bar_in_a_name_ends_no_cell(self):
        """Red where a name is written as it is."""
        self.merge("bench-a", {**ROW, "row": "a | b", "peer": "curl | tar"})
        for text in self.render(), self.results():
            self.assertRegex(text, r"(?m)^\| a \\\| b \|.* curl \\\| tar \|")

    def test_a_program_of_another_machine_says_so(self):
        """Red where the results of the first one go, and where the rows stand below its name."""
        self.merge("bench-a", ROW)
        other = {**MACHINE, "machine": {**MACHINE["machine"], "cores": 64}}
        self.merge("bench-b", {**ROW, "table": "images", "row": "other"}, machine=other)
        text = self.results()
        self.assertEqual(text.count("2 cores"), 1)
        self.assertRegex(text, r'These results were measured on another machine, or with other versions, on [0-9-]+: "Images,\smounted"\.\n\nMachine: [^.]*64 cores')
        self.merge("bench-b", {**ROW, "table": "images"})
        self.assertNotIn("64 cores", self.results())

    def test_a_program_of_another_version_says_so(self):
        self.merge("bench-a", ROW)
        self.merge("bench-b", {**ROW, "table": "images"}, machine={**MACHINE, "versions": {"GNU tar": "1.99"}})
        text = self.results()
        self.assertIn("Versions: GNU tar 1.34.", text)
        self.assertIn("Versions: GNU tar 1.99.", text)

    def test_the_machine_of_most_programs_is_the_first(self):
        other = {**MACHINE, "machine": {**MACHINE["machine"], "cores": 64}}
        self.merge("bench-a", ROW)
        for program in ("bench-b", "bench-c"):
            self.merge(program, {**ROW, "table": "images"}, machine=other)
        text = self.results()
        self.assertLess(text.index("64 cores"), text.index("2 cores"))
        self.assertEqual((text.count("64 cores"), text.count("2 cores")), (1, 1))

    def test_the_machine_of_all_programs_is_named_once(self):
        other = {**MACHINE, "machine": {**MACHINE["machine"], "cores": 64}}
        for program, machine in (("bench-a", MACHINE), ("bench-b", other), ("bench-a", other)):
            self.merge(program, ROW, machine=machine)
        text = self.results()
        self.assertEqual((text.count("64 cores"), text.count("2 cores"), text.count("another machine")), (1, 0, 0))

    def test_what_was_written_by_hand_stays(self):
        self.merge("bench-a", ROW)
        pathlib.Path(self.out, "development").mkdir()
        with open(self.out + "/development/measurements.md", "w") as f:
            f.write(f"before\n{benchreport.BEGIN}\nold\n{benchreport.END}\nafter\n")
        text = self.render()
        self.assertTrue(text.startswith("before\n") and text.endswith("\nafter\n"))
        self.assertNotIn("old", text)
        self.assertIn("| r | 2 [1–9] s | GNU tar | 7 [6–8] s | 3.5× | ≥ 3×: met |  |", text)
        self.assertEqual(self.render(), text)

    def test_a_bare_loop_is_the_limit_of_its_row(self):
        bare = {**ROW, "peer": benchreport.BARE, "theirs": [2.0, 1.0, 1.0]}
        self.merge("bench-a", {**ROW, "target": 8}, {**bare, "target": None},
                   {**bare, "row": "other", "target": None}, {**ROW, "row": "third"})
        text = self.render()
        self.assertIn("| 3.5× | ≥ 8×: **missed** | 7× |", text)
        self.assertEqual(text.count("| 7× |"), 1)

    def test_the_page_names_the_fastest_other_program_and_the_limit(self):
        self.merge("bench-a", ROW, {**ROW, "peer": "bsdtar", "theirs": [4.0], "target": None},
                   {**ROW, "peer": benchreport.BARE, "theirs": [1.5], "target": None},
                   {**ROW, "row": "other", "target": None})
        text = self.results()
        self.assertIn("| r | 2 s | bsdtar | 4 s | 2× | 75 % |\n", text)
        for word in "target", "missed", "| GNU tar", "other |":
            self.assertNotIn(word, text)

    def test_curves_have_a_line_for_each_x(self):
        point = {"curve": "files", "series": "tar", "unit": "s", "peer": "GNU tar"}
        self.merge("bench-a", {**point, "x": 1000, "ours": [1.0], "theirs": [2.0]},
                   {**point, "x": 10, "ours": [0.1], "theirs": [0.2]},
                   {"curve": "files", "x": 10**6, "unit": "s", "note": "left out"})
        text = self.render()
        self.assertIn("| 10 | 0.1 | 0.2 |\n| 1,000 | 1 | 2 |\n| 1,000,000 | – | – |\n\nleft out", text)

    def test_plots(self):
        if not shutil.which("gnuplot"):
            self.skipTest("no gnuplot")
        point = {"curve": "f_1", "series": "tar", "unit": "s", "peer": "GNU tar"}
        self.merge("bench-a", {**ROW, "row": 'a "row" \\ it\'s'}, {**ROW, "target": 99},
                   {**point, "x": 10, "ours": [1.0], "theirs": [2.0]},
                   {**point, "x": 100, "ours": [1.0], "theirs": [2.0]})
        self.assertIn("(../performance-ratios.svg)", self.render())
        self.assertIn("(performance-curves.svg)", self.results())
        for name in "ratios", "curves":
            with open(f"{self.out}/performance-{name}.svg") as f:
                self.assertIn("GNU tar", f.read())


class Scaling(unittest.TestCase):
    def line(self, row, unit="s", **more):
        return json.dumps({"table": "many nodes", "row": row, "unit": unit, "load": 1.0, **more})

    def test_tables_have_what_was_measured_now_and_before(self):
        start = "until the script begins"
        rows = benchscaling.merge({}, [
            self.line(f"3 nodes: {start}", ours=[1.0, 9.0, 2.0], theirs=[0.5]),
            self.line("3 nodes: messages to slurmctld", unit="", ours=[31], theirs=[16]),
            self.line("40 nodes: a node fails", ours=[11.6]),
            json.dumps({"table": "many nodes", "row": "40 nodes: a node dies", "failed": "no end"}),
            json.dumps({"table": "many nodes", "row": "100 nodes", "failed": "no memory"})], "2026-01-01")
        rows = benchscaling.merge(rows, ["", self.line(f"40 nodes: {start}", ours=[4.0], theirs=[2.0], load=3.0)], "2026-01-02")
        text = benchscaling.document(rows)
        self.assertIn("| 3 | 2026-01-01 | 1 | 2.00, 0.50 |  |  | 31, 16 |  |", text)
        self.assertIn("| 40 | 2026-01-02 | 3 | 4.00, 2.00 |", text)
        self.assertIn("| 40 nodes: a node fails | 2026-01-01 | 1 | 11.60 |", text)
        self.assertIn("100 nodes, 2026-01-01: failed: no memory", text)
        self.assertIn("40 nodes: a node dies, 2026-01-01: failed: no end", text)
        rows = benchscaling.merge(rows, [self.line(f"100 nodes: {start}", ours=[8.0], theirs=[3.0]),
                                         self.line("40 nodes: a node dies", ours=[8.0])], "2026-01-03")
        self.assertNotIn("failed", benchscaling.document(rows))


class Making(unittest.TestCase):
    def test_data_is_always_the_same_and_made_once(self):
        tops = [tempfile.mkdtemp() for _ in range(2)]
        for top in tops:
            self.addCleanup(shutil.rmtree, top)
        benchdata.SIZES["tiny"] = {"A": (2, 3), "F": (1, 10)}
        made = []
        for top in tops:
            data = benchdata.Data(top, log=made.append)
            data.kind, data.noise, data.text = "tiny", b"noise" * 100_000, b"text" * 4_000_000
            for name in "A", "F", "files-5":
                data.get(name)
                data.get(name)
        self.assertEqual(made, 2 * ["making A", "making F", "making files-5"])
        first, second = ({p.relative_to(top): p.read_bytes() for p in pathlib.Path(top).rglob("*")
                          if p.is_file()} for top in tops)
        self.assertEqual(first, second)
        self.assertEqual(len(first), 1 + 6 + 1 + 5)


if __name__ == "__main__":
    unittest.main()
