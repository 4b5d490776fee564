#!/usr/bin/env python3
"""Directories that users have on clusters: caches, shards, checkouts, trees of other programs,
and unusual names, links and modes. A script makes each of them, and it is staged. The expected
tree is made by a known tool: cp -a, cp -rL, tar, bsdtar or unzip."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import *  # noqa: E402

# By Python, which is here; of an access list: all entries of a mode, and one for another user.
SET_ATTRIBUTE = """python3 -c 'import os; os.setxattr("f", "user.note", b"x")'"""
SET_ACL = """python3 -c 'import os, struct; own = 2**32 - 1
entries = (1, 6, own), (2, 4, 12345), (4, 4, own), (16, 4, own), (32, 0, own)
os.setxattr("f", "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries))'"""

# ---- directories: the script runs in an empty one; cp -a is the reference ----

DIRS = {
    # caches and formats
    "a cache of the Hugging Face hub": """mkdir -p m/blobs m/refs m/snapshots/c0ffee; echo w >m/blobs/1a; echo {} >m/blobs/2b; echo -n c0ffee >m/refs/main
        ln -s ../../blobs/1a m/snapshots/c0ffee/model.safetensors; ln -s ../../blobs/2b m/snapshots/c0ffee/config.json; mkdir -p .locks/m; : >.locks/m/1a.lock""",
    "a snapshot of that cache": "mkdir ../blobs; echo w >../blobs/1a; ln -s ../blobs/1a model.safetensors",
    "shards of webdataset": "for i in 0 1 2; do echo $i >$i.jpg; echo $i >$i.cls; tar cf s-00000$i.tar $i.jpg $i.cls; rm $i.*; done; echo 3 >__len__",
    "zarr, version 2": "echo '{}' >.zgroup; mkdir a; echo '{}' >a/.zarray; for i in 0.0 0.1 1.0; do head -c 300 /dev/urandom >a/$i; done; : >a/1.1",
    "zarr, version 3": "echo '{}' >zarr.json; mkdir -p a/c/0/0; echo '{}' >a/zarr.json; head -c 300 /dev/urandom >a/c/0/0/0",
    "lmdb": "truncate -s 64M data.mdb; echo x | dd of=data.mdb bs=1 seek=4096 conv=notrunc status=none; truncate -s 8K lock.mdb",
    "parquet, by partitions": "mkdir -p 'year=2020/month=01' 'year=__HIVE_DEFAULT_PARTITION__'; echo PAR1 >year=2020/month=01/part-00000-x.c000.snappy.parquet; : >_SUCCESS; : >._SUCCESS.crc",
    "git-annex": "mkdir -p .git/annex/objects/a/b; echo d >.git/annex/objects/a/b/K; chmod 444 .git/annex/objects/a/b/K; ln -s .git/annex/objects/a/b/K f.dat; ln -s .git/annex/objects/none g.dat; chmod 555 .git/annex/objects/a/b",
    "a git repository": "git init -q r; cd r; git config user.email x@x; git config user.name x; echo 1 >f; git add f; git commit -qm x; git gc -q",
    "a virtual environment": "mkdir -p bin lib/python3/site-packages/p/__pycache__; ln -s /usr/bin/python3 bin/python; ln -s python bin/python3; ln -s lib lib64; : >lib/python3/site-packages/p/__init__.py; echo 'home = /usr/bin' >pyvenv.cfg",
    "packages of conda": "mkdir -p pkgs/a envs/e/lib; echo so >pkgs/a/l.so.1.2; ln pkgs/a/l.so.1.2 envs/e/lib/l.so.1.2; ln -s l.so.1.2 envs/e/lib/l.so.1; ln -s l.so.1 envs/e/lib/l.so",
    "a container's root": "mkdir -p etc usr/bin proc dev tmp; chmod 1777 tmp; chmod 555 proc; ln -s /usr/lib/os-release etc/os-release; ln -s usr/bin bin; echo x >usr/bin/su; chmod 4755 usr/bin/su",
    "a run of OpenFOAM": "mkdir -p processor0/{0,0.5,1e-05} constant system; echo x >processor0/0/U; echo x >processor0/1e-05/p.gz; ln -s ../constant system/c",
    "checkpoints": "mkdir -p global_step10; echo s >global_step10/mp_rank_00_model_states.pt; echo -n global_step10 >latest; ln -s global_step10 last",
    "TensorFlow's checkpoint": "echo x >ckpt.index; echo x >ckpt.data-00000-of-00001; echo x >checkpoint; echo x >'events.out.tfevents.1.host.2.0'",
    "an appliance with a socket's lock": ": >'.X11-lock'; : >.nfs0000000000abcdef; : >core.1234; mkdir 'lost+found'; chmod 700 'lost+found'",
    "macOS": ": >.DS_Store; : >._data; mkdir __MACOSX; : >__MACOSX/._data; : >$'Icon\\r'",
    "Windows": ": >Thumbs.db; : >'CON'; : >'aux.txt'; : >'name.'; : >'name '; : >'a:b'; : >'d\\f'",
    # names
    "names like options": ": >-rf; : >--help; : >-; mkdir -- -d; : >./-d/-",
    "names like patterns": ": >'*'; : >'?'; : >'[a-z]'; : >'{a,b}'; : >'!x'; : >'^'",
    "names that a shell would run": ": >'$HOME'; : >'`id`'; : >';id'; : >'a|b'; : >'~'; : >'#'; : >'&'; : >\"it's\"; : >'\"'",
    "names with dots alone": ": >...; mkdir ....; : >..a; : >.a.; mkdir ..b; : >a..",
    "names in Latin 1": ": >$'caf\\xe9'; mkdir $'\\xff\\xfe'; : >$'\\xff\\xfe/\\x80'",
    "names in Shift JIS": ": >$'\\x83e\\x83X\\x83g.dat'; : >$'\\x95\\x5c.txt'",
    "names in both compositions": ": >$'\\xc3\\xa9'; : >$'e\\xcc\\x81'; : >$'\\xf0\\x9f\\xa4\\x96'",
    "names with control bytes": ": >$'a\\nb'; : >$'a\\tb'; : >$'\\x1b[31m'; : >$'\\x7f'; : >$'\\x01'",
    "names that differ in case": ": >data; : >Data; : >DATA; mkdir dir Dir; : >dir/a; : >Dir/A",
    "the longest name": ": >$(printf 'n%.0s' {1..255}); mkdir $(printf 'd%.0s' {1..255})",
    "a long name of many bytes a letter": ": >$(printf '\\xe8\\xaa\\x9e%.0s' {1..85})",
    "a comma, a colon, a plus, an equals sign": ": >a,b; : >a:b; : >a+b; : >a=b; : >a%2Cb; : >%",
    "names of numbers": "for i in 1 2 10 01 001 1e3 0x1; do : >$i; done",
    # links
    "links in a circle": "ln -s b a; ln -s a b; ln -s self self; mkdir d; ln -s ../d d/d",
    "links to here and above": "ln -s . here; ln -s .. up; ln -s ./../. odd; ln -s / root",
    "links to nothing": "ln -s gone a; ln -s /gone/gone b; ln -s ' ' c; ln -s 'x/' d",
    "the longest link": "ln -s $(printf 'x/%.0s' {1..2000})x l",
    "a link with odd bytes": "ln -s $'\\xff\\n' l",
    "hard links": "echo 1 >a; ln a b; mkdir d; ln a d/c; ln d/c d/d",
    "hard links of a link": "ln -s x l; ln l m",
    "hard links that lead out": "echo 1 >../out; ln ../out a; ln ../out b",
    "a hundred names of a file": "echo 1 >0; for i in {1..99}; do ln 0 $i; done",
    # modes and times
    "closed to others": "echo 1 >f; chmod 600 f; mkdir d; echo 1 >d/f; chmod 700 d",
    "read-only": "mkdir -p d/e; echo 1 >d/e/f; chmod 444 d/e/f; chmod 555 d/e d",
    "for execution alone": "echo 1 >f; chmod 555 f; mkdir d; chmod 750 d",
    "every bit": "for m in 400 440 444 600 640 644 660 664 666 700 750 755 770 775 777; do : >$m; chmod $m $m; done",
    "set-id bits": ": >u; chmod 6755 u; mkdir g; chmod 2775 g; mkdir t; chmod 1777 t",
    "old and new": "touch -d @0 zero; touch -d @1 one; touch -d 1950-01-01 old; touch -d 2037-12-31 new; touch -d 2100-01-01 far; touch -h -d @5 f; ln -s f l; touch -h -d @7 l",
    "nanoseconds": "touch -d '2020-02-29 12:00:00.123456789' a; touch -d '2020-02-29 12:00:00.999999999' b; mkdir d; touch -d '2001-01-01 00:00:00.000000001' d",
    "a directory's time after its files": "mkdir d; : >d/f; touch -d @1000 d/f; touch -d @2000 d",
    # sizes and shapes
    "nothing at all": "",
    "an empty file": ": >f",
    "empty directories alone": "mkdir -p a/b/c d e/f",
    "hidden files alone": ": >.a; mkdir .b; : >.b/.c",
    "a file in one directory in one": "mkdir -p a; echo 1 >a/f",
    "a hole at each end": "truncate -s 1M f; echo 1 | dd of=f bs=1 seek=500000 conv=notrunc status=none",
    "a hole alone": "truncate -s 1G f",
    "a hole at the end": "head -c 10000 /dev/urandom >f; truncate -s 1M f",
    "many holes": "for i in {0..63}; do head -c 4096 /dev/urandom | dd of=f bs=4096 seek=$((i * 4)) conv=notrunc status=none; done",
    "zeros that are no hole": "head -c 300000 /dev/zero >f",
    "sizes at the edges": "for n in 1 511 512 513 4095 4096 4097 65535 65536 65537 1048575 1048576 1048577; do head -c $n /dev/urandom >$n; done",
    "many tiny files": "mkdir {0..9}; for d in {0..9}; do for f in {0..299}; do echo $f >$d/$f; done; done",
    "many empty directories": "mkdir -p {0..19}/{0..49}",
    "a deep tree": "for i in {1..200}; do mkdir d; cd d; done; : >f",
    "a wide and deep tree": "mkdir -p {a,b}/{a,b}/{a,b}/{a,b}/{a,b}/{a,b}; find . -type d -exec sh -c ': >$1/f' x {} ';'",
    # files that are something else inside
    "archives that stay files": "echo 1 >f; tar cf a.tar f; tar czf a.tar.gz f; zip -q a.zip f; gzip -k f; rm f",
    "an image of Apptainer": "printf '#!/usr/bin/env run-singularity\\n\\0SIF_MAGIC\\0' >c.sif; chmod 755 c.sif",
    "HDF5 and NetCDF": "printf '\\x89HDF\\r\\n\\x1a\\n' >a.h5; printf 'CDF\\x01' >b.nc; truncate -s 1M a.h5",
    "attributes": f"echo 1 >f; {SET_ATTRIBUTE}",
    "an ACL": f"echo 1 >f; chmod 640 f; {SET_ACL}; chmod 640 f",
}

# What cp -a makes, and staging leaves out with a warning
SPECIAL = {
    "a FIFO": "mkfifo p; echo 1 >f",
    "a socket": "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'; echo 1 >f",
}

# With links=follow; cp -rL is the reference
FOLLOWED = {
    "a snapshot of the Hugging Face hub": "mkdir -p ../blobs; echo w >../blobs/1a; ln -s ../blobs/1a model.safetensors",
    "a tree of DVC": "mkdir -p ../cache/files/md5/ab; echo d >../cache/files/md5/ab/cd; chmod 444 ../cache/files/md5/ab/cd; ln -s $PWD/../cache/files/md5/ab/cd f",
    "unlocked and locked of git-annex": "mkdir -p .git/annex/objects; echo d >.git/annex/objects/K; chmod 444 .git/annex/objects/K; ln -s .git/annex/objects/K f; echo u >u",
    "a chain of links": "echo 1 >../end; ln -s ../end c; ln -s c b; ln -s b a",
    "a linked directory": "mkdir -p ../o/p; echo 1 >../o/p/f; ln -s ../o d",
    "the same directory twice": "mkdir ../o; echo 1 >../o/f; ln -s ../o a; ln -s ../o b",
    "a link inside": "echo 1 >f; ln -s f l; mkdir d; ln -s ../f d/l",
}

# ---- paths: (script, source below the directory of the script, reference) ----

PATHS = {
    "a slash at the end": ("mkdir d; echo 1 >d/f", "d/", "cp -a d/. $REF"),
    "slashes and dots": ("mkdir -p d/e; echo 1 >d/e/f", ".//d/./e/.", "cp -a d/e/. $REF"),
    "up and down again": ("mkdir -p d e; echo 1 >e/f", "d/../e", "cp -a e/. $REF"),
    "a link to a directory": ("mkdir d; echo 1 >d/f; ln -s d l", "l", "cp -a d/. $REF"),
    "a link to a link to a file": ("echo 1 >f; ln -s f l; ln -s l m", "m", "cp -L --preserve=mode,timestamps m $REF"),
    "through a linked directory": ("mkdir d; echo 1 >d/f; ln -s d l", "l/f", "cp -a d/f $REF"),
    "a name like an option": ("mkdir -- -rf; echo 1 >./-rf/f", "-rf", "cp -a ./-rf/. $REF"),
    "a comma and a colon": ("mkdir 'a,b:c'; echo 1 >'a,b:c/f'", "a%2Cb%3Ac", "cp -a 'a,b:c/.' $REF"),
    "brackets": ("mkdir 'run[1]'; echo 1 >'run[1]/f'", "run%5B1%5D", "cp -a 'run[1]/.' $REF"),
    "a star, escaped": ("echo 1 >'*.csv'; echo 2 >a.csv", "%2A.csv", "cp -a '*.csv' $REF"),
    "a blank": ("mkdir 'my data'; echo 1 >'my data/f'", "my data", "cp -a 'my data/.' $REF"),
    "letters beyond ASCII": ("mkdir 'größe'; echo 1 >'größe/f'", "größe", "cp -a größe/. $REF"),
    "an equals sign": ("mkdir 'year=2020'; echo 1 >'year=2020/f'", "./year=2020", "cp -a year=2020/. $REF"),
    "a set of shards": ("for i in 0 1 2; do echo $i >s-$i.tar; done; echo x >other", "s-{0..2}.tar", "mkdir $REF; cp -a s-*.tar $REF"),
    "a set by a star": ("for i in 0 1 2; do echo $i >s-$i.tar; done; : >.s-3.tar; echo x >other", "s-*.tar", "mkdir $REF; cp -a s-*.tar $REF"),
    "a set of directories": ("mkdir -p d1/e d2; echo 1 >d1/e/f; echo 2 >d2/f", "d?", "mkdir $REF; cp -a d1 d2 $REF"),
    "an executable file": ("echo 'echo hi' >x.sh; chmod 755 x.sh", "x.sh", "cp -a x.sh $REF"),
    "an empty file": (": >f", "f", "cp -a f $REF"),
    "a file that is a hole": ("truncate -s 1G f", "f", "cp -a f $REF"),
}

# ---- archives: (script that makes x.*, the name, reference; it runs in the place of the tree) ----

MAKE = "mkdir -p t/d/e; echo 1 >t/f; echo 2 >t/d/g; ln -s ../f t/d/l; ln t/f t/h; touch -d @1000000000 t/f t/d/g; chmod 750 t/d; "
TAR = "tar -xpf $SRC/{0}"
ARCHIVES = {
    "with ./ in front": (MAKE + "tar -C t -cf x.tar .", "x.tar", TAR),
    "of names without ./": (MAKE + "cd t; tar -cf ../x.tar *", "x.tar", TAR),
    "with / in front": (MAKE + "tar -P -cf x.tar $PWD/t 2>/dev/null", "x.tar", TAR),
    "v7": (MAKE + "tar --format=v7 -C t -cf x.tar .", "x.tar", TAR),
    "ustar": (MAKE + "tar --format=ustar -C t -cf x.tar .", "x.tar", TAR),
    "oldgnu": (MAKE + "tar --format=oldgnu -C t -cf x.tar .", "x.tar", TAR),
    "gnu": (MAKE + "tar --format=gnu -C t -cf x.tar .", "x.tar", TAR),
    "pax": (MAKE + "tar --format=pax -C t -cf x.tar .", "x.tar", TAR),
    "by bsdtar": (MAKE + "bsdtar -C t -cf x.tar .", "x.tar", TAR),
    "by Python": (MAKE + "python3 -c 'import tarfile; t=tarfile.open(\"x.tar\",\"w\"); t.add(\"t\",\".\"); t.close()'", "x.tar", TAR),
    "by git": ("git init -q r; cd r; git config user.email x@x; git config user.name x; mkdir d; echo 1 >d/f; git add .; git commit -qm x; git archive -o ../x.tar HEAD", "x.tar", TAR),
    "directories after their files": (MAKE + "cd t; tar -cf ../x.tar --no-recursion d/g d f", "x.tar", TAR),
    "a closed directory before its files": (MAKE + "chmod 555 t/d; cd t; tar -cf ../x.tar .; chmod 755 d", "x.tar", TAR),
    "sparse": ("truncate -s 1M f; echo x >>f; tar -S -cf x.tar f", "x.tar", TAR),
    "sparse, by pax 0.0": ("truncate -s 1M f; echo x >>f; tar -S --format=pax --sparse-version=0.0 -cf x.tar f", "x.tar", TAR),
    "sparse, by pax 1.0": ("truncate -s 1M f; echo x >>f; tar -S --format=pax --sparse-version=1.0 -cf x.tar f", "x.tar", TAR),
    "long names by GNU": ("mkdir -p $(printf 'd%.0s' {1..120})/$(printf 'e%.0s' {1..120}); : >$(printf 'd%.0s' {1..120})/$(printf 'e%.0s' {1..120})/f; tar --format=gnu -cf x.tar d*", "x.tar", TAR),
    "long names by pax": ("mkdir -p $(printf 'd%.0s' {1..120})/$(printf 'e%.0s' {1..120}); : >$(printf 'd%.0s' {1..120})/$(printf 'e%.0s' {1..120})/f; tar --format=pax -cf x.tar d*", "x.tar", TAR),
    "names like options": ("mkdir t; : >t/-rf; : >t/--help; tar -C t -cf x.tar .", "x.tar", TAR),
    "names that differ in case": ("mkdir t; echo 1 >t/a; echo 2 >t/A; tar -C t -cf x.tar .", "x.tar", TAR),
    "names in Latin 1": ("mkdir t; : >$'t/caf\\xe9'; tar -C t -cf x.tar .", "x.tar", TAR),
    "a name twice": ("echo 1 >f; tar -cf x.tar f; echo 22 >f; tar -rf x.tar f", "x.tar", TAR),
    "a directory twice": (MAKE + "tar -cf x.tar t/d t/d", "x.tar", TAR),
    "a link alone": ("ln -s /nowhere l; tar -cf x.tar l", "x.tar", TAR),
    "directories alone": ("mkdir -p t/a/b; tar -C t -cf x.tar .", "x.tar", TAR),
    "many empty files": ("mkdir t; for i in {0..1999}; do : >t/$i; done; tar -C t -cf x.tar .", "x.tar", TAR),
    "blocks of 1 MiB": (MAKE + "tar -b 2048 -C t -cf x.tar .", "x.tar", TAR),
    "concatenated by tar": (MAKE + "tar -C t -cf x.tar f; tar -C t -cf y.tar d; tar -A -f x.tar y.tar", "x.tar", TAR),
    "two members of gzip": (MAKE + "tar -C t -cf y .; head -c 3000 y | gzip >x.tar.gz; tail -c +3001 y | gzip >>x.tar.gz", "x.tar.gz", TAR),
    "zeros after gzip": (MAKE + "tar -C t -czf x.tar.gz .; head -c 10000 /dev/zero >>x.tar.gz", "x.tar.gz", "gzip -dcq $SRC/x.tar.gz 2>/dev/null | tar -xp"),
    "frames of zstd, checked": (MAKE + "tar -C t -cf y .; head -c 3000 y | zstd -q --check >x.tar.zst; tail -c +3001 y | zstd -q -19 >>x.tar.zst", "x.tar.zst", "zstd -dcq $SRC/x.tar.zst | tar -xp"),
    "blocks of xz": (MAKE + "tar -C t -cf y .; xz -T2 --block-size=4096 -c y >x.tar.xz", "x.tar.xz", TAR),
    "bzip2": (MAKE + "tar -C t -cjf x.tbz2 .", "x.tbz2", TAR),
    "a name that lies: zstd in .tar.gz": (MAKE + "tar -C t -cf y .; zstd -q -c y >x.tar.gz", "x.tar.gz", "zstd -dcq $SRC/x.tar.gz | tar -xp"),
    "an image of docker save": ("mkdir l; echo 1 >f; tar -cf l/layer.tar f; echo '[]' >manifest.json; tar -cf x.tar l manifest.json", "x.tar", TAR),
    "twins of macOS": ("mkdir t; echo 1 >t/f; echo x >t/._f; tar -C t -cf x.tar .", "x.tar", TAR),
    "zip": (MAKE + "cd t; zip -qr ../x.zip .", "x.zip", "unzip -q $SRC/x.zip"),
    "zip with links": (MAKE + "cd t; zip -qry ../x.zip .", "x.zip", "unzip -q $SRC/x.zip"),
    "zip, stored": (MAKE + "cd t; zip -0 -qr ../x.zip .", "x.zip", "unzip -q $SRC/x.zip"),
    "zip from a pipe": ("echo 1 | zip -q x.zip -", "x.zip", "unzip -q $SRC/x.zip"),
    "zip to a pipe": (MAKE + "cd t; zip -qr - . >../x.zip", "x.zip", "unzip -q $SRC/x.zip"),
    "zip of 64 bits": (MAKE + "cd t; zip -fz -qr ../x.zip .", "x.zip", "unzip -q $SRC/x.zip"),
    "zip with a comment": (MAKE + "cd t; echo note | zip -z -qr ../x.zip . >/dev/null", "x.zip", "unzip -q $SRC/x.zip"),
    "zip by Python": (MAKE + "python3 -c 'import shutil; shutil.make_archive(\"x\",\"zip\",\"t/d\")'", "x.zip", "unzip -q $SRC/x.zip"),
    "zip by bsdtar": (MAKE + "bsdtar --format=zip -C t -cf x.zip .", "x.zip", "unzip -q $SRC/x.zip"),
    "zip that runs itself": (MAKE + "cd t; zip -qr ../y.zip .; cd ..; (echo '#!/bin/sh'; cat y.zip) >x.zip; zip -qA x.zip", "x.zip", "unzip -q $SRC/x.zip"),
    "zip with names in UTF-8": ("mkdir t; echo 1 >t/größe; echo 2 >t/日本; cd t; zip -qr ../x.zip .", "x.zip", "LC_ALL=C.UTF-8 unzip -q $SRC/x.zip"),
}


def sh(command, cwd, **env):
    r = subprocess.run(["bash", "-c", command], cwd=cwd, env=dict(os.environ, LC_ALL="C.UTF-8", **env), capture_output=True, text=True)
    assert r.returncode == 0, f"{command}: {r.stderr}"


def compare(got, want, since=None):
    """since: a later time in want is that of the extraction, of a directory or link that the
    archive has no time of."""
    if os.path.isdir(want):
        a, b = describe(got), describe(want)
        for name in b.keys() - {"hard links"} if since else ():
            if b[name][-1] >= since:
                a[name], b[name] = (a[name][:-1], b[name][:-1]) if name != "." else (None, None)
        different = [f"{k}: {str(a.get(k))[:200]} / {str(b.get(k))[:200]}" for k in sorted(set(a) | set(b)) if a.get(k) != b.get(k)]
        assert not different, "; ".join(different[:5])
    else:
        a, b = os.lstat(got), os.lstat(want)
        assert (stat.S_IFMT(a.st_mode), a.st_mode & 0o777, a.st_size, a.st_mtime_ns) == (stat.S_IFMT(b.st_mode), b.st_mode & 0o777, b.st_size, b.st_mtime_ns), (a, b)
        assert subprocess.run(["cmp", "-s", got, want]).returncode == 0
    assert takes(got) <= takes(want) + (1 << 20), f"takes {takes(got)} bytes, {takes(want)} are enough"


def takes(path):
    return sum(os.lstat(os.path.join(at, n)).st_blocks * 512 for at, _, files in os.walk(path) for n in files) or os.lstat(path).st_blocks * 512


def each(cases, stage):
    """Runs stage(name, case, base), where base/src is an empty directory; all that differ are
    reported."""
    failed = []
    for name, case in cases.items():
        base = scratch()
        os.mkdir(f"{base}/src")
        try:
            stage(case, base)
        except AssertionError as e:
            failed.append(f"{name}: {e}")
        remove(base)
    assert not failed, "\n".join(failed)


def staged(item, want, **task):
    with Worker(f"x={item}", **task) as w:
        w.ready()
        compare(w.path, want)
        return w.warnings()


def stage_dir(script, base):
    sh(script, f"{base}/src")
    sh("cp -a src/. ref", base)
    staged(f"{base}/src", f"{base}/ref")


def stage_special(script, base):
    sh(script, f"{base}/src")
    sh("cp -a src/. ref; find ref -not -type f -not -type d -not -type l -delete; touch -r src ref", base)
    assert any("1 socket, FIFO or device was left out" in t for t in staged(f"{base}/src", f"{base}/ref"))


def stage_followed(script, base):
    sh(script, f"{base}/src")
    sh("cp -rL --preserve=mode,timestamps src/. ref", base)
    staged(f"{base}/src::links=follow", f"{base}/ref")


def stage_path(case, base):
    script, source, reference = case
    sh(script, f"{base}/src")
    sh(reference, f"{base}/src", REF=f"{base}/ref")
    listed = os.path.isdir(f"{base}/ref") and any(c in source for c in "*?{")
    with Worker(f"x={base}/src/{source}") as w:
        w.ready()
        if listed:  # the time of the directory of a set is nobody's
            os.utime(w.path, ns=(0, 0))
            os.utime(f"{base}/ref", ns=(0, 0))
        compare(w.path, f"{base}/ref")


def stage_archive(case, base):
    script, name, reference = case
    os.mkdir(f"{base}/ref")
    sh(script, f"{base}/src")
    since = time.time_ns() - 20_000_000  # the clock of file systems is behind by a tick
    sh(reference.replace("{0}", name), f"{base}/ref", SRC=f"{base}/src")
    with Worker(f"x={base}/src/{name}") as w:
        w.ready()
        compare(w.path, f"{base}/ref", since)


def as_user(f):
    """Modes mean something only to who is not root."""
    def test():
        return run_as_nobody(f.__name__) if os.geteuid() == 0 else f()
    test.__name__ = f.__name__
    return test


@as_user
def test_directories_are_as_cp_makes_them():
    each(DIRS, stage_dir)


@as_user
def test_what_no_dataset_needs_is_left_out():
    each(SPECIAL, stage_special)


@as_user
def test_followed_links_are_as_cp_makes_them():
    each(FOLLOWED, stage_followed)


@as_user
def test_paths_are_as_cp_reads_them():
    each(PATHS, stage_path)


@as_user
def test_archives_are_as_their_tools_unpack_them():
    each(ARCHIVES, stage_archive)


def test_there_are_many():
    assert sum(map(len, (DIRS, SPECIAL, FOLLOWED, PATHS, ARCHIVES))) > 120


if __name__ == "__main__":
    main(globals())
