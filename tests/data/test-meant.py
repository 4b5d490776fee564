#!/usr/bin/env python3
"""What people bring, and what they mean by it: files that are archives inside, and archives that the tools
of others read. Where there is such a tool, its answer is the expected one."""
import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *  # noqa: E402
from tarcraft import *  # noqa: E402


def write(path, data=b"x"):
    with open(path, "wb") as f:
        f.write(data)


def zipped(**members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in members.items():
            z.writestr(name, data)
    return out.getvalue()


def tree(top):
    """{name: content, None for a directory}"""
    out = {}
    for root, dirs, files in os.walk(top):
        for n in dirs + files:
            p = os.path.join(root, n)
            out[os.path.relpath(p, top)] = None if os.path.isdir(p) else open(p, "rb").read()
    return out


ZIP = zipped(a=b"content of a", b=b"content of b")
TAR = tar(member(b"a", b"content of a"), member(b"b", b"content of b"))
UNPACKED = {"a": b"content of a", "b": b"content of b"}
HINT = "method=extract unpacks it"

# A file of its own kind that is a zip or a tar inside: its reader opens the file.
FILES = [*((name, ZIP) for name in ("model.pt", "checkpoint.pth.tar", "model_best.tar", "last.ckpt", "x.npz", "x.docx",
                                    "x.xlsx", "x.jar", "x.whl", "x.keras", "X.NPZ", "zip", "data.zip.1", "data")),
         *((name, TAR) for name in ("model.nemo", "appliance.ova", "x.gem", "data", "checkpoint.pth.tar")),
         *((name, gzip.compress(TAR)) for name in ("x.unitypackage", "data.gz"))]
ARCHIVES = [*((name, ZIP) for name in ("x.zip", "X.ZIP", "my.npz.zip")),
            *((name, TAR) for name in ("x.tar", "X.TAR", "x.zip")),
            *((name, gzip.compress(TAR)) for name in ("x.tar.gz", "x.tgz", "X.TGZ", "x.tar"))]


def test_a_file_that_is_an_archive_inside_stays_a_file():
    """Fails where content alone decides: torch.load() got a directory."""
    base = scratch()
    for name, data in FILES:
        write(f"{base}/{name}", data)
        with Worker(f"x={base}/{name}") as w:
            m = w.ready()
            assert m["kind"] == "file" and open(w.path, "rb").read() == data, name
            assert any(HINT in t for t in w.warnings()), (name, w.warnings())
            assert HINT in w.get("facts")[0]["why"], name
        with Worker(f"x={base}/{name}", mode="plan") as w:
            assert HINT in w.run_until("facts")["why"], name
        with Worker(f"x={base}/{name}::method=extract") as w:
            w.ready()
            assert tree(w.path) == UNPACKED, name
        with Worker(f"x={base}/{name}::method=copy") as w:  # there is nothing to doubt
            w.ready()
            assert w.warnings() == [], name
        os.unlink(f"{base}/{name}")
    remove(base)


def test_an_archive_by_name_is_unpacked():
    base = scratch()
    for name, data in ARCHIVES:
        write(f"{base}/{name}", data)
        with Worker(f"x={base}/{name}") as w:
            w.ready()
            assert tree(w.path) == UNPACKED and w.warnings() == [], (name, w.warnings())
        os.unlink(f"{base}/{name}")
    write(f"{base}/x.zip", ZIP)
    os.symlink("x.zip", f"{base}/latest")
    with Worker(f"x={base}/latest") as w:
        w.ready()
        assert tree(w.path) == UNPACKED
    remove(base)


def test_options_for_archives_say_that_it_is_one():
    base = scratch()
    write(f"{base}/data", tar(member(b"d/a", b"1"), member(b"d/b", b"2")))
    for options, expected in (("strip=1", {"a": b"1", "b": b"2"}), ("subdir=d", {"a": b"1", "b": b"2"}),
                              ("include=a", {"d": None, "d/a": b"1"}), ("nested", {"d": None, "d/a": b"1", "d/b": b"2"})):
        with Worker(f"x={base}/data::{options}") as w:
            w.ready()
            assert tree(w.path) == expected, (options, tree(w.path))
    remove(base)


def test_samples_in_an_archive_stay_files():
    """Fails where nested opens what is an archive by its content alone, and where the warning advises it."""
    base = scratch()
    samples = {"a.npz": ZIP, "b.pt": ZIP, "c.nemo": TAR, "d.docx": ZIP, "e.nii.gz": gzip.compress(b"1")}
    write(f"{base}/x.tar", tar(*(member(n.encode(), d) for n, d in samples.items())))
    for options in ("", "::nested"):
        with Worker(f"x={base}/x.tar{options}") as w:
            w.ready()
            assert tree(w.path) == samples and w.warnings() == [], (options, w.warnings())
    write(f"{base}/x.tar", tar(member(b"a.npz", ZIP), member(b"b.zip", ZIP)))
    with Worker(f"x={base}/x.tar") as w:
        w.ready()
        assert any("1 members are archives" in t and "b.zip" in t for t in w.warnings()), w.warnings()
    with Worker(f"x={base}/x.tar::nested") as w:
        w.ready()
        assert sorted(tree(w.path)) == ["a.npz", "b", "b/a", "b/b"]
    remove(base)


if __name__ == "__main__":
    main(globals())
