#!/usr/bin/env python3
"""The fix in a message works. `stagectl run` stages each input as a user types it. The test
reads the message, applies its fix as it is written, and compares the files that are staged then.
A command is taken from the message itself. docs/bad-inputs.md has these messages."""
import bz2
import glob
import gzip
import lzma
import os
import re
import resource
import subprocess
import sys
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *  # noqa: E402
from tarcraft import *  # noqa: E402

LINK, HARD, DIR = b"2", b"1", b"5"
GOOD = member(b"good", b"1")
WHOLE = tar(*(member(b"f%d" % i, os.urandom(1000)) for i in range(10)))
NAMES = {f"f{i}" for i in range(10)}


class Place:
    """A directory with the files of a case, and the programs of stage-data."""

    def __init__(self):
        self.top = scratch()
        self.libexec = f"{self.top}/libexec"
        os.mkdir(self.libexec)
        os.mkdir(f"{self.top}/in")
        for program in (os.environ["STAGINGD"], WORKER, os.environ["STAGE_INDEX"]):
            shutil.copy(program, self.libexec)
        self.environ = dict(os.environ, STAGE_LIBEXEC_DIR=self.libexec, STAGE_CONF=f"{self.top}/none.conf", HOME=f"{self.top}/in")
        self.text = self.item = None

    def path(self, name):
        return f"{self.top}/in/{name}"

    def write(self, name, data):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(data)
        return self.path(name)

    def sh(self, command):
        r = subprocess.run(["bash", "-c", command], cwd=f"{self.top}/in", capture_output=True, text=True)
        assert r.returncode == 0, f"{command}: {r.stderr}"
        return r.stdout

    def command(self, pattern, **words):
        """Runs the command that the message has; words: what a user writes for the words in capitals."""
        m = re.search(pattern, self.text)
        assert m, f"{pattern} is not in: {self.text}"
        command = m.group(1) if m.groups() else m.group()
        for word, value in words.items():
            assert word in command, f"{word} is not in: {command}"
            command = command.replace(word, value)
        self.sh(command)

    def option(self, option):
        """The message has to name it."""
        assert option.split("=")[0] + "=" in self.text, f"{option}: {self.text}"
        return self.item + ("+" if "::" in self.item else "::") + option

    def pack(self, name="x.tar"):
        """What 'make the archive again' means: the files are there, and are packed by the command of the message."""
        self.write("DIR/good", b"1")
        self.command(r"by (tar -C DIR -cf FILE \.)", FILE=name)
        return self.path(name)

    def run(self, item, script="cd $STAGE_DATA_PATH_X && find . -mindepth 1 | sort", **more):
        """(exit status, what it prints, its messages)"""
        r = subprocess.run([os.environ["STAGECTL"], "run", f"--stage-data=x={item}", "--", "bash", "-c", script],
                           env=dict(self.environ, **more.pop("env", {})), cwd=f"{self.top}/in", capture_output=True, text=True, timeout=120, **more)
        return r.returncode, r.stdout, r.stderr

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        remove(self.top)


CASES = []


def case(text, **options):
    """A case: a function that makes the input, yields its item, and applies the fix when it is resumed; then it yields the fixed
    item. text: what the message has to have. has: names that are staged then; warns: a warning in place of a refusal."""
    def add(f):
        CASES.append((f.__name__, text, f, options))
        return f
    return add


def again(name, text, data, **options):
    """What is packed again by the message's tar command."""
    def make(p):
        yield p.write("x.tar", data)
        yield p.pack()
    make.__name__ = name
    case(text, has={"good"}, **options)(make)


again("dotdot", r'leads out by ".."', tar(member(b"a/../../x", b"1")))
again("through_a_link", "is a file or a link in the archive, and a directory in another place of it",
      tar(member(b"l", kind=LINK, link=b"/tmp"), member(b"l/x", b"1")))
again("directory_then_file", "is a directory in the archive, and something else in another place of it", tar(member(b"a/b", b"1"), member(b"a", b"1")))
again("hard_link_with_data", "is a hard link that brings data along", tar(pax(linkpath="good"), posix(b"h", b"over", HARD, link=b"x")))
again("hard_link_to_nothing", "which is not in the archive before it", tar(member(b"h", kind=HARD, link=b"gone")))
again("hard_link_to_a_directory", "which is a directory", tar(member(b"d", kind=DIR), member(b"h", kind=HARD, link=b"d")))
again("top_of_the_archive", "a member that is no directory has the name of the top of the archive", tar(member(b".", kind=LINK, link=b"x")))
again("slash_with_data", "ends in a slash, as the name of a directory, and has data", tar(member(b"a/", b"1")))


