#!/usr/bin/env python3
"""Keeps what the benchmarks measured, and makes tables and plots of it.

	benchreport.py merge DIR PROGRAM QUICK <LINES    puts a program's lines into DIR/performance.json
	benchreport.py render DIR                        DIR/performance.json -> documents and *.svg

performance.md gets one line for each comparison, development/measurements.md gets everything with
the project's own targets. In both, the text between the lines `<!-- measured -->` and `<!-- end
-->` is replaced; the rest is written by hand.
"""
import datetime
import json
import os
import statistics
import sys
import textwrap

import benchmachine
import benchplot

BEGIN, END = "<!-- measured -->", "<!-- end -->"
OURS = "stage-data"
BARE = "bare loop"  # the peer that is the limit of what can be reached
TITLES = {
    "archives": "Archives into memory", "compressed": "Compressed archives into memory",
    "images": "Images, mounted", "mounted archives": "Tars and zips, mounted",
    "copies": "Trees and files from local disk into memory",
    "slow source": "A source as slow as a loaded shared file system",
    "web": "From the web", "mover": "What a mover copies from disk to disk",
    "course": "Training from pictures: one epoch", "end of job": "End of job",
}
median = statistics.median


def load(out):
    try:
        with open(out + "/performance.json") as f:
            return json.load(f)
    except FileNotFoundError:
        return {}


def place_of(p):
    return {key: p[key] for key in ("machine", "versions") if key in p}


def merge(out, program, quick, lines, machine=None):
    """Machine and versions of most programs stand once. Other programs bring their own along."""
    machine = machine or benchmachine.describe()
    all_ = load(out) or {**machine, "programs": {}}
    rows = [json.loads(line) for line in lines if line.strip()]
    for p in all_["programs"].values():
        p.update({**place_of(all_), **place_of(p)})
    all_["programs"][program] = {"date": datetime.date.today().isoformat(), "quick": bool(quick), **machine,
                                 "lines": rows}
    all_.update(most_common_place(all_))
    for p in all_["programs"].values():
        if place_of(p) == place_of(all_):
            del p["machine"], p["versions"]
    with open(out + "/performance.json.tmp", "w") as f:
        f.write(to_text(all_))
    os.rename(out + "/performance.json.tmp", out + "/performance.json")


def most_common_place(all_):
    """If several are as common, the one that stood there before"""
    places = [place_of(p) for p in all_["programs"].values()]
    return max([place_of(all_), *places], key=places.count)


def to_text(all_):
    """JSON with one line a row, so that changes can be read."""
    text = json.dumps({**all_, "programs": None}, indent=1)
    programs = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps({k: v for k, v in p.items() if k != 'lines'})[:-1]}, "
        '"lines": [\n' + ",\n".join("   " + json.dumps(row) for row in p["lines"]) + "\n  ]}"
        for name, p in sorted(all_["programs"].items()))
    return text.replace('"programs": null', '"programs": {\n' + programs + "\n }") + "\n"


def rows_of(all_, key):
    return [row for _, p in sorted(all_.get("programs", {}).items()) for row in p["lines"] if key in row]


def wrapped(text):
    return textwrap.fill(text, 98, break_long_words=False, break_on_hyphens=False)


def cell(text):
    """A bar would end the cell, as that of a pipe."""
    return text.replace("|", "\\|")


def number(x):
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def spread(values, unit):
    """median [least–most] unit"""
    if not values:
        return "–"
    text = number(median(values))
    if len(values) > 1:
        text += f" [{number(min(values))}–{number(max(values))}]"
    return f"{text} {unit}"


def ratio_of(row):
    if row.get("failed") or not row.get("ours") or not row.get("theirs"):
        return None
    return median(row["theirs"]) / median(row["ours"])


def verdict(row):
    """What was wanted, and whether it was met."""
    if row.get("failed"):
        return "failed"
    if row.get("limit") is not None:
        met = median(row["ours"]) <= row["limit"]
        return f"≤ {number(row['limit'])} {row['unit']}: " + ("met" if met else "**missed**")
    if row.get("target") is not None:
        return f"≥ {number(row['target'])}×: " + (
            "met" if ratio_of(row) >= row["target"] else "**missed**")
    return ""


def limit_of(row, rows):
    """How many times faster than the peer the bare loop of the same row was."""
    bare = [r for r in rows if r["row"] == row["row"] and r.get("peer") == BARE and r.get("theirs")]
    if not bare or row.get("target") is None or not row.get("theirs"):
        return ""
    return f"{number(median(row['theirs']) / median(bare[0]['theirs']))}×"


def table(name, rows):
    out = [f"### {TITLES.get(name, name[:1].upper() + name[1:])}", "",
           f"| | {OURS} | peer | | ratio | target | limit |", "|---|---|---|---|---|---|---|"]
    notes = []
    last = None
    for row in rows:
        what, ours = cell(row["row"]), spread(row.get("ours"), row["unit"])
        if row.get("note") and row["note"] not in notes:
            notes.append(row["note"])
        if row.get("note"):
            what += f" ({notes.index(row['note']) + 1})"
        ratio = ratio_of(row)
        if what == last:
            what = ours = ""
        else:
            last = what
        out.append(f"| {what} | {ours} | {cell(row.get('peer', ''))} | "
                   f"{spread(row['theirs'], row['unit']) if row.get('theirs') else ''} | "
                   f"{f'{number(ratio)}×' if ratio else ''} | {verdict(row)} | {limit_of(row, rows)} |")
    out += [""] + [wrapped(f"({i + 1}) {note}") + "  " for i, note in enumerate(notes)]
    failures = {row["failed"]: row["row"] for row in rows if row.get("failed")}
    out += [f"Failed: {row}: {why}  " for why, row in failures.items()]
    return "\n".join(out).rstrip() + "\n"


