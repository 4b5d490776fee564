#!/usr/bin/env python3
"""Keeps what cluster-many-nodes measured in DIR/scaling.json, and makes the tables of
DIR/scaling.md of it.

	benchscaling.py DIR <LINES

A row that is measured again is replaced, the others stay: a hundred nodes are not measured every
time. The text of scaling.md between the lines `<!-- measured -->` and `<!-- end -->` is replaced;
the rest is written by hand.
"""
import datetime
import json
import os
import re
import statistics
import sys

import benchreport

COLUMNS = {
    "until the script begins": "until the script begins, s",
    "from then until all nodes are idle": "from then until all nodes are idle, s",
    "CPU time of slurmctld": "CPU time of slurmctld, s",
    "messages to slurmctld": "messages to slurmctld",
    "bytes read of the sources": "read from the sources, MiB",
}


def load(out):
    try:
        with open(out + "/scaling.json", encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        return {}


def merge(rows, lines, date):
    """The rows with those of the lines, which were measured on that date."""
    new = {}
    for line in lines:
        if line.strip():
            row = json.loads(line)
            new[row["row"]] = {**row, "date": date}
    measured = [name for name, row in new.items() if "failed" not in row]
    # What failed the last time did not, now: a row, or a number of nodes with all its rows. A fault
    # has a row of its own.
    return {name: row for name, row in rows.items()
            if "failed" not in row or not any(f"{m}:".startswith(f"{name}:") for m in measured)} | new


def number(row, values):
    value = statistics.median(values)
    return f"{value:.2f}" if row["unit"] == "s" else f"{value:.1f}" if row["unit"] else f"{value:.0f}"


def cell(row):
    """Our median, and that without data where it was measured; a row that there is not has none."""
    if not row:
        return ""
    both = [number(row, row["ours"])] + ([number(row, row["theirs"])] if row.get("theirs") else [])
    return ", ".join(both)


def load_of(rows):
    """The machine's load while these rows were measured; empty: not known"""
    loads = sorted(round(row["load"]) for row in rows if row and "load" in row)
    if not loads:
        return ""
    return f"{loads[0]}" if loads[0] == loads[-1] else f"{loads[0]} to {loads[-1]}"


def jobs_table(rows):
    sizes = sorted({int(m[1]) for name in rows if (m := re.match(r"(\d+) nodes: until the script begins$", name))})
    lines = [f"| nodes | date | load | {' | '.join(COLUMNS.values())} |", "|---" * (len(COLUMNS) + 3) + "|"]
    for n in sizes:
        of_n = [rows.get(f"{n} nodes: {name}") for name in COLUMNS]
        lines.append(f"| {n} | {of_n[0]['date']} | {load_of(of_n)} | {' | '.join(cell(row) for row in of_n)} |")
    return lines


def faults_table(rows):
    known = {f"nodes: {name}" for name in COLUMNS}
    lines = ["| what happens | date | load | s |", "|---|---|---|---|"]
    for name, row in rows.items():
        if "failed" not in row and name.split(" ", 1)[1] not in known:
            lines.append(f"| {name} | {row['date']} | {load_of([row])} | {number(row, row['ours'])} |")
    return lines


def document(rows):
    """What scaling.md says of the rows"""
    failed = [f"- {name}, {row['date']}: failed: {row['failed']}" for name, row in rows.items() if "failed" in row]
    text = [benchreport.wrapped("Each cell has two medians, with datasets and without. The last column is for one job with "
                                "datasets. \"Load\" is the machine's load average."), "",
            *jobs_table(rows), "", *faults_table(rows), ""]
    return "\n".join(text + (failed + [""] if failed else []))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = sys.argv[1]
    rows = merge(load(out), sys.stdin, datetime.date.today().isoformat())
    with open(out + "/scaling.json.tmp", "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in rows.items()) + "\n}\n")
    os.rename(out + "/scaling.json.tmp", out + "/scaling.json")
    benchreport.replace(out + "/scaling.md", "Many nodes, one source", document(rows))


if __name__ == "__main__":
    main()
