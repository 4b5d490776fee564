#!/usr/bin/env python3
"""The messages of a build without support for squashfs images and mounts. The test fails if a
message blames /dev/fuse, the site or the file."""
import os
import re
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *  # noqa: E402

IMAGE = b"hsqs" + bytes(4092)  # its first bytes tell what it is
NO_IMAGES = "x: squashfs images can't be read on this node: stage-data was built without them; " \
            "stage the image as a file by method=copy, or ask the site"
NO_MOUNTS = "x: nothing can be mounted on this node: stage-data was built without mounts; " \
            "method=extract unpacks it"


def make(base):
    with open(f"{base}/x", "wb") as f:
        f.write(b"data" * 100)
    with tarfile.open(f"{base}/a.tar", "w") as t:
        t.add(f"{base}/x", "x")
    with open(f"{base}/x.sqsh", "wb") as f:
        f.write(IMAGE)


def refused(base, item, **task):
    with Worker(f"x={base}/{item}", **dict(dict(fuse=1, tiers="shm,ssd"), **task)) as w:
        m = w.error()
        return m["text"].replace(f"{base}/{re.split('::?', item)[0]}", "x")


def test_images_and_mounts_are_refused_with_the_reason():
    base = scratch()
    make(base)
    for item in ("x.sqsh", "x.sqsh:source", "x.sqsh::method=extract", "x.sqsh::method=mount",
                 "x.sqsh:shm:method=mount"):
        for fuse in (0, 1):
            text = refused(base, item, fuse=fuse)
            assert text == NO_IMAGES, (item, fuse, text)
    text = refused(base, "a.tar::method=mount")
    assert text == NO_MOUNTS, text
    remove(base)


def test_no_image_is_advised():
    """Neither where memory is short, nor in place of what can't be mounted."""
    base = scratch()
    make(base)
    for item, task in (("a.tar:shm", dict(memlimit=4096)), ("x::method=mount", {})):
        text = refused(base, item, **task)
        assert "image" not in text.rpartition("; ")[2], (item, text)
    remove(base)


def test_an_image_is_copied_as_the_file_that_it_is():
    base = scratch()
    make(base)
    with Worker(f"x={base}/x.sqsh::method=copy", fuse=1) as w:
        w.ready()
        with open(w.path, "rb") as f:
            assert f.read() == IMAGE
    remove(base)


if __name__ == "__main__":
    main(globals())
