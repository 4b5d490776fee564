#!/usr/bin/env python3
"""Mounted tars: how their index is made and kept, and how much memory it needs."""
import importlib.util
import io
import os
import random
import subprocess
import sys
import tarfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *  # noqa: E402
import tarcraft  # noqa: E402

SLOW = os.environ.get("STAGE_TEST_SLOW", "")
INDEX = os.environ.get("STAGE_INDEX", "stage-index")
OLD = 10 ** 9


def load(name):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def no_fuse():
    return None if os.path.exists("/dev/fuse") else "no /dev/fuse"


class Mounted(MountWorker):
    """slow: milliseconds for each read of a file with "slow" in its name"""

    def __init__(self, path, options="", slow=0, dest="", **kw):
        env = {"LD_PRELOAD": SLOW, "SLOW_MS": str(slow)} if slow else None
        super().__init__(f"x={path}:{dest}:method=mount{options}", env=env, fuse=1, **kw)

    def mounted(self):
        """The top, when it is ready."""
        m = self.run_until("ready", "error")
        assert m and m["op"] == "ready", m or self.stderr()
        return os.path.realpath(self.path)

    def plan(self):
        return self.get("facts")[-1]["plan"]

    def has_used_an_index(self):
        return "by the index beside" in self.plan()


def make_tar(path, n, size=0):
    """Files d/00000 and on. All headers differ in a few digits, so their sums are known."""
    data = tarcraft.pad(b"x" * size)
    with open(path, "wb") as f:
        for i in range(n):
            head = bytearray(tarcraft.member(b"d/%06d" % i, size=size)) if i % 1000 == 0 else head
            digits = b"%06d" % i
            total = int(head[148:154], 8) + sum(digits) - sum(head[2:8])
            head[2:8] = digits
            head[148:154] = b"%06o" % total
            f.write(head + data)
        f.write(tarcraft.END)
    os.utime(path, (OLD, OLD))


def make_zip(path, n, size):
    with zipfile.ZipFile(path, "w") as z:
        for i in range(n):
            z.writestr(f"d/{i:06}", b"x" * size)


def make_index(path, *how):
    subprocess.run([INDEX, path, path + ".stage-index", *how], check=True, stdout=subprocess.DEVNULL)


def slow_archives(src):
    """Each takes one to two seconds to be read: what it is, its path, and how."""
    make_tar(f"{src}/slow-chain.tar", 100, 1 << 16)
    yield "headers in order", f"{src}/slow-chain.tar", dict(slow=12, maxreaders=1)
    yield "headers ahead", f"{src}/slow-chain.tar", dict(slow=30)
    make_tar(f"{src}/slow-index.tar", 20000)
    make_index(f"{src}/slow-index.tar")
    yield "by the index", f"{src}/slow-index.tar", dict(slow=60)
    make_zip(f"{src}/slow.zip", 250, 40000)
    yield "zip", f"{src}/slow.zip", dict(slow=6)


def make_links(path, n_headers, n_links):
    """Large files, then a directory and more headers before a large file, then n_links links and a
    large file: from n_headers the reader learns how much to read behind the next file."""
    def add(kind, name, size=0):
        info = tarfile.TarInfo(name)
        info.type, info.size, info.linkname = kind, size, "a0" if kind == tarfile.SYMTYPE else ""
        tar.addfile(info, io.BytesIO(bytes(size)))

    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(4):
            add(tarfile.REGTYPE, f"a{i}", 100_000)
        for i in range(n_headers - 1):
            add(tarfile.DIRTYPE, f"d{i}")
        add(tarfile.REGTYPE, "b", 100_000)
        for i in range(n_links):
            add(tarfile.SYMTYPE, f"l{i}")
        add(tarfile.REGTYPE, "c", 600_000)


def test_many_headers_behind_a_large_member():
    """Red with AddressSanitizer where pieces double beyond the buffer."""
    if no_fuse():
        return no_fuse()
    src = scratch()
    for n_headers in range(1, 9):
        make_links(f"{src}/x.tar", n_headers, 3000)
        with Mounted(f"{src}/x.tar") as w:
            top = w.mounted()
            assert len(os.listdir(top)) == 4 + n_headers + 3000 + 1
            assert os.readlink(f"{top}/l2999") == "a0" and os.stat(f"{top}/c").st_size == 600_000
        os.unlink(f"{src}/x.tar")
    remove(src)


