#!/usr/bin/env python3
"""A real worker extracts archives. The result is the same as that of `tar -x`, and nothing is
written outside of the dataset."""
import bz2
import errno
import gzip
import hashlib
import io
import os
import random
import subprocess
import sys
import tarfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tarcraft  # noqa: E402
from harness import *  # noqa: E402
from tarcraft import lzip  # noqa: E402

BLOCK = 512


def write(path, data=b"x", mode=0o644, mtime=1.3e9):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    os.chmod(path, mode)
    os.utime(path, (mtime, mtime))


def make_tree(top):
    for i in range(3):
        for j in range(30):
            write(f"{top}/d{i}/sub/f{j}", os.urandom(j * 331), 0o640 if j % 2 else 0o755,
                  1.2e9 + j)
    write(f"{top}/big", os.urandom(3 << 20), 0o444)
    write(f"{top}/empty", b"")
    write(f"{top}/setuid", b"#!", 0o6755)
    write(f"{top}/none", b"secret", 0)
    write(f"{top}/" + "l" * 150 + "/" + "n" * 200, b"long")
    write(f"{top}/gr\u00fc\u00dfe/e\u0301", b"decomposed")
    write(f"{top}/gr\u00fc\u00dfe/\u00e9", b"composed")
    write(os.fsencode(top) + b"/latin-\xe9\n\x1b", b"bytes")
    os.link(f"{top}/big", f"{top}/d0/hard")
    os.link(f"{top}/d1/sub/f3", f"{top}/d2/hard3")
    os.symlink("../nowhere", f"{top}/dangling")
    os.symlink("/etc/passwd", f"{top}/d0/absolute")
    os.mkdir(f"{top}/emptydir")
    os.mkdir(f"{top}/readonly")
    write(f"{top}/readonly/f", b"1")
    os.chmod(f"{top}/readonly", 0o555)
    for d in ("d0/sub", "emptydir", "readonly"):
        os.utime(f"{top}/{d}", (1.1e9, 1.1e9))
    with open(f"{top}/sparse", "wb") as f:
        f.truncate(8 << 20)
        f.seek(4 << 20)
        f.write(b"island")
        f.truncate(8 << 20)


def pack(src, out, *options):
    subprocess.check_call(["tar", "-C", src, "-cf", out, *options, "."])


def unpack(archive):
    out = scratch()
    subprocess.check_call(["tar", "-C", out, "-xpf", archive])
    return out


def test_equals_tar_x_in_every_dialect():
    src, base = scratch(), scratch()
    make_tree(src)
    for fmt in ("gnu", "posix", "oldgnu"):
        out = f"{base}/{fmt}.tar"
        pack(src, out, f"--format={fmt}", "--sparse")
        expected = unpack(out)
        with Worker(f"x={out}") as w:
            m = w.ready()
            same_trees(expected, w.path)
            assert m["kind"] == "dir" and int(m["files"]) > 90, m
            assert os.stat(f"{w.path}/sparse").st_blocks * 512 < 1 << 20, "holes were filled"
            assert os.stat(f"{w.path}/setuid").st_mode & 0o7000 == 0
            facts = w.get("facts")[0]
            assert (facts["format"], facts["method"]) == ("tar", "extract"), facts
        remove(expected)
    remove(src)
    remove(base)


def test_every_wrapping_by_its_content():
    src, base = scratch(), scratch()
    make_tree(src)
    pack(src, f"{base}/a.tar")
    tools = {"gzip": ["gzip", "-c"], "zstd": ["zstd", "-qc"], "lz4": ["lz4", "-qc"],
             "xz": ["xz", "-0c"], "bzip2": ["bzip2", "-c"], "lzma": ["xz", "--format=lzma", "-0c"],
             "lzip": [sys.executable, tarcraft.__file__, "lzip"]}
    expected = unpack(f"{base}/a.tar")
    for name, tool in tools.items():
        if not shutil.which(tool[0]):
            continue
        with open(f"{base}/misnamed.tar", "wb") as f:  # its name says an archive, not which filter
            subprocess.check_call([*tool, f"{base}/a.tar"], stdout=f)
        with Worker(f"x={base}/misnamed.tar") as w:
            w.ready()
            same_trees(expected, w.path)
            assert w.get("facts")[0]["format"] == f"tar+{name}", w.get("facts")
            # the measure of progress is the source's bytes
            size = os.path.getsize(f"{base}/misnamed.tar")
            assert w.get("facts")[0]["total"] == str(size)
    for d in (src, base, expected):
        remove(d)


def test_the_largest_blocks_and_windows_of_each_wrapping():
    """What is seen of an archive at first may be less than a block of it."""
    src, base = scratch(), scratch()
    write(f"{src}/random", os.urandom(9 << 20))
    pack(src, f"{base}/a.tar")
    expected = unpack(f"{base}/a.tar")
    for tool in (["gzip", "-9c"], ["zstd", "-q", "--ultra", "-22", "-c"], ["zstd", "-q", "--long=27", "-c"],
                 ["lz4", "-q", "-B7", "-BD", "-c"], ["lz4", "-q", "-B7", "-BI", "-c"],
                 ["xz", "-9c"], ["bzip2", "-9c"]):
        with open(f"{base}/packed.tar", "wb") as f:
            subprocess.check_call([*tool, f"{base}/a.tar"], stdout=f)
        with Worker(f"x={base}/packed.tar") as w:
            w.ready()
            assert w.get("facts")[0]["format"] == f"tar+{tool[0]}", (tool, w.get("facts"))
            same_trees(expected, w.path)
    for d in (src, base, expected):
        remove(d)


