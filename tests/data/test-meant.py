#!/usr/bin/env python3
"""Files whose meaning is not clear from the name: files that are archives inside, and archives
that the tools of other projects read. If there is such a tool, its result is the expected one."""
import bz2
import functools
import gzip
import io
import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
import zlib

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


def test_hydrate_without_a_mount_is_told():
    """Fails where the option is dropped without a word."""
    base = scratch()
    os.mkdir(f"{base}/d")
    write(f"{base}/d/f", b"x")
    subprocess.run(["tar", "-cf", f"{base}/d.tar", "-C", base, "d"], check=True)
    for source in ("d", "d.tar", "d/f"):
        with Worker(f"x={base}/{source}::hydrate=copy") as w:
            w.ready()
            assert any("hydrate=copy has no effect" in t for t in w.warnings()), (source, w.warnings())
    remove(base)


# What stands in the place of an archive, or of the content: what it is called, and what helps
OTHERS = [(b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n", "a pointer of Git LFS", "git lfs pull"),
          (b"/annex/objects/SHA256E-s5--" + b"0" * 64 + b".tar\n", "a pointer of git-annex", "git annex get"),
          (b"7z\xbc\xaf\x27\x1c\0\4" + bytes(24), "a 7z archive", "7z x"),
          (b"Rar!\x1a\7\1\0" + bytes(24), "a rar archive", "7z x"),
          (b"070701" + b"0" * 104 + b"TRAILER!!!", "a cpio archive", "cpio -id"),
          # seen failing: each of these was called a file
          (struct.pack("<10H", 0o70707, 1, 1, 0o100644, 0, 0, 1, 0, 0, 0) + b"\2\0\0\0\0\0a\0" + bytes(64), "a cpio archive", "cpio -id"),
          (struct.pack(">10H", 0o70707, 1, 1, 0o100644, 0, 0, 1, 0, 0, 0) + b"\0\2\0\0\0\0a\0" + bytes(64), "a cpio archive", "cpio -id"),
          (b"LRZI\0\6" + bytes(40), "packed by lrzip", "lrzip -d"),
          (b"GRZipII\0\2\4:)" + bytes(40), "packed by grzip", "grzip -d"),
          (b"\x24\x63-lh5-" + bytes(40), "an lha archive", "7z x"),
          (b"WARC/1.0\r\nWARC-Type: warcinfo\r\n", "a WARC archive", "bsdtar -xf"),
          (b"!<arch>\ndebian-binary   0  0  0  100644  4  `\n2.0\n", "a Debian package", "dpkg-deb -x"),
          (b"!<arch>\n/               0  0  0  0  4  `\n\0\0\0\0", "an ar archive", "ar x"),
          (b"\xed\xab\xee\xdb\3\0" + bytes(90), "an RPM package", "bsdtar -xf"),
          (b"xar!\0\x1c\0\1" + bytes(20), "a xar archive", "bsdtar -xf"),
          (b"MSCF" + bytes(32), "a cabinet file of Windows", "bsdtar -xf"),
          (b"Salted__" + bytes(40), "encrypted by openssl", "openssl enc -d"),
          (b"age-encryption.org/v1\n-> scrypt x 18\n", "encrypted by age", "age -d"),
          (b"-----BEGIN PGP MESSAGE-----\n\njA0EBwMC\n", "encrypted by gpg", "gpg -d"),
          (b"\x8c\x0d\x04\x07\x03\x02" + bytes(40), "encrypted by gpg", "gpg -d"),
          (b"\x02\x21\x4c\x18\0\1\0\0" + bytes(256), "packed by lz4 in its legacy format", "lz4 -dc FILE | lz4"),
          (b"\xef\xbb\xbf\n <!DOCTYPE HTML>\n<html><body>Log in</body>", "a web page", "download the file again"),
          (b"<HTML><head>", "a web page", "download the file again"),
          (b"<!-- frame -->\n<html>", "a web page", "download the file again"),
          (b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>", "a text in XML", "download the file again"),
          (bytes(32769) + b"CD001\1\0" + bytes(2041), "an ISO 9660 image", "bsdtar -xf"),
          (gzip.compress(gzip.compress(TAR)), "compressed twice", "unpack it once"),
          # seen failing: libarchive removes 25 layers at most, and what it left was called a damaged tar
          (functools.reduce(lambda data, _: gzip.compress(data), range(30), TAR), "compressed twice", "unpack it once")]


def test_what_stands_in_the_place_of_an_archive_is_named():
    """Fails where each of them is told to be made or copied again."""
    base = scratch()
    for data, what, fix in OTHERS:
        for name, options in (("x.tar", ""), ("x.tar.gz", ""), ("x.zip", ""), ("x", "::method=extract")):
            write(f"{base}/{name}", data)
            with Worker(f"x={base}/{name}{options}") as w:
                text = w.error()["text"]
            assert what in text and fix in text, (name, text)
            assert "make or copy" not in text, text
        write(f"{base}/x.bin", data)
        with Worker(f"x={base}/x.bin") as w:
            w.ready()
            assert open(w.path, "rb").read() == data
            warned = [t for t in w.warnings() if what in t and fix in t]
        assert len(warned) == (what.split()[-1] in ("LFS", "git-annex", "lrzip", "grzip") or what[:4] in ("a 7z", "a ra")), (what, warned)
        with Worker(f"x={base}/x.bin", mode="plan") as w:  # the others may be meant as they are
            why = w.run_until("facts")["why"]
        assert what in why or "page" in what or "XML" in what, why
    write(f"{base}/x.bin", OTHERS[2][0])
    with Worker(f"x={base}/x.bin::method=copy") as w:
        w.ready()
        assert w.warnings() == [], w.warnings()
    write(f"{base}/short.tar", b"7z")
    with Worker(f"x={base}/short.tar") as w:
        assert "is a file and not the tar archive" in w.error()["text"]
    remove(base)


def test_a_part_of_a_split_archive_is_called_that():
    """Fails where the user is advised to unpack the first part, and the others are copied without a word."""
    base = scratch()
    data = gzip.compress(tar(member(b"a", os.urandom(40000))))
    for name, fix in (("x.tar.gz.aa", "cat x.tar.gz.[a-z][a-z] >x.tar.gz"), ("x.tar.gz.000", "cat x.tar.gz.[0-9][0-9][0-9] >x.tar.gz"),
                      ("x.tar.gzaa", "cat x.tar.gz[a-z][a-z] >x.tar.gz")):
        write(f"{base}/{name}", data[:20000])
        second = name[:-1] + ("1" if name[-1] == "0" else "b")
        write(f"{base}/{second}", data[20000:])
        for part in name, second:
            with Worker(f"x={base}/{part}") as w:
                w.ready()
                assert [t for t in w.warnings() if fix in t] and not any(HINT in t for t in w.warnings()), (part, w.warnings())
            with Worker(f"x={base}/{part}::method=copy") as w:
                w.ready()
                assert w.warnings() == [], w.warnings()
        with Worker(f"x={base}/{name}::method=extract") as w:
            text = w.error()["text"]
        assert "is cut off" in text and fix in text and "make or copy" not in text, text
    subprocess.run(f"cd {base} && cat x.tar.gz.[a-z][a-z] >x.tar.gz", shell=True, check=True)
    with Worker(f"x={base}/x.tar.gz") as w:
        w.ready()
    write(f"{base}/x.z02", b"x")
    with Worker(f"x={base}/x.z02") as w:
        w.ready()
        assert "zip -s 0 x.zip --out NEW.zip" in w.warnings()[0], w.warnings()
    # A command with such a name would be another one.
    for name, fix in (("a b.tar.ab", "cat NAME.[a-z][a-z] >NAME"), ("x;id;.tar.ab", "cat NAME.[a-z][a-z] >NAME"),
                      ("-x.tar.ab", "cat NAME.[a-z][a-z] >NAME"), ("n" * 200 + ".tar.ab", "cat NAME.[a-z][a-z] >NAME"),
                      ("a&b.z02", "zip -s 0 NAME.zip --out NEW.zip")):
        write(f"{base}/{name}", b"x")
        with Worker(f"x={base}/{name}") as w:
            w.ready()
            assert "join the parts: " + fix in w.warnings()[0], w.warnings()
    remove(base)


def test_the_command_of_a_message_makes_an_archive_that_is_unpacked():
    """Each is typed as it stands. Fails where what it makes is staged as a file (NEW.zst of a tar)."""
    cases = [("x.tar.lzo", "lzop -c x.tar"), ("x.tar.lz4", "lz4 -l -c x.tar"), ("x.tar.gz", "gzip -c x.tar | gzip -c"),
             ("x.tar.gz", "gzip -c x.tar; echo junk"), ("x.tar.zst", "zstd -c x.tar; echo junk"), ("x.tar.bz2", "bzip2 -c x.tar; echo junk"),
             ("x.tar.lz4", "lz4 -c x.tar; echo junk")]
    base = scratch()
    for name, made_by in cases:
        if not shutil.which(made_by.split()[0]):
            continue
        os.mkdir(f"{base}/in")
        write(f"{base}/in/x.tar", TAR)
        subprocess.run(f"({made_by}) 2>/dev/null >{base}/{name}; rm x.tar", shell=True, cwd=f"{base}/in", check=True)
        with Worker(f"x={base}/{name}") as w:
            text = w.error()["text"]
        command = re.search(r"\(([a-z0-9]+ -dc FILE[^),]*)", text).group(1)
        subprocess.run(command.replace("FILE", f"{base}/{name}"), shell=True, cwd=f"{base}/in", stderr=subprocess.DEVNULL)
        made, = os.listdir(f"{base}/in")
        with Worker(f"x={base}/in/{made}") as w:
            w.ready()
            assert tree(w.path) == UNPACKED and w.warnings() == [], (text, w.warnings())
        os.unlink(f"{base}/in/{made}")
        os.rmdir(f"{base}/in")
    remove(base)


def test_nothing_compressed_is_not_called_cut_off():
    base = scratch()
    for name, data in (("gz", gzip.compress(b"")), ("xz", lzma.compress(b"")), ("bz2", bz2.compress(b"")), ("gz", 2 * gzip.compress(b"")),
                       ("zst", bytes.fromhex("28b52ffd240001000099e9d851")), ("lz4", bytes.fromhex("04224d186440a700000000055dcc02"))):
        write(f"{base}/x.tar.{name}", data)
        for options in "", "::method=extract", "::verify=none":
            with Worker(f"x={base}/x.tar.{name}{options}") as w:
                text = w.error()["text"]
            assert "is compressed, with nothing in it" in text and "make or copy it again" in text, (name, text)
        with Worker(f"x={base}/x.tar.{name}::method=copy") as w:
            w.ready()
    # seen failing: a header alone was taken for all of it
    for n in range(3, len(gzip.compress(b""))):
        write(f"{base}/x.tar.gz", gzip.compress(b"")[:n])
        with Worker(f"x={base}/x.tar.gz") as w:
            text = w.error()["text"]
        assert "is cut off" in text, (n, text)
    remove(base)


def test_a_damaged_beginning_is_not_called_another_kind():
    """Seen failing: a large file whose first block is damaged was called a file."""
    base = scratch()
    data = tar(member(b"a", os.urandom(3 << 20)))
    write(f"{base}/x", data)
    for name, packed in (("gz", gzip.compress(data)), ("xz", lzma.compress(data)), ("bz2", bz2.compress(data)),
                         *((n, subprocess.run([tool, "-c", f"{base}/x"], stdout=subprocess.PIPE, check=True).stdout)
                           for n, tool in (("zst", "zstd"), ("lz4", "lz4")) if shutil.which(tool))):
        write(f"{base}/x.tar.{name}", packed[:10] + bytes(b ^ 0xff for b in packed[10:50]) + packed[50:])
        for options in "", "::method=extract":
            with Worker(f"x={base}/x.tar.{name}{options}") as w:
                text = w.error()["text"]
            assert re.search("is damaged|is cut off|checksum", text), (name, text)
    remove(base)


def test_a_hard_link_to_what_was_not_selected_says_so():
    base = scratch()
    write(f"{base}/x.tar", tar(member(b"a/f", b"1"), member(b"b/h", kind=b"1", link=b"a/f")))
    for options in ("include=b", "subdir=b", "exclude=a/**"):
        with Worker(f"x={base}/x.tar::{options}") as w:
            text = w.error()["text"]
        assert "which was not selected" in text and text.endswith("select both, or leave the link out by exclude="), text
    remove(base)


def test_a_zip_is_made_again_by_zip():
    base = scratch()
    write(f"{base}/x.zip", zipped(**{"a": b"1", "a/b": b"2"}))
    with Worker(f"x={base}/x.zip") as w:
        text = w.error()["text"]
    assert "by zip -r" in text and " tar " not in text, text
    with Worker(f"x={base}/x.zip::include=nothing") as w:
        text = w.error()["text"]
    assert "unzip -l" in text, text
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
        assert any("1 member is an archive itself" in t and "b.zip" in t for t in w.warnings()), w.warnings()
    with Worker(f"x={base}/x.tar::nested") as w:
        w.ready()
        assert sorted(tree(w.path)) == ["a.npz", "b", "b/a", "b/b"]
    remove(base)


# ---- zips by hand ----

def entry(name, data, made=3, flags=0, local=None, extra=b"", method=8, packed=None, attributes=None):
    """(header and data, entry of the directory without its place); local: another name in the header."""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = packed if packed is not None else deflate.compress(data) + deflate.flush() if method == 8 else data
    local = name if local is None else local
    fields = struct.pack("<HHHHIII", flags, method, 0, 0x4e21, zlib.crc32(data), len(packed), len(data))
    head = b"PK\3\4" + struct.pack("<H", 20) + fields + struct.pack("<HH", len(local), 0) + local + packed
    if attributes is None:
        attributes = 0o100644 << 16 if made == 3 else 0
    listed = (b"PK\1\2" + struct.pack("<BBH", 20, made, 20) + fields +
              struct.pack("<HHHHHI", len(name), len(extra), 0, 0, 0, attributes))
    return head, listed, name + extra


def craft(*entries, comment=b"", places=None, order=None):
    """places: where entries say that they are, for those that lie."""
    out, at = b"", []
    for head, _, _ in entries:
        at.append(len(out))
        out += head
    listed = [e[1] + struct.pack("<I", p) + e[2] for e, p in zip(entries, places or at)]
    directory = b"".join(listed[i] for i in order or range(len(listed)))
    return (out + directory + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, len(listed), len(listed), len(directory), len(out),
                                                      len(comment)) + comment)


def by_python(data):
    """{name: content} as zipfile reads it, with the names of the directory in the headers of members too."""
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        return {i.filename: z.read(i) for i in z.infolist() if not i.is_dir()}


def unicode_path(name, text):
    body = b"\1" + struct.pack("<I", zlib.crc32(name)) + text
    return struct.pack("<HH", 0x7075, len(body)) + body


UTF8 = 0x800
CP437 = "gr\u00fcn/\u00e9t\u00e9.wav"
NAMES = {  # of what unzip and Python read: Python's answer is the expected one
    "DOS, code page 437": [entry(CP437.encode("cp437"), b"1", made=0), entry(b"plain", b"2", made=0)],
    "all bytes of the code page": [entry(bytes([i]) * 3, b"%d" % i, made=0) for i in range(128, 256)],
    "DOS, UTF-8": [entry("\u6f22\u5b57/\u00e9".encode(), b"1", made=0, flags=UTF8)],
    "Unix, UTF-8": [entry("\U0001F600".encode(), b"1", flags=UTF8), entry("e\u0301".encode(), b"2", flags=UTF8)],
    "directory in another order": [entry(b"z", b"1"), entry(b"a", b"2")],
    "methods": [entry(b"stored", b"1", method=0), entry(b"deflated", b"2" * 1000)],
}
ODD = {  # Python refuses these or leaves them alone; unzip's answer is the expected one
    "other names in the headers": ([entry(b"a.txt", b"content of a", local=b"b.txt"),
                                    entry(b"b.txt", b"content of b", local=b"a.txt")],
                                   {"a.txt": b"content of a", "b.txt": b"content of b"}),
    "no name in the header": ([entry(b"f", b"1", local=b"")], {"f": b"1"}),
    "backslashes in the headers alone": ([entry(b"d/f", b"1", local=b"d\\f"), entry(b"d/g", b"2", made=0, local=b"d\\g")],
                                         {"d/f": b"1", "d/g": b"2"}),
    "DOS, UTF-8 and backslashes": ([entry("d\u00fc\\g".encode(), b"1", made=0, flags=UTF8)], {"d\u00fc/g": b"1"}),
    "DOS, code page and backslashes": ([entry("d\u00fc\\g".encode("cp437"), b"1", made=0)], {"d\u00fc/g": b"1"}),
    "Unix, backslashes": ([entry(b"d\\g", b"1", flags=UTF8)], {"d\\g": b"1"}),
    "Unix, bytes": ([entry("\u6f22".encode(), b"1")], {"\u6f22": b"1"}),
    "the name in UTF-8 of Info-ZIP": ([entry(b"gr\x81n", b"1", made=11, extra=unicode_path(b"gr\x81n", "gr\u00fcn".encode()))],
                                      {"gr\u00fcn": b"1"}),
    "no name in UTF-8 of Info-ZIP": ([entry("gr\u00fcn".encode(), b"1", made=0, extra=unicode_path("gr\u00fcn".encode(), b"")),
                                      entry(b"plain", b"2", extra=unicode_path(b"plain", b""))],
                                     {"gr\u00fcn": b"1", "plain": b"2"}),
    "a name in UTF-8 of another": ([entry(b"new", b"1", extra=unicode_path(b"old", b"older"))], {"new": b"1"}),
    "a name like a locator of 64 bits": ([entry(b"f", b"1"), entry(b"PK\6\7" + b"n" * 16, b"2")],
                                         {"f": b"1", "PK\6\7" + "n" * 16: b"2"}),
    "LZMA without data": ([entry(b"empty", b"", method=14, packed=b"\x09\x04\5\0\x5d\0\0\x80\0\0\x83\xff\xfb\xff\xff\xc0\0\0\0"),
                           entry(b"f", b"1")], {"empty": b"", "f": b"1"}),
}


def stage_zip(base, data, options="::method=extract"):
    """(the tree, or what went wrong)"""
    write(f"{base}/x.zip", data)
    with Worker(f"x={base}/x.zip{options}") as w:
        m = w.run_until("ready", "error")
        return m["text"] if m["op"] == "error" else {n: c for n, c in tree(w.path).items() if c is not None}


def test_names_in_a_zip_are_those_of_its_directory():
    """Fails where libarchive's names are taken: a.txt had the content of b.txt, and names of DOS were bytes."""
    base, wrong = scratch(), []
    cases = [(word, craft(*entries, order=[1, 0] if "order" in word else None), None) for word, entries in NAMES.items()]
    cases += [(word, craft(*entries), expected) for word, (entries, expected) in ODD.items()]
    for word, data, expected in cases:
        got = stage_zip(base, data)
        if got != (expected or by_python(data)):
            wrong.append(f"{word}: {str(got)[:300]}")
    assert not wrong, "\n".join(wrong)
    remove(base)


def test_modes_of_a_zip_without_modes():
    """As unzip has them. Fails where libarchive's count: the group could write, and read-only was not kept."""
    base = scratch()
    write(f"{base}/x.zip", craft(*(entry(b"f%d" % made, b"1", made=made, attributes=0x20) for made in (0, 3, 10, 11, 14)),
                                 *(entry(b"r%d" % made, b"1", made=made, attributes=0x21) for made in (0, 11)),
                                 entry(b"d/", b"", made=11, attributes=0x10), entry(b"e/", b"", made=0, attributes=0x11),
                                 entry(b"own", b"1", attributes=0o100660 << 16), entry(b"o/", b"", attributes=0o40775 << 16)))
    with Worker(f"x={base}/x.zip") as w:
        w.ready()
        modes = {n: oct(os.stat(f"{w.path}/{n}").st_mode & 0o777) for n in os.listdir(w.path)}
    assert modes == {**{f"f{made}": "0o644" for made in (0, 3, 10, 11, 14)}, "r0": "0o444", "r11": "0o444", "d": "0o755",
                     "e": "0o555", "own": "0o660", "o": "0o775"}, modes
    remove(base)


def test_modes_of_a_zip_of_dos_that_has_them():
    """As unzip has them: only if the owner may do what the attributes of DOS say. Red where all are 644."""
    base = scratch()
    modes = (0o600, 0o640, 0o644, 0o666, 0o400, 0o444, 0o755, 0o100600, 0o40755)
    entries = [entry(f"{made}-{mode:o}-{dos:x}".encode(), b"1", made=made, attributes=mode << 16 | dos)
               for made in (0, 11) for mode in modes for dos in (0x20, 0x21)]
    entries += [entry(b"d%o/" % mode, b"", made=0, attributes=mode << 16 | 0x10) for mode in (0o700, 0o40750, 0o40555)]
    write(f"{base}/x.zip", craft(*entries))
    os.mkdir(f"{base}/unzip")
    subprocess.check_call(["unzip", "-qq", "../x.zip"], cwd=f"{base}/unzip", umask=0o022)
    with Worker(f"x={base}/x.zip") as w:
        w.ready()
        got, expected = ({n: oct(os.stat(f"{d}/{n}").st_mode & 0o777) for n in sorted(os.listdir(d))} for d in (w.path, f"{base}/unzip"))
    assert got == expected, {n: (got[n], expected[n]) for n in got if got[n] != expected[n]}
    assert got["0-640-20"] == "0o640" and got["11-640-20"] == "0o644" and got["d40750"] == "0o750", got
    remove(base)


def test_many_entries_over_the_edges_of_what_is_read():
    """Headers lie across the ends of pieces of a MiB."""
    base = scratch()
    entries = [entry(f"d\u00fc/{i}".encode("cp437"), os.urandom(60000 + 7 * i), made=0, method=0) for i in range(90)]
    data = craft(*entries)
    assert stage_zip(base, data) == by_python(data)
    remove(base)


def test_two_entries_of_one_place_are_refused():
    """unzip refuses them too. The second was left out without a word."""
    base = scratch()
    a, b = entry(b"x", b"shared"), entry(b"y", b"shared")
    for places in ((0, 0), (0, 10), (0, len(a[0]) - 2)):
        assert "x and y of the zip share one place in it" in stage_zip(base, craft(a, b, places=places)), places
    remove(base)


def test_one_of_several_parts_is_called_that():
    """zip -s: the last file has the list. It was said that its members share one place."""
    base = scratch()
    for name in "abc":
        write(f"{base}/{name}", os.urandom(50000))
    subprocess.check_call(["zip", "-q", "-s", "64k", "made.zip", "a", "b", "c"], cwd=base)
    with open(f"{base}/made.zip", "rb") as f:
        last = f.read()
    with open(f"{base}/made.z01", "rb") as f:
        joined = f.read() + last
    for data in (last, joined):
        for options in ("", "::method=extract"):
            text = stage_zip(base, data, options)
            assert "the zip was made in 3 parts (.z01, .z02, ...); join them elsewhere: zip -s 0" in text, text
    os.rename(f"{base}/made.z01", f"{base}/first.zip")
    for name, method, said in (("first.zip", "", "is the first part of a zip that was made in several parts"),
                               ("first.zip", "extract", "it is the first part of a zip that was made in several parts"),
                               ("made.z02", "extract", "it is named like a part of a split file"),
                               ("made.z02", "mount", "it is named like a part of a split file")):
        with Worker(f"x={base}/{name}" + (f"::method={method}" if method else "")) as w:
            text = w.error()["text"]
            assert said in text and "zip -s 0" in text, (name, method, text)
    whole = craft(entry(b"f", b"1"), comment=b"PK\5\6\7\0" + bytes(12) + b"\7\0")  # no end: a comment
    assert stage_zip(base, whole) == {"f": b"1"}
    remove(base)


def with_64_bits(data):
    """Its end has a record of 64 bits, which has to be used."""
    n, size, at = struct.unpack("<HII", data[-12:-2])
    record = b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, n, n, size, at)
    locator = b"PK\6\7" + struct.pack("<IQI", 0, len(data) - 22, 1)
    return data[:-22] + record + locator + data[-22:-6] + b"\xff" * 4 + bytes(2)


