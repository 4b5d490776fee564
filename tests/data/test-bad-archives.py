#!/usr/bin/env python3
"""Hostile, damaged and unusual archives: a table of inputs and results.

If a case fails, the message has the member and the cause in one line, nothing is left, and
nothing outside of the dataset is changed. If a case is ready, it has the expected tree.
docs/bad-inputs.md is the same table for readers."""
import bz2
import errno
import fcntl
import gzip
import io
import lzma
import os
import re
import stat
import subprocess
import sys
import tarfile
import warnings
import zipfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *  # noqa: E402
from tarcraft import *  # noqa: E402

LINK, HARD, DIR = b"2", b"1", b"5"
GOOD = member(b"good", b"1")
WHOLE = tar(*(member(b"f%d" % i, bytes([i]) * 1000) for i in range(10)))
ONE = BLOCK + 1024
VICTIMS = ("run/t/.stage/victim", "run/t/victim", "run/victim", "victim")


class Fails:
    """text: a regular expression of what is said; code: the exit status that it counts as."""

    def __init__(self, text, code="1", **task):
        self.text, self.code, self.task = text, code, task


class Ready:
    """tree: {name: content, "-> target" of a link, None for a directory}, compared whole; check: of
    the path; mounts: it can be mounted, and passes the check there, too."""

    def __init__(self, tree=None, check=None, warns=None, mounts=False, **task):
        self.tree, self.check, self.warns, self.mounts, self.task = tree, check, warns, mounts, task


# ---- what wants out of its directory ----

def escapes():
    """Red when member_path_clean(), the O_NOFOLLOW of tree-dirs.c or MEMBER_OTHER's refusal is
    taken out."""
    yield "absolute name", tar(member(b"/tmp/evil", b"1")), Ready({"tmp": None, "tmp/evil": b"1"}, warns='1 name in the archive began with "/"')
    yield "name with .. inside", tar(member(b"a/../../evil", b"1")), Fails(r'member a/\.\./\.\./evil leads out by "\.\."')
    yield "name that begins with ..", tar(member(b"../../../evil", b"1")), Fails(r"\.\./\.\./\.\./evil leads out")
    yield ("control bytes in a name that is shown", tar(member(b"../\x1b[2J\n\xe2\x80\xae\xff", b"1")),
           Fails(r"\.\./\\x1b\[2J\\x0a\\xe2\\x80\\xae\\xff leads out"))
    yield ("through a symbolic link", tar(member(b"l", kind=LINK, link=b"/tmp"), member(b"l/evil", b"1")),
           Fails("l/evil.*a link"))
    yield ("symbolic link, then a file of its name",
           tar(member(b"l", kind=LINK, link=b"../victim"), member(b"l", b"new")),
           Ready({"l": b"new"}, warns="more than once"))
    yield ("through a chain of links",
           tar(member(b"a", kind=LINK, link=b"b"), member(b"b", kind=LINK, link=b".."), member(b"a/evil", b"1")),
           Fails("a/evil.*a link"))
    yield ("a directory in the place of a link", tar(member(b"l", kind=LINK, link=b"/tmp"), member(b"l", kind=DIR)),
           Fails("l is a file or a link in the archive"))
    yield "hard link, absolute", tar(member(b"h", kind=HARD, link=b"/etc/passwd")), Fails("h is a hard link to etc/passwd, which is not in the archive")
    yield "hard link by ..", tar(member(b"h", kind=HARD, link=b"../victim")), Fails(r"\.\./victim leads out")
    yield ("hard link with data, which would be written",
           tar(pax(linkpath="../victim"), posix(b"h", b"overwritten", HARD, link=b"x")),
           Fails("h is a hard link that brings data along"))
    yield ("hard link with data to a member",
           tar(posix(b"a", b"first"), pax(comment="x"), posix(b"h", b"other", HARD, link=b"a")), Fails("h is a hard link that brings data along"))
    yield ("hard link through a link",
           tar(member(b"l", kind=LINK, link=b"/etc"), member(b"h", kind=HARD, link=b"l/passwd")),
           Fails("h is a hard link to l/passwd"))
    yield "hard link to itself", tar(member(b"h", kind=HARD, link=b"h")), Fails("h is a hard link to h, which is not in the archive before it")
    yield "hard link to itself in a directory", tar(member(b"d/h", kind=HARD, link=b"d/h")), Fails("d/h is a hard link to d/h, which is not")
    yield "hard link to itself, which is there", tar(member(b"h", b"1"), member(b"h", kind=HARD, link=b"h")), Ready()
    yield "hard link of the top to itself", tar(member(b".", kind=HARD, link=b".")), Fails("the name of the top of the archive")
    yield "symbolic link to nothing, in a zip", make_zip(("l", b"", 0o120777)), Fails("l is a link with an empty target")
    yield "hard link to nothing", tar(member(b"h", kind=HARD, link=b"missing")), Fails("h is a hard link to missing")
    yield ("hard link to a later member", tar(member(b"h", kind=HARD, link=b"a"), member(b"a", b"1")),
           Fails("h is a hard link to a, which is not in the archive before it"))
    yield "hard link to a directory", tar(member(b"d", kind=DIR), member(b"h", kind=HARD, link=b"d")), Fails("h is a hard link to d, which is a directory")
    yield ("hard link to a symbolic link",
           tar(member(b"l", kind=LINK, link=b"/etc/passwd"), member(b"h", kind=HARD, link=b"l")),
           Ready({"l": "-> /etc/passwd", "h": "-> /etc/passwd"}))
    yield "pax path in place of the name", tar(pax(path="/tmp/evil"), posix(b"fine", b"1")), Ready({"tmp": None, "tmp/evil": b"1"})
    yield ("pax path in place of a bad name", tar(pax(path="fine"), posix(b"../evil", b"1")), Ready({"fine": b"1"}))
    yield ("pax linkpath in place of the link",
           tar(posix(b"good", b"1"), pax(linkpath="../victim"), posix(b"h", kind=HARD, link=b"good")),
           Fails(r"\.\./victim leads out"))
    yield "long name that leads out", tar(long_name(b"x/" * 60 + b"../" * 70 + b"evil"), member(b"fine", b"1")), Fails("leads out")
    yield "pax path for all members", tar(pax(b"g", path="../evil"), posix(b"f", b"1")), Ready({"f": b"1"})
    yield "the top as a link", tar(member(b".", kind=LINK, link=b"/tmp")), Fails("has the name of the top of the archive")
    yield "the top as a file", tar(member(b".", b"1")), Fails("has the name of the top of the archive")