def test_several_frames_and_members_are_all_read():
    src, base = scratch(), scratch()
    make_tree(src)
    pack(src, f"{base}/a.tar")
    data = open(f"{base}/a.tar", "rb").read()
    half = len(data) // 3
    with open(f"{base}/two.tgz", "wb") as f:
        f.write(gzip.compress(data[:half]) + gzip.compress(data[half:]))
    with open(f"{base}/two.tlz", "wb") as f:
        f.write(lzip(data[:half]) + lzip(data[half:]))
    names = ["two.tgz", "two.tlz"]
    for tool in (["zstd", "-qc"], ["xz", "-0c"], ["lz4", "-qc"], ["bzip2", "-c"]):
        with open(f"{base}/two.tar.{tool[0]}", "wb") as f:
            for part in (data[:half], data[half:]):
                f.write(subprocess.run(tool, input=part, stdout=subprocess.PIPE).stdout)
        names.append(f"two.tar.{tool[0]}")
    expected = unpack(f"{base}/a.tar")
    for n in names:
        with Worker(f"x={base}/{n}") as w:
            w.ready()
            same_trees(expected, w.path)
    for d in (src, base, expected):
        remove(d)


def test_what_is_behind_skippable_frames():
    """All that began with one counted as zstd. An archive of lz4 was copied, or, with extract,
    damaged."""
    base = scratch()
    data = make_tar([("f", os.urandom(3000), F)])
    write(f"{base}/plain.tar", data)
    expected = unpack(f"{base}/plain.tar")

    def skippable(n, size):
        return bytes([0x50 + n]) + b"\x2a\x4d\x18" + size.to_bytes(4, "little") + bytes(size)

    for i, front in enumerate((skippable(0, 0), skippable(15, 12), skippable(3, 600) + skippable(4, 5 << 20),
                               b"".join(skippable(j % 16, j) for j in range(40)),
                               b"".join(skippable(j % 16, 600) for j in range(64)))):
        for tool in ("zstd", "lz4"):
            packed = subprocess.run([tool, "-qc"], input=data, stdout=subprocess.PIPE).stdout
            write(f"{base}/x.tar.{tool}", front + packed)
            with Worker(f"x={base}/x.tar.{tool}") as w:
                w.ready()
                assert w.get("facts")[0]["format"] == f"tar+{tool}", (i, w.get("facts"))
                same_trees(expected, w.path, times=False)
    write(f"{base}/in.tar", make_tar([("in.tar.lz4", skippable(7, 100) + packed, F)]))
    with Worker(f"x={base}/in.tar::nested") as w:
        w.ready()
        assert open(f"{w.path}/in/f", "rb").read() == open(f"{expected}/f", "rb").read()
    for n in (skippable(0, 10), skippable(0, 10)[:-1], skippable(0, 10)[:6], skippable(0, 10) + b"rubbish",
              65 * skippable(0, 600) + packed):
        write(f"{base}/x.bin", n)
        with Worker(f"x={base}/x.bin") as w:
            w.ready()
            assert open(w.path, "rb").read() == n
    for d in (base, expected):
        remove(d)