@case("was not selected, or is not in the archive before it", has={"good", "h"})
def hard_link_that_was_not_selected(p):
    yield p.write("x.tar", tar(GOOD, member(b"h", kind=HARD, link=b"good"))) + "::include=h"
    assert "select both" in p.text
    yield p.path("x.tar") + "::include=h+include=good"


@case("was not selected, or is not in the archive before it", has={"other"})
def hard_link_left_out(p):
    yield p.write("x.tar", tar(GOOD, member(b"h", kind=HARD, link=b"good"), member(b"other", b"1"))) + "::exclude=good"
    yield p.option("exclude=h")


@case("is the rest of a file that began in another volume", has={"big"})
def second_volume(p):
    p.write("big", os.urandom(300000))
    p.sh("printf 'n two.tar\\nn three.tar\\nn four.tar\\n' | tar -ML 100 -cf one.tar big >/dev/null && mv two.tar x.tar")
    yield p.path("x.tar")
    command = re.search(r"\((tar -xM) -f FIRST", p.text).group(1)
    p.sh(f"rm -rf y && mkdir y && {command} -f one.tar -f x.tar -f three.tar -C y && cmp big y/big && tar -C y -cf z.tar .")
    yield p.path("z.tar")


@case("is a device, FIFO or socket", has={"good"})
def device(p):
    yield p.write("x.tar", tar(GOOD, member(b"null", kind=b"3")))
    yield p.option("exclude=null")


@case("the attributes of a member are larger than 1 MiB", has={"good"})
def attributes(p):
    yield p.write("x.tar", tar(pax(comment=b"x" * (2 << 20)), GOOD))
    assert "tar without --xattrs" in p.text
    p.sh("rm -rf y && mkdir y && tar -C y -xf x.tar && tar -C y -cf x.tar .")
    yield p.path("x.tar")


@case("has too long a name", has={"good"})
def long_name_left_out(p):
    yield p.write("x.tar", tar(long_name(b"n" * 256), member(b"n", b"1"), GOOD))
    yield p.option("exclude=nnn*")


@case("lies deeper than 128 directories", has={"good"})
def deep_member_left_out(p):
    yield p.write("x.tar", tar(long_name(b"d/" * 130 + b"f"), member(b"n", b"1"), GOOD))
    yield p.option("exclude=d")


@case("the two blocks of zeros at its end are missing, last member f9", has=NAMES)
def no_end(p):
    yield p.write("x.tar", WHOLE[:-1024])
    yield p.option("verify=none")


@case("the two blocks of zeros at its end are missing, last member f9", has=NAMES)
def no_end_made_again(p):
    yield p.write("x.tar", WHOLE[:-1024])
    assert "make or copy it again" in p.text
    yield p.write("x.tar", WHOLE)


@case("there is more after the end of the archive", has=NAMES | {"good"})
def two_archives(p):
    yield p.write("x.tar", WHOLE + tar(GOOD))
    p.write("a.tar", WHOLE)
    p.write("b.tar", tar(GOOD))
    p.command("(tar --concatenate)", **{"--concatenate": "--concatenate -f a.tar b.tar"})
    yield p.path("a.tar")


@case("there is more after the end of the archive: several archives in one file", has=NAMES)
def two_archives_before_the_end(p):
    yield p.write("x.tar", WHOLE + tar(GOOD))
    yield p.option("verify=none")


def copied_again(name, text, data, file="x.tar"):
    def make(p):
        yield p.write(file, data)
        assert "make or copy it again" in p.text or "make it again" in p.text, p.text
        packed = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}.get(file.rsplit(".", 1)[1], bytes)
        yield p.write(file, packed(WHOLE))
    make.__name__ = name
    case(text, has=NAMES)(make)