def test_nothing_may_stand_in_front_of_a_zip_of_64_bits():
    """Python and unzip read it, libarchive does not: it is not taken for another zip."""
    base = scratch()
    data = with_64_bits(craft(entry(b"f", b"1")))
    assert stage_zip(base, data) == by_python(data) == {"f": b"1"}
    assert by_python(b"#!/bin/sh\n" + data) == {"f": b"1"}
    text = stage_zip(base, b"#!/bin/sh\n" + data, "")
    assert "is a zip with other data before it, whose list of files can't be found" in text and "extract it with unzip and make it again by zip -r" in text, text
    remove(base)


def test_what_stands_around_a_zip():
    """As unzip and Python read them. Fails where the end is looked for in the last 16 KiB, or by the first bytes alone."""
    base = scratch()
    plain = craft(entry(b"f", b"1"))
    for word, data in (("comment", craft(entry(b"f", b"1"), comment=b"c" * 65535)), ("behind", plain + b"\n"),
                       ("zeros behind", plain + bytes(70000)), ("in front", b"#!/bin/sh\n" * 100 + plain),
                       ("in a comment", craft(entry(b"f", b"1"), comment=b"PK\5\6 and more than that may come"))):
        for options in ("::method=extract", ""):
            assert stage_zip(base, data, options) == {"f": b"1"}, (word, options)
    assert "the archive is empty" in stage_zip(base, craft())
    remove(base)


