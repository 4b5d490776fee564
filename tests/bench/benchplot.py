"""Plots by gnuplot; without it there are none."""


def draw(out, rows, curves):
    return []
