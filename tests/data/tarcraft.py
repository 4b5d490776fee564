"""Makes tars with members that no tool writes."""
import io
import lzma
import sys
import tarfile
import zlib

BLOCK = 512
END = bytes(2 * BLOCK)


def pad(data):
    return data + bytes(-len(data) % BLOCK)


def number(value, width):
    """A field: octal, or base 256 where that is too small or value is negative; bytes as they
    are."""
    if isinstance(value, bytes):
        return value.ljust(width, b"\0")
    if 0 <= value < 8 ** (width - 1):
        return b"%0*o\0" % (width - 1, value)
    return (value % (1 << 8 * width) | 1 << 8 * width - 1).to_bytes(width, "big")


def member(name, data=b"", kind=b"0", link=b"", size=None, mode=0o644, mtime=10 ** 9, uid=0, rest=b"",
           magic=b"ustar  \0", checksum=None):
    """A header and its data. size: what the header says of it; rest: what stands behind magic, from
    uname on."""
    size = len(data) if size is None else size
    head = (name[:100].ljust(100, b"\0") + number(mode, 8) + number(uid, 8) + number(uid, 8) + number(size, 12) +
            number(mtime, 12) + b" " * 8 + kind + link[:100].ljust(100, b"\0") + magic + rest).ljust(BLOCK, b"\0")
    total = sum(head) if checksum is None else checksum
    return head[:148] + b"%06o\0 " % total + head[156:] + pad(data)


def long_name(name, kind=b"L"):
    return member(b"././@LongLink", name + b"\0", kind)


def records(**fields):
    out = b""
    for key, value in fields.items():
        value = value if isinstance(value, bytes) else str(value).encode()
        line = b" " + key.replace("__", ".").encode() + b"=" + value + b"\n"
        n = len(line) + 1
        while len(b"%d" % n) + len(line) != n:
            n = len(b"%d" % n) + len(line)
        out += b"%d" % n + line
    return out


def pax(kind=b"x", **fields):
    """pax records in front of the next member; g: of all that follow."""
    return member(b"PaxHeader", records(**fields), kind, magic=b"ustar\x0000")


def posix(name, data=b"", kind=b"0", **fields):
    return member(name, data, kind, magic=b"ustar\x0000", **fields)


def star_sparse(name, extents, data, real, more=()):
    """star's type S: up to four extents, and more of them in a block behind the header."""
    places = lambda all: b"".join(number(a, 12) + number(n, 12) for a, n in all)
    rest = bytes(90) + bytes([bool(more)]) + places(extents).ljust(96, b"\0") + number(real, 12)
    rest = rest.ljust(243, b"\0") + b"tar\0"
    return posix(name, b"", b"S", size=len(data), rest=rest) + (pad(places(more)) if more else b"") + pad(data)


def tar(*parts, end=END):
    return b"".join(parts) + end


def make_tar(members, fmt=tarfile.PAX_FORMAT):
    """By Python's tarfile. members: (name, data, fields of TarInfo)"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as t:
        for name, data, fields in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 10 ** 9
            for key, value in fields.items():
                setattr(info, key, value)
            t.addfile(info, io.BytesIO(data) if data else None)
    return out.getvalue()


def lzip(data):
    """A member of lzip's: lzma without its header, and sums behind it."""
    packed = lzma.compress(data, lzma.FORMAT_ALONE, preset=6)[13:]
    sums = zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(8, "little")
    return b"LZIP\1\x17" + packed + sums + (len(packed) + 26).to_bytes(8, "little")


if __name__ == "__main__" and sys.argv[1] == "lzip":
    sys.stdout.buffer.write(lzip(open(sys.argv[2], "rb").read()))
