#!/usr/bin/python3
"""The alert rules and the dashboard in etc/ use metrics that exist, and the rules fire. Argument:
the source directory.

Each was seen failing: with a metric renamed in the rules, in the dashboard, in the manual page and
in the code, with a label that no metric has, and with another threshold."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

TOP = os.path.abspath(next((a for a in sys.argv[1:] if not a.startswith("-")), "."))
RULES = "etc/prometheus/stage-data.rules.yml"
DASHBOARD = "etc/grafana/stage-data.json"
OTHERS = {"node_textfile_scrape_error"}  # of the node exporter


def read(path):
    with open(os.path.join(TOP, path)) as f:
        return f.read()


def written():
    """Metric -> its labels, from the table of the program that writes them."""
    text = read("daemon/helper/metrics-text.c")
    found, name = {"stage_data_build_info": {"version"}}, None
    assert 'stage_data_build_info{version=' in text
    for row in re.findall(r"\{ (NULL|\"\w+\"), (.*?) \},", text, re.S):
        name = name if row[0] == "NULL" else "stage_data_" + row[0].strip('"')
        found.setdefault(name, set()).update(re.findall(r'"(\w+)=\\"', row[1]))
    return found


def expressions():
    dashboard = json.loads(read(DASHBOARD))
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]
    for rule in re.findall(r"^ *expr: (.*)$", read(RULES), re.M):
        yield RULES, rule


class Metrics(unittest.TestCase):
    def test_the_manual_page_lists_all(self):
        listed = re.findall(r"^ *\*\*(stage_data_\w+)\*\*  ", read("docs/man/stage-data.conf.5.rst"), re.M)
        self.assertEqual(sorted(listed), sorted(written()))
        self.assertGreater(len(listed), 10)

    def test_expressions_use_metrics_that_exist(self):
        metrics, used = written(), set()
        for where, expression in expressions():
            for name in re.findall(r"\b(?:stage_data|node)_\w+", expression):
                self.assertIn(name, set(metrics) | OTHERS, where)
                used.add(name)
            for name, labels in re.findall(r"(stage_data_\w+)\{(.*?)\}", expression):
                for label in re.findall(r"(\w+)=", labels):
                    self.assertIn(label, metrics[name] | {"instance"}, f"{where}: {name}")
        self.assertEqual(set(metrics) - used, set(), "metrics that nothing shows")

    def test_panels_do_not_overlap(self):
        taken = set()
        for panel in json.loads(read(DASHBOARD))["panels"]:
            g = panel["gridPos"]
            cells = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
            self.assertFalse(cells & taken, panel["title"])
            self.assertLessEqual(g["x"] + g["w"], 24, panel["title"])
            taken |= cells

    def test_the_rules_fire(self):
        if not shutil.which("promtool"):
            if {"prometheus", "all"} & set(os.environ.get("STAGE_TEST_MUST", "").split(",")):
                self.fail("promtool must be there (STAGE_TEST_MUST)")
            self.skipTest("promtool is missing")
        for args in ["check", "rules", RULES], ["test", "rules", "tests/unit/rules-test.yml"]:
            r = subprocess.run(["promtool", *args], cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               universal_newlines=True, timeout=60)
            self.assertEqual(r.returncode, 0, r.stdout)
        alerts = set(re.findall(r"alert: (\w+)", read(RULES)))
        self.assertEqual(alerts, set(re.findall(r"alertname: (\w+)", read("tests/unit/rules-test.yml"))))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