def test_a_damaged_zip_is_not_called_cut_off():
    """Only a zip without its end is cut off. Fails where each list that can't be read is."""
    base = scratch()
    whole = craft(entry(b"f", b"1" * 100), entry(b"g", b"2", extra=struct.pack("<HH", 0x5455, 0)))
    moved = whole[:-6] + struct.pack("<I", len(whole)) + whole[-2:]
    for data, cause in ((whole[:-30], "is cut off after"), (whole, "is damaged (the list of its files: incomplete extended time field)"),
                        (moved, "is damaged (the list of its files is not where its end says)")):
        for options in ("::method=extract", ""):
            text = stage_zip(base, data, options)
            assert cause in text and "make or copy it again" in text, text
            assert ("or extract what unzip can read, and make it again by zip -r" in text) == ("damaged" in cause), text
    remove(base)


def test_methods_that_are_not_read_are_named():
    base = scratch()
    text = stage_zip(base, craft(entry(b"f", b"1" * 100, method=9)))
    assert "by a method that can't be unpacked here (9: deflation-64-bit); unpack it elsewhere" in text, text
    remove(base)


def test_a_zip_that_can_not_be_read_can_be_copied():
    """Fails where its list is asked for whatever is to be made of it."""
    base = scratch()
    a = entry(b"x", b"1", flags=1)
    for data in (craft(a), craft(entry(b"x", b"1"), entry(b"y", b"2"), places=(0, 0)), craft(a)[:-30]):
        for name, options in (("x.zip", "::method=copy"), ("x.docx", "")):
            write(f"{base}/{name}", data)
            with Worker(f"x={base}/{name}{options}") as w:
                assert w.ready()["kind"] == "file" and open(w.path, "rb").read() == data
    remove(base)