# ---- what no dataset needs ----

def kinds():
    """Red when untar-extract.c passes over MEMBER_OTHER, or tree.c makes files with all of their
    mode."""
    yield "character device", tar(GOOD, member(b"null", kind=b"3")), Fails("null is a device")
    yield "block device", tar(GOOD, member(b"disk", kind=b"4")), Fails("disk is a device")
    yield "FIFO", tar(GOOD, member(b"pipe", kind=b"6")), Fails("pipe is a device, FIFO or")
    yield "a hard link without a target", tar(GOOD, member(b"h", kind=HARD)), Fails("h is .*a link with an empty target; exclude= leaves it out")
    yield "unknown type Z", tar(GOOD, member(b"odd", b"1", b"Z")), Ready({"good": b"1", "odd": b"1"})
    yield "the second part of a file (M)", tar(member(b"rest", b"1", b"M")), Fails("rest is the rest of a file that began in another volume")
    yield "the label of a tape", tar(member(b"label", kind=b"V"), GOOD), Ready({"good": b"1"})
    yield "set-id and sticky bits", tar(member(b"f", b"1", mode=0o7755), member(b"d", kind=DIR, mode=0o7755)), \
        Ready({"f": b"1", "d": None}, check=modes(f=0o755, d=0o755))
    yield ("closed directory with files", tar(member(b"d", kind=DIR, mode=0), member(b"d/f", b"1")),
           Ready(check=lambda p: [modes(d=0)(p), os.chmod(p + "/d", 0o700), check_tree(p, {"d": None, "d/f": b"1"})]))
    yield "closed file", tar(member(b"f", b"1", mode=0)), \
        Ready(check=lambda p: [modes(f=0)(p), os.chmod(p + "/f", 0o600), check_tree(p, {"f": b"1"})])
    yield ("owners and their names", tar(member(b"f", b"1", uid=12345, rest=b"nobody".ljust(32, b"\0") + b"nogroup")),
           Ready({"f": b"1"}, check=lambda p: [equal((s.st_uid, s.st_gid), (os.geteuid(), os.getegid()))
                                              for s in [os.stat(p + "/f")]]))
    yield "attributes, capabilities, ACLs, flags", attributes(), \
        Ready({"f": b"1"}, check=lambda p: [equal([a for a in os.listxattr(p + "/f") if "selinux" not in a], []),
                                            equal(flags_of(p + "/f"), 0)])
    for time in (-1, -10 ** 9, 2 ** 31, 2 ** 32, 8 ** 11):
        yield f"time of {time} s", tar(member(b"f", b"1", mtime=time)), \
            Ready({"f": b"1"}, time_of("f", time * 10 ** 9), mounts=True)
    for text, ns in TIMES.items():
        yield f"time of {text} by pax", tar(pax(mtime=text), posix(b"f", b"1")), Ready(check=time_of("f", ns), mounts=True)
    for text in ("-1.25", "-7", "1.25"):  # a file with holes comes first, and libarchive reads on from there
        yield f"time of {text} by pax, read by libarchive", \
            sparse([(0, 1)], b"1", 2000)[:-len(END)] + tar(pax(mtime=text), posix(b"f", b"1")), Ready(check=time_of("f", TIMES[text]))
    yield "time of 2^63", tar(member(b"f", b"1", mtime=(1 << 63) - 1)), Ready({"f": b"1"}, check=latest_time_of("f"))
    yield "names of all kinds", tar(*(member(n, n) for n in NAMES)), Ready({os.fsdecode(n): n for n in NAMES})
    yield ("dots and slashes", tar(member(b"./", kind=DIR), member(b"a//b/./c", b"1"), member(b"./a/d", b"2")),
           Ready({"a": None, "a/b": None, "a/b/c": b"1", "a/d": b"2"}))
    for kind in b"0", b"\0", b"7":  # GNU tar and bsdtar make a directory, with an error or a warning; Python a file of some
        yield f"a file with data whose name ends in a slash, of type {kind}", tar(GOOD, member(b"a/", b"data", kind)), \
            Fails("a/ ends in a slash, as the name of a directory, and has data; make the archive again, by tar -C")
    yield "a name that ends in a slash, and no data", tar(member(b"a/", kind=b"0")), Ready({"a": None})
    yield "empty name", tar(member(b"", b"1")), Fails("has the name of the top of the archive")
    yield "twice the same name", tar(member(b"a", b"1"), member(b"b", b"x"), member(b"a", b"22")), \
        Ready({"a": b"22", "b": b"x"}, warns="1 name comes more than once")
    yield "file, then a directory of its name", tar(member(b"a", b"1"), member(b"a", kind=DIR)), Fails(r"\ba is a file")
    yield "file, then something below it", tar(member(b"a", b"1"), member(b"a/b", b"1")), Fails(r"\ba is a file")
    yield "directory, then a file of its name", tar(member(b"a/b", b"1"), member(b"a", b"1")), Fails("a is a directory")
    yield ("directory, then a link of its name", tar(member(b"a", kind=DIR), member(b"a", kind=LINK, link=b"/tmp")),
           Fails("a is a directory"))
    yield ("twins by case and by composition",
           tar(member(b"A", b"1"), member(b"a", b"2"), member("\u00e9".encode(), b"3"), member("e\u0301".encode(), b"4")),
           Ready({"A": b"1", "a": b"2", "\u00e9": b"3", "e\u0301": b"4"}))
    yield "incremental dump", incremental(), Ready({"d": None, "d/f": b"1"})


