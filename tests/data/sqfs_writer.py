"""Squashfs images by hand, nothing compressed, any field of them as it may not be.

A tree is a dict of names: bytes are a file, a dict is a directory, and File, Dir, Link and Special
have fields that take the place of what would be written: `fields` of the inode, `entry` of the name
that leads to it.
"""
import struct

META = 8192
STORED = 1 << 24
NONE = 0xffffffff
SUPER = ("magic", "n_inodes", "mtime", "block_size", "n_fragments", "compressor", "block_log", "flags", "n_ids", "major",
         "minor", "root", "bytes_used", "id_table", "xattr_table", "inode_table", "directory_table", "fragment_table",
         "export_table")
SUPER_FORMAT = "<5I6H8Q"

# kind: (number, format behind the header, fields)
INODES = {
    "dir": (1, "<IIHHI", ("block", "n_links", "size", "pos", "parent")),
    "file": (2, "<IIII", ("start", "fragment", "fragment_pos", "size")),
    "link": (3, "<II", ("n_links", "size")),
    "block device": (4, "<II", ("n_links", "rdev")),
    "char device": (5, "<II", ("n_links", "rdev")),
    "fifo": (6, "<I", ("n_links",)),
    "socket": (7, "<I", ("n_links",)),
    "long dir": (8, "<IIIIHHI", ("n_links", "size", "block", "parent", "n_index", "pos", "xattr")),
    "long file": (9, "<QQQIIII", ("start", "size", "sparse", "n_links", "fragment", "fragment_pos", "xattr")),
    "long link": (10, "<II", ("n_links", "size")),
}


class Node:
    def __init__(self, fields=None, entry=None):
        self.fields, self.entry = fields or {}, entry or {}


class File(Node):
    """blocks: (bytes, word or None) in place of data's; tail: data's last part goes into a
    fragment."""

    def __init__(self, data=b"", blocks=None, tail=False, long=False, **kw):
        super().__init__(**kw)
        self.data, self.blocks, self.tail, self.long = data, blocks, tail, long


class Dir(Node):
    """index: raw entries (pos, block, size of the name or None, name) of a long directory."""

    def __init__(self, children=None, index=None, **kw):
        super().__init__(**kw)
        self.children, self.index = children or {}, index


class Link(Node):
    def __init__(self, target, long=False, **kw):
        super().__init__(**kw)
        self.target, self.long = target, long


class Special(Node):
    def __init__(self, kind, **kw):
        super().__init__(**kw)
        self.kind = kind


class Again(Node):
    """Another name of a node that was written before: a hard link, or what may not be."""

    def __init__(self, node, **kw):
        super().__init__(**kw)
        self.node = node


class Table:
    """Metadata blocks that are filled one after the other."""

    def __init__(self):
        self.data = bytearray()

    def place(self):
        """Offset of the block on disk, and inside of it."""
        return len(self.data) // META * (META + 2), len(self.data) % META

    def add(self, data):
        at = self.place()
        self.data += data
        return at

    def store(self):
        out = b""
        for i in range(0, len(self.data), META):
            part = self.data[i:i + META]
            out += struct.pack("<H", 0x8000 | len(part)) + part
        return out


def as_node(x):
    return x if isinstance(x, Node) else Dir(x) if isinstance(x, dict) else File(x)