# ---- tars that other tools read ----

def by_tar(path, *options):
    """{name: content} as GNU tar extracts it, with all the complaints that it may have."""
    base = scratch()
    subprocess.run(["tar", "-xf", path, "-C", base, *options], stderr=subprocess.DEVNULL)
    found = tree(base)
    remove(base)
    return found


def stage_tar(base, data, options="", name="x.tar"):
    """(the tree or what went wrong, the warnings)"""
    write(f"{base}/{name}", data)
    with Worker(f"x={base}/{name}::{options}") as w:
        m = w.run_until("ready", "error")
        return (m["text"] if m["op"] == "error" else tree(w.path)), w.warnings()


ABSOLUTE = tar(member(b"/data/a", b"1"), member(b"//data//b", b"2"), member(b"/data/h", kind=b"1", link=b"/data/a"),
               member(b"c", b"3"))


def test_absolute_names_lose_their_slash():
    """As tar, unzip and Python's strictest filter have it. Fails where they are refused."""
    base = scratch()
    got, warnings = stage_tar(base, ABSOLUTE)
    assert got == by_tar(f"{base}/x.tar") == {"data": None, "data/a": b"1", "data/b": b"2", "data/h": b"1", "c": b"3"}, got
    assert any('3 names in the archive began with "/"' in t for t in warnings), warnings
    assert stage_tar(base, ABSOLUTE, "subdir=data")[0] == {"a": b"1", "b": b"2", "h": b"1"}
    assert stage_tar(base, ABSOLUTE, "include=/data/a")[0] == {"data": None, "data/a": b"1"}
    assert 'leads out by ".."' in stage_tar(base, tar(member(b"/../etc/x", b"1")))[0]
    assert stage_zip(base, craft(entry(b"/data/a", b"1"), entry(b"/data/b", b"2"))) == {"data/a": b"1", "data/b": b"2"}
    remove(base)


