"""Chooses which random rounds of a test are run: all, or with STAGE_TEST_TURN=I/N every N-th
block of them."""
import os

BLOCK = 20  # rounds: what depends on a round's number modulo 4, 5 or 10 is in each block


def in_turn(i):
    turn, n = map(int, os.environ.get("STAGE_TEST_TURN", "0/1").split("/"))
    return i // BLOCK % n == turn