# What POSIX's text says in nanoseconds, rounded down.
TIMES = {"-1.25": -1250000000, "-0.5": -500000000, "-7": -7000000000, "-7.0": -7000000000, "-1.0000000001": -1000000001,
         "-1.99999999901": -2000000000, "1.25": 1250000000, "1.9999999999": 1999999999}


def time_of(name, ns):
    return lambda path: equal(os.stat(f"{path}/{name}").st_mtime_ns, ns)


def latest_time_of(name):
    """The file system's own last second."""
    def check(path):
        got = os.stat(f"{path}/{name}").st_mtime_ns
        os.utime(f"{path}/{name}", (0, (1 << 63) - 1))
        assert got >= 1 << 31, got
        equal(got, os.stat(f"{path}/{name}").st_mtime_ns)
    return check


def flags_of(path):
    """Those that lock a file: it can't be written, or at its end alone. 0 where there are none."""
    get_flags, append, immutable = 0x80086601, 0x20, 0x10
    with open(path, "rb") as f:
        try:
            return int.from_bytes(fcntl.ioctl(f, get_flags, bytes(8))[:4], sys.byteorder) & (append | immutable)
        except OSError as e:
            assert e.errno in (errno.ENOTTY, errno.EOPNOTSUPP), e
            return 0


NAMES = [b"new\nline", b"\x1b[31mred", b"bad\xff\xfe", b"-rf", b"--", b"sp ace", b"*", b"$(id)", b"back\\slash",
         "\u202egnp".encode(), b"tab\t", b"quote'\"", b"n" * 100]


def modes(**expected):
    def check(path):
        for name, mode in expected.items():
            equal((name, oct(stat.S_IMODE(os.lstat(f"{path}/{name}").st_mode))), (name, oct(mode)))
    return check


def equal(got, expected):
    assert got == expected, f"{got} is not {expected}"


