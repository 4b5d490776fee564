"""Plots by gnuplot, as SVG that can be read on a white and on a black page; without gnuplot there
are none.

performance-ratios.svg: how many times faster than each peer, with the targets as marks.
performance-curves.svg: a panel a curve, both axes logarithmic.
"""
import os
import shutil
import statistics
import subprocess
import sys

GREY, OURS, PEER, MISSED, MARK = "#808080", "#2f8fd0", "#e08214", "#d0593f", "#808080"
COLOURS = [OURS, PEER, "#1a9e77", "#c264a5", "#7570d3", "#b8860b", "#d0593f", "#66a61e"]
BAR_PX, HEAD_PX, PANEL_PX = 22, 80, 360
LABEL_MAX, LABEL_PX = 70, 7
UNITS = {"s": "seconds"}
median = statistics.median


def draw(out, rows, curves):
    """Writes what there is something for; the names of the plots."""
    if not shutil.which("gnuplot"):
        print("bench: no gnuplot, no plots", file=sys.stderr)
        return []
    drawn = []
    bars = [b for b in map(bar_of, rows) if b]
    if bars:
        run_gnuplot(out + "/performance-ratios.svg", ratios(bars))
        drawn.append("ratios")
    panels = {name: [p for p in points if p.get("ours")] for name, points in curves.items()}
    panels = {name: points for name, points in panels.items() if len({p["x"] for p in points}) > 1}
    if panels:
        run_gnuplot(out + "/performance-curves.svg", curve_panels(panels))
        drawn.append("curves")
    return drawn


def run_gnuplot(path, script):
    """What is left of an older version would be wrong, so it goes first."""
    if os.path.exists(path):
        os.unlink(path)
    subprocess.run(["gnuplot"], input=script.replace("OUTPUT", quote(path)), text=True, check=True)


def quote(text):
    return "'" + text.replace("'", "''") + "'"


def terminal(width, height):
    return (f"set terminal svg size {width},{height} dynamic font 'sans-serif,13'\n"
            "set output OUTPUT\n"
            f"set border lc rgb '{GREY}'\nset tics textcolor rgb '{GREY}'\n"
            f"set xlabel textcolor rgb '{GREY}'\nset ylabel textcolor rgb '{GREY}'\n"
            f"set title textcolor rgb '{GREY}'\nset key textcolor rgb '{GREY}'\n"
            f"set grid lc rgb '{GREY}' lw 0.3\n")


def bar_of(row):
    """(label, ratio, target) of a row that has a target."""
    if row.get("failed") or not row.get("target") or not row.get("ours") or not row.get("theirs"):
        return None
    ratio = median(row["theirs"]) / median(row["ours"])
    return f"{row['row'].split(', which')[0]} : {row['peer']}", ratio, row["target"]


def plain(text):
    return text.replace("\\", "/").replace('"', "'")


def block(name, lines):
    return f"${name} << EOD\n" + "\n".join(lines) + "\nEOD\n"


def ratios(bars):
    n = len(bars)
    longest = min(LABEL_MAX, max(len(label) for label, _, _ in bars))
    lines = [f'{n - i} {ratio:.4f} "{plain(label[:LABEL_MAX])}"' for i, (label, ratio, _) in enumerate(bars)]
    good = [line for line, (_, ratio, target) in zip(lines, bars) if ratio >= target]
    bad = [line for line in lines if line not in good]
    marks = [f"{n - i} {target}" for i, (_, _, target) in enumerate(bars)]
    low = min([0.5] + [ratio / 1.3 for _, ratio, _ in bars])
    high = max([10] + [ratio * 1.6 for _, ratio, _ in bars] + [target * 1.2 for _, _, target in bars])
    script = terminal(500 + LABEL_PX * longest, HEAD_PX + BAR_PX * n)
    for name, some in ("good", good), ("bad", bad), ("marks", marks), ("names", lines):
        script += block(name, some)
    plots = []
    for name, colour, title in (("good", OURS, "times faster than the peer"),
                                ("bad", MISSED, "below its target")):
        if good if name == "good" else bad:
            plots.append(f"${name} using (0.5*($2+{low})):1:({low}):2:($1-0.32):($1+0.32) "
                         f"with boxxyerror fs solid 0.85 noborder lc rgb '{colour}' title '{title}'")
    for end, title in ("0.42", "title 'target'"), ("-0.42", "notitle"):
        plots.append(f"$marks using 2:1:(0):({end}) with vectors nohead lw 3 lc rgb '{MARK}' {title}")
    plots.append(f"$names using ({high}):1:(sprintf('%.3g×', $2)) with labels right offset 6,0 "
                 f"tc rgb '{GREY}' notitle")
    return script + (
        f"set encoding utf8\nset logscale x\nset xrange [{low}:{high}]\nset yrange [0.3:{n + 0.7}]\n"
        f"set lmargin {longest * 0.85:.0f}\nset rmargin 8\nset termoption noenhanced\n"
        "set key outside top horizontal\nset grid x\nunset grid\nset grid xtics\n"
        "set xtics (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000) format '%g×'\n"
        f"set arrow from 1,0.3 to 1,{n + 0.7} nohead lc rgb '{GREY}' lw 1.5\n"
        "plot $names using (1):1:ytic(3) with dots lc rgb '#00ffffff' notitle, " + ", ".join(plots) + "\n")


def curve_panels(panels):
    rows = (len(panels) + 1) // 2
    columns = min(2, len(panels))
    script = terminal(480 * columns, PANEL_PX * rows)
    script += f"set multiplot layout {rows},{columns}\nset logscale xy\nset format x '%.0s%c'\nset format y '%g'\n"
    script += "set key top left reverse Left samplen 2 noenhanced\nset pointsize 0.7\n"
    for number, (name, points) in enumerate(panels.items()):
        lines = curve_lines(points)
        plots = []
        for i, (label, dash, data) in enumerate(lines):
            script += block(f"p{number}x{i}", [f"{x} {y}" for x, y in data])
            plots.append(f"$p{number}x{i} with linespoints lw 2 dt {dash} pt 7 "
                         f"lc rgb '{COLOURS[i % len(COLOURS)]}' title \"{plain(label)}\"")
        xs, ys = zip(*[point for line in lines for point in line[2]])
        script += f"set xlabel \"{plain(points[0].get('xlabel', name))}\"\n"
        script += f"set ylabel \"{plain(UNITS.get(points[0]['unit'], points[0]['unit']))}\"\n"
        script += f"set xrange [{min(xs) / 1.3:.6g}:{max(xs) * 1.3:.6g}]\n"
        # Room for the key, a line of which is about a 16th of the height
        room = (max(ys) / min(ys)) ** (len(lines) / (18 - len(lines)))
        script += f"set yrange [{min(ys) / 1.5:.6g}:{max(ys) * 1.5 * room:.6g}]\n"
        script += "plot " + ", ".join(plots) + "\n"
    return script + "unset multiplot\n"


def curve_lines(points):
    """(label, dash, [(x, y)]) of ours and the peer of each series."""
    found = {}
    for p in points:
        for who, values in (("stage-data", p["ours"]), (p.get("peer"), p.get("theirs"))):
            if who and values:
                found.setdefault((p.get("series", ""), who), []).append((p["x"], median(values)))
    alone = {who for _, who in found} == {"stage-data"}
    return [(" : ".join(filter(None, (series, None if alone and series else who))),
             1 if who == "stage-data" else 2, sorted(data)) for (series, who), data in found.items()]
