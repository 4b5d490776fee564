#!/usr/bin/env python3
"""Squashfs images with wrong fields: each field that is a position or a number has a value that
is not allowed.

Each image is tried with method=extract and with method=mount. Both refuse it before anything is
made, and the message has the name of the image and the defect. Images that can be mounted and
fail later are in squashfs-test."""
import os
import re
import sys
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *  # noqa: E402
from sqfs_writer import *  # noqa: E402

BIG = (1 << 64) - 1
TREE = {"a": b"hello", "d": {"x": File(b"y" * 9000, tail=True), "z": b""}, "l": Link("a")}


MANY = {f"n{i:03d}": b"%d" % i for i in range(300)}  # 24 bytes each in a listing


def tree(**more):
    return dict(a=b"hello", **more)


def word(at, value):
    """A patch: 16 bits at the beginning of a table."""
    def patch(image, places):
        image[places[at]:places[at] + 2] = value.to_bytes(2, "little")
    return patch


def offset(at, value):
    """A patch: 64 bits."""
    def patch(image, places):
        image[places[at]:places[at] + 8] = value.to_bytes(8, "little")
    return patch


# ---- what is said about the whole image; red when sqfs-super.c does not look at that field ----

def superblocks():
    whole = build(TREE)
    damaged = "image is damaged: "
    for n in (1, len(whole) // 2, 96):
        yield f"cut by {n} bytes", whole[:-n], f"image is truncated: has {len(whole) - n} of {len(whole)} bytes"
    yield "half a superblock", whole[:60], "only 60 bytes"
    yield "empty", b"", None
    yield "another magic", build(TREE, magic=0x73717369), None
    yield "big-endian", build(TREE, magic=0x68737173), "big-endian squashfs image"
    yield "version 3.1", build(TREE, major=3, minor=1), r"squashfs version 3\.1 is not supported"
    yield "version 4.1", build(TREE, minor=1), r"squashfs version 4\.1 is not supported"
    yield "compressor 0", build(TREE, compressor=0), r"unknown method \(0\)"
    yield "compressor 7", build(TREE, compressor=7), r"unknown method \(7\)"
    for size in (0, 3000, 2048, 2 << 20, 0xfffff000):
        yield f"block size {size}", whole[:12] + size.to_bytes(4, "little") + whole[16:], damaged + f"block size {size}"
    yield "logarithm 60", build(TREE, block_log=60), damaged + "block size 4096 but its logarithm 60"
    yield "0 inodes", build(TREE, n_inodes=0), damaged + "0 inodes"
    yield "2^32-1 inodes", build(TREE, n_inodes=NONE), damaged + "4294967295 inodes"
    yield "fewer inodes than there are", build(TREE, n_inodes=2), damaged + ".*inode"
    yield "2^32-1 fragments", build(TREE, n_fragments=NONE), damaged + "4294967295 fragments"
    yield "10^6 fragments", build(TREE, n_fragments=10 ** 6), damaged + ".*fragment"
    for field, what in (("inode_table", "its tables"), ("directory_table", "its tables"), ("id_table", "its id table"),
                        ("fragment_table", r"\d+ fragments|its fragment table")):
        for value in (0, len(whole), BIG):
            yield f"{field} {value}", build(TREE, **{field: value}), damaged + f"({what}|.*fragment)"
    yield "tables the wrong way round", swap_tables(whole), damaged + "its tables lie outside of it"
    yield "root at a metadata block's end", build(TREE, root=0xfff0), damaged + "its root"
    yield "root in the listings", build(TREE, root=0x7000 << 16), damaged + "its root"
    yield "root 2^64-1", build(TREE, root=BIG), damaged + "its root"
    yield "root is a file", build(TREE, root=0), damaged + "its root is not a directory"


def swap_tables(image):
    return image[:64] + image[72:80] + image[64:72] + image[80:]


# ---- what is said about one inode or name; red when sqfs-inode.c, -dir.c, -file.c do not look at
# it ----

def names():
    damaged = "image is damaged: a directory's listing"
    for size in (0x1fff, 0xffff, 256):
        yield f"name of {size + 1} bytes", build(tree(b=File(b"", entry=dict(size=size)))), damaged
    yield "name longer than the listing", build(tree(zz=File(b"", entry=dict(size=9)))), damaged
    for name in (b"a/b", b"../x", b".", b"..", b"a\0b", b"/", b"\0"):
        yield f"name {name!r}", build(tree(b=File(b"", entry=dict(name=name, size=len(name) - 1)))), damaged
    yield "257 names in a run", build(tree(b=File(b"", entry=dict(count=256)))), damaged
    yield "more names than there are", build(tree(b=File(b"", entry=dict(count=200)))), damaged
    for kind in (0, 8, 0xffff):
        yield f"name of kind {kind}", build(tree(b=File(b"", entry=dict(type=kind)))), damaged
    yield "inode number 0", build(tree(b=File(b"", entry=dict(base=0)))), damaged
    yield "inode number 2^32-1", build(tree(b=File(b"", entry=dict(base=NONE)))), damaged
    yield "name that leads into the middle of an inode", build(tree(b=File(b"", entry=dict(pos=5)))), "image is damaged: an inode"
    yield "name that leads behind the table", build(tree(b=File(b"", entry=dict(block=0x100000)))), "image is damaged: an inode"
    yield "name of a file for a directory", build(tree(b=Dir({}, entry=dict(type=2)))), "another inode"
    yield "two names of one inode, of other numbers", build(tree(b=File(b"", entry=dict(base=1)))), "another inode"
    d = Dir({"f": b"1"})
    yield "a directory twice", build(tree(d=d, e=Again(d))), "a directory inside itself"
    yield "a directory inside itself", loop(), "a directory inside itself"
    yield "5000 levels", build(levels(5000)), "directories too deep"


def loop():
    """d's name in d, with the place that d will have."""
    inner = Dir({"f": b"1"})
    inner.place = (0, 0)
    probe = build({"d": inner})
    at = inner.place
    inner = Dir({"f": File(b"1", entry=dict(block=at[0], pos=at[1], base=2, type=1))})
    assert len(build({"d": inner})) == len(probe)
    return build({"d": inner})


def levels(n):
    sys.setrecursionlimit(20000)
    out = {"f": b"1"}
    for _ in range(n):
        out = {"d": out}
    return out


def inodes():
    damaged = "image is damaged: "
    for kind in (0, 15, 0xffff):
        yield f"inode of kind {kind}", build(tree(b=File(b"", fields=dict(type=kind)))), damaged + "an inode"
    yield "inode of another number", build(tree(b=File(b"", fields=dict(number=1)))), damaged + "a name that leads to another"
    yield "inode number 0 in it", build(tree(b=File(b"", fields=dict(number=0)))), damaged + "an inode"
    yield "directory at another place", build(tree(b=Dir({"f": b"1"}, fields=dict(pos=0x1f00)))), damaged + "a directory"
    yield "directory behind the end", build(tree(b=Dir({"f": b"1"}, fields=dict(block=0x7fffffff)))), damaged + "an inode"
    yield "directory of 64 KiB", build(tree(b=Dir({"f": b"1"}, fields=dict(size=0xffff)))), damaged
    yield "directory cut in a name", build(tree(b=Dir({"file": b"1"}, fields=dict(size=23)))), damaged + "a directory's listing"
    for index in ([(1 << 30, 0, None, b"n100")], [(2400, 0x7fffffff, None, b"n100")], [(2400, 0, 0xffffff, b"n100")],
                  [(2400, 0, 300, b"n" * 301)], [(2401, 0, None, b"n100")], [(2400, 0, None, b"n101")],
                  [(2424, 0, None, b"n101"), (2400, 0, None, b"n100")]):
        yield f"index {index[0][:3]} of {len(index)}", build({"b": Dir(MANY, index=index)}), damaged + "a directory's index"
    for size in (0, 65536, NONE):
        yield f"link of {size} bytes", build(tree(b=Link("x", fields=dict(size=size)))), damaged + "an inode|" + damaged + "a symbolic link"
    yield "link with a NUL", build(tree(b=Link(b"a\0b"))), damaged + "a symbolic link"
    yield "link cut by the table's end", build({"b": Link("x", fields=dict(size=4000))}), damaged + "a symbolic link"
    yield "fragment that is not there", build(tree(b=File(b"12", fields=dict(fragment=7)))), damaged + "an inode"
    yield "fragment where there is none", build(tree(b=File(b"", fields=dict(fragment=0, size=2)))), damaged + "an inode"
    yield "fragment from its end on", build(tree(b=File(b"y" * 50, tail=True, fields=dict(fragment_pos=4090)))), damaged + "an inode"
    yield "more than the fragment has", build(tree(b=File(b"y" * 50, tail=True, fields=dict(fragment_pos=3000)))), \
        damaged + "a file's fragment"
    yield "fragment outside of the image", build(tree(b=File(b"y" * 50, tail=True)), fragments=[(1 << 40, 50 | STORED)]), \
        damaged + "a file's fragment"
    yield "fragment in the superblock", build(tree(b=File(b"y" * 50, tail=True)), fragments=[(10, 50 | STORED)]), \
        damaged + "a file's fragment"
    yield "fragment larger than a block", build(tree(b=File(b"y" * 50, tail=True), c=b"z" * 9000), fragments=[(96, 5000 | STORED)]), \
        damaged + "a file's fragment"
    yield "list of fragments leads out", build(tree(b=File(b"y" * 50, tail=True)), patch=offset("fragments", BIG - 5)), \
        damaged + "a file's fragment"
    for size in (1 << 63, BIG, (1 << 63) - 1, 1 << 50):
        yield f"file of {size} bytes, no blocks", build(tree(b=File(b"", long=True, fields=dict(size=size)))), \
            damaged + "(an inode|a file's blocks)"
    yield "last block too short", build({"b": File(b"y" * 4096, blocks=[(b"y" * 4000, None)])}), damaged + "a file's blocks"
    yield "one byte more than the blocks", build({"b": File(b"y" * 4096, fields=dict(size=4097))}), damaged + "a file's blocks"
    yield "blocks before the image", build(tree(b=File(b"y" * 100, fields=dict(start=0)))), damaged + "a file's blocks"
    yield "blocks behind the image", build(tree(b=File(b"y" * 100, fields=dict(start=1 << 31)))), damaged + "a file's blocks"
    yield "blocks at 2^64 - 50", build(tree(b=File(b"y" * 100, long=True, fields=dict(start=BIG - 50)))), damaged + "a file's blocks"
    yield "block larger than blocks are", build(tree(b=File(b"y" * 4096, blocks=[(b"y" * 4096, 5000 | STORED)]), c=b"z" * 9000)), \
        damaged + "a file's blocks"
    yield "block with bits that mean nothing", build(tree(b=File(b"y" * 4096, blocks=[(b"y" * 4096, 1 << 30 | 4096)]))), \
        damaged + "a file's blocks"
    for value in (0, 0x8000, 0x7fff, 0xffff, 0x8000 | 8193):
        yield f"metadata block {value:#x}", build(TREE, patch=word("inodes", value)), damaged + "its root"
        yield f"listings' metadata block {value:#x}", build(TREE, patch=word("listings", value)), damaged + "a directory"
    yield "compressed metadata that is none", build(TREE, patch=word("inodes", 100)), damaged + "its root"


# ---- what is not looked at, as owners and attributes are not staged ----

def ignored():
    xattr = dict(xattr=0)
    yield "no owners", build(TREE, n_ids=0)
    yield "65,535 owners", build(TREE, n_ids=65535)
    yield "owner that is not there", build(tree(b=File(b"1", fields=dict(uid=0xffff, gid=7))))
    yield "attributes behind the end", build(TREE, xattr_table=len(build(TREE)) - 4, flags=0)
    yield "attributes at 2^63", build(TREE, xattr_table=1 << 63, flags=0)
    yield "number of attributes", build(tree(b=File(b"1", long=True, fields=xattr)), flags=0)
    yield "attributes of the superblock", build(tree(b=File(b"1", long=True, fields=dict(xattr=NONE - 1))), xattr_table=0)
    yield "export table nowhere", build(TREE, export_table=5)


# ---- the runner ----

def try_image(base, name, data, words):
    path = f"{base}/{re.sub('[^a-z0-9]+', '-', name.lower())}.sqsh"
    with open(path, "wb") as f:
        f.write(data)
    methods = ["extract"] + (["mount"] if os.path.exists("/dev/fuse") else [])
    for method in methods:
        with Worker(f"x={path}::method={method}", base=base, fuse=1) as w:
            text = w.error_soon()["text"]
        assert path in text and re.search(words or "", text), f"{method}: no /{words}/: {text}"
        assert not re.search(r"[\x00-\x1f\x7f]", text) and "signal" not in text, text
        if os.environ.get("V"):
            print("#", name, "->", text)
    os.unlink(path)


def run_cases(cases):
    base, wrong = scratch(), []
    only = os.environ.get("CASE", "")
    for name, data, words in cases():
        if only not in name:
            continue
        try:
            try_image(base, name, data, words)
        except (AssertionError, TimeoutError, OSError) as e:
            wrong.append(f"{name}: {e}")
    remove(base)
    assert not wrong, "\n".join(wrong)


def test_superblocks_that_can_not_be():
    run_cases(superblocks)


def test_names_that_can_not_be():
    run_cases(names)


def test_inodes_that_can_not_be():
    run_cases(inodes)


def test_lzma_is_read_or_refused():
    """Some builds of libsquashfuse know it (Debian 13's). What breaks it: a codec that is taken
    without its decompressor."""
    base = scratch()
    with open(f"{base}/i.sqsh", "wb") as f:
        f.write(build(TREE, compressor=2))
    with Worker(f"x={base}/i.sqsh::method=extract") as w:
        answer = w.run_until("ready", "error")
        assert answer, "the worker died: " + w.stderr()
        if answer["op"] == "error":
            assert "compressed by lzma, which this build can't read" in answer["text"], answer
            w.check_nothing_left()
        else:
            assert open(f"{w.path}/d/x", "rb").read() == b"y" * 9000 and os.readlink(f"{w.path}/l") == "a"
    remove(base)


def test_the_writer_writes_sound_images():
    """Else all the others would be refused for another reason."""
    base = scratch()
    long = {"a": File(b"1" * 5000, long=True, tail=True), "l": Link("a", long=True), "e": Dir({"f": b"2"}, index=[]),
            "0": Dir(MANY, index=[(2400, 0, None, b"n100")])}
    for name, image in [("plain", build(TREE)), ("long", build(long)), ("levels", build(levels(100)))] + list(
            (n, d) for n, d in ignored()):
        with open(f"{base}/i.sqsh", "wb") as f:
            f.write(image)
        with Worker(f"x={base}/i.sqsh::method=extract") as w:
            try:
                w.ready()
            except AssertionError as e:
                raise AssertionError(f"{name}: {e}")
            if name == "long":
                assert open(f"{w.path}/a", "rb").read() == b"1" * 5000 and os.readlink(f"{w.path}/l") == "a"
                assert open(f"{w.path}/e/f", "rb").read() == b"2"
            st = os.lstat(w.path)
            assert (st.st_uid, st.st_gid) == (os.geteuid(), os.getegid())
    remove(base)


if __name__ == "__main__":
    main(globals())
