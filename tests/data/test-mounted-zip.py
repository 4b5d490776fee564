#!/usr/bin/env python3
"""Zips that are mounted: the same tree as by extraction, and errors instead of wrong bytes."""
import errno
import importlib.util
import io
import os
import random
import re
import subprocess
import sys
import threading
import warnings
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *  # noqa: E402

FILE, LINK, DIR = 0o100644, 0o120777, 0o040755
BLOCK = 128 << 10


def load(name):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bad_archives = load("test-bad-archives")


class Mounted(MountWorker):
    """top: of the mount"""

    def __init__(self, path, options="", **kw):
        super().__init__(f"x={path}::method=mount{options}", fuse=1, **kw)
        self.m = self.run_until("ready", "error")
        assert self.m, "the worker died: " + self.stderr()
        self.top = os.path.realpath(self.path) if self.m["op"] == "ready" else None


def text(size, seed=1):
    """As dense as prose: deflate makes a third of it."""
    r = random.Random(seed)
    words = [bytes(r.randrange(97, 123) for _ in range(r.randrange(2, 9))) for _ in range(500)]
    page = b" ".join(r.choices(words, k=min(size, 200000) // 4 + 10))
    return b"".join(b"%d %d %s" % (seed, i, page) for i in range(size // len(page) + 1))[:size]


def pack(path, members, level=6, **kw):
    """members: (name, data, mode, method)"""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", **kw) as z:
        warnings.simplefilter("ignore")
        for i, (name, data, mode, method) in enumerate(members):
            info = zipfile.ZipInfo(name, (1990 + i % 40, 1 + i % 12, 1 + i % 28, i % 24, i % 60, i % 30 * 2))
            info.external_attr, info.compress_type, info.create_system = mode << 16, method, 3
            z.writestr(info, data, compresslevel=level)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def no_fuse():
    return None if os.path.exists("/dev/fuse") else "no /dev/fuse"


def sizes():
    """Around blocks, and around the places where a state is kept (32 blocks)."""
    yield from (0, 1, 511, 4096, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 7)
    yield from (32 * BLOCK - 1, 32 * BLOCK, 32 * BLOCK + 1, 65 * BLOCK + 5)


def make_many(path):
    both = (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED)
    members = [(f"d{m}/s{n}", text(n, n), FILE | n % 64, m) for n in sizes() for m in both]
    members += [("link", b"d8/s1", LINK, both[1]), ("d8/packed-link", b"../link" * 9, LINK, both[0]),
                ("empty/", b"", DIR, both[1]), ("once", b"old" * 999, FILE, both[0]), ("once", b"new" * 99, FILE, both[0]),
                ("noise", os.urandom(3 * BLOCK), 0o100400, both[0]), ("zeros", bytes(9 << 20), FILE, both[0])]
    pack(path, members)


class Pipe(io.RawIOBase):
    """What can only be written to."""
    data = b""

    def writable(self):
        return True

    def write(self, data):
        self.data += bytes(data)
        return len(data)


def all_zips(base):
    """What the suites stage, by all programs that write zips here."""
    src = f"{base}/src"
    os.makedirs(f"{src}/deep/er")
    for i in range(30):
        with open(f"{src}/deep/f{i}", "wb") as f:
            f.write(text(i * 9000, i))
        os.chmod(f"{src}/deep/f{i}", 0o600 + i % 8)
        os.utime(f"{src}/deep/f{i}", (10 ** 9 + i, 10 ** 9 + i))
    for n in ("gr\u00fc\u00dfe", "e\u0301", "\u00e9", "a b", "-rf"):
        with open(f"{src}/{n}", "wb") as f:
            f.write(n.encode())
    os.symlink("deep/f1", f"{src}/link")
    subprocess.check_call(["zip", "-qry", f"{base}/zip.zip", "."], cwd=src)
    subprocess.check_call(["zip", "-qry0", f"{base}/stored.zip", "."], cwd=src)
    subprocess.check_call(["zip", "-qry9", "-fz", f"{base}/zip64.zip", "."], cwd=src)
    if shutil.which("bsdtar"):
        subprocess.check_call(["bsdtar", "--format", "zip", "-cf", f"{base}/bsdtar.zip", "."], cwd=src)
    pipe = Pipe()  # sizes come after the data
    pack(pipe, [(f"p{n}", text(n, n), FILE, zipfile.ZIP_DEFLATED) for n in sizes()])
    with open(f"{base}/piped.zip", "wb") as f:
        f.write(pipe.data)
    make_many(f"{base}/many.zip")
    for level in (1, 9):
        pack(f"{base}/level{level}.zip", [("t", text(5 << 20), FILE, zipfile.ZIP_DEFLATED)], level)
    with open(f"{base}/self.zip", "wb") as f:
        f.write(b"#!/bin/sh\n" + bytes(5000) + read(f"{base}/zip.zip"))
    with open(f"{base}/comment.zip", "wb") as f:
        f.write(read(f"{base}/zip.zip")[:-2] + b"\x05\0hello")
    cases = [c for c in bad_archives.zips() if isinstance(c[2], bad_archives.Ready) and "thousands" not in c[0]]
    for i, (_, data, _) in enumerate(cases):
        with open(f"{base}/case{i}.zip", "wb") as f:
            f.write(data)
    return sorted(n for n in os.listdir(base) if n.endswith(".zip"))


def test_all_zips_of_the_suites_are_as_extracted():
    """Red where a member's data is looked for behind its entry's name instead of its header's, or
    times are not kept."""
    if no_fuse():
        return no_fuse()
    base, mounted = scratch(), 0
    for name in all_zips(base):
        with Worker(f"x={base}/{name}::method=extract") as w, Mounted(f"{base}/{name}") as m:
            w.ready()
            if not m.top:
                assert "can't be mounted" in m.m["text"], (name, m.m)
                continue
            mounted += 1
            a, b = describe(w.path), describe(m.top)
            for tree in (a, b):  # of a directory without an entry both are extraction's own
                for k, v in tree.items():
                    tree[k] = v[:1] if v[:1] == ("dir",) else v
            for k in sorted(set(a) | set(b)):
                assert a.get(k) == b.get(k), (name, k, str(a.get(k))[:200], str(b.get(k))[:200])
    print(f"# {mounted} zips")
    assert mounted >= 15, mounted
    remove(base)


def test_hostile_and_damaged_zips_are_refused_or_fail_their_readers():
    """Those that extraction refuses. Red where zip_scan() takes a device, or a small stored member
    has no checksum."""
    if no_fuse():
        return no_fuse()
    base, refused, failed = scratch(), 0, 0
    for name, data, expect in bad_archives.zips():
        if not isinstance(expect, bad_archives.Fails) or name == "zip, more than the limit":
            continue
        with open(f"{base}/a.zip", "wb") as f:
            f.write(data)
        with Mounted(f"{base}/a.zip") as m:
            if not m.top:
                refused += 1
                assert f"{base}/a.zip" in m.m["text"] and not re.search(r"[\x00-\x1f\x7f]", m.m["text"]), m.m
                continue
            try:
                describe(m.top)
                raise AssertionError(f"{name}: all of it was read")
            except OSError as e:
                assert e.errno == errno.EIO, (name, e)
            failed += 1
    print(f"# {refused} refused, {failed} fail their readers")
    assert refused > 5 and failed > 0
    remove(base)


def test_any_place_of_a_member_is_read_right():
    """Red where a kept state is used for the block before its own."""
    if no_fuse():
        return no_fuse()
    base, size = scratch(), 24 << 20
    data = text(size)
    pack(f"{base}/a.zip", [("t", data, FILE, zipfile.ZIP_DEFLATED)])
    # of the smallest cache, so that states have to go
    with Mounted(f"{base}/a.zip", cachesize=2 << 20) as m:
        assert m.top, m.m
        fd = os.open(f"{m.top}/t", os.O_RDONLY)
        r = random.Random(4711)
        for _ in range(120):
            at, n = r.randrange(size), r.randrange(1, 300000)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            assert os.pread(fd, n, at) == data[at:at + n], (at, n)
        os.close(fd)
    remove(base)


def test_many_readers_read_the_same():
    """Red where two threads inflate one stream at once."""
    if no_fuse():
        return no_fuse()
    base, wrong = scratch(), []
    data = {f"t{i}": text((1 + 3 * i) << 20, i) for i in range(4)}
    pack(f"{base}/a.zip", [(n, d, FILE, zipfile.ZIP_DEFLATED) for n, d in data.items()])
    with Mounted(f"{base}/a.zip", threads=8, cachesize=4 << 20) as m:
        assert m.top, m.m

        def look(seed):
            r = random.Random(seed)
            for _ in range(12):
                name = r.choice(list(data))
                at, n = r.randrange(len(data[name])), r.randrange(1, 1 << 20)
                with open(f"{m.top}/{name}", "rb", 0) as f:
                    os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    if os.pread(f.fileno(), n, at) != data[name][at:at + n]:
                        wrong.append((name, at, n))

        threads = [threading.Thread(target=look, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong, wrong
    remove(base)


def fails_or_is(path, data, name):
    """EIO, after right bytes if any."""
    try:
        with open(path, "rb", 0) as f:
            at = 0
            while True:
                piece = f.read(1 << 16)
                assert piece == data[at:at + len(piece)], f"{name}: other bytes at {at}"
                at += len(piece)
                if not piece:
                    assert at == len(data), f"{name}: {at} of {len(data)} bytes"
                    return False
    except OSError as e:
        assert e.errno == errno.EIO, (name, e)
        return True


def damage():
    """(what, name of the member, how the bytes of the zip are changed)"""
    def put(offset, size):
        def change(z, info):
            for place in (info.header_offset + offset[0], z.index(b"PK\1\2", info.header_offset) + offset[1]):
                z[place:place + 4] = size.to_bytes(4, "little")
        return change

    def flip(where):
        def change(z, info):
            z[info.header_offset + 30 + len(info.filename) + where(info.compress_size)] ^= 0x41
        return change
    for at in (5, 1000):
        yield f"a byte at {at}", flip(lambda n, at=at: at)
    yield "its last byte", flip(lambda n: n - 1)
    yield "its middle", flip(lambda n: n // 2)
    yield "its checksum", put((14, 16), 4711)
    yield "shorter than it says", put((22, 24), (1 << 20) + 1)
    yield "longer than it says", put((22, 24), (1 << 20) - 1)
    yield "much longer than it says", put((22, 24), BLOCK)


def test_damage_in_a_member_is_an_error():
    """No byte that is read is wrong before the member's end, where its checksum tells. Red without
    check_end()."""
    if no_fuse():
        return no_fuse()
    base, data = scratch(), text(1 << 20)
    pack(f"{base}/a.zip", [("t", data, FILE, zipfile.ZIP_DEFLATED), ("after", data, FILE, zipfile.ZIP_DEFLATED)])
    info = zipfile.ZipFile(f"{base}/a.zip").getinfo("t")
    for name, change in damage():
        z = bytearray(read(f"{base}/a.zip"))
        change(z, info)
        with open(f"{base}/b.zip", "wb") as f:
            f.write(z)
        with Mounted(f"{base}/b.zip") as m:
            assert m.top, (name, m.m)
            for _ in range(2):
                try:
                    read(f"{m.top}/t")
                    raise AssertionError(f"{name}: no error")
                except OSError as e:
                    assert e.errno == errno.EIO, (name, e)
            assert read(f"{m.top}/after") == data, name
            said = [t for t in drain(m) if "reading the archive failed" in t]
            assert len(said) == 1 and "t is damaged" in said[0], (name, said)
    remove(base)


def read_in_pieces(path, size, places):
    """The whole file; each piece is asked of the server, as nothing is read ahead."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        return {at: os.pread(fd, size, at) for at in places}
    finally:
        os.close(fd)


def test_who_reads_all_of_a_damaged_stored_member_gets_an_error():
    """In whatever order. Red where stored members are spliced before their checksum was compared,
    or sums of pieces are joined in the wrong order."""
    if no_fuse():
        return no_fuse()
    base, data, size = scratch(), os.urandom((3 << 20) + 4711), 96 << 10
    pack(f"{base}/a.zip", [(n, data, FILE, zipfile.ZIP_STORED) for n in ("bad", "good")])
    info, z = zipfile.ZipFile(f"{base}/a.zip").getinfo("bad"), bytearray(read(f"{base}/a.zip"))
    z[info.header_offset + 30 + len("bad") + (1 << 20)] ^= 1
    with open(f"{base}/b.zip", "wb") as f:
        f.write(z)
    forward = list(range(0, len(data), size))
    mixed = random.Random(1).sample(forward, len(forward))
    for word, places in (("in order", None), ("backwards", forward[::-1]), ("mixed", mixed),
                         ("overlapping", [at // 2 for at in range(0, 2 * len(data), size)])):
        with Mounted(f"{base}/b.zip", threads=4) as m:
            assert m.top, m.m
            for name in ("bad", "good", "bad", "good"):
                try:
                    if places:
                        got = read_in_pieces(f"{m.top}/{name}", size, places)
                        assert all(got[at] == data[at:at + size] for at in places), (word, name)
                    else:
                        assert read(f"{m.top}/{name}") == data, (word, name)
                    assert name == "good", (word, "no error")
                except OSError as e:
                    assert e.errno == errno.EIO and name == "bad", (word, name, e)
            said = [t for t in drain(m) if "reading the archive failed" in t]
            assert len(said) == 1 and "bad is damaged" in said[0], (word, said)
    remove(base)


def drain(m):
    try:
        while not m.warnings():
            m.receive(20)
    except TimeoutError:
        pass
    return m.warnings()


def test_sizes_that_can_not_be_are_refused():
    """Red without check_sizes(): a file of a terabyte, of which the first read takes for ever."""
    if no_fuse():
        return no_fuse()
    base = scratch()
    pack(f"{base}/a.zip", [("t", b"x" * 1000, FILE, zipfile.ZIP_DEFLATED), ("s", b"y" * 1000, FILE, zipfile.ZIP_STORED)])
    for name, at in (("t", 24), ("s", 24), ("s", 20)):
        z = bytearray(read(f"{base}/a.zip"))
        info = zipfile.ZipFile(f"{base}/a.zip").getinfo(name)
        entry = z.index(b"PK\1\2") if name == "t" else z.index(b"PK\1\2", z.index(b"PK\1\2") + 1)
        for place in (entry + at, info.header_offset + at - 2):
            z[place:place + 4] = (0x7ffffff).to_bytes(4, "little")
        with open(f"{base}/b.zip", "wb") as f:
            f.write(z)
        with Mounted(f"{base}/b.zip") as m:
            assert m.m["op"] == "error", (name, at)
            text = m.m["text"]
            assert "when packed, which can't be" in text or "lies after the end of the zip" in text or "share one place" in text, text
    remove(base)


def test_random_damage_gives_errors_and_no_wrong_bytes():
    """As test-false-ready.py: ready, and each file is right or its reader gets an error."""
    if no_fuse():
        return no_fuse()
    base = scratch()
    r = random.Random(int(os.environ.get("STAGE_TEST_SEED", "1")))
    names = {"small": text(3000), "one": text(BLOCK - 3), "two": text(2 * BLOCK), "stored": text(9000), "big": text(1 << 20, 7),
             "stored too": text(BLOCK + 4711, 8)}
    pack(f"{base}/a.zip", [(n, d, FILE, zipfile.ZIP_STORED if "stored" in n else zipfile.ZIP_DEFLATED)
                           for n, d in names.items()])
    good, ready, failed = read(f"{base}/a.zip"), 0, 0
    for i in range(int(os.environ.get("STAGE_TEST_ROUNDS", "40"))):
        z = bytearray(good)
        for _ in range(r.randrange(1, 3)):
            # half of them in the list at the end, which is small
            at = r.randrange(len(z)) if i % 2 else len(z) - 1 - r.randrange(500)
            z[at] ^= 1 << r.randrange(8)
        if i % 5 == 4:
            del z[r.randrange(len(z)):]
        with open(f"{base}/b.zip", "wb") as f:
            f.write(z)
        with Mounted(f"{base}/b.zip") as m:
            if not m.top:
                continue
            ready += 1
            for n in os.listdir(m.top):
                if n not in names or not os.path.isfile(f"{m.top}/{n}"):
                    continue
                small = len(names[n]) <= BLOCK
                if small:
                    failed += fails_or_is(f"{m.top}/{n}", names[n], f"round {i}, {n}")
                    continue
                try:
                    assert read(f"{m.top}/{n}") == names[n], f"round {i}, {n}"
                except OSError as e:
                    assert e.errno == errno.EIO, e
                    failed += 1
    print(f"# {ready} mounted, {failed} files failed")
    assert ready > 5 and failed > 5
    remove(base)


def test_a_mounted_zip_that_changes_gives_errors():
    """Wrong bytes without the check after a read of read_packed()."""
    if no_fuse():
        return no_fuse()
    base, old, new = scratch(), text(1 << 20), text(1 << 20, 2)

    def put(path, data):
        pack(path, [(f"f{i}", data, FILE, m) for i, m in enumerate((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED) * 2)])

    for word, change in (("grows", lambda p: open(p, "ab").write(b"more")), ("shrinks", lambda p: os.truncate(p, 3000)),
                         ("is written again", lambda p: put(p, new))):
        put(f"{base}/a.zip", old)
        os.utime(f"{base}/a.zip", (10 ** 9, 10 ** 9))
        with Mounted(f"{base}/a.zip") as m:
            assert m.top, m.m
            assert read(f"{m.top}/f0") == old
            change(f"{base}/a.zip")
            for n in ("f1", "f2", "f3"):
                try:
                    read(f"{m.top}/{n}")
                    raise AssertionError(f"{word}: {n} was read")
                except OSError as e:
                    assert e.errno == errno.EIO, (word, e)
            assert read(f"{m.top}/f0") == old, word
    remove(base)


def test_what_only_extraction_reads_is_left_to_it():
    if no_fuse():
        return no_fuse()
    base = scratch()
    for method, fix in ((zipfile.ZIP_LZMA, "method=extract unpacks it"), (zipfile.ZIP_BZIP2, "method=extract unpacks it")):
        pack(f"{base}/a.zip", [("first", b"1", FILE, zipfile.ZIP_STORED), ("t", text(5000), FILE, method)])
        with Mounted(f"{base}/a.zip") as m:
            assert m.m["op"] == "error" and "can't be mounted: t is neither" in m.m["text"] and fix in m.m["text"], m.m
    z = bytearray(read(f"{base}/a.zip"))
    for magic, at in ((b"PK\3\4", 8), (b"PK\1\2", 10)):  # deflate64, of the second
        place = z.index(magic, z.index(magic) + 1) + at
        z[place:place + 2] = (9).to_bytes(2, "little")
    with open(f"{base}/b.zip", "wb") as f:
        f.write(z)
    with Mounted(f"{base}/b.zip") as m:
        assert m.m["op"] == "error" and "packed by a method that can't be unpacked here" in m.m["text"], m.m
    remove(base)


def test_a_zip_behind_something_is_mounted():
    """Such as a program that unpacks it. Extraction has read it, and the mount called it a file."""
    base = scratch()
    path = os.path.join(base, "x.zip")
    pack(path, [("d/f", text(5000), FILE, zipfile.ZIP_DEFLATED), ("g", b"1", FILE, zipfile.ZIP_STORED)])
    with open(path, "rb") as f:
        data = f.read()
    with open(path, "wb") as f:
        f.write(b"#!/bin/sh\nexec unzip $0\n" + data)
    with Mounted(path) as w:
        assert w.top, w.m
        assert open(f"{w.top}/d/f", "rb").read() == text(5000) and open(f"{w.top}/g", "rb").read() == b"1"
    remove(base)


def test_a_zip_that_fits_nowhere_is_mounted():
    """Refused where auto mounts tars alone."""
    if no_fuse():
        return no_fuse()
    base, data = scratch(), text(3 << 20)
    pack(f"{base}/a.zip", [(n, data, FILE, zipfile.ZIP_DEFLATED) for n in "tuv"])
    with Worker(f"x={base}/a.zip", fuse=1, ssd=0, memlimit=4 << 20) as w:
        m = w.run_until("ready", "error")
        assert m and m["op"] == "ready", m
        assert read(f"{os.path.realpath(w.path)}/t") == data
        assert any("mounted where it is, because it fits nowhere" in t for t in w.warnings()), w.warnings()
        w.sock.close()
        w.end()
    remove(base)


def test_a_copy_of_a_zip_is_mounted():
    if no_fuse():
        return no_fuse()
    base, data = scratch(), text(3 << 20)
    pack(f"{base}/a.zip", [("d/t", data, FILE, zipfile.ZIP_DEFLATED)])
    for options in ("+hydrate=copy", "+subdir=d"):
        with Mounted(f"{base}/a.zip", options) as m:
            assert m.top, m.m
            assert read(f"{m.top}/t" if "subdir" in options else f"{m.top}/d/t") == data
    remove(base)


if __name__ == "__main__":
    main(globals())