def test_a_name_that_is_too_long_can_be_excluded():
    """Fails where it is looked at before exclude=, so that nothing could open the archive."""
    base = scratch()
    long = b"n" * 256 + b".jpg"
    data = tar(long_name(b"d/" + long), member(b"x", b"1"), member(b"d/ok", b"2"), member(b"other.jpg", b"3"))
    text = stage_tar(base, data)[0]
    assert "member d/nnnnn" in text and "(260 bytes of 255 that a name may have); exclude= leaves it out" in text, text
    for options in ("exclude=n*.jpg", "exclude=nnn*"):
        got = stage_tar(base, data, options)[0]
        assert got == {"d": None, "d/ok": b"2", "other.jpg": b"3"} == by_tar(f"{base}/x.tar", "--exclude=n*.jpg"), got
    assert stage_tar(base, data, "include=ok")[0] == {"d": None, "d/ok": b"2"}
    assert "too long a name" in stage_tar(base, data, "exclude=other.jpg")[0]
    assert stage_zip(base, craft(entry(long, b"1"), entry(b"ok", b"2")), "::exclude=n*") == {"ok": b"2"}
    remove(base)


def test_what_is_too_deep_can_be_excluded():
    """Fails where the depth is looked at before exclude=."""
    base = scratch()
    data = tar(member(b"x", b"1"), long_name(b"deep/" + b"d/" * 200 + b"f"), member(b"f", b"2"), member(b"deep/ok", b"3"))
    text = stage_tar(base, data)[0]
    assert "lies deeper than 128 directories; exclude= leaves it out" in text, text
    for options, expected in (("exclude=f", {"x": b"1", "deep": None, "deep/ok": b"3"}), ("exclude=deep", {"x": b"1"})):
        got = stage_tar(base, data, options)[0]
        assert got == expected == by_tar(f"{base}/x.tar", f"--{options}"), got
    remove(base)