def attributes():
    fields = {"SCHILY.xattr.user.x": b"1", "SCHILY.xattr.security.capability": b"\1\0\0\2" + b"\xff" * 16,
              "SCHILY.xattr.trusted.t": b"1", "LIBARCHIVE.xattr.user.y": b"MQ", "SCHILY.acl.access": b"user::rwx,user:0:rwx",
              "SCHILY.fflags": b"immutable,uappnd", "RHT.security.selinux": b"x\0"}
    return tar(pax(**fields), posix(b"f", b"1"))


def incremental():
    return tar(member(b"d/", b"Yf\0\0", b"D"), member(b"d/f", b"1"))


# ---- numbers ----

def numbers():
    """Red when decode_read() takes pieces as they come, or a header without its sum is taken."""
    yield "negative size", tar(member(b"f", b"1" * 500, size=b"\xff" * 12)), Fails("is damaged .tar entry has negative size")
    yield "size of 2^63", tar(member(b"f", b"1", size=b"\x80" + bytes(3) + b"\x80" + bytes(7))), Fails("is damaged .*size.* overflow")
    yield "size of 2^63 by pax", tar(pax(size=1 << 63), posix(b"f", b"1")), Fails("is damaged .*size.* overflow")
    yield "size of 2^62 by pax", tar(pax(size=1 << 62), posix(b"f", b"1")), Fails("is cut off after .*last member f")
    yield "long name of 5 MiB", tar(long_name(b"n" * (5 << 20)), member(b"f", b"1")), Fails("the attributes of a member are larger than 1 MiB.*without --xattrs")
    yield "long link of 5 MiB", tar(long_name(b"n" * (5 << 20), b"K"), member(b"f", kind=LINK)), Fails("the attributes of a member are larger than 1 MiB.*without --xattrs")
    yield "pax records of 900 KiB", tar(pax(comment="c" * (900 << 10)), posix(b"f", b"1")), Ready({"f": b"1"})
    yield "pax records of 3 MiB", tar(pax(comment="c" * (3 << 20)), posix(b"f", b"1")), Fails("the attributes of a member are larger than 1 MiB.*without --xattrs")
    yield "component of 256 bytes", tar(long_name(b"n" * 256), member(b"f", b"1")), Fails("n{200}.* has too long a name")
    yield "path of 5000 bytes", tar(long_name(b"/".join([b"p" * 200] * 25)), member(b"f", b"1")), Fails("has too long a name")
    yield "200 levels", tar(long_name(b"d/" * 200 + b"f"), member(b"f", b"1")), Fails(r"lies deeper than \d+ directories")
    yield "20,000 levels", tar(pax(path="d/" * 20000 + "f"), posix(b"f", b"1")), Fails("lies deeper|too long a name")
    yield "file with holes, 2^63 - 1 bytes", sparse([(0, 1)], b"1", (1 << 63) - 1), \
        Fails("set the size of holes: File too large; the file system holds no file of this size")
    yield "holes that overlap", sparse([(0, 512), (100, 512)], b"1" * 1024, 2000), Fails("is damaged .the pieces of a file overlap or are beyond its end, last member holes")
    yield "holes in the wrong order", sparse([(4096, 512), (0, 512)], b"1" * 1024, 8192), Fails("is damaged .the pieces of a file overlap or are beyond its end, last member holes")
    yield "data behind a file's end", sparse([(0, 512), (1 << 40, 512)], b"1" * 1024, 2000), Fails("is damaged .the pieces of a file overlap or are beyond its end, last member holes")
    star = [star_sparse(b"holes", [(0, 512), (100000, 100)], b"A" * 612, 100100),
            star_sparse(b"holes", [(0, 512), (8192, 512), (16384, 512), (24576, 512)], b"A" * 2560, 60000, more=[(50000, 512)])]
    for s in star:  # after a member of an unknown type, libarchive reads on
        yield "holes by star", tar(s, GOOD), Fails(STAR)
        yield "holes by star, read by libarchive", tar(member(b"odd", b"1", b"Z"), s), Fails(STAR)
        yield "holes by star, at the edge of a block", tar(member(b"odd", b"1", b"Z"), member(b"big", bytes((1 << 20) - 1536)), s), \
            Fails(STAR)
    yield "20,000 holes", many_holes(20000), Ready(check=lambda p: equal(os.path.getsize(p + "/holes"), 4096 * 20000))
    # Red when pieces are charged by the bytes that they have.
    yield "a byte in each page, more than the limit", many_holes(10000), \
        Fails("is larger than the limit of 20.0 MiB", code="7", maxbytes=20 << 20)
    yield "a byte in each page, within the limit", many_holes(4000), \
        Ready(check=lambda p: equal(os.path.getsize(p + "/holes"), 4000 * 4096), maxbytes=20 << 20)
    yield "more files than the limit", tar(*(member(b"f%d" % i) for i in range(1500))), \
        Fails("has 1500 files, the limit for one dataset is 1000", code="7", maxfiles=1000)
    yield "checksum of a header", WHOLE[:3 * ONE + 150] + b"7" + WHOLE[3 * ONE + 151:], Fails("is damaged .damaged tar archive, last member f2")


