#!/usr/bin/env python3
"""Servers that send wrong answers at random. A dataset is ready only if it is one complete
version of the object.

Each answer may be truncated, announce other lengths or parts than it has, have broken chunks or
another ETag, or belong to another version of the object. With verify=sha256:, an answer may also
have changed bytes without any other sign. STAGE_TEST_ROUNDS and STAGE_TEST_SEED set the number
of rounds and the random numbers."""
import concurrent.futures
import email.utils
import gzip
import hashlib
import io
import os
import random
import sys
import tarfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *  # noqa: E402
import harness  # noqa: E402
from turn import in_turn  # noqa: E402
from webserver import *  # noqa: E402

SLOW = os.environ["STAGE_TEST_SLOW"]


def make_tgz(rng):
    files = {f"d{i % 3}/f{i}": rng.randbytes(rng.choice([0, 100, 5000, 120_000])) for i in range(20)}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return gzip.compress(out.getvalue(), 1), files


class States:
    """What there is: files of some sizes, an archive, and of each another state of the same size,
    and one of another."""

    def __init__(self, rng):
        self.files = [[rng.randbytes(n), rng.randbytes(n), rng.randbytes(n + 1000)] for n in (1, 60_000, 5 << 20, 6_000_000)]
        packed = [make_tgz(rng) for _ in range(3)]
        self.archives, self.trees = [p for p, _ in packed], [t for _, t in packed]


# What an answer may do that is seen by what it says, and what only a sum tells.
TOLD = ("cut", "cut", "changed", "changed", "whole", "chunks cut", "long", "two", "word", "range begins", "range ends", "range total", "whole", "changed", "chunks cut", "chunk size",
        "chunk word", "status", "no end", "head cut", "range twice", "no state", "elsewhere")
UNTOLD = ("short", "chunks early", "chunk too long", "flip", "same state", "other part", "zeros")


class Liar(Handler):
    def do_GET(self):
        with self.server.lock:
            thing = self.server.things.get(self.path)
            thing.requests += 1
            rng = thing.rng
            how = rng.choice(thing.kinds) if rng.random() < thing.rate_of_lies else ""
            if how in ("changed", "same state"):  # seldom to one of another size, which tells at once
                thing.state = 2 if rng.random() < 0.2 else 1 - thing.state % 2
            if how == "cut" and thing.in_chunks:
                how = "chunks cut"
            dice = random.Random(rng.random())
        self.lie(thing, how, dice)

    do_HEAD = do_GET

    def lie(self, thing, how, dice):
        data = thing.states[thing.state]
        tag = '"same"' if thing.one_tag or how == "same state" else f'"{thing.state}"'
        if how == "status":
            return self.answer(dice.choice([404, 416, 500, 503, 206, 301]), b"not now")
        thing.etag = tag
        part = None if how == "whole" or thing.no_ranges else self.wanted_part(data, tag, thing.if_range)
        begin, end = part or (0, len(data))
        if how == "elsewhere" and part:
            off = dice.choice([-begin, -1, 1, 1000])
            begin, end = max(0, begin + off), max(1, end + off)
        body = data[begin:end]
        at = dice.randrange(len(body) + 1)
        if how == "flip" and body:
            at = min(at, len(body) - 1)
            body = body[:at] + bytes([body[at] ^ 1 << dice.randrange(8)]) + body[at + 1:]
        elif how == "zeros":
            body = body[:at] + bytes(len(body) - at)
        elif how == "other part":
            at = dice.randrange(len(data))
            body = (data[at:] + data)[:len(body)]
        lines = ["HTTP/1.1 206 Part" if part else "HTTP/1.1 200 OK"]
        if part:
            lines += self.ranges(how, dice, begin, len(body), len(data))
        if how != "no state":
            lines += [f"ETag: {tag}", "Last-Modified: " + email.utils.formatdate(1_700_000_000 + thing.state, usegmt=True)]
        sent = self.framed(thing, how, dice, body, lines)
        head = "\r\n".join(lines + ["", ""]).encode()
        if how == "head cut":
            head, sent = head[:dice.randrange(len(head) - 1)], b""
        self.send(head + sent, how)

    def wanted_part(self, data, tag, if_range):
        m = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not m or int(m[1]) >= len(data) or (if_range and self.headers.get("If-Range", tag) != tag):
            return None
        return int(m[1]), min(int(m[2]) + 1 if m[2] else len(data), len(data))

    def ranges(self, how, dice, begin, n, total):
        off = dice.choice([-5, -1, 1, 7, 1000])
        last = begin + n - 1
        if how == "range begins":
            begin = max(0, begin + off)
        elif how == "range ends":
            last = max(0, last + off)
        elif how == "range total":
            total = total + dice.choice([1, 77, 10 ** 9])
        line = f"Content-Range: bytes {begin}-{last}/{total}"
        return [line] + ([f"Content-Range: bytes {begin + 1}-{last}/{total}"] if how == "range twice" else [])

    def framed(self, thing, how, dice, body, lines):
        """What follows the head, of which this adds how long it is."""
        if how.startswith("chunk") or (thing.in_chunks and how in ("", "changed", "whole", "elsewhere", "same state", "flip")):
            lines.append("Transfer-Encoding: chunked")
            return self.chunked(how, dice, body)
        if how == "no end":
            lines.append("Connection: close")
            return body[:dice.randrange(len(body) + 1)]
        n = len(body)
        if how in ("short", "long"):
            n = max(0, n + dice.choice([1, 2, 100, 10 ** 6]) * (1 if how == "long" else -1))
        lines.append("Content-Length: " + ("some" if how == "word" else str(n)))
        if how == "two":
            lines.append(f"Content-Length: {n + dice.choice([-1, 1, 50])}")
        return body[:dice.randrange(len(body) + 1)] if how == "cut" else body

    def chunked(self, how, dice, body):
        out, at = [], 0
        bad = dice.randrange(4)
        while at < len(body) or (bad >= 0 and how.startswith("chunk")):
            n = dice.choice([1, 100, 5000, 70_000] if how.startswith("chunk") else [70_000, 1 << 20])
            piece = body[at:at + n]
            at += n
            bad -= 1
            if bad < 0 and how == "chunks early":
                break
            if bad < 0 and how.startswith("chunk"):
                if how == "chunk size":  # and something behind it that is no end of a chunk
                    out.append(b"%x\r\n%s\r\n0\r\n\r\n" % (max(0, len(piece) + dice.choice([-1, 2])), piece))
                elif how == "chunk too long":  # for libcurl LF ends a chunk as CR LF does; or as one that is cut off
                    out.append(b"%x\r\n%s\r\n" % (len(piece) + dice.choice([1, 5000]), piece))
                elif how == "chunk word":
                    out.append(dice.choice([b"", b"zz", b"-5", b"\r\n", b"ffffffffffffffffff"]) + b"\r\n" + piece + b"\r\n")
                else:  # cut
                    out.append(b"%x\r\n%s" % (len(piece) + 1, piece))
                    return b"".join(out)
                return b"".join(out) + b"0\r\n\r\n" * dice.randrange(2)
            if piece:
                out.append(b"%x\r\n%s\r\n" % (len(piece), piece))
        return b"".join(out) + b"0\r\n\r\n"

    def send(self, data, how):
        try:
            self.wfile.write(data)
        except OSError:
            self.close_connection = True
        if how:
            self.hang_up()