class Writer:
    def __init__(self, block_size):
        self.block_size = block_size
        self.out = bytearray(96)
        self.inodes, self.listings = Table(), Table()
        self.fragments, self.tail = [], b""
        self.n_inodes = 0

    def number(self, node, parent):
        """Numbers go down from the root, as the parent's is needed below."""
        self.n_inodes += 1
        node.number, node.parent = self.n_inodes, parent
        if isinstance(node, Dir):
            node.children = {n: as_node(c) for n, c in node.children.items()}
            for child in node.children.values():
                if not isinstance(child, Again):
                    self.number(child, node)

    def write_inode(self, node, kind, values, rest=b""):
        number, layout, names = INODES[kind]
        node.type = (number - 1) % 7 + 1
        head = {"type": number, "mode": 0o755, "uid": 0, "gid": 0, "mtime": 10 ** 9, "number": node.number}
        values = dict(head, **values)
        values.update(node.fields)
        node.place = self.inodes.add(struct.pack("<HHHHII", *(values[n] for n in head)) +
                                     struct.pack(layout, *(values[n] for n in names)) + rest)

    def write_data(self, node):
        """Where the blocks begin, their words, and the fragment's number and place."""
        start, words, fragment = len(self.out), [], (NONE, 0)
        data = node.data
        if node.tail:
            cut = len(data) // self.block_size * self.block_size
            fragment = (0, len(self.tail))
            self.tail += data[cut:]
            data = data[:cut]
        blocks = node.blocks
        if blocks is None:
            blocks = [(data[i:i + self.block_size], None) for i in range(0, len(data), self.block_size)]
        for content, word in blocks:
            self.out += content
            words.append(len(content) | STORED if word is None else word)
        return start, b"".join(struct.pack("<I", w) for w in words), fragment

    def write_file(self, node):
        start, words, (fragment, pos) = self.write_data(node)
        values = dict(start=start, size=len(node.data), fragment=fragment, fragment_pos=pos, n_links=1, sparse=0, xattr=NONE)
        self.write_inode(node, "long file" if node.long else "file", values, words)

    def write_link(self, node):
        target = node.target.encode() if isinstance(node.target, str) else node.target
        self.write_inode(node, "long link" if node.long else "link", dict(n_links=1, size=len(target)),
                         target + (struct.pack("<I", NONE) if node.long else b""))

    def listing(self, node):
        """A run for each name: simple, and allowed."""
        out = b""
        for name, child in sorted(node.children.items()):
            target = child.node if isinstance(child, Again) else child
            raw = name.encode("utf-8", "surrogateescape")
            e = {"count": 0, "block": target.place[0], "base": target.number, "pos": target.place[1], "delta": 0,
                 "type": target.type, "size": len(raw) - 1, "name": raw}
            e.update(child.entry)
            out += struct.pack("<III", e["count"], e["block"], e["base"])
            out += struct.pack("<HhHH", e["pos"], e["delta"], e["type"], e["size"]) + e["name"]
        return out

    def write_dir(self, node):
        for child in node.children.values():
            if not isinstance(child, Again):
                self.write(child)
        data = self.listing(node)
        block, pos = self.listings.add(data)
        parent = node.parent.number if node.parent else self.n_inodes + 1
        values = dict(block=block, pos=pos, size=len(data) + 3, n_links=2, parent=parent, n_index=len(node.index or []),
                      xattr=NONE)
        rest = b"".join(struct.pack("<III", p, b, len(n) - 1 if s is None else s) + n for p, b, s, n in node.index or [])
        self.write_inode(node, "dir" if node.index is None else "long dir", values, rest)

    def write(self, node):
        if isinstance(node, Dir):
            self.write_dir(node)
        elif isinstance(node, Link):
            self.write_link(node)
        elif isinstance(node, Special):
            self.write_inode(node, node.kind, dict(n_links=1, rdev=0x103))
        else:
            self.write_file(node)


def write_fragments(w, entries):
    """The table's blocks and the offsets of these; entries: in place of the one that there is."""
    if entries is None:
        entries = []
        if w.tail:
            entries = [(len(w.out), len(w.tail) | STORED)]
            w.out += w.tail
    return entries


def store_indexed(out, data):
    """A table in metadata blocks, and behind it the offsets of those; where that list is."""
    at = []
    for i in range(0, len(data), META):
        at.append(len(out))
        part = data[i:i + META]
        out += struct.pack("<H", 0x8000 | len(part)) + part
    place = len(out)
    out += b"".join(struct.pack("<Q", a) for a in at)
    return place


def build(tree, block_size=4096, fragments=None, patch=None, **fields):
    """An image; fields: of the superblock; patch(image, places) changes what else there is."""
    w = Writer(block_size)
    root = as_node(tree)
    w.number(root, None)
    w.write(root)
    entries = write_fragments(w, fragments)
    places = {"inodes": len(w.out)}
    w.out += w.inodes.store()
    places["listings"] = len(w.out)
    w.out += w.listings.store()
    if entries:
        places["fragments"] = store_indexed(w.out, b"".join(struct.pack("<QII", a, s, 0) for a, s in entries))
    places["ids"] = store_indexed(w.out, struct.pack("<I", 0))
    values = dict(magic=0x73717368, n_inodes=w.n_inodes, mtime=10 ** 9, block_size=block_size, n_fragments=len(entries),
                  compressor=1, block_log=block_size.bit_length() - 1, flags=0x0001 | 0x0002 | 0x0008, n_ids=1, major=4, minor=0,
                  root=root.place[0] << 16 | root.place[1], bytes_used=len(w.out), id_table=places["ids"],
                  xattr_table=(1 << 64) - 1, inode_table=places["inodes"], directory_table=places["listings"],
                  fragment_table=places.get("fragments", (1 << 64) - 1), export_table=(1 << 64) - 1)
    values.update(fields)
    w.out[:96] = struct.pack(SUPER_FORMAT, *(values[n] for n in SUPER))
    if patch:
        patch(w.out, places)
    return bytes(w.out)
