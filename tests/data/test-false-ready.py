#!/usr/bin/env python3
"""Inputs that are damaged at random. A dataset is ready only if its tree is the tree that was
packed.

With verify=sha256:, this holds for any change. Without it, this holds for truncated inputs, and
for changes in formats that have checksums of their content (a plain tar, an image and .lzma have
none). STAGE_TEST_ROUNDS, STAGE_TEST_SEED and STAGE_TEST_TURN choose the rounds."""
import gzip
import hashlib
import lzma
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *  # noqa: E402
from tarcraft import lzip, make_tar  # noqa: E402
from turn import in_turn  # noqa: E402

FILES = [(f"d{i % 7}/file{i}", os.urandom(40 * i) + b"words " * i, {}) for i in range(40)]
EXPECTED = {name: content for name, content, _ in FILES}


def packers():
    """name, the bytes, does the format tell by itself that it was changed?"""
    plain = make_tar(FILES)
    yield "tar", plain, False
    yield "gz", gzip.compress(plain), True
    yield "lz", lzip(plain), True
    yield "lzma", lzma.compress(plain, lzma.FORMAT_ALONE), False
    for name, command in (("zst", ["zstd", "-qc"]), ("lz4", ["lz4", "-qc"]), ("xz", ["xz", "-0c"])):
        if shutil.which(command[0]):
            yield name, subprocess.run(command, input=plain, stdout=subprocess.PIPE, check=True).stdout, True
    if IMAGES and shutil.which("mksquashfs"):
        base = scratch()
        for name, content in EXPECTED.items():
            os.makedirs(os.path.dirname(f"{base}/t/{name}"), exist_ok=True)
            with open(f"{base}/t/{name}", "wb") as f:
                f.write(content)
        subprocess.run(["mksquashfs", f"{base}/t", f"{base}/i", "-noappend", "-quiet", "-no-progress", "-nopad"], check=True,
                       stdout=subprocess.DEVNULL)
        yield "squashfs", open(f"{base}/i", "rb").read(), False
        remove(base)


def damage(rng, data):
    """Cut, or some bytes other; never what it was."""
    if rng.random() < 0.4:
        return "cut", data[:rng.randrange(len(data))]
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 50])):
        at, n = rng.randrange(len(out)), rng.choice([1, 1, 4, 600])
        what = rng.random()
        if what < 0.6:
            out[at] ^= 1 << rng.randrange(8)
        elif what < 0.8:
            out[at:at + n] = bytes(len(out[at:at + n]))
        elif what < 0.9:
            del out[at:at + n]
        else:
            out[at:at] = rng.randbytes(n)
    return "changed", bytes(out)


def tree(path):
    found = {}
    for root, _, names in os.walk(path):
        for name in names:
            p = os.path.join(root, name)
            found[os.path.relpath(p, path)] = open(p, "rb").read()
    return found


def test_ready_is_never_given_to_a_wrong_tree():
    seed = int(os.environ.get("STAGE_TEST_SEED", "1"))
    rounds = int(os.environ.get("STAGE_TEST_ROUNDS", "300"))
    rng, base = random.Random(seed), tempfile.mkdtemp(prefix="stage-src-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    formats = list(packers())
    count, n = {"ready": 0, "error": 0}, 0
    for i in range(rounds):
        name, data, tells = formats[i % len(formats)]
        how, bad = damage(rng, data)
        if bad == data or not in_turn(i):
            continue
        n += 1
        path = f"{base}/a.{name}"
        with open(path, "wb") as f:
            f.write(bad)
        verify = "" if tells or how == "cut" else f"+verify=sha256:{hashlib.sha256(data).hexdigest()}"
        with Worker(f"x={path}::method=extract{verify}", base=base) as w:
            m = w.run_until("ready", "error")
            word = f"seed {seed} round {i}: {name} {how}{verify}"
            assert m is not None, f"{word}: the worker died: {w.stderr()}"
            if m["op"] == "ready":
                assert tree(w.path) == EXPECTED, f"{word}: ready, and wrong"
            w.end()
            count[m["op"]] += 1
            remove(w.path)
        assert os.listdir(f"{base}/run/t/data") == [], word
    print("#", count)
    remove(base)
    assert count["error"] > n * 0.9, count


def test_the_same_inputs_are_ready_when_they_are_whole():
    """Else nothing of the above would mean much."""
    base = scratch()
    for name, data, _ in packers():
        with open(f"{base}/a", "wb") as f:
            f.write(data)
        with Worker(f"x={base}/a::method=extract+verify=sha256:{hashlib.sha256(data).hexdigest()}") as w:
            w.ready()
            assert tree(w.path) == EXPECTED, name
    remove(base)


if __name__ == "__main__":
    main(globals())