def summary(rows):
    """Each comparison that has a target in a line: the fastest other program, and how near the bare
    loop is."""
    out = [f"| | {OURS} | fastest other program | | times as fast | of the limit |", "|---|---|---|---|---|---|"]
    for name, of_table in grouped(rows, "table").items():
        lines = [line for sides in grouped(of_table, "row").values() for line in summary_line(sides)]
        if lines:
            out += [f"| **{TITLES.get(name, name[:1].upper() + name[1:])}** | | | | | |", *lines]
    return "\n".join(out) + "\n"


def summary_line(sides):
    """The sides of one comparison: a line of the table, or none."""
    peers = [row for row in sides if row.get("peer") != BARE and ratio_of(row)]
    if not peers or all(row.get("target") is None for row in sides):
        return []
    best = min(peers, key=lambda row: median(row["theirs"]))
    limit = "".join(f"{100 * ratio_of(row):.0f} %" for row in sides if row.get("peer") == BARE)
    return [f"| {cell(best['row'])} | {number(median(best['ours']))} {best['unit']} | {cell(best['peer'])} | "
            f"{number(median(best['theirs']))} {best['unit']} | {number(ratio_of(best))}× | {limit} |"]


def curve_table(name, points):
    """A line for each x: ours and each peer's of each series."""
    columns, cells = [], {}
    for p in points:
        series = p.get("series", "")
        for who, values in ((OURS, p.get("ours")), (p.get("peer"), p.get("theirs"))):
            if who and values:
                key = f"{series}: {who}" if series else who
                if key not in columns:
                    columns.append(key)
                cells[p["x"], key] = number(median(values))
    unit = points[0]["unit"]
    out = [f"| {points[0].get('xlabel', name)} | " + " | ".join(f"{cell(c)}, {unit}" for c in columns) + " |",
           "|---" * (len(columns) + 1) + "|"]
    for x in sorted({p["x"] for p in points}):
        out.append(f"| {x:,} | " + " | ".join(cells.get((x, c), "–") for c in columns) + " |")
    notes = dict.fromkeys(p["note"] for p in points if p.get("note"))
    return "\n".join(out + [""] + list(notes)).rstrip() + "\n"


def grouped(rows, key):
    groups = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return groups


def titles_of(programs):
    """Titles of their tables; "" is for rows that only a curve has."""
    tables = dict.fromkeys(row.get("table", "") for p in programs for row in p["lines"])
    return [f'"{TITLES.get(t, t[:1].upper() + t[1:])}"' if t else "curves" for t in tables]


def machine_of(all_):
    here = [p for p in all_["programs"].values() if "machine" not in p]
    dates = sorted({p["date"] for p in here})
    out = [*(wrapped(line) for line in benchmachine.to_text(all_).split("\n")), "",
           f"Measured {dates[0]}" + (f" to {dates[-1]}" if len(dates) > 1 else "") + ".", ""]
    others = [p for p in all_["programs"].values() if "machine" in p]
    for place in {json.dumps(place_of(p)): place_of(p) for p in others}.values():
        there = [p for p in others if place_of(p) == place]
        dates = ", ".join(sorted({p["date"] for p in there}))
        out += [wrapped(f"These results were measured on another machine, or with other versions, on {dates}: " +
                        ", ".join(titles_of(there)) + "."), "",
                *(wrapped(line) for line in benchmachine.to_text(place).split("\n")), ""]
    if any(p["quick"] for p in all_["programs"].values()):
        out += ["**A quick run**: less data and fewer runs, so the start of the programs counts more.", ""]
    return out


def results(all_, plots):
    """The page for readers: no targets, one line for each comparison."""
    out = [*machine_of(all_), summary(by_title(rows_of(all_, "table")))]
    if "curves" in plots:
        out += ["![curves](performance-curves.svg)", ""]
    return "\n".join(out).rstrip() + "\n"


def by_title(rows):
    """In the order of TITLES, which tables that are not there follow."""
    order = list(TITLES)
    return sorted(rows, key=lambda row: order.index(row["table"]) if row["table"] in order else len(order))


def measured(all_, plots):
    out = [*machine_of(all_), wrapped("A cell has the median and, in brackets, the smallest and the largest value. The ratio "
                                      "is the median of the other program divided by that of stage-data. The limit is the "
                                      "median of the other program divided by that of the bare loop."), ""]
    if "ratios" in plots:
        out += ["![ratios](../performance-ratios.svg)", ""]
    for name, rows in grouped(by_title(rows_of(all_, "table")), "table").items():
        out += [table(name, rows)]
    curves = grouped(rows_of(all_, "curve"), "curve")
    if curves:
        out += ["### Curves", ""]
    for name, points in curves.items():
        out += [curve_table(name, points)]
    return "\n".join(out).rstrip() + "\n"


def replace(path, title, new):
    """Between the marks of the file, which is made if it is not there."""
    text = open(path).read() if os.path.exists(path) else f"# {title}\n\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(f"{before}{BEGIN}\n\n{new}\n{END}{after}")


def render(out):
    all_ = load(out)
    if not all_:
        sys.exit(f"nothing measured yet: no {out}/performance.json")
    plots = benchplot.draw(out, rows_of(all_, "table"), grouped(rows_of(all_, "curve"), "curve"))
    replace(out + "/performance.md", "How fast it is", results(all_, plots))
    replace(out + "/development/measurements.md", "Measurements", measured(all_, plots))


def main():
    match sys.argv[1:]:
        case ["merge", out, program, quick]:
            merge(out, program, int(quick), sys.stdin)
        case ["render", out]:
            render(out)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