FLIPPED = bytearray(gzip.compress(WHOLE))
FLIPPED[2000] ^= 255
copied_again("cut_tar", "is cut off after", WHOLE[:5000])
copied_again("cut_gzip", "is cut off after", gzip.compress(WHOLE)[:3000], "x.tar.gz")
copied_again("cut_xz", "is cut off after", lzma.compress(WHOLE)[:3000], "x.tar.xz")
copied_again("cut_bzip2", "is cut off after", bz2.compress(WHOLE)[:3000], "x.tar.bz2")
copied_again("flipped_gzip", "is damaged", bytes(FLIPPED), "x.tar.gz")
copied_again("wrong_checksum", "is damaged", tar(GOOD, member(b"b", b"2", checksum=1)))
copied_again("negative_size", "is damaged", tar(member(b"a", size=-5)))
copied_again("noise", "is a file and not the tar archive its name promises", os.urandom(20000))
copied_again("empty_file", "is empty and not the tar archive its name promises", b"")
copied_again("nothing_compressed", "is compressed, with nothing in it", gzip.compress(b""), "x.tar.gz")


@case("there is garbage after the gzip data", has=NAMES)
def garbage_after_gzip(p):
    yield p.write("x.tar.gz", gzip.compress(WHOLE) + b"garbage" * 10)
    m = re.search(r"\((gzip -dc FILE >NEW\.tar)\)", p.text)
    p.sh(m.group(1).replace("FILE", "x.tar.gz").replace("NEW", "new") + " || [ $? = 2 ]")  # gzip has a warning
    yield p.path("new.tar")


@case("the archive is empty", has={"good"})
def empty_archive(p):
    yield p.write("x.tar", tar())
    assert "put files into it" in p.text
    p.write("good", b"1")
    p.sh("tar -rf x.tar good")
    yield p.path("x.tar")


@case("the archive is empty", has=None)
def empty_archive_copied(p):
    yield p.write("x.tar", tar())
    yield p.option("method=copy")


@case("is a file and not the tar archive its name promises", has=None)
def noise_copied(p):
    yield p.write("x.tar", os.urandom(20000))
    yield p.option("method=copy")


# ---- what stands in the place of an archive ----

def unpacked(name, what, make_file, pattern, made="x.tar", **words):
    """An archive of another kind: unpacked elsewhere by the command of the message, and packed as a tar."""
    def make(p):
        p.write("files/good", b"1")
        make_file(p, made)
        yield p.path(made)
        os.makedirs(p.path("out"))
        command = re.search(pattern, p.text).group(1)
        for word, value in words.items():
            command = command.replace(word, value)
        p.sh(f"cd out && {command}")
        p.sh("tar -C out -cf y.tar .")
        yield p.path("y.tar")
    make.__name__ = name
    case(what, has={"good"})(make)


def make_deb(p, name):
    p.write("deb/DEBIAN/control", b"Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n")
    p.write("deb/good", b"1")
    p.sh(f"dpkg-deb --root-owner-group -b deb {name} >/dev/null")


unpacked("ar_archive", "is an ar archive", lambda p, n: p.sh(f"cd files && ar rc ../{n} good"), r"\((ar x)\)", x="x ../x.tar")
unpacked("cpio_archive", "is a cpio archive", lambda p, n: p.sh(f"cd files && echo good | cpio -o -H newc --quiet >../{n}"), r"\((cpio -id)\)",
         **{"-id": "-id --quiet <../x.tar"})
unpacked("debian_package", "is a Debian package", make_deb, r"\((dpkg-deb -x FILE DIR)\)", FILE="../x.tar", DIR=".")
unpacked("xar_archive", "is a xar archive", lambda p, n: p.sh(f"bsdtar --format=xar -C files -cf {n} good"), r"\((bsdtar -xf)\)",
         **{"-xf": "-xf ../x.tar"})
unpacked("iso_image", "is an ISO 9660 image", lambda p, n: p.sh(f"bsdtar --format=iso9660 --options=rockridge=useful -C files -cf {n} good"),
         r"\((bsdtar -xf)\)", **{"-xf": "-xf ../x.tar"})
unpacked("seven_zip", "is a 7z archive", lambda p, n: p.sh(f"bsdtar --format=7zip -C files -cf {n} good"), r"\((7z x)\)",
         **{"7z x": "bsdtar -xf ../x.tar"})  # reads the same format, and is there


def converted(name, what, pack, pattern, made="x.tar", new="new.tar", option="", **words):
    """A file that the command of the message changes into one that can be staged."""
    def make(p):
        p.write("w.tar", WHOLE)
        p.sh(f"{pack} >{made}")
        yield p.path(made) + option
        p.command(pattern, FILE=made, **words)
        yield p.path(new)
    make.__name__ = name
    case(what, has=NAMES)(make)