def test_zip():
    src, base = scratch(), scratch()
    for i in range(20):
        write(f"{src}/d{i % 4}/f{i}", os.urandom(i * 1000), 0o600 + i)
    os.symlink("d0", f"{src}/link")
    for n in ("gr\u00fc\u00dfe", "e\u0301", "\u00e9"):
        write(f"{src}/{n}", n.encode())
    subprocess.check_call(["zip", "-qry", f"{base}/a.zip", "."], cwd=src)
    data = open(f"{base}/a.zip", "rb").read()
    with Worker(f"x={base}/a.zip") as w:
        w.ready()
        same_trees(src, w.path, times=False)
    with Worker(f"x={base}/a.zip::verify=sha256:{hashlib.sha256(data).hexdigest()}") as w:
        w.ready()
    for cut in (len(data) - 1, len(data) - 30, len(data) // 2):
        write(f"{base}/cut.zip", data[:cut])
        with Worker(f"x={base}/cut.zip") as w:
            w.error()
    remove(src)
    remove(base)


def test_a_zip_is_read_at_the_rate_and_seen_to_be():
    """It was read past MaxRate=, and one large member was a stall."""
    base = scratch()
    data = os.urandom(8 << 20)
    with zipfile.ZipFile(f"{base}/a.zip", "w") as z:
        z.writestr("f", data)
    digest = hashlib.sha256(open(f"{base}/a.zip", "rb").read()).hexdigest()
    for options, seconds in (("", 1.9), (f"::verify=sha256:{digest}", 3.9)):
        start = time.monotonic()
        with Worker(f"x={base}/a.zip{options}", maxrate=4 << 20, stall=20000) as w:
            w.ready()
            assert time.monotonic() - start > seconds
            assert open(f"{w.path}/f", "rb").read() == data
            done = [int(m["bytes"]) for m in w.get("progress")]
            assert len(done) > 3 and max(done) <= int(w.get("facts")[0]["total"]), done
    remove(base)


@of_images
def test_an_image_that_is_summed_and_unpacked_is_one_progress():
    """Fails where the bytes of both passes are counted."""
    base = scratch()
    os.mkdir(f"{base}/d")
    data = os.urandom(8 << 20)
    with open(f"{base}/d/f", "wb") as f:
        f.write(data)
    subprocess.run(["mksquashfs", f"{base}/d", f"{base}/i.sqsh", "-quiet", "-no-progress"], check=True)
    digest = hashlib.sha256(open(f"{base}/i.sqsh", "rb").read()).hexdigest()
    with Worker(f"x={base}/i.sqsh::method=extract+verify=sha256:{digest}", maxrate=8 << 20, stall=20000) as w:
        w.ready()
        assert open(f"{w.path}/f", "rb").read() == data
        done, total = [int(m["bytes"]) for m in w.get("progress")], int(w.get("facts")[0]["total"])
        assert len(done) > 3 and total / 2 < max(done) <= total, (done, total)
    remove(base)


def test_strip_subdir_include_exclude():
    base = scratch()
    with tarfile.open(f"{base}/a.tar", "w") as t:
        for n in ("top/train/a.jpg", "top/train/b.png", "top/val/c.jpg", "top/readme"):
            add(t, n, b"1")
        hard = tarfile.TarInfo("top/train/hard.jpg")
        hard.type, hard.linkname = tarfile.LNKTYPE, "top/train/a.jpg"
        t.addfile(hard)

    def staged(options):
        with Worker(f"x={base}/a.tar::{options}") as w:
            w.ready()
            return sorted(k for k, v in describe(w.path).items() if v[:1] == ("file",))

    assert staged("strip=1") == ["readme", "train/a.jpg", "train/b.png", "train/hard.jpg",
                                 "val/c.jpg"]
    assert staged("strip=2") == ["a.jpg", "b.png", "c.jpg", "hard.jpg"]
    assert staged("subdir=top/train") == ["a.jpg", "b.png", "hard.jpg"]
    # as "tar -C DIR -cf FILE ." names it, and tar -t prints it. It was compared with the names
    # without "./"
    assert staged("subdir=./top//train/") == ["a.jpg", "b.png", "hard.jpg"]
    assert staged("subdir=top+strip=1") == ["a.jpg", "b.png", "c.jpg", "hard.jpg"]
    assert staged("include=*.png") == ["top/train/b.png"]
    assert staged("exclude=train") == ["top/readme", "top/val/c.jpg"]
    assert staged("include=top/val") == ["top/val/c.jpg"]
    for options, word in (("include=nothing", "fits"), ("include=hard.jpg", "not selected")):
        with Worker(f"x={base}/a.tar::{options}") as w:
            assert word in w.error()["text"], w.messages
    remove(base)


def add(t, name, data=b"", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mtime = 1000000000
    for k, v in fields.items():
        setattr(info, k, v)
    t.addfile(info, io.BytesIO(data) if data else None)


def make_tar(members, fmt=tarfile.PAX_FORMAT):
    """members: (name, data, fields)"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as t:
        for name, data, fields in members:
            add(t, name, data, **fields)
    return out.getvalue()


LINK = dict(type=tarfile.SYMTYPE)
HARD = dict(type=tarfile.LNKTYPE)
DIR = dict(type=tarfile.DIRTYPE, mode=0o755)
F = {}


def hostile_archives():
    good = [("good", b"1", F)]
    pax = tarfile.PAX_FORMAT
    deep = "/".join(["d"] * 200) + "/f"
    yield "dotdot", make_tar([("a/../../evil", b"1", F)])
    yield "leading dotdot", make_tar([("../../../evil", b"1", F)])
    yield "through link", make_tar([("l", b"", dict(LINK, linkname="/tmp")), ("l/evil", b"1", F)])
    yield "through link chain", make_tar([
        ("a", b"", dict(LINK, linkname="b")), ("b", b"", dict(LINK, linkname="..")),
        ("a/evil", b"1", F)])
    yield "dir through link", make_tar([("l", b"", dict(LINK, linkname="/tmp")), ("l", b"", DIR)])
    yield "hard absolute", make_tar([("h", b"", dict(HARD, linkname="/etc/passwd"))])
    yield "hard dotdot", make_tar([("h", b"", dict(HARD, linkname="../victim"))])
    yield "hard through link", make_tar([("l", b"", dict(LINK, linkname="/etc")),
                                         ("h", b"", dict(HARD, linkname="l/passwd"))])
    yield "hard to missing", make_tar([("h", b"", dict(HARD, linkname="missing"))])
    yield "hard to dir", make_tar([("d", b"", DIR), ("h", b"", dict(HARD, linkname="d"))])
    yield "pax path", make_tar([("fine", b"1", dict(pax_headers={"path": "../evil"}))], pax)
    yield "pax linkpath", make_tar([
        ("h", b"", dict(HARD, linkname="good", pax_headers={"linkpath": "../victim"}))], pax)
    yield "char device", make_tar(good + [("c", b"", dict(type=tarfile.CHRTYPE, devmajor=1))])
    yield "block device", make_tar(good + [("b", b"", dict(type=tarfile.BLKTYPE))])
    yield "fifo", make_tar(good + [("p", b"", dict(type=tarfile.FIFOTYPE))])
    yield "too deep", make_tar([(deep, b"1", F)])
    yield "name too long", make_tar([("n" * 256, b"1", F)])
    yield "path too long", make_tar([("/".join(["p" * 200] * 25), b"1", F)])
    yield "top as link", make_tar([(".", b"", dict(LINK, linkname="/tmp"))])
    yield "top as file", make_tar([("./", b"1", F)])
    yield "file then dir", make_tar([("a", b"1", F), ("a", b"", DIR)])
    yield "file then below", make_tar([("a", b"1", F), ("a/b", b"1", F)])
    yield "dir then file", make_tar([("a/b", b"1", F), ("a", b"1", F)])
    yield "dir then link", make_tar([("a", b"", DIR), ("a", b"", dict(LINK, linkname="/tmp"))])
    yield "only zeros", bytes(10240)
    yield "pax header of 3 MiB", make_tar(
        [("f", b"1", dict(pax_headers={"comment": "c" * (3 << 20)}))], pax)

    whole = make_tar([(f"f{i}", bytes([i]) * 1000, F) for i in range(10)], tarfile.USTAR_FORMAT)
    one = BLOCK + 1024
    yield "cut between members", whole[:5 * one]
    yield "cut in a member", whole[:5 * one + 700]
    yield "cut in a header", whole[:5 * one + 100]
    yield "no end blocks", whole[:10 * one]
    yield "one end block", whole[:10 * one + BLOCK]
    yield "two in one file", whole + whole
    yield "two, end cut", whole[:10 * one + 2 * BLOCK] + whole
    yield "rubbish behind", whole + b"rubbish" * 100
    yield "rubbish in the padding", whole[:10 * one + 2 * BLOCK + 100] + b"x"
    bad = bytearray(whole)
    bad[3 * one + 150] ^= 1
    yield "bad checksum", bytes(bad)
    for name, size in (("negative size", b"\xff" * 12),
                       ("size of 2^63", b"\x80" + bytes(3) + b"\x80" + bytes(7)),
                       ("size of everything", b"\x80" + bytes(3) + b"\x7f" + b"\xff" * 7)):
        h = bytearray(whole[:BLOCK])
        h[124:136] = size
        h[148:156] = b" " * 8
        h[148:156] = b"%06o\0 " % sum(h)
        yield name, bytes(h) + whole[BLOCK:]


def test_hostile_archives_fail_and_touch_nothing():
    base = scratch()
    write(f"{base}/run/t/.stage/victim", b"victim")
    write(f"{base}/run/t/victim", b"victim")
    before = os.listdir("/tmp")
    names = 0
    for name, data in hostile_archives():
        names += 1
        write(f"{base}/a.tar", data)
        with Worker(f"x={base}/a.tar::method=extract", base=base) as w:
            try:
                m = w.error()
            except AssertionError as e:
                raise AssertionError(f"{name}: {e}")
            assert m["code"] in ("1", "6", "7"), (name, m)
            assert "\x1b" not in m["text"] and "\n" not in m["text"]
        for victim in ("run/t/.stage/victim", "run/t/victim"):
            st = os.stat(f"{base}/{victim}")
            assert open(f"{base}/{victim}", "rb").read() == b"victim" and st.st_nlink == 1, name
    assert "evil" not in os.listdir("/tmp") and names > 35
    assert set(os.listdir("/tmp")) - set(before) <= {n for n in os.listdir("/tmp")
                                                     if n != "evil"}
    remove(base)


def test_unusual_but_sound_archives():
    base = scratch()
    # a link is replaced by the file of the same name, nothing is written through it
    target = f"{base}/target"
    write(target, b"untouched")
    cases = [
        ("link then file", [("l", b"", dict(LINK, linkname=target)), ("l", b"new", F)],
         {"l": b"new"}),
        ("twice", [("a", b"1", F), ("b", b"x", F), ("a", b"22", F)], {"a": b"22", "b": b"x"}),
        ("dots", [("./a//b/./c", b"1", F)], {"a/b/c": b"1"}),
        ("mode 0 dir", [("d", b"", dict(DIR, mode=0)), ("d/f", b"1", F)], None),
        ("hard to link", [("l", b"", dict(LINK, linkname="x")), ("h", b"", dict(HARD, linkname="l"))],
         None),
        ("hard to itself", [("a", b"1", F), ("a", b"", dict(HARD, linkname="a"))], {"a": b"1"}),
        ("odd names", [("-rf", b"1", F), ("*", b"2", F), ("a b\n", b"3", F)],
         {"-rf": b"1", "*": b"2", "a b\n": b"3"}),
        ("twins", [("A", b"1", F), ("a", b"2", F)], {"A": b"1", "a": b"2"}),
        ("far times", [("old", b"1", dict(mtime=-1e9)), ("new", b"1", dict(mtime=2**40))], None),
    ]
    for name, members, content in cases:
        write(f"{base}/a.tar", make_tar(members))
        with Worker(f"x={base}/a.tar") as w:
            try:
                w.ready()
            except AssertionError as e:
                raise AssertionError(f"{name}: {e}")
            for path, data in (content or {}).items():
                assert open(f"{w.path}/{path}", "rb").read() == data, name
            if name == "twice":
                assert any("more than once" in t for t in w.warnings()), w.warnings()
    assert open(target, "rb").read() == b"untouched"
    remove(base)


def test_tiny_files_are_asked_for_in_pages():
    base = scratch()
    data = make_tar([(f"f{i}", b"x" * 100, F) for i in range(3000)])  # 1 KiB each, a page in memory
    for name, content in (("a.tar", data), ("a.tar.gz", gzip.compress(data))):
        write(f"{base}/{name}", content)
        with Worker(f"x={base}/{name}") as w:
            m = w.ready()
            asked = int(w.get("reserve")[0]["bytes"])
            assert 0.95 * 3000 * 4096 < asked < 1.3 * int(m["bytes"]), (name, asked, m)
            if name == "a.tar":  # one that is read as it is says all it needs at once
                assert all(r["bytes"] == "0" for r in w.get("reserve")[1:]), w.get("reserve")
    remove(base)


def test_cut_streams_are_errors():
    src, base = scratch(), scratch()
    make_tree(src)
    pack(src, f"{base}/a.tar")
    for tool in (["gzip", "-c"], ["zstd", "-qc"], ["xz", "-0c"], ["lz4", "-qc"], ["bzip2", "-c"]):
        if not shutil.which(tool[0]):
            continue
        data = subprocess.run([*tool, f"{base}/a.tar"], stdout=subprocess.PIPE).stdout
        for what, bad in (("cut", data[:-5]), ("half", data[:len(data) // 2]),
                          ("rubbish", data + b"rubbish behind it, as much as you like"),
                          ("flipped", data[:len(data) // 2] +
                           bytes([data[len(data) // 2] ^ 0x55]) + data[len(data) // 2 + 1:])):
            write(f"{base}/bad", bad)
            with Worker(f"x={base}/bad::method=extract") as w:
                try:
                    w.error()
                except AssertionError as e:
                    raise AssertionError(f"{tool[0]} {what}: {e}")
        # padding with zeros, as on tapes, is none
        if tool[0] == "gzip":
            write(f"{base}/padded", data + bytes(5000))
            digest = hashlib.sha256(data + bytes(5000)).hexdigest()
            with Worker(f"x={base}/padded::verify=sha256:{digest}") as w:
                w.ready()
    remove(src)
    remove(base)


def test_large_members_are_read_by_their_writers():
    """Red when they read from another place than the member's, or when what is cut off counts as
    read."""
    src, base = scratch(), scratch()
    for i, size in enumerate((48 << 20, 3, (40 << 20) + 7)):
        write(f"{src}/d{i}/f", os.urandom(size))
    os.link(f"{src}/d0/f", f"{src}/d2/hard")
    pack(src, f"{base}/a.tar", "--sort=name")
    expected = unpack(f"{base}/a.tar")
    with Worker(f"x={base}/a.tar") as w:
        w.ready()
        same_trees(expected, w.path)
    with Worker(f"x={base}/a.tar::subdir=d1") as w:  # the others are passed over
        w.ready()
        assert open(f"{w.path}/f", "rb").read() == open(f"{src}/d1/f", "rb").read()
        assert os.listdir(w.path) == ["f"]
    digest = hashlib.sha256(open(f"{base}/a.tar", "rb").read()).hexdigest()
    for good in (True, False):
        with Worker(f"x={base}/a.tar::verify=sha256:{digest if good else digest[::-1]}") as w:
            if good:
                w.ready()
                same_trees(expected, w.path)
            else:
                assert "SHA-256" in w.error()["text"]
    for size in (85 << 20, 30 << 20):
        os.truncate(f"{base}/a.tar", size)
        for options in ("", "::subdir=d1"):
            with Worker(f"x={base}/a.tar{options}::method=extract") as w:
                assert "truncated" in w.error()["text"], w.end()
    for path in (src, base, expected):
        remove(path)


def test_what_is_passed_over_takes_no_time_of_the_rate():
    """It was paid for as if it had been read, a large member at one stroke: that was a stall."""
    base = scratch()
    with tarfile.open(f"{base}/a.tar", "w") as t:
        for name, size in (("large", 1 << 30), ("small", 1000)):
            member = tarfile.TarInfo(name)
            member.size = size
            t.fileobj.write(member.tobuf())
            t.fileobj.seek(-(-size // BLOCK) * BLOCK, os.SEEK_CUR)
            t.offset = t.fileobj.tell()
    with Worker(f"x={base}/a.tar::include=small", maxrate=10 << 20, stall=8000) as w:
        w.ready()
        assert os.listdir(w.path) == ["small"]
    remove(base)


def test_what_is_lost_at_close_is_an_error():
    """On NFS a write is taken, and close() says that there was no room for it."""
    slow = os.environ.get("STAGE_TEST_SLOW", "")
    if not os.path.exists(slow):
        return "needs STAGE_TEST_SLOW"
    src, base = scratch(), scratch()
    for n, size in enumerate((0, 3000, 600 << 10, 9 << 20)):
        write(f"{src}/{n}/d/late", os.urandom(size))
        os.symlink("late", f"{src}/{n}/d/link")
        pack(f"{src}/{n}", f"{base}/{n}.tar")
        pack(f"{src}/{n}", f"{base}/{n}.tar.gz", "-z")
        for item in (f"x={base}/{n}.tar", f"x={base}/{n}.tar.gz", f"x={src}/{n}", f"late={src}/{n}/d/late",
                     f"x={src}/{n}/d/l{{ate,ink}}"):
            for number, code, text in ((28, "7", "No space"), (5, "1", "Input/output error")):
                env = {"LD_PRELOAD": slow, "SLOW_CLOSE": str(number)}
                with Worker(f"{item}:shm", name=item.split("=")[0], env=env) as w:
                    m = w.error()
                    assert m["code"] == code and "late" in m["text"] and text in m["text"], m
    remove(src)
    remove(base)


def test_a_quota_that_is_used_up_in_the_middle():
    """Of archives, trees, a file and an image. Red when EDQUOT is no reason to say how full it is,
    or what was written stays."""
    slow = os.environ.get("STAGE_TEST_SLOW", "")
    if not os.path.exists(slow):
        return "needs STAGE_TEST_SLOW"
    base = scratch()
    for i in range(30):
        write(f"{base}/src/d{i % 3}/f{i}", os.urandom(40_000))
    write(f"{base}/src/big", os.urandom(5 << 20))
    pack(f"{base}/src", f"{base}/a.tar")
    pack(f"{base}/src", f"{base}/a.tar.gz", "-z")
    items = ["a.tar", "a.tar.gz", "src", "src/big", "src/{big,d0,d1}"]
    if IMAGES and shutil.which("mksquashfs"):
        subprocess.check_call(["mksquashfs", f"{base}/src", f"{base}/i.sqsh", "-quiet", "-no-progress"], stdout=subprocess.DEVNULL)
        items.append("i.sqsh")
    for item in items:
        for quota in (0, 300_000, 5_000_000):
            env = {"LD_PRELOAD": slow, "SLOW_QUOTA": str(quota)}
            options = "method=extract" if item.startswith(("a.", "i.")) else ""
            with Worker(f"quota={base}/{item}:ssd:{options}", name="quota", env=env) as w:
                text = w.error()["text"]
                assert w.messages[-1]["code"] == "7" and w.messages[-1]["errno"] == str(errno.EDQUOT), (item, w.messages[-1])
                said, _, hint = text.rpartition("; ")
                assert "Disk quota exceeded" in said and "stage less" in hint and f"{base}/{item.split('{')[0]}" in said, text
                if os.environ.get("V"):
                    print("#", text)
    remove(base)


def test_sha256_covers_the_whole_file():
    src, base = scratch(), scratch()
    make_tree(src)
    pack(src, f"{base}/a.tar")
    subprocess.check_call(["zstd", "-q", f"{base}/a.tar", "-o", f"{base}/a.tar.zst"])
    for n in ("a.tar", "a.tar.zst"):
        digest = hashlib.sha256(open(f"{base}/{n}", "rb").read()).hexdigest()
        with Worker(f"x={base}/{n}::verify=sha256:{digest}") as w:
            w.ready()
        other = digest[:-1] + ("0" if digest[-1] != "0" else "1")
        with Worker(f"x={base}/{n}::verify=sha256:{other}") as w:
            assert digest in w.error()["text"]
    remove(src)
    remove(base)


def test_what_is_no_archive():
    base = scratch()
    write(f"{base}/random", os.urandom(100000))
    write(f"{base}/empty", b"")
    write(f"{base}/text.tar", b"this is no tar\n" * 100)
    write(f"{base}/csv.gz", gzip.compress(b"a,b,c\n" * 1000))
    for n in ("random", "empty", "text.tar", "csv.gz"):
        with Worker(f"x={base}/{n}::method=extract") as w:
            assert "can't be extracted" in w.error()["text"], w.messages
        with Worker(f"x={base}/{n}") as w:
            if n == "text.tar":  # named like an archive: damaged more often than meant
                assert "its name promises" in w.error()["text"]
            else:  # auto: a file is copied
                w.ready()
                assert os.path.isfile(w.path)
    with Worker(f"x={base}/csv.gz::method=copy") as w:
        w.ready()
    write(f"{base}/a.tar", make_tar([("f", b"1", F)]))
    with Worker(f"x={base}/a.tar::method=copy") as w:
        assert w.ready()["kind"] == "file"
    with Worker(f"x={base}/a*.tar") as w:  # shards stay tars
        w.ready()
        assert os.listdir(w.path) == ["a.tar"]
    remove(base)


def test_what_lzop_packed_is_refused_by_name():
    """It was copied without a word. libarchive would start lzop for it."""
    base = scratch()
    data = b"\x89LZO\0\r\n\x1a\n" + os.urandom(3000)
    for n, options in (("a.tar.lzo", ""), ("a.tzo", ""), ("a.bin", "::method=extract")):
        write(f"{base}/{n}", data)
        with Worker(f"x={base}/{n}{options}") as w:
            assert "is packed by lzop, which can't be unpacked here; pack it again (lzop -dc" in w.error()["text"]
    write(f"{base}/in.tar", make_tar([("in.tar.lzo", data, F)]))
    for item in (f"x={base}/a.tar.lzo::method=copy", f"x={base}/a.bin", f"x={base}/in.tar::nested"):
        with Worker(item) as w:
            w.ready()
            path = f"{w.path}/in.tar.lzo" if os.path.isdir(w.path) else w.path
            assert open(path, "rb").read() == data
    remove(base)


def test_nested():
    base = scratch()
    inner = make_tar([(f"img{i}.jpg", bytes([i]) * 5000, F) for i in range(20)])
    gz = gzip.compress(make_tar([("deep/x", b"1", F)]))
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("in/zip", b"z" * 1000)
    members = [("n01.tar", inner, F), ("sub/n02.tar", inner, F), ("n03.tar.gz", gz, F),
               ("n04.zip", zipped.getvalue(), F), ("plain.txt", b"text", F)]
    write(f"{base}/a.tar", make_tar(members))
    with Worker(f"x={base}/a.tar") as w:
        w.ready()
        assert sorted(os.listdir(w.path)) == ["n01.tar", "n03.tar.gz", "n04.zip", "plain.txt", "sub"]
        assert any("nested" in t for t in w.warnings()), w.warnings()
    with Worker(f"x={base}/a.tar::nested") as w:
        w.ready()
        assert sorted(os.listdir(w.path)) == ["n01", "n03", "n04", "plain.txt", "sub"]
        assert len(os.listdir(f"{w.path}/sub/n02")) == 20
        assert open(f"{w.path}/n01/img3.jpg", "rb").read() == bytes([3]) * 5000
        assert open(f"{w.path}/n03/deep/x", "rb").read() == b"1"
        assert open(f"{w.path}/n04/in/zip", "rb").read() == b"z" * 1000
    with Worker(f"x={base}/a.tar::nested+include=img1*.jpg") as w:
        w.ready()
        assert len(os.listdir(f"{w.path}/n01")) == 11
    for bad in (inner[:20 * 5632 + 600], inner + b"x", make_tar([("../e", b"1", F)])):
        write(f"{base}/b.tar", make_tar([("n.tar", bad, F)]))
        with Worker(f"x={base}/b.tar::nested") as w:
            assert "n.tar" in w.error()["text"]
    remove(base)


def test_nested_among_what_writers_read_themselves():
    """Fails when a nested archive's first piece is too short to be known by."""
    base = scratch()
    inner = make_tar([("x", b"1" * 700, F)])
    images = [os.urandom(60000 + k) for k in range(200)]
    members = [m for k, image in enumerate(images)
               for m in ((f"\u00e9{k}.jpg", image, F), (f"\u00e9{k}.tar", inner, F))]
    write(f"{base}/a.tar", make_tar(members))
    for _ in range(3):
        with Worker(f"x={base}/a.tar::nested") as w:
            w.ready()
            for k, image in enumerate(images):
                assert open(f"{w.path}/\u00e9{k}.jpg", "rb").read() == image
                assert open(f"{w.path}/\u00e9{k}/x", "rb").read() == b"1" * 700
    remove(base)


def test_nested_in_a_zip_wherever_its_data_begins():
    """Fails when a piece of a zip that is too short to know an archive by makes it a file.
    libarchive lends what is left in its buffer."""
    base = scratch()
    small = make_tar([("f", os.urandom(3000), F)])
    inner = {"t.tar": small, "g.tar.gz": gzip.compress(small), "b.tar.bz2": bz2.compress(small),
             "two.tar": make_tar([("a", b"1" * 700, F), ("in.tar", small, F)])}
    for name, data in inner.items():
        for packed in zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED:
            for before in (1, 100, 511) if name != "two.tar" else (2148, 2500, 2559):
                path = f"{base}/a.zip"
                with zipfile.ZipFile(path, "w") as z:
                    z.writestr("a", os.urandom((1 << 20) - before - 31 - 30 - len(name)))
                    z.writestr(name, data, packed)
                with Worker(f"x={path}::nested") as w:
                    w.ready()
                    word, top = (name, packed, before), f"{w.path}/{name.split('.')[0]}"
                    assert os.path.isdir(top), word
                    assert os.path.isfile(f"{top}/in/f" if name == "two.tar" else f"{top}/f"), word
                with Worker(f"x={path}") as w:
                    w.ready()
                    assert open(f"{w.path}/{name}", "rb").read() == data, word
                    assert any("nested" in t for t in w.warnings()), word
    remove(base)


def test_bombs_stop_at_the_limit():
    base = scratch()
    with gzip.open(f"{base}/bomb.tgz", "wb", 1) as g:
        h = tarfile.TarInfo("zeros")
        h.size = 400 << 20
        g.write(h.tobuf())
        for _ in range(400):
            g.write(bytes(1 << 20))
        g.write(bytes(1024))
    with Worker(f"x={base}/bomb.tgz", maxbytes=20 << 20) as w:
        assert w.error()["code"] == "7"
    granted = []

    def some(m):
        granted.append(int(m["bytes"]))
        return dict(op="grant", ok=int(sum(granted) < 100 << 20), have=1 << 20)

    with Worker(f"x={base}/bomb.tgz:shm", answers={"reserve": some}) as w:
        assert w.error()["code"] == "7"
    write(f"{base}/many.tar", make_tar([(f"f{i}", b"", F) for i in range(3000)]))
    with Worker(f"x={base}/many.tar", maxfiles=1000) as w:
        assert "1000" in w.error()["text"], w.messages
    # a hole of a TiB costs nothing, and is no reason to refuse
    src = scratch()
    with open(f"{src}/hole", "wb") as f:
        f.truncate(1 << 40)
        f.write(b"start")
    pack(src, f"{base}/sparse.tar", "--sparse")
    with Worker(f"x={base}/sparse.tar", maxbytes=20 << 20) as w:
        w.ready()
        assert os.path.getsize(f"{w.path}/hole") == 1 << 40
    remove(src)
    remove(base)


def zeros_in_gzip(size):
    """A tar of one file of zeros, packed."""
    h = tarfile.TarInfo("zeros")
    h.size = size
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1) as g:
        g.write(h.tobuf())
        for _ in range(size >> 20):
            g.write(bytes(1 << 20))
        g.write(bytes(1024))
    return out.getvalue()


def test_a_bomb_writes_no_more_than_its_limit():
    """A file system a MiB larger than the limit has room for all that is written. Red when charges
    come late."""
    if os.geteuid() != 0:
        return "needs root for a small tmpfs"
    base, tier = scratch(), scratch()
    write(f"{base}/bomb.tgz", zeros_in_gzip(100 << 20))
    write(f"{base}/in.tar", make_tar([("bomb.tar.gz", zeros_in_gzip(100 << 20), F)]))
    subprocess.check_call(["mount", "-t", "tmpfs", "-o", "size=21m,mode=0700", "none", tier])
    try:
        for item in ("bomb.tgz:ssd", "in.tar:ssd:nested"):
            answers = {"reserve": lambda m: dict(op="grant", ok=1, have=GIB),
                       "tier": lambda m: dict(op="tierdir", path=tier)}
            with Worker(f"x={base}/{item}", answers=answers, maxbytes=20 << 20) as w:
                m = w.error()
                assert m["code"] == "7" and "limit" in m["text"] and "No space" not in m["text"], m
                assert os.listdir(tier) == []
    finally:
        subprocess.check_call(["umount", tier])
    os.rmdir(tier)
    remove(base)


def test_a_bomb_in_a_bomb_stops_at_the_limit():
    base = scratch()
    inner = make_tar([("bomb.tar.gz", zeros_in_gzip(100 << 20), F)])
    write(f"{base}/a.tar.gz", gzip.compress(make_tar([("deep.tar", inner, F)])))
    with Worker(f"x={base}/a.tar.gz") as w:
        w.ready()
        assert os.listdir(w.path) == ["deep.tar"], "unpacked without being asked"
    with Worker(f"x={base}/a.tar.gz::nested", maxbytes=20 << 20) as w:
        m = w.error()
        assert m["code"] == "7" and "limit" in m["text"], m
    remove(base)


def test_a_zip_named_tar():
    base = scratch()
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as z:
        z.writestr("in/zip", b"z" * 1000)
    write(f"{base}/a.tar", zipped.getvalue())
    write(f"{base}/b.zip", make_tar([("f", b"1", F)]))
    write(f"{base}/c.sqsh", gzip.compress(make_tar([("f", b"1", F)])))
    for item, path in (("a.tar::method=extract", "in/zip"), ("b.zip", "f"), ("c.sqsh", "f")):
        with Worker(f"x={base}/{item}") as w:
            w.ready()
            assert os.path.isfile(f"{w.path}/{path}"), (item, os.listdir(w.path))
    remove(base)


def test_a_small_tmpfs_gets_full():
    if os.geteuid() != 0:
        return "needs root for a small tmpfs"
    base, tier = scratch(), scratch()
    write(f"{base}/a.tar", make_tar([(f"f{i}", os.urandom(100000), F) for i in range(40)]))
    lie = {"reserve": lambda m: dict(op="grant", ok=1, have=GIB),
           "tier": lambda m: dict(op="tierdir", path=tier)}
    for option, expect in (("size=2m", "MiB"), ("size=100m,nr_inodes=20", "file")):
        subprocess.check_call(["mount", "-t", "tmpfs", "-o", f"{option},mode=0700", "none", tier])
        try:
            write(f"{base}/a.tar.gz", gzip.compress(open(f"{base}/a.tar", "rb").read()))
            with Worker(f"x={base}/a.tar.gz:ssd", answers=lie) as w:
                m = w.error()
                assert m["code"] == "7" and expect in m["text"], m
                assert os.listdir(tier) == []
        finally:
            subprocess.check_call(["umount", tier])
    os.rmdir(tier)
    remove(base)


def test_a_guess_that_was_wrong_goes_to_the_next_tier():
    base = scratch()
    # highly compressible, streamed: the guess is three times the file, the truth much more
    plain = make_tar([(f"f{i}", b"z" * 200000, F) for i in range(50)])
    data = subprocess.run(["zstd", "-qc"], input=plain, stdout=subprocess.PIPE).stdout
    write(f"{base}/a.tar.zst", data)

    def small_memory(m):
        ok = m["tier"] != "shm" or int(m["bytes"]) < 100000
        return dict(op="grant", ok=int(ok), have=1000)

    with Worker(f"x={base}/a.tar.zst", answers={"reserve": small_memory}) as w:
        w.ready()
        assert os.readlink(w.path) == f"{w.tiers}/ssd/x"
        assert [m["tier"] for m in w.get("facts")] == ["shm", "ssd"]
        assert len(os.listdir(w.path)) == 50
    remove(base)


def random_member(rng):
    parts = ["a", "b", "..", ".", "", "/", "l", "h", "d", "x" * 300, "\u00e9", "l/l"]
    name = "/".join(rng.choice(parts) for _ in range(rng.randint(1, 4))) or "n"
    kind = rng.choice([tarfile.REGTYPE] * 4 + [tarfile.SYMTYPE] * 2 + [tarfile.LNKTYPE] * 2 +
                      [tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
    fields = dict(type=kind, mode=rng.choice([0o644, 0o7777, 0, 0o755]))
    if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        fields["linkname"] = rng.choice(["..", "../..", "/tmp", "a", "l", "../victim", "l/../..",
                                         "b/a", "../../victim"])
    data = os.urandom(rng.randint(0, 2000)) if kind == tarfile.REGTYPE else b""
    return name, data, fields


def test_random_archives_never_escape():
    base = scratch()
    seed = int(os.environ.get("STAGE_TEST_SEED", "1"))
    rng = random.Random(seed)
    for rel in ("run/t/.stage/victim", "run/t/victim", "run/victim", "victim"):
        write(f"{base}/{rel}", b"victim")
    outside = describe(base)
    outcomes = {"ready": 0, "error": 0}
    for i in range(int(os.environ.get("STAGE_TEST_ROUNDS", "150"))):
        data = make_tar([random_member(rng) for _ in range(rng.randint(1, 8))],
                        rng.choice([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]))
        if rng.random() < 0.3:
            b = bytearray(data)
            for _ in range(rng.randint(1, 20)):
                b[rng.randrange(len(b))] = rng.randrange(256)
            data = bytes(b)
        archive = scratch()
        write(f"{archive}/a.tar", data)
        with Worker(f"x={archive}/a.tar::method=extract", base=base) as w:
            m = w.run_until("ready", "error")
            assert m is not None, f"seed {seed} round {i}: the worker died: {w.stderr()}"
            outcomes[m["op"]] += 1
            w.end()
            remove(w.path)
            if os.path.lexists(w.path):
                os.unlink(w.path)
            shutil.rmtree(os.path.join(base, "tiers"))
        now = {k: v for k, v in describe(base).items()
               if "manifest" not in k and (v[:1] != ("dir",))}
        then = {k: v for k, v in outside.items() if v[:1] != ("dir",)}
        now.pop("hard links"), then.pop("hard links")
        assert now == then, f"seed {seed} round {i}: {set(now) ^ set(then)}"
        assert os.stat(f"{base}/victim").st_nlink == 1
        remove(archive)
    assert outcomes["ready"] and outcomes["error"], outcomes
    remove(base)


if __name__ == "__main__":
    main(globals())