STAR = "holes is a sparse file in star's format, which is not read; unpack it by GNU tar and make it again, by tar -C"


def sparse(extents, data, real, name=b"holes"):
    """GNU's type S; up to four extents."""
    rest = bytes(121) + b"".join(number(a, 12) + number(n, 12) for a, n in extents).ljust(96, b"\0")
    return tar(member(name, data, b"S", rest=rest + b"\0" + number(real, 12)))


def many_holes(n, step=4096):
    """pax's format 1.0: the map stands before the data, as text. n pieces of a byte, one each
    step."""
    text = b"%d\n" % n + b"".join(b"%d\n1\n" % (i * step) for i in range(n))
    fields = {"GNU.sparse.major": 1, "GNU.sparse.minor": 0, "GNU.sparse.name": "holes", "GNU.sparse.realsize": n * step}
    return tar(pax(**fields), posix(b"GNUSparseFile/holes", pad(text) + bytes(n)))


# ---- the end of it ----

def ends():
    """Red when untar-reader.c does not ask for its two blocks of zeros, or looks no further than
    them; when probe.c calls what can't be unwrapped a file."""
    yield "cut in a member", WHOLE[:5 * ONE + 700], Fails("is cut off after 8.2 KiB .truncated tar archive, last member f5")
    yield "cut in a header", WHOLE[:5 * ONE + 100], Fails("is cut off after")
    yield "cut between members", WHOLE[:5 * ONE], Fails("is cut off after")
    yield "no end", WHOLE[:10 * ONE], Fails("two blocks of zeros at its end are missing")
    yield "half an end", WHOLE[:10 * ONE + BLOCK], Fails("two blocks of zeros at its end are missing")
    yield "two archives", WHOLE + WHOLE, Fails("there is more after the end.*several archives")
    yield "rubbish behind", WHOLE + b"rubbish" * 100, Fails("there is more after the end")
    yield "rubbish in the padding", WHOLE + bytes(100) + b"x", Fails("there is more after the end")
    yield "padding of a tape", WHOLE + bytes(20 * BLOCK), Ready()
    yield "a tar without a member", tar(end=bytes(20 * BLOCK)), Fails("the archive is empty")
    yield "empty file", b"", Fails("can't be extracted: it is an empty file")
    yield "a gzip of nothing", gzip.compress(b""), Fails("is compressed, with nothing in it; make or copy it again")
    yield "random bytes", os.urandom(100000), Fails("can't be extracted")
    yield "cut gzip", gzip.compress(WHOLE)[:-6], Fails("is cut off")
    yield "gzip of a cut tar", gzip.compress(WHOLE[:5 * ONE]), Fails("is cut off")
    yield "two gzips", gzip.compress(WHOLE[:3000]) + gzip.compress(WHOLE[3000:]), Ready()
    yield "cut xz", lzma.compress(WHOLE)[:-20], Fails("is cut off|is damaged")
    yield "cut lzma", lzma.compress(WHOLE, lzma.FORMAT_ALONE)[:-20], Fails("is cut off|is damaged")
    yield "rubbish behind lzma", lzma.compress(WHOLE, lzma.FORMAT_ALONE) + b"rubbish", Fails("garbage after the lzma data.*lzma -dc FILE >NEW.tar")
    for n in (3, 9, 16, 20, 40):
        yield f"cut lzip, by {n}", lzip(WHOLE)[:-n], Fails("is cut off|is damaged")
    yield "lzip, another checksum", lzip(WHOLE)[:-20] + b"0" + lzip(WHOLE)[-19:], Fails("is damaged")
    yield "lzip, another size", lzip(WHOLE)[:-16] + b"0" + lzip(WHOLE)[-15:], Fails("is damaged")
    yield "rubbish behind lzip", lzip(WHOLE) + b"rubbish", Fails("garbage after the lzip data.*lzip -dc FILE >NEW.tar")
    yield "cut bzip2", bz2.compress(WHOLE)[:-20], Fails("is cut off|is damaged")
    for name in ("zstd", "lz4"):
        packed = subprocess.run([name, "-qc"], input=WHOLE, stdout=subprocess.PIPE).stdout
        yield f"cut {name}", packed[:-6], Fails("is cut off")