def test_what_begins_with_zeros():
    """A tar without members has nothing else. Others were taken for such a tar with more archives after it."""
    base = scratch()
    for name, data in (("x.tar", bytes(10240)), ("x.tar", bytes(1 << 20)), ("x.tar.gz", gzip.compress(bytes(10240)))):
        write(f"{base}/{name}", data)
        for options in ("", "::method=extract"):
            with Worker(f"x={base}/{name}{options}") as w:
                assert "the archive is empty" in w.error()["text"], (name, options)
    write(f"{base}/x.tar", bytes(4096) + b"content" * 1000)
    with Worker(f"x={base}/x.tar") as w:
        assert "is a file and not the tar archive its name promises" in w.error()["text"]
    remove(base)


@of_images
def test_what_can_not_be_mounted_either():
    """The hint was to leave method= out, which is refused, too."""
    base = scratch()
    for data, cause, fix in ((b"", "it is an empty file", "make or copy it again"), (b"noise" * 200, "it is a file", "make or copy it again"),
                             (bytes(10240), "the archive is empty", "put files into it"),
                             (b"7z\xbc\xaf\x27\x1c" + bytes(24), "it is a 7z archive", "7z x"),
                             (craft(entry(b"f", b"1" * 100))[:-30], "is cut off after", "make or copy it again")):
        write(f"{base}/x.zip", data)
        with Worker(f"x={base}/x.zip::method=mount", fuse=1) as w:
            text = w.error()["text"]
        assert cause in text and fix in text and "leave method= out" not in text, text
    remove(base)