def test_progress_of_an_index_is_shown():
    """Red where reads are counted as files, and no bytes; red for an index that is loaded without
    progress."""
    if no_fuse():
        return no_fuse()
    src = scratch()
    for word, path, how in slow_archives(src):
        size = os.path.getsize(path)
        with Mounted(path, **how) as w:
            w.mounted()
            assert int(w.get("facts")[-1]["total"]) == size
            seen = [int(m["bytes"]) for m in w.get("progress")]
            files = [int(m["files"]) for m in w.get("progress")]
            n = int(w.get("ready")[0]["files"])
            between = {b for b in seen if size / 10 < b < size}
            assert seen == sorted(seen) and seen[-1] <= size and len(between) > 3, (word, size, seen)
            assert files == sorted(files) and files[-1] <= n, (word, n, files)
    remove(src)


def test_an_index_that_is_loaded_can_be_cancelled():
    """Red where the file beside the tar is read to its end."""
    if no_fuse():
        return no_fuse()
    src = scratch()
    for word, path, how in slow_archives(src):
        for end in ("cancel", "close"):
            with Mounted(path, **dict(how, slow=4 * how["slow"])) as w:
                assert w.run_until("progress"), word
                start = time.monotonic()
                if end == "cancel":
                    w.send(dict(op="cancel"))
                    assert "cancelled" in w.error()["text"], word
                else:
                    w.sock.close()
                    assert w.end() == 1, word
                    w.check_nothing_left()
                took = time.monotonic() - start
                assert took < 1, (word, end, took)
    remove(src)


def test_the_index_of_the_owner_fits_a_copy_that_was_kept():
    """Red where the owner of the copy is asked for, who is the user."""
    if no_fuse() or os.geteuid():
        return no_fuse() or "not root"
    src = scratch()
    os.chmod(src, 0o755)
    make_tar(f"{src}/a.tar", 100, 1000)
    make_index(f"{src}/a.tar")
    for name in ("a.tar", "a.tar.stage-index"):
        os.chown(f"{src}/{name}", 1, 1)
    base = scratch()
    os.makedirs(f"{base}/stage-keep-{os.geteuid()}", mode=0o700)
    for job, plan in ((1, "copy"), (2, "kept by an earlier job")):
        def tierdir(m, job=job):
            os.makedirs(f"{base}/stage-data-{job}", exist_ok=True)
            return dict(op="tierdir", path=f"{base}/stage-data-{job}")

        with Mounted(f"{src}/a.tar", "+keep=1h", dest="ssd", job=job, keep=3600000, answers={"tier": tierdir}) as w:
            top = w.mounted()
            assert w.has_used_an_index() and plan in w.plan() and not w.warnings(), (job, w.plan(), w.warnings())
            assert len(os.listdir(f"{top}/d")) == 100
    os.chown(f"{src}/a.tar.stage-index", 2, 2)
    with Mounted(f"{src}/a.tar", "+keep=1h", dest="ssd", job=2, keep=3600000, answers={"tier": tierdir}) as w:
        w.mounted()
        assert not w.has_used_an_index() and "archive's owner" in w.warnings()[0], (w.plan(), w.warnings())
    remove(src)
    remove(base)


def test_memory_for_an_index_is_reserved_before_it_is_made():
    """Red where it is asked for when the index is complete."""
    if no_fuse():
        return no_fuse()
    src = scratch()
    for word, path, how in slow_archives(src):
        with Mounted(path, answers={"reserve": lambda m: dict(op="grant", ok=0, have=1000)}, **how) as w:
            m = w.error()
            assert "memory for the index of the archive: needs" in m["text"], (word, m)
            seen = [int(m["bytes"]) for m in w.get("progress")] or [0]
            assert seen[-1] < os.path.getsize(path) / 2, (word, seen)
    remove(src)