# ---- what asks for much memory ----

def xz_with_dictionary(data, code):
    """code: the byte of the block header that gives the dictionary's size, 40 for 4 GiB."""
    x = bytearray(lzma.compress(data, check=lzma.CHECK_CRC32))
    end = 12 + (x[12] + 1) * 4
    assert x[14:16] == b"\x21\x01"      # LZMA2, one byte of properties
    x[16] = code
    x[end - 4:end] = zlib.crc32(x[12:end - 4]).to_bytes(4, "little")
    return bytes(x)


def zip_with_dictionary(size):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_LZMA) as z:
        z.writestr("f", WHOLE)
    data = bytearray(packed.getvalue())
    at = 30 + sum(int.from_bytes(data[i:i + 2], "little") for i in (26, 28))
    data[at + 5:at + 9] = size.to_bytes(4, "little")
    return bytes(data)


def hungry():
    """Red when data_rlimit_set() does nothing: those of 4 GiB are ready then. A sanitizer ends the
    program."""
    yield "xz, dictionary of 1.5 GiB, the largest that xz makes", xz_with_dictionary(WHOLE, 37), Ready()
    yield ("zstd, window of 2 GiB", subprocess.run(["zstd", "-qc", "--long=31"], input=WHOLE, stdout=subprocess.PIPE).stdout,
           Fails("needs a window of more than 128 MiB; pack it again with --long=27"))
    if not re.search(rb"__[at]san_init", open(WORKER, "rb").read()):
        yield ("xz, dictionary of 4 GiB", xz_with_dictionary(WHOLE, 40),
               Fails("needs more than 2048 MiB of memory.*with a smaller dictionary", code="7"))
        yield "zip, lzma dictionary of 4 GiB", zip_with_dictionary(0xffffffff), Fails("lzma header .* asks for more than 2048 MiB of memory; unpack it elsewhere .7z x. and make it again by zip -r")


# ---- zip ----

def make_zip(*members, method=zipfile.ZIP_STORED, system=3):
    """members: (name, data, mode); system: who says to have made it"""
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as z:
        warnings.simplefilter("ignore")  # of names that come twice
        for name, data, mode in members:
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr, info.compress_type = system, mode << 16, method
            z.writestr(info, data)
    return out.getvalue()


def zip_with_sum_of_nothing():
    data = bytearray(make_zip(("f", b"", 0o100644), ("g", b"1", 0o100644)))
    at = data.index(b"PK\1\2")
    data[at + 16:at + 20] = b"\1\2\3\4"
    return bytes(data)


def make_zip64(*members):
    """With all numbers in the places for large ones."""
    limit, zipfile.ZIP64_LIMIT = zipfile.ZIP64_LIMIT, 5
    try:
        return make_zip(*members)
    finally:
        zipfile.ZIP64_LIMIT = limit


def backslashes(f):
    """As Info-ZIP's unzip has it. Red when names are not zip-names.c's: libarchive made all of them
    directories."""
    members = [("first", b"0" * 100, f), ("a\\b", b"1", f), ("q\\", b"2", f), ("d/x\\y", b"3", f), ("a", b"4", f), ("e\\", b"", f)]
    kept = {"first": b"0" * 100, "a\\b": b"1", "q\\": b"2", "d": None, "d/x\\y": b"3", "a": b"4", "e\\": b""}
    yield "zip of Unix, backslashes", make_zip(*members), Ready(kept)
    yield "zip of Unix, backslashes, packed", make_zip(*members, method=zipfile.ZIP_DEFLATED), Ready(kept)
    yield "zip with a checksum of no content", zip_with_sum_of_nothing(), Fails("f is damaged|f has a checksum, and no content")
    yield "zip of NTFS, backslashes", make_zip(*members, system=11), Ready(kept)
    yield "zip of Unix, backslashes, large numbers", make_zip64(*members), Ready(kept)
    yield "zip of Unix, backslashes, something in front", b"PK\3\4" + bytes(100) + make_zip(*members), Ready(kept)
    yield ("zip of DOS, backslashes", make_zip(("a\\b", b"1", f), ("d/x\\y", b"3", f), ("q\\", b"", f), system=0),
           Ready({"a": None, "a/b": b"1", "d": None, "d/x\\y": b"3", "q": None}))
    yield "zip of Unix, .. by backslashes", make_zip(("..\\evil", b"1", f)), Ready({"..\\evil": b"1"})
    yield "zip of DOS, .. by backslashes", make_zip(("..\\evil", b"1", f), system=0), Fails(r"\.\./evil leads out")
    many = [(f"{i:05}\\" + "n" * (i % 200), b"%d" % i, f) for i in range(5000)]
    yield "zip of Unix, thousands of backslashes", make_zip(*many), Ready({n: data for n, data, _ in many})
    lies = bytearray(make_zip(*members))
    at = lies.index(b"PK\1\2", lies.index(b"PK\1\2") + 1) + 42
    lies[at:at + 4] = (34).to_bytes(4, "little")  # the content of "first"
    yield "zip of Unix, an entry that lies", bytes(lies), Fails("first and a.b of the zip share one place in it")