def tree(path):
    found = {}
    for root, _, names in os.walk(path):
        for name in names:
            p = os.path.join(root, name)
            found[os.path.relpath(p, path)] = open(p, "rb").read()
    return found


def try_one(server, states, seed, i):
    """ready, error, or a text of what is wrong."""
    rng = random.Random(f"{seed} {i}")
    verify, archive = rng.random() < 0.5, rng.random() < 0.3
    kind = rng.randrange(len(states.files))
    kinds = TOLD + UNTOLD * 2 if verify else TOLD
    kinds = rng.sample(kinds, rng.choice([1, 2, 3, len(kinds)]))  # few: else the first of them hides the others
    no_ranges, if_range, in_chunks, which = rng.random() < 0.25, rng.random() < 0.5, rng.random() < 0.4, rng.random()
    if which < 0.2:  # between its parts, whatever was asked for, and nothing else
        verify, archive, no_ranges, if_range, kinds = False, False, False, False, ["changed"]
    elif which < 0.3:  # of a size that nobody knows, and always from its beginning
        verify, archive, no_ranges, in_chunks, kinds = False, False, True, True, ["cut"]
    path = f"/{i}" + (".tgz" if archive else ".bin")
    thing = Thing(rng=rng, states=states.archives if archive else states.files[kind], state=0, one_tag=verify and rng.random() < 0.3,
                  no_ranges=no_ranges, if_range=if_range, rate_of_lies=rng.choice([0.1, 0.4, 0.8]),
                  in_chunks=in_chunks, kinds=kinds)
    with server.lock:
        server.things[path] = thing
    options = "verify=sha256:" + hashlib.sha256(thing.states[0]).hexdigest() if verify else ""
    with Worker(f"x={server.url(path)}:shm:{options}", web=server.rule(), tiers="shm", stall=600_000, threads=2) as w:
        m = w.run_until("ready", "error", timeout=120)
        word = f"seed {seed} round {i}: {path} {options}"
        if m is None:
            return f"{word}: the worker died: {w.stderr()}"
        if m["op"] == "ready":
            good = (states.trees if archive else states.files[kind])[:1 if verify else 3]
            got = tree(w.path) if archive else open(w.path, "rb").read()
            if got not in good:
                return f"{word}: ready, and wrong"
        w.end(60)
        if m["op"] == "error":
            w.check_nothing_left()
    with server.lock:
        del server.things[path]
    return m["op"]


def test_ready_is_never_given_to_what_a_liar_sent():
    """Red when check_same() looks at no ETag, or check_whole() skips nothing."""
    seed = int(os.environ.get("STAGE_TEST_SEED", "1"))
    rounds = [i for i in range(int(os.environ.get("STAGE_TEST_ROUNDS", "200"))) if in_turn(i)]
    states, count, wrong, where = States(random.Random(seed)), {}, [], scratch()
    harness.WORKER = in_place_of_fetch(where, WORKER, SLOW, SLOW_HASTE=1)
    with Server() as s, concurrent.futures.ThreadPoolExecutor(16) as pool:
        s.RequestHandlerClass = Liar
        for said in pool.map(lambda i: try_one(s, states, seed, i), rounds):
            word = said if said in ("ready", "error") else "wrong"
            count[word] = count.get(word, 0) + 1
            if word == "wrong":
                wrong.append(said)
    harness.WORKER = WORKER
    remove(where)
    print("#", count)
    assert not wrong, "\n".join(wrong[:20])
    assert count["error"] > len(rounds) * 0.3 and count["ready"] > len(rounds) * 0.1, count


if __name__ == "__main__":
    main(globals())