def test_directories_alone_are_staged():
    base = scratch()
    assert stage_tar(base, tar(member(b"a/", kind=b"5"), member(b"a/b/", kind=b"5")))[0] == {"a": None, "a/b": None}
    with Worker(f"x={base}/x.tar::include=*.jpg") as w:
        assert "nothing in the archive fits what was selected" in w.error()["text"]
    remove(base)


def test_an_odd_end_is_accepted_knowingly():
    """tar takes what is there. A download that broke off looks the same, so it has to be said."""
    base = scratch()
    files = tar(member(b"f", b"1" * 700), member(b"g", b"2"), end=b"")
    expected = {"f": b"1" * 700, "g": b"2"}
    foreign = member(b"null", kind=b"3")  # from there on libarchive reads
    for word, data, cause, options in (
            ("no end", files, "blocks of zeros at its end are missing", ""),
            ("half an end", files + bytes(512), "blocks of zeros at its end are missing", ""),
            ("more behind", files + END + b"rubbish", "more after the end", ""),
            ("two archives", files + END + files + END, "more after the end", ""),
            ("no end, libarchive", files + foreign, "blocks of zeros at its end are missing", "exclude=null"),
            ("more behind, libarchive", files + foreign + END + b"rubbish", "more after the end", "exclude=null")):
        for name, packed in (("x.tar", data), ("x.tar.gz", gzip.compress(data))):
            text, _ = stage_tar(base, packed, options, name)
            assert cause in text and text.endswith("by verify=none"), (word, text)
            got, warnings = stage_tar(base, packed, f"{options}+verify=none".strip("+"), name)
            assert got == expected == by_tar(f"{base}/{name}", "--exclude=null"), (word, got)
            accepted = "what is there is not staged" if "behind" in word or "two" in word else "it may be half of an archive"
            assert any(cause in t and f": {accepted}; accepted, as verify=none says" in t for t in warnings), (word, warnings)
    for cut in (files[:600], files[:-512] + b"x", gzip.compress(files)[:-9]):  # in the middle of a member
        assert "is cut off" in stage_tar(base, cut, "verify=none", "x.tar")[0]
    text, warnings = stage_tar(base, files + END, "verify=none")
    assert text == expected and warnings == []
    remove(base)