def zips():
    """Red when the rules for tars are not those for zips, which libarchive reads."""
    f, link = 0o100644, 0o120777
    yield "zip, absolute name", make_zip(("/tmp/evil", b"1", f)), Ready({"tmp": None, "tmp/evil": b"1"}, warns='1 name in the archive began')
    yield "zip, name with ..", make_zip(("a/../../evil", b"1", f)), Fails(r"a/\.\./\.\./evil leads out")
    yield "zip, through a link", make_zip(("l", b"/tmp", link), ("l/evil", b"1", f)), Fails("l is a file or a link in the archive")
    yield "zip, link and file of a name", make_zip(("l", b"../victim", link), ("l", b"new", f)), Ready({"l": b"new"}, warns="1 name comes")
    yield "zip, device", make_zip(("null", b"", 0o020666)), Fails("null is a device")
    yield "zip, set-id", make_zip(("f", b"1", 0o106755)), Ready({"f": b"1"}, check=modes(f=0o755))
    yield "zip, file and directory", make_zip(("a", b"1", f), ("a/b", b"1", f)), Fails("a is a file or a link")
    yield "zip, control bytes", make_zip(("../\x1b[2J", b"1", f)), Fails(r"\\x1b\[2J leads out")
    yield "zip, odd names", make_zip(("new\nline", b"1", f), ("-rf", b"2", f)), Ready({"new\nline": b"1", "-rf": b"2"})
    yield from backslashes(f)
    good = make_zip(("file", b"content" * 100, f))
    at = good.index(b"content")
    yield "zip, other data", good[:at] + b"C" + good[at + 1:], Fails("is damaged .*last member file")
    locked = bytearray(good)
    for magic, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        locked[good.index(magic) + flags] |= 1
    yield "zip, with a password", bytes(locked), Fails("file is encrypted; make the archive without a password")
    longer = bytearray(good)
    size = good.index(b"PK\1\2") + 24
    longer[size:size + 4] = (1 << 30).to_bytes(4, "little")
    yield "zip, another size in its list", bytes(longer), Ready({"file": b"content" * 100})
    bomb = make_zip(("zeros", bytes(40 << 20), f), method=zipfile.ZIP_DEFLATED)
    yield "zip, more than the limit", bomb, Fails("limit", code="7", maxbytes=20 << 20)
    lies = bytearray(bomb)
    for place in (bomb.index(b"PK\1\2") + 24, 22):
        lies[place:place + 4] = (1000).to_bytes(4, "little")
    yield "zip, more than it says", bytes(lies), Fails("is damaged .*than the zip says|limit", code=None, maxbytes=20 << 20)
    for size, says in ((40, "a file is longer than the zip says.*, last member file.; .* extract what unzip can read"),
                       (1 << 31, "a?.?file is shorter than the zip says: 700 of 2147483648 bytes, last member file.; .* extract what unzip can read")):
        lies = bytearray(good)
        for place in (good.index(b"PK\1\2") + 24, 22):
            lies[place:place + 4] = size.to_bytes(4, "little")
        yield f"zip, {size} bytes by its list and header", bytes(lies), Fails("is damaged ." + says)


# ---- the runner ----

def look_around(base):
    """What no archive may change."""
    return {v: (open(f"{base}/{v}", "rb").read(), os.stat(f"{base}/{v}").st_nlink) for v in VICTIMS}, \
        os.path.lexists("/tmp/evil"), os.stat("/etc/passwd").st_mtime_ns


def check_text(text, path, expect):
    assert re.search(expect.text, text), f"no /{expect.text}/: {text}"
    assert path in text, f"no path: {text}"
    assert not re.search(r"[\x00-\x1f\x7f\u202e]", text), f"control bytes: {text!r}"
    assert len(text) < 1024 and "(null)" not in text, text


def check_tree(path, tree):
    found = {}
    for root, dirs, files in os.walk(path):
        for name in dirs + files:
            p = os.path.join(root, name)
            found[os.path.relpath(p, path)] = "-> " + os.readlink(p) if os.path.islink(p) else \
                None if os.path.isdir(p) else open(p, "rb").read()
    equal(found, tree)