converted("compressed_twice", "is compressed twice", "gzip -c w.tar | gzip -c", r"\((gzip -dc FILE >NEW\.tar\.gz)", made="x.tar.gz", new="new.tar.gz", NEW="new")
converted("lz4_legacy", "packed by lz4 in its legacy format", "lz4 -l -q -c w.tar", r"\((lz4 -dc FILE \| lz4 >NEW\.tar\.lz4)\)", made="x.tar.lz4",
          new="new.tar.lz4", NEW="new")
converted("lzop", "it is packed by lzop", "lzop -q -c w.tar", r"\((lzop -dc FILE \| zstd >NEW\.tar\.zst)\)", made="x.tar.lzo", new="new.tar.zst",
          option="::method=extract", NEW="new")
converted("encrypted", "is encrypted by openssl", "openssl enc -aes-128-cbc -pbkdf2 -pass pass:x -in w.tar", r"\((openssl enc -d -in FILE -out NEW)\)",
          NEW="new.tar -aes-128-cbc -pbkdf2 -pass pass:x")


@case("is a pointer of Git LFS", has=None)
def git_lfs(p):
    yield p.write("x.tar", b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 5\n")
    yield p.option("method=copy")


@case("is a web page, as servers send it instead of a file that needs a login", has=NAMES)
def web_page(p):
    yield p.write("x.tar", b"<!DOCTYPE html><html>Log in</html>")
    assert "download the file again" in p.text
    yield p.write("x.tar", WHOLE)


@case("inside it is a zip archive, and its name does not end in .zip", warns=True, has={"a"})
def zip_of_another_name(p):
    with zipfile.ZipFile(p.path("model.pt"), "w") as z:
        z.writestr("a", b"1")
    yield p.path("model.pt")
    yield p.option("method=extract")


@case("it is named like a part of a split file", warns=True, has=NAMES)
def split_file(p):
    p.write("w.tar", WHOLE)
    p.sh("split -b 4000 w.tar x.tar.")
    yield p.path("x.tar.aa")
    p.command(r"(cat x\.tar\.\[a-z\]\[a-z\] >x\.tar)")
    yield p.path("x.tar")


@case("is an archive itself", warns=True, has={"in", "in/good"})
def archives_in_an_archive(p):
    yield p.write("x.tar", tar(member(b"in.tar", tar(GOOD))))
    assert "the option nested" in p.text
    yield p.path("x.tar") + "::nested"


# ---- zips ----

def make_parts(p, size):
    p.write("big", os.urandom(200000))
    p.write("other", os.urandom(1000))
    p.sh(f"zip -q -s {size} x.zip big other")


@case("the zip was made in", has={"big", "other"})
def zip_in_parts(p):
    make_parts(p, "100k")
    yield p.path("x.zip")
    p.command(r"(zip -s 0 FILE\.zip --out NEW\.zip)", FILE="x", NEW="new")
    p.command(r"(unzip -t NEW\.zip)", NEW="new")
    yield p.path("new.zip")


@case("the zip was made in", has={"big", "other"})
def zip_in_parts_that_zip_joins_wrongly(p):
    make_parts(p, "64k")
    yield p.path("x.zip")
    p.write("joined/x", b"")
    p.command(r"(cat FILE\.z\[0-9\]\* FILE\.zip \| bsdtar -xf -)", FILE="x", **{"-xf": "-C joined -xf"})
    p.sh("rm joined/x; zip -q -r -j y.zip joined")
    yield p.path("y.zip")


@case("it is named like a part of a split file", warns=True, has={"big", "other"})
def part_of_a_zip(p):
    make_parts(p, "100k")
    yield p.path("x.z01")
    p.command(r"(zip -s 0 x\.zip --out NEW\.zip)", NEW="new")
    yield p.path("new.zip")


@case("is encrypted", has={"good"})
def zip_with_a_password(p):
    p.write("good", b"1")
    p.sh("zip -q -P secret x.zip good")
    yield p.path("x.zip")
    assert "make the archive without a password" in p.text
    p.sh("rm x.zip; zip -q x.zip good")
    yield p.path("x.zip")


@case("share one place in it", has={"a", "b"})
def zip_with_one_place_twice(p):
    with zipfile.ZipFile(p.path("x.zip"), "w") as z:
        z.writestr("a", b"1")
        z.writestr("b", b"2")
        z.infolist()[1].header_offset = 0
    yield p.path("x.zip")
    p.write("f/a", b"1")
    p.write("f/b", b"2")
    p.sh("rm x.zip; cd f; " + re.search(r"make the archive again, by (zip -r)", p.text).group(1) + " -q ../x.zip .")
    yield p.path("x.zip")


@case("zip without the list of its files at the end", has={"good"})
def cut_zip(p):
    with zipfile.ZipFile(p.path("x.zip"), "w") as z:
        z.writestr("good", os.urandom(5000))
    whole = open(p.path("x.zip"), "rb").read()
    yield p.write("x.zip", whole[:4000])
    assert "make or copy it again" in p.text
    yield p.write("x.zip", whole)


@case("a file is longer than the zip says", has={"f0", "f1"})
def wrong_size_in_a_zip(p):
    with zipfile.ZipFile(p.path("x.zip"), "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("f0", b"0" * 1000)
        z.writestr("f1", b"1")
    data = bytearray(open(p.path("x.zip"), "rb").read())
    for place in (22, data.index(b"PK\1\2") + 24):
        data[place:place + 4] = (10).to_bytes(4, "little")
    yield p.write("x.zip", data)
    assert "extract what unzip can read" in p.text
    p.sh("mkdir y; cd y; unzip -q ../x.zip; [ $(stat -c %s f0) = 1000 ]; rm ../x.zip; "
         + re.search(r"make it again by (zip -r)", p.text).group(1) + " -q ../x.zip .")
    yield p.path("x.zip")


# ---- options of an archive ----

@case("nothing in the archive fits what was selected", has={"good"})
def nothing_selected(p):
    yield p.write("x.tar", tar(GOOD)) + "::include=*.jpg"
    m = re.search(r"compare subdir=, include= and exclude= with (tar -t\w*)", p.text)
    assert "good" in p.sh(f"{m.group(1) if m else 'tar -t'} -f x.tar"), p.text
    yield p.path("x.tar") + "::include=good"


@case("its SHA-256 is", has=NAMES)
def wrong_sum(p):
    yield p.write("x.tar", WHOLE) + "::verify=sha256:" + "0" * 64
    assert "check the sum in verify=" in p.text
    yield p.path("x.tar") + "::verify=sha256:" + p.sh("sha256sum x.tar").split()[0]


@case("the limit for one dataset is", has=NAMES)
def too_large(p):
    yield p.write("x.tar", WHOLE) + "::max=2K"
    assert "raise max=" in p.text
    yield p.path("x.tar") + "::max=20M"


@case("can't be extracted: it is a file in gzip, not a squashfs image, a tar or a zip", has=None)
def extract_of_a_compressed_file(p):
    yield p.write("x.csv.gz", gzip.compress(b"1,2\n")) + "::method=extract"
    command = re.search(r"leave method= out, and unpack it in the job \((gzip -dc)", p.text).group(1)
    assert p.run(p.path("x.csv.gz"), f"{command} $STAGE_DATA_PATH_X")[1] == "1,2\n"
    yield p.path("x.csv.gz")


@case("nested is for archives that are extracted", has={"a"})
def nested_of_a_directory(p):
    tree(p, "a")
    yield p.path("d") + "::nested"
    assert p.text.strip().endswith("mounted; leave it out"), p.text  # method=extract does not read a directory
    yield p.path("d")


@case("nothing in the archive fits what was selected", has={"good"})
def stripped_of_all(p):
    yield p.write("x.tar", tar(member(b"d/good", b"1"))) + "::strip=2"
    assert re.search(r"compare strip=, subdir=, .* with tar -t", p.text), p.text
    yield p.path("x.tar") + "::strip=1"


@case("can't be extracted: it is a file, not a squashfs image, a tar or a zip", has=None)
def extract_of_a_file(p):
    yield p.write("x.csv", b"1,2\n") + "::method=extract"
    assert "leave method= out" in p.text
    yield p.path("x.csv")


@case("the zip can't be mounted", has={"good"})
def zip_that_can_not_be_mounted(p):
    with zipfile.ZipFile(p.path("x.zip"), "w", zipfile.ZIP_BZIP2) as z:
        z.writestr("good", b"1" * 1000)
    yield p.path("x.zip") + "::method=mount"
    yield p.item.replace("method=mount", re.search("method=extract", p.text).group())


@case("the archive can't be mounted", has={"good"})
def tar_that_can_not_be_mounted(p):
    odd = tar(long_name(b"good"), pax(comment="x"), posix(b"x", b"1"))
    yield p.write("x.tar", odd) + "::method=mount"
    yield p.item.replace("method=mount", re.search("method=extract", p.text).group())


@case("the archive can't be mounted", has={"good"})
def tar_with_a_device_mounted(p):
    yield p.write("x.tar", tar(GOOD, member(b"null", kind=b"3"))) + "::method=mount"
    assert "without a device by exclude=" in p.text
    yield p.path("x.tar") + "::" + re.search("method=extract", p.text).group() + "+exclude=null"


@case("can't be mounted: it is a tar in gzip", has={"good"})
def compressed_tar_mounted(p):
    yield p.write("x.tar.gz", gzip.compress(tar(GOOD))) + "::method=mount"
    p.command(r"\((gzip -d)", **{"-d": "-d x.tar.gz"})
    yield p.path("x.tar")  # with method=mount where FUSE is


@case("is another machine: its files are not read by name", has={"a"})
def file_of_another_machine(p):
    tree(p, "a")
    yield f"host:{p.path('d')}"
    assert "copy them here first (scp)" in p.text
    p.sh("cp -r d here")  # in the place of scp
    yield p.path("here")


def pasted(name, text, files, item):
    """The message ends with an item in quotes, which is pasted."""
    def make(p):
        for file in files:
            p.write(file, b"1")
        yield item
        yield re.search(r"write 'x=([^']*)'", p.text).group(1)
    make.__name__ = name
    case(text, has=None)(make)


pasted("code_in_a_name", "%2C is read as ,", ["a%2Cb.csv"], "a%2Cb.csv")
pasted("pattern_code_in_a_name", "%5B is read as [", ["run%5B1%5D.csv"], "run%5B1%5D.csv")
pasted("comma_in_a_name", "a comma begins another item", ["a,b.csv"], "a,b.csv")
pasted("semicolon_between_items", "a semicolon belongs to one", ["a.csv", "b.csv"], "a.csv;b.csv")
pasted("blank_between_items", "a blank belongs to one", ["a.csv", "b.csv"], "a.csv b.csv")


# ---- directories, sets, lists ----

def tree(p, *names):
    for name in names:
        p.write(f"d/{name}", b"1")
    return p.path("d")


@case("is a link to gone, which is not there", has=None)
def link_to_nothing(p):
    os.symlink("gone", p.path("l"))
    yield p.path("l")
    assert "fix the link" in p.text
    p.write("gone", b"1")
    yield p.path("l")


@case("No such file or directory", has=None)
def no_such_file(p):
    yield p.path("typo.csv")
    assert "check the name" in p.text
    p.write("type.csv", b"1")
    yield p.path("type.csv")


@case(', and it is not clear where ".." after it leads', has={"right"})
def up_from_a_link(p):
    """What other programs read was not what was staged."""
    p.write("a/f/right", b"1")
    p.write("c/f/wrong", b"1")
    os.mkdir(p.path("a/b"))
    os.symlink("../a/b", p.path("c/l"))
    yield p.path("c/l/../f")
    tool = re.search(r"\((realpath) prints it\)", p.text).group(1)
    yield p.sh(f"{tool} c/l/../f").strip()


@case("Not a directory", has=None)
def file_as_a_directory(p):
    yield p.write("f", b"1") + "/g"
    assert "a part of it is a file" in p.text
    yield p.path("f")


@case("and what is there is not staged; links=follow copies it", warns=True, has={"a", "l"})
def links_out(p):
    tree(p, "a")
    os.symlink(p.write("out", b"2"), p.path("d/l"))
    yield p.path("d")
    yield p.option("links=follow")


@case("leads to gone, which is not there", has={"a"})
def followed_link_to_nothing(p):
    tree(p, "a")
    os.symlink("gone", p.path("d/l"))
    yield p.path("d") + "::links=follow"
    yield p.option("exclude=l")


@case("is a link to a directory that contains it: following it never ends", has={"a"})
def followed_link_without_an_end(p):
    tree(p, "a")
    os.symlink(".", p.path("d/l"))
    yield p.path("d") + "::links=follow"
    yield p.option("exclude=l")


@case("is deeper than 256 directories", has=None)
def deep_tree(p):
    p.write("d/" + "d/" * 260 + "f", b"1")
    yield p.path("d")
    assert "stage what is below" in p.text
    yield p.path("d/" + "d/" * 10)[:-1] + "/d" * 5


@case("nothing in the directory fits what was selected", has={"a"})
def nothing_selected_in_a_directory(p):
    yield tree(p, "a") + "::include=b"
    assert "a" in p.sh(re.search("with (find) DIR", p.text).group(1) + " d")
    yield p.path("d") + "::include=a"


@case("socket, FIFO or device was left out", warns=True, has={"a"})
def fifo_in_a_directory(p):
    tree(p, "a")
    os.mkfifo(p.path("d/pipe"))
    yield p.path("d")
    os.unlink(p.path("d/pipe"))
    yield p.path("d")


@case("is a FIFO", has={"a"})
def fifo(p):
    os.mkfifo(p.path("pipe"))
    yield p.path("pipe")
    assert "name a file or a directory" in p.text
    yield tree(p, "a")


@case("no file fits the pattern", has={"b.csv"})
def pattern_without_a_file(p):
    p.write("b.csv", b"1")
    yield p.path("*.txt")
    assert "check it with ls" in p.text and "b.csv" in p.sh("ls")
    yield p.path("*.csv")


@case("of the set are not there, the first is", has={"s-0", "s-1"})
def set_with_gaps(p):
    p.write("s-0", b"1")
    p.write("s-1", b"1")
    yield p.path("s-{0..4}")
    yield p.path("s-{0..1}")


@case("is named twice", has={"a"})
def named_twice(p):
    p.write("list", f"{p.write('a', b'1')}\n{p.path('a')}\n".encode())
    yield "@@" + p.path("list")
    assert "name it once" in p.text
    p.write("list", f"{p.path('a')}\n".encode())
    yield "@@" + p.path("list")


@case("have the same name, and a set is staged into one directory", has={"p", "p/a", "q", "q/a"})
def same_name_in_a_set(p):
    p.write("t/p/a", b"1")
    p.write("t/q/a", b"1")
    yield p.path("t/{p,q}/a")
    assert "or their directories" in p.text
    yield p.path("t/{p,q}")


@case("check the list: a line is a path without ~", has={"a"})
def list_with_a_comment(p):
    p.write("a", b"1")
    p.write("list", b"# files\na\n")
    yield "@@" + p.path("list")
    p.write("list", p.path("a").encode() + b"\n")
    yield "@@" + p.path("list")


@case("is a directory, not a list of files", has={"a"})
def list_that_is_a_directory(p):
    yield "@@" + tree(p, "a")
    assert "leave the @@ out" in p.text
    yield p.path("d")


@case("is empty; write a path a line into it", has={"a"})
def empty_list(p):
    p.write("a", b"1")
    yield "@@" + p.write("list", b"")
    p.write("list", p.path("a").encode() + b"\n")
    yield "@@" + p.path("list")


@case("the list is not a text of paths", has=None)
def list_that_is_an_archive(p):
    yield "@@" + p.write("x.tar", tar(GOOD))
    assert "leave the @@ out" in p.text
    yield p.path("x.tar")


@case("a list holds paths", has={"a"})
def list_with_an_address(p):
    p.write("list", p.write("a", b"1").encode() + b"\nhttps://h/x\n")
    yield "@@" + p.path("list")
    assert "stage URLs as items of their own" in p.text
    p.write("list", p.path("a").encode() + b"\n")
    yield "@@" + p.path("list")


@case("numbers is too long", has={"s-1"})
def long_range(p):
    p.write("s-1", b"1")
    yield p.path("s-{0..100000000}")
    assert "use * or a list (@@FILE)" in p.text
    yield p.path("s-*")


@case("shard= divides a directory or a set", has={"s-0", "s-1"})
def shard_of_a_file(p):
    p.write("s-0", b"1")
    p.write("s-1", b"1")
    yield p.path("s-0") + "::shard=node"
    assert "leave shard= out, or name the shards by a pattern" in p.text
    yield p.path("s-*") + "::shard=node"


# ---- images ----

@case("image is truncated", has={"a"}, images=True)
def cut_image(p):
    p.write("d/a", os.urandom(20000))
    p.sh("mksquashfs d x.sqsh -quiet -no-progress")
    whole = open(p.path("x.sqsh"), "rb").read()
    yield p.write("x.sqsh", whole[:10000])
    assert "make or copy it again" in p.text
    yield p.write("x.sqsh", whole) + "::method=extract"


@case("nothing in the image fits what was selected", has={"a"}, images=True)
def no_subdir_in_an_image(p):
    tree(p, "sub/a")
    p.sh("mksquashfs d x.sqsh -quiet -no-progress")
    yield p.path("x.sqsh") + "::method=extract+subdir=none"
    m = re.search("with (unsquashfs -l)", p.text)
    assert "/sub" in p.sh(f"{m.group(1)} x.sqsh")
    yield p.path("x.sqsh") + "::method=extract+subdir=sub"


@case("can't be mounted: it is a directory", has={"a"}, images=True)
def mount_of_a_directory(p):
    yield tree(p, "a") + "::method=mount"
    m = re.search(r"make an image \((stagectl pack)\)", p.text)
    p.sh(m.group(1).replace("stagectl", os.environ["STAGECTL"]) + " d d.sqsh >/dev/null")
    yield p.path("d.sqsh") + "::method=extract"


def test_the_fix_for_links_out_of_an_image_works():
    """Of stagectl pack, whose message names --links=follow."""
    if not IMAGES:
        return
    with Place() as p:
        p.write("d/a", b"1")
        os.symlink(p.write("out", b"2"), p.path("d/l"))
        pack = [os.environ["STAGECTL"], "pack", "-q", "d", "x.sqsh"]
        r = subprocess.run(pack, cwd=f"{p.top}/in", capture_output=True, text=True)
        assert r.returncode == 0 and "links=follow" in r.stderr, r.stderr
        option = re.search("to have it, take (--links=follow)", r.stderr).group(1)
        r = subprocess.run([*pack[:3], option, "d", "y.sqsh"], cwd=f"{p.top}/in", capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        _, names, text = staged(p, p.path("y.sqsh") + "::method=extract")
        assert names == {"a", "l"}, text
        assert p.run(p.path("y.sqsh") + "::method=extract", "cat $STAGE_DATA_PATH_X/l")[1] == "2"


def test_up_from_a_link_to_a_neighbour_is_clear():
    with Place() as p:
        p.write("run1/a", b"1")
        p.write("f/b", b"1")
        os.symlink("run1", p.path("latest"))
        status, names, text = staged(p, p.path("latest/../f"))
        assert status == 0 and names == {"b"}, text


def test_up_from_a_link_is_refused_in_all_spellings():
    """Fails where the link has to stand just before the ".."."""
    with Place() as p:
        p.write("a/f/right", b"1")
        p.write("c/f/wrong", b"1")
        os.makedirs(p.path("a/b/sub"))
        os.symlink("../a/b", p.path("c/l"))
        for path in "c/l/../f", "c/l/./../f", "c/l//../f", "c/l/sub/../../f":
            status, names, text = staged(p, p.path("") + path)
            assert status != 0 and "there is a link in " + p.path("c/l") in text, (path, status, names, text)
        status, names, text = staged(p, p.path("") + "a/b/sub/.././../f")
        assert status == 0 and names == {"right"}, text


def staged(p, item):
    """(what the run prints, its messages); a file is '(a file)'"""
    status, out, text = p.run(item, "cd $STAGE_DATA_PATH_X 2>/dev/null && find . -mindepth 1 || echo '(a file)'")
    return status, {line.removeprefix("./") for line in out.splitlines()}, text


def check(p, name, text, make, has=None, warns=False, **_):
    steps = make(p)
    p.item = next(steps)
    status, names, p.text = staged(p, p.item)
    assert (status == 0) == warns, f"{p.item}: {status}: {p.text}"
    assert text in p.text, f"{text!r} is not in: {p.text}"
    fixed = next(steps)
    status, names, rest = staged(p, fixed)
    assert status == 0 and text not in rest, f"fixed as {fixed}: {rest}"
    if has is not None:
        assert names == has or (not has and names <= {"d"}), f"fixed as {fixed}: {names}"


def test_the_fix_of_each_message_works():
    failed = []
    for name, text, make, options in CASES:
        if options.get("images") and not IMAGES:
            continue
        with Place() as p:
            try:
                check(p, name, text, make, **options)
            except (AssertionError, AttributeError, subprocess.TimeoutExpired) as e:
                failed.append(f"{name}: {e}")
    assert not failed, "\n".join(failed)


if __name__ == "__main__":
    main(globals())