def test_memory_for_an_index_is_reserved_once():
    """At most 64 bytes for each member beside its name, and an eighth, as a tar does not tell how
    many it has. Red where the second attempt, by the headers, reserves again."""
    if no_fuse():
        return no_fuse()
    src, n = scratch(), 20000
    most = n * (64 + len("000000")) * 9 / 8 + 65536
    make_tar(f"{src}/a.tar", n)
    make_zip(f"{src}/b.zip", n // 10, 10)
    with Mounted(f"{src}/b.zip") as w:
        w.mounted()
        assert n * 6 < w.granted["shm"] <= most / 10 + 65536, w.granted
    for word in "no index", "by the index", "by a damaged one":
        if word != "no index":
            make_index(f"{src}/a.tar")
        if word == "by a damaged one":
            with open(f"{src}/a.tar.stage-index", "r+b") as f:
                f.seek(-1, 2)
                f.write(b"x")
        with Mounted(f"{src}/a.tar") as w:
            w.mounted()
            assert w.has_used_an_index() == (word == "by the index") and n * 60 < w.granted["shm"] <= most, (word, w.granted)
            assert bool(w.warnings()) == (word == "by a damaged one"), w.warnings()
            if word == "by the index":
                assert len(w.get("reserve")) <= 2, w.get("reserve")
        # A copy on a disk keeps what was reserved for it there.
        with Mounted(f"{src}/a.tar", dest="ssd") as w:
            w.mounted()
            assert w.granted["shm"] <= most and w.granted["ssd"] >= os.path.getsize(f"{src}/a.tar"), (word, w.granted)
            beside = [m.get("beside") for m in w.get("reserve") if m["tier"] == "shm"]
            assert beside and set(beside) == {"1"}, w.get("reserve")
    remove(src)


def inner(n, *parts):
    return tarcraft.tar(*(tarcraft.member(b"i%d" % i, b"%d" % i * 3000) for i in range(n)), *parts)


def nested_tars():
    """What it is, and a tar with tars in it."""
    m = tarcraft.member
    yield "tars in a directory", tarcraft.tar(m(b"top", b"t" * 99), m(b"d/a.tar", inner(5)), m(b"d/b.tar", inner(0, m(b"x", b"x"))),
                                              m(b"d/last", b"l"))
    deep = inner(1)
    for i in range(6):
        deep = tarcraft.tar(m(b"l%d" % i, b"%d" % i), m(b"n%d.tar" % i, deep))
    yield "tars in tars, more than are opened", deep
    yield "links and directories", tarcraft.tar(
        m(b"a.tar", inner(2, m(b"./", kind=b"5", mode=0o700), m(b"./s/", kind=b"5", mode=0o750), m(b"h", kind=b"1", link=b"./i1"),
                          m(b"s/l", kind=b"2", link=b"../i0"), m(b"/abs", b"a"))), m(b"h", kind=b"1", link=b"a/i1"))
    yield "names that promise no archive", tarcraft.tar(m(b"a", inner(2)), m(b"m.pth.tar", inner(2)), m(b"t.tar", b"text" * 300),
                                                        m(b"e.tar", b""))
    yield "names of which only dots would be left", tarcraft.tar(
        m(b"d/k", b"k"), m(b"d/..tar", inner(1)), m(b"d/...tar", inner(2)), m(b"d/....tar", inner(1)), m(b"...tar", inner(1)))
    yield "long names", tarcraft.tar(tarcraft.long_name(b"n" * 150 + b".tar"), m(b"n" * 100, tarcraft.tar(
        tarcraft.pax(path=b"p" * 180, mtime=b"1000000000.5"), m(b"p", b"pax"))))
    yield "the same name again", tarcraft.tar(m(b"a.tar", inner(3)), m(b"a.tar", inner(2, m(b"i0", b"new"))), m(b"a/i1", b"other"))


def mount_or_error(path, options, **kw):
    with Mounted(path, options, **kw) as w:
        m = w.run_until("ready", "error")
        return (describe(os.path.realpath(w.path)), w.warnings()) if m["op"] == "ready" else m["text"]


def test_tars_in_a_tar_are_as_extracted():
    """Red where content is looked for from the beginning of the inner tar."""
    if no_fuse():
        return no_fuse()
    src = scratch()
    for word, data in nested_tars():
        with open(f"{src}/a.tar", "wb") as f:
            f.write(data)
        os.utime(f"{src}/a.tar", (OLD, OLD))
        with Worker(f"x={src}/a.tar::method=extract+nested") as w:
            w.ready()
            expected, warned = describe(w.path), w.warnings()
        got = mount_or_error(f"{src}/a.tar", "+nested")
        assert not isinstance(got, str), (word, got)
        for tree in (got[0], expected):
            tree.pop(".", None)
            for k, v in tree.items():  # of a directory without a header both are extraction's own
                tree[k] = v[:2] if v[:1] == ("dir",) else v
        for k in sorted(set(got[0]) | set(expected)):
            assert got[0].get(k) == expected.get(k), (word, k, str(got[0].get(k))[:100], str(expected.get(k))[:100])
        assert len(expected) > 2 and [t for t in warned if "began with" in t] == [t for t in got[1] if "began with" in t], (warned, got[1])
    remove(src)


def test_tars_in_a_tar_that_can_not_be_shown():
    if no_fuse():
        return no_fuse()
    import gzip
    m, src = tarcraft.member, scratch()
    good = inner(3)
    for data, words in ((tarcraft.tar(m(b"a.tar.gz", gzip.compress(good))), ("a.tar.gz", "is compressed", "method=extract")),
                        (tarcraft.tar(m(b"d/a.tar", good[:-1024])), ("d/a.tar", "cut off")),
                        (tarcraft.tar(m(b"d/a.tar", good[:4000])), ("d/a.tar", "cut off")),
                        (tarcraft.tar(m(b"d/a.tar", good + b"x" * 512)), ("d/a.tar", "after the end")),
                        (tarcraft.tar(m(b"d/a.tar", inner(1, m(b"../out", b"x")))), ("d/a.tar", "..")),
                        (tarcraft.tar(m(b"d/a.tar", inner(1, m(b"null", kind=b"3")))), ("d/a.tar", "can't be mounted", "i0"))):
        with open(f"{src}/a.tar", "wb") as f:
            f.write(data)
        got = mount_or_error(f"{src}/a.tar", "+nested")
        assert isinstance(got, str) and all(w in got for w in words), (words, got)
    remove(src)


def test_many_tars_in_a_tar_that_is_slow():
    """Each is read ahead as the outermost would be. An index is used if it has the inner tars, and
    by jobs without nested, too."""
    if no_fuse():
        return no_fuse()
    src = scratch()
    for i in range(4):
        make_tar(f"{src}/p{i}.tar", 40, 1 << 15)
    with open(f"{src}/slow.tar", "wb") as f:
        for i in range(4):
            with open(f"{src}/p{i}.tar", "rb") as part:
                f.write(tarcraft.member(b"t/p%d.tar" % i, part.read()))
        f.write(tarcraft.END)
    make_index(f"{src}/slow.tar")
    size = os.path.getsize(f"{src}/slow.tar")
    with Mounted(f"{src}/slow.tar", "+nested", slow=10) as w:
        top = w.mounted()
        assert [len(os.listdir(f"{top}/t/p{i}/d")) for i in range(4)] == [40] * 4
        seen = [int(m["bytes"]) for m in w.get("progress")]
        assert seen == sorted(seen) and seen[-1] <= size and len(set(seen)) > 3, seen
        assert int(w.get("ready")[0]["files"]) == 160 and not w.has_used_an_index(), w.plan()
        assert "made without --nested; make it again (stagectl index --nested)" in w.warnings()[0], w.warnings()
    make_index(f"{src}/slow.tar", "nested")
    with Mounted(f"{src}/slow.tar", "+nested", slow=10) as w:
        top = w.mounted()
        assert [len(os.listdir(f"{top}/t/p{i}/d")) for i in range(4)] == [40] * 4
        assert int(w.get("ready")[0]["files"]) == 160 and w.has_used_an_index() and not w.warnings(), w.warnings()
    with Mounted(f"{src}/slow.tar") as w:
        assert sorted(os.listdir(f"{w.mounted()}/t")) == [f"p{i}.tar" for i in range(4)]
        assert w.has_used_an_index() and not w.warnings(), w.warnings()
    remove(src)


def sparse_files(src):
    """Files of holes alone, with holes everywhere, with data at both ends, and with no hole."""
    os.makedirs(f"{src}/t/d")
    rnd = random.Random(5)
    for name, size, pieces in (("hole", 3 << 20, []), ("ends", 2500000, [(0, 5), (2499995, 5)]), ("begin", 1 << 20, [(0, 9000)]),
                               ("plain", 5000, [(0, 5000)]), ("d/" + "n" * 120, 700000, [(300000, 1)]),
                               ("many", 8 << 20, [(i * 40000, rnd.randrange(1, 6000)) for i in range(200)])):
        with open(f"{src}/t/{name}", "wb") as f:
            f.truncate(size)
            for pos, n in pieces:
                f.seek(pos)
                f.write(rnd.randbytes(n))
        os.utime(f"{src}/t/{name}", (OLD, OLD))
    os.link(f"{src}/t/ends", f"{src}/t/linked")


def read_parts(path, expected, rnd):
    """Whole, and in parts that begin and end anywhere."""
    with open(path, "rb") as f:
        assert f.read() == expected, path
    fd = os.open(path, os.O_RDONLY)
    for _ in range(50):
        pos, n = rnd.randrange(len(expected)), rnd.randrange(1, 300000)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        assert os.pread(fd, n, pos) == expected[pos:pos + n], (path, pos, n)
    os.close(fd)


def test_sparse_files_of_a_tar_are_as_extracted():
    """Red where a hole is read from the archive, or data from a wrong place of it."""
    if no_fuse():
        return no_fuse()
    src, rnd = scratch(), random.Random(7)
    sparse_files(src)
    for how in (["--format=gnu"], ["--format=oldgnu"], *(["--format=posix", f"--sparse-version={v}"] for v in ("0.0", "0.1", "1.0"))):
        for nested in False, True:
            subprocess.run(["tar", *how, "-S", "-C", f"{src}/t", "-cf", f"{src}/a.tar", "."], check=True)
            if nested:
                os.rename(f"{src}/a.tar", f"{src}/in.tar")
                subprocess.run(["tar", "-C", src, "-cf", f"{src}/a.tar", "in.tar"], check=True)
            for by_index in False, True:
                if by_index:
                    make_index(f"{src}/a.tar", *["nested"] * nested)
                with Mounted(f"{src}/a.tar", "+nested" * nested) as w:
                    top = w.mounted() + "/in" * nested
                    assert w.has_used_an_index() == by_index and not w.warnings(), (how, w.warnings())
                    got, expected = describe(top), describe(f"{src}/t")
                    if nested:  # the "./" of an inner archive has no effect
                        del got["."], expected["."]
                    assert sorted(got) == sorted(expected)
                    for k in got:
                        assert got[k] == expected[k] or got[k][:1] == ("dir",), (how, nested, by_index, k)
                    for name in "ends", "many", "hole":
                        read_parts(f"{top}/{name}", expected[name][3], rnd)
                    assert os.stat(f"{top}/many").st_blocks * 512 < 2 << 20, os.stat(f"{top}/many")
            os.unlink(f"{src}/a.tar.stage-index")
    remove(src)


def test_what_is_reserved_for_the_index_may_be_used():
    """Fails when the limit for decompressors stays as it is while memory for the index is granted:
    with 16.7 million members, there was no memory."""
    src = scratch()
    with open(f"{src}/a.tar", "wb") as f:
        f.write(tarcraft.tar(*(tarcraft.member(b"%d" % i) for i in range(9000))))
    granted, limits = [], []

    class Watched(MountWorker):
        def grant(self, m):
            if m.get("beside") == "1":
                with open(f"/proc/{self.proc.pid}/limits") as f:
                    limits.append(int(next(line for line in f if "data size" in line).split()[3]))
                granted.append(int(m["bytes"]))
            return super().grant(m)

    with Watched(f"x={src}/a.tar::method=mount", fuse=1) as w:
        assert w.run_until("ready", "error")["op"] == "ready"
    assert len(granted) > 2, granted
    for i in range(1, len(granted)):
        assert limits[i] == limits[i - 1] + 2 * granted[i - 1], (granted, limits)
    remove(src)


def test_an_index_is_used_where_a_record_has_the_size():
    """Fails when a size in the header that is not the member's makes the index stale."""
    if no_fuse():
        return no_fuse()
    src = scratch()
    with open(f"{src}/a.tar", "wb") as f:
        f.write(tarcraft.tar(tarcraft.pax(size=1000), tarcraft.posix(b"f"), tarcraft.pad(b"A" * 1000)))
    make_index(f"{src}/a.tar")
    with Mounted(f"{src}/a.tar") as w:
        with open(f"{w.mounted()}/f", "rb") as f:
            assert f.read() == b"A" * 1000
        assert w.has_used_an_index() and not w.warnings(), (w.plan(), w.warnings())
    remove(src)


def test_maps_of_sparse_files_are_checked():
    """Each is refused as by extraction, or shown as by it."""
    if no_fuse():
        return no_fuse()
    bad, src = load("test-bad-archives"), scratch()
    wrong = "the pieces of a file overlap or are beyond its end, last member holes"
    old = bad.sparse
    for data, words in ((old([(0, 512), (100, 512)], b"1" * 1024, 2000), wrong), (old([(4096, 512), (0, 512)], b"1" * 1024, 8192), wrong),
                        (old([(0, 512), (1 << 40, 512)], b"1" * 1024, 2000), wrong), (old([(0, 512)], b"1" * 1024, 2000), "other pieces"),
                        (old([(0, 1)], b"1", (1 << 63) - 1), "can't be mounted"),
                        (tarcraft.tar(text_map(b"3\n0\n1\n")), "map of a sparse file is damaged"),
                        (tarcraft.tar(text_map(b"x\n0\n1\n")), "map of a sparse file is damaged"),
                        (tarcraft.tar(text_map(b"2\n0\n1\n1\n5\n")), "other pieces"),
                        (tarcraft.tar(text_map(b"1\n0\n1\n"))[:-1025], "truncated"),
                        (tarcraft.tar(text_map(b"0\n")), "map of a sparse file is damaged"),
                        (old([], b"", 5000), "map of a sparse file is damaged"),
                        (tarcraft.tar(tarcraft.pax(GNU__sparse__size=5000, GNU__sparse__numblocks=0), tarcraft.posix(b"h")),
                         "map of a sparse file is damaged")):
        with open(f"{src}/a.tar", "wb") as f:
            f.write(data)
        with Mounted(f"{src}/a.tar") as w:
            m = w.run_until("ready", "error")
            assert m["op"] == "error" and words in m["text"], (words, m)
        with Worker(f"x={src}/a.tar::method=extract") as w:
            assert w.run_until("ready", "error")["op"] == "error" or not words.startswith("map"), words
    for data in bad.many_holes(20000), tarcraft.tar(text_map(b"1\n0\n1\n")):
        with open(f"{src}/a.tar", "wb") as f:
            f.write(data)
        with Worker(f"x={src}/a.tar::method=extract") as w, Mounted(f"{src}/a.tar") as m:
            w.ready()
            top = m.mounted()
            assert describe(top)["holes"] == describe(w.path)["holes"]
    remove(src)


def test_a_directory_with_a_map_of_holes_is_refused():
    """GNU's type S with a slash at the end: stage-index looked for the number of a sparse directory
    beyond its table."""
    if no_fuse():
        return no_fuse()
    src = scratch()
    with open(f"{src}/a.tar", "wb") as f:
        f.write(tarcraft.member(b"first") + load("test-bad-archives").sparse([(4096, 0)], b"", 4096, name=b"d/"))
    done = subprocess.run([INDEX, f"{src}/a.tar", f"{src}/a.tar.stage-index"], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "can't be mounted" in done.stderr, done
    with Mounted(f"{src}/a.tar") as w:
        m = w.run_until("ready", "error")
        assert m["op"] == "error" and "can't be mounted: the member after first is a device" in m["text"], m
    remove(src)


def text_map(text):
    """pax 1.0: one member of 4096 bytes, with one byte of data."""
    fields = {"GNU.sparse.major": 1, "GNU.sparse.minor": 0, "GNU.sparse.name": "holes", "GNU.sparse.realsize": 4096}
    return tarcraft.pax(**fields) + tarcraft.posix(b"GNUSparseFile/holes", tarcraft.pad(text) + b"1")


if __name__ == "__main__":
    main(globals())