def run_case(base, name, data, expect):
    path = f"{base}/{re.sub('[^a-z0-9]+', '-', name.lower())}.bin"
    with open(path, "wb") as f:
        f.write(data)
    before = look_around(base)
    with Worker(f"x={path}::method=extract", base=base, **expect.task) as w:
        if isinstance(expect, Fails):
            m = w.error_soon()
            check_text(m["text"], path, expect)
            equal(m["code"], expect.code or m["code"])
            if os.environ.get("V"):
                print("#", name, "->", m["text"])
        else:
            w.ready()
            if expect.tree is not None:
                check_tree(w.path, expect.tree)
            if expect.check:
                expect.check(w.path)
            assert not expect.warns or any(expect.warns in t for t in w.warnings()), w.warnings()
    remove(f"{base}/run/t/data/x")
    equal(look_around(base), before)
    os.unlink(path)


def try_mounted(base, name, data, expect):
    """A mount shows what extraction writes, fails where it fails, or leaves the archive to it."""
    path = f"{base}/{re.sub('[^a-z0-9]+', '-', name.lower())}.tar"
    with open(path, "wb") as f:
        f.write(data)
    before = look_around(base)
    with Worker(f"x={path}::method=mount", base=base, **dict(expect.task, fuse=1)) as w:
        m = w.run_until("ready", "error")
        assert m, "the worker died: " + w.stderr()
        if m["op"] == "ready":
            # limits on files and bytes are for what is written
            assert isinstance(expect, Ready) or {"maxfiles", "maxbytes"} & set(expect.task), "mounted"
            if getattr(expect, "tree", None) is not None:
                check_tree(os.path.realpath(w.path), expect.tree)
            if getattr(expect, "mounts", False):
                expect.check(os.path.realpath(w.path))
            warns = getattr(expect, "warns", None)
            assert not warns or any(warns in t for t in w.warnings()), w.warnings()
        else:
            assert path in m["text"] and not re.search(r"[\x00-\x1f\x7f]", m["text"]), m["text"]
            assert isinstance(expect, Fails) or "can't be mounted" in m["text"], m["text"]
            assert not getattr(expect, "mounts", False), m["text"]
        w.sock.close()
        w.end()
    remove(f"{base}/run/t/data/x")
    if os.path.islink(f"{base}/run/t/data/x"):
        os.unlink(f"{base}/run/t/data/x")
    equal(look_around(base), before)
    os.unlink(path)
    return m["op"]


def run_cases(cases, run=run_case):
    base, wrong, done = scratch(), [], []
    for v in VICTIMS:
        os.makedirs(os.path.dirname(f"{base}/{v}"), exist_ok=True)
        with open(f"{base}/{v}", "wb") as f:
            f.write(b"victim")
    only = os.environ.get("CASE", "")
    for name, data, expect in cases():
        if only not in name:
            continue
        try:
            done.append(run(base, name, data, expect))
        except (AssertionError, TimeoutError, OSError) as e:
            wrong.append(f"{name}: {e}")
    remove(base)
    assert not wrong, "\n".join(wrong)
    return done


def test_what_wants_out_of_its_directory():
    run_cases(escapes)


def test_kinds_and_names():
    run_cases(kinds)


def test_numbers_that_can_not_be():
    run_cases(numbers)


def test_a_map_of_a_million_pieces():
    """Seen failing when each piece had a block of its own: 690,000 waits and 4.6 s of processors,
    in place of 2,000 and 1.2."""
    n, step = 1000000, 64
    base = scratch()
    with open(f"{base}/a.tar", "wb") as f:
        f.write(many_holes(n, step))
    with Worker(f"x={base}/a.tar") as w:
        w.ready()
        seconds, waits = w.used()
        print(f"# {waits} waits, {seconds:.1f} s of processors")
        assert waits < n / 20, f"{waits} waits for {n} pieces"
        with open(f"{w.path}/holes", "rb") as f:
            found = f.read()
        assert len(found) == n * step and found[0] == 0 and found.count(0) == n * step
    remove(base)


def test_ends():
    run_cases(ends)


def test_what_asks_for_much_memory():
    run_cases(hungry)


@of_images
def test_all_of_them_mounted():
    """Red where the index takes what extraction refuses: a name below a link, an archive that is
    cut off; and where untar-header.c leaves times before 1970 to libarchive."""
    if not os.path.exists("/dev/fuse"):
        return "no /dev/fuse"
    done = []
    for cases in (escapes, kinds, numbers, ends):
        done += run_cases(cases, try_mounted)
    print(f"# {done.count('ready')} mounted, {done.count('error')} not")
    assert done.count("ready") > 20


def test_zips():
    run_cases(zips)


if __name__ == "__main__":
    main(globals())