def compress(data):
    """As compress writes, but no code stands for more than a byte. With each one its reader's table grows, and the bits
    of a code by that."""
    bits = n = 0
    out = bytearray(b"\x1f\x9d\x90")
    for i, byte in enumerate(data):
        bits |= byte << n
        n += (i + 256).bit_length()
        while n >= 8:
            out.append(bits & 255)
            bits >>= 8
            n -= 8
    return bytes(out) + bytes([bits])


def test_tar_z_is_read():
    base = scratch()
    data = compress(TAR)
    assert subprocess.run(["gzip", "-dc"], input=data, capture_output=True).stdout[:len(TAR)] == TAR
    for name in ("x.tar.Z", "x.taz"):
        assert stage_tar(base, data, "", name)[0] == UNPACKED
    assert "is cut off" in stage_tar(base, data[:len(data) // 2], "", "x.tar.Z")[0]
    remove(base)


@of_images
def test_holes_of_an_image_take_no_room():
    """Fails where they count as data: it needed 256 MiB."""
    if not shutil.which("mksquashfs"):
        return "needs mksquashfs"
    src, base = scratch(), scratch()
    with open(f"{src}/hole", "wb") as f:
        f.truncate(1 << 28)
        f.write(b"start")
    subprocess.check_call(["mksquashfs", src, f"{base}/x.sqsh", "-quiet", "-no-progress"], stdout=subprocess.DEVNULL)
    with Worker(f"x={base}/x.sqsh::method=extract", maxbytes=64 << 20) as w:
        w.ready()
        st = os.stat(f"{w.path}/hole")
        assert st.st_size == 1 << 28 and st.st_blocks * 512 < 1 << 20, st
    remove(src)
    remove(base)


def test_who_reads_a_file_by_its_group_reads_the_copy():
    """Its owner is another one, and the mode of a copy is for its own. Fails where it stays 040."""
    if os.geteuid() != 0:
        return "needs root, who reads all of them"
    src = scratch()
    os.makedirs(f"{src}/d/closed")
    for name, mode in (("d/f", 0o040), ("d/g", 0o070), ("d/h", 0o604), ("d/own", 0o600), ("d/none", 0)):
        write(f"{src}/{name}")
        os.chmod(f"{src}/{name}", mode)
    write(f"{src}/d/closed/x")
    os.chmod(f"{src}/d/closed", 0o050)
    with Worker(f"x={src}/d") as w:
        w.ready()
        modes = {n: oct(os.stat(f"{w.path}/{n}").st_mode & 0o777) for n in os.listdir(w.path)}
        assert modes == {"f": "0o440", "g": "0o570", "h": "0o604", "own": "0o600", "none": "0o0", "closed": "0o550"}, modes
    with Worker(f"x={src}/d/f") as w:
        w.ready()
        assert os.stat(w.path).st_mode & 0o777 == 0o440
    remove(src)


if __name__ == "__main__":
    main(globals())
