#!/usr/bin/env python3
"""Objects and directories of S3. The server checks each signature with its own code. The keys
come from ~/.aws/credentials of a user whose home belongs to the test: the tests run in their own
mount namespace."""
import gzip
import hashlib
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, f"{HERE}/../lib"]
from harness import *  # noqa: E402
from procmem import memory_has  # noqa: E402
from s3home import *  # noqa: E402
from s3server import *  # noqa: E402
from tarcraft import *  # noqa: E402

random.seed(3)
BIG = random.randbytes(20 << 20)


def test_an_object_comes_in_parts_each_signed():
    credentials()
    with S3Server() as s:
        for key in ("big.bin", "dir/with blank+plus&and=ä.bin", "a%25b~(1)!'.bin"):
            item = s.put(key, BIG)
            with fetch(item.replace("%", "%25").replace("+", "%2B"), s,
                       "verify=sha256:" + hashlib.sha256(BIG).hexdigest()) as w:
                w.ready()
                assert read(w.path) == BIG
        assert any("Range" in h for _, _, h in s.log)


def test_a_whole_bucket():
    credentials()
    with S3Server() as s:
        for key in ("a", "d/b"):
            s.put(key, key.encode())
        for how in ({}, {"rulematch": "s3://b/**"}):
            with fetch("s3://b/", s, **how) as w:
                w.ready()
                assert read(w.path, "a") == b"a" and read(w.path, "d/b") == b"d/b"
        with fetch("s3://b/*", s) as w:
            w.ready()
            assert os.listdir(w.path) == ["a"] and read(w.path, "a") == b"a"


def test_what_is_stored_encoded_comes_as_it_is_stored():
    """As by aws: an object of a prefix with such a word made all of it fail."""
    credentials()
    with S3Server() as s:
        for key, word in (("p/a", "gzip"), ("p/b", "utf-8"), ("p/c", "")):
            s.put(key, gzip.compress(key.encode(), mtime=0), headers={"Content-Encoding": word} if word else {})
        for item in "s3://b/p/", "s3://b/p/*", "s3://b/p/{a,b,c}":
            with fetch(item, s) as w:
                w.ready()
                assert all(read(w.path, n) == gzip.compress(b"p/" + n.encode(), mtime=0) for n in "abc"), item
        for n in "abc":
            with fetch(f"s3://b/p/{n}", s) as w:
                w.ready()
                assert read(w.path) == gzip.compress(b"p/" + n.encode(), mtime=0), n
        for word in "gzip", "zstd", "utf-8":
            with fetch(s.put("t.tar.gz", gzip.compress(tar(member(b"f", b"1"))), headers={"Content-Encoding": word}), s) as w:
                w.ready()
                assert read(w.path, "f") == b"1", word


def test_what_is_archived_has_to_be_restored():
    credentials()
    with S3Server(archived=("/b/p/old",)) as s:
        s.put("p/old", b"1")
        for item in ("s3://b/p/old", "s3://b/p/"):
            fails(item, s, "403 InvalidObjectState", "restore it first")


def test_a_key_that_ends_in_a_slash_and_has_content_is_named():
    """It was left out without a word. A marker of a directory has no content."""
    credentials()
    with S3Server() as s:
        for key, data in (("p/", b""), ("p/d/", b""), ("p/d/x", b"1")):
            s.put(key, data)
        with fetch("s3://b/p/", s) as w:
            w.ready()
            assert w.warnings() == [] and os.listdir(f"{w.path}/d") == ["x"]
        s.put("p/full/", b"content")
        with fetch("s3://b/p/", s) as w:
            w.ready()
            assert any("1 object with content is left out" in t and "p/full/" in t for t in w.warnings()), w.warnings()


def test_keys_are_names_and_not_paths():
    """Seen failing: libcurl asked for a/b in the place of a/./b, which without a signature came as
    that, and with one was refused as signed by others."""
    keys = ("a/./b", "./a/b", "a/b/.", "a//b", "/a/b", "a/.../b", "a/..b", "a/%2e/b")
    for anonymous in (False, True):
        credentials()
        with S3Server(anonymous=anonymous) as s:
            s.put("a/b", b"another")
            for key in keys:
                item = s.put(key, b"<" + key.encode() + b">")
                with fetch(item.replace("%", "%25"), s) as w:
                    w.ready()
                    assert read(w.path) == b"<" + key.encode() + b">", (anonymous, key)
            with fetch("s3://b/a/{./b,..b}", s) as w:
                w.ready()
                assert {n: read(w.path, n) for n in os.listdir(w.path)} == {"b": b"<a/./b>", "..b": b"<a/..b>"}
            asked = len(s.log)
            for key in ("a/../b", "..", "../a", "a/.."):
                fails(f"s3://b/{key}", s, "can't have \"\\.\\.\"", "the path that is meant")
            assert len(s.log) == asked
            s.put("pre/../x", b"1")
            fails("s3://b/pre/.*/x", s, r"s3://b/pre/\.\./x is outside of", rulematch="s3://b/pre/**")


def test_shares_of_nodes_are_not_shared():
    """Seen failing: on a tier that nodes share, one node's share was given to all of them."""
    credentials()
    base = scratch()

    def worker(node, index, item, web):
        def tierdir(m):
            path = f"{base}/shared/stage-data-1-{node}"
            os.makedirs(path, mode=0o700, exist_ok=True)
            return dict(op="tierdir", path=path, shared=f"{base}/shared/stage-data-1")
        os.makedirs(f"{base}/{node}", exist_ok=True)
        return Worker(item, base=f"{base}/{node}", answers={"tier": tierdir}, web=web, node=node, nodes=2,
                      name=item[0], nodeindex=index)

    with S3Server() as s, Server() as h:
        for i in range(6):
            s.put(f"p/s-{i}.tar", b"%d" % i)
            h.add(f"/s-{i}.tar", b"%d" % i)
        urls = h.url("/s-{0..5}.tar")
        for item, web in (("a=s3://b/p/s-*.tar:scratch:shard=node", s.web()), ("b=s3://b/p/:scratch:shard=node", s.web()),
                          (f"c={urls}:scratch:shard=node-even", h.rule()), (f"d={urls}:scratch:shard=node", h.rule())):
            with worker("n1", 0, item, web) as a, worker("n2", 1, item, web) as b:
                a.ready(), b.ready()
                names = [set(os.listdir(w.path)) for w in (a, b)]
                assert not names[0] & names[1], (item, names)
                assert names[0] | names[1] == {f"s-{i}.tar" for i in range(6)}, (item, names)
    remove(base)


def test_a_slow_listing_is_no_stall():
    """Seen failing, with "the source gave nothing", though each page came at once."""
    class Slow(S3Handler):
        def list(self, *args):
            time.sleep(0.3)
            super().list(*args)

    credentials()
    with S3Server(page_size=1) as s:
        s.RequestHandlerClass = Slow
        for i in range(9):
            s.put(f"p/{i}", b"1")
        for item in "s3://b/p/", "s3://b/p/*":
            with fetch(item, s, stall=1000) as w:
                w.ready()
                assert len(os.listdir(w.path)) == 9


def test_a_marker_of_a_directory_fits_no_pattern():
    """Seen failing: s3://b/p/ has no name that a file could have."""
    credentials()
    with S3Server() as s:
        for key in ("p/", "p/d/", "p/a", "p/d/b"):
            s.put(key, key.encode() if key[-1] != "/" else b"")
        for item, names in (("s3://b/p/*", ["a"]), ("s3://b/p/*/*", ["b"])):
            with fetch(item, s) as w:
                w.ready()
                assert os.listdir(w.path) == names


def test_errors_that_amazon_answers_with_400():
    """Seen failing: "try again later"."""
    class Refusing(S3Handler):
        def do_GET(self):
            self.refuse(self.server.status, *self.server.says)

    credentials()
    for status, code, text, hint in (
            (400, "ExpiredToken", "The provided token has expired.", "get new keys"),
            (400, "InvalidToken", "The provided token is malformed.", "check your keys"),
            (400, "AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong; expecting 'eu-central-1'", "Region="),
            (400, "InvalidRequest", "?", "check the address"), (401, "Unauthorized", "?", "check your keys"),
            (407, "ProxyAuthenticationRequired", "?", "ask the site about its proxy")):
        with S3Server(status=status, says=(code, text)) as s:
            s.RequestHandlerClass = Refusing
            fails("s3://b/x", s, f"{status} {code}", hint)


def test_a_refused_address_does_not_spoil_another():
    """Seen failing: curl went to the second address of a host, and when that connection broke, the
    first one was named as the cause. These tests have a mount namespace of their own."""
    hosts = scratch() + "/hosts"
    with open(hosts, "w") as f:
        f.write("::1 two.test\n127.0.0.1 two.test localhost\n")
    with Server() as s:
        s.add("/x", BIG, break_after=[1000])
        rule = f"allow\thttp://two.test:{s.port}/**\t127.0.0.0/8\n"
        subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
        try:
            with Worker(f"x={s.url('/x', 'two.test')}:shm", web=rule, tiers="shm") as w:
                w.ready()
                assert read(w.path) == BIG
        finally:
            subprocess.run(["umount", "/etc/hosts"], check=True)
    remove(os.path.dirname(hosts))


def test_a_session_has_a_token():
    credentials(token="tok/en+1==")
    with S3Server(token="tok/en+1==") as s:
        with fetch(s.put("x", BIG), s) as w:
            w.ready()
    credentials(token="other")
    with S3Server(token="tok/en+1==") as s:
        fails(s.put("x", BIG), s, "InvalidToken", "check your keys")


def test_a_prefix_is_a_tree():
    credentials()
    with S3Server(page_size=7) as s:
        want = {f"d{i % 5}/e {i % 3}/f&{i}": random.randbytes(i * 997) for i in range(60)}
        for name, data in want.items():
            s.put("pre/" + name, data)
        s.put("pre/", b"")          # markers of directories
        s.put("pre/d0/", b"")
        s.put("prefix/other", b"1")  # not below it
        with fetch("s3://b/pre/", s) as w:
            m = w.ready()
            got = {os.path.relpath(os.path.join(r, f), w.path): read(r, f)
                   for r, _, files in os.walk(w.path) for f in files}
            assert got == want, set(got) ^ set(want)
            assert int(m["files"]) == 60 and m["kind"] == "dir"
        assert len([p for _, p, _ in s.log if "list-type=2" in p]) == 9
        with fetch("s3://b/pre/", s, "shard=node", nodes=2, nodeindex=1) as w:
            assert int(w.ready()["files"]) == 30


def test_a_listing_may_be_without_etags():
    # what is not known can't have changed: seen failing when "no ETag" was taken for one
    credentials()
    with S3Server(listed_etags=False) as s:
        want = {f"d/{i}": random.randbytes(i * 1_000_000) for i in range(8)}
        for name, data in want.items():
            s.put("pre/" + name, data)
        with fetch("s3://b/pre/", s) as w:
            w.ready()
            for name, data in want.items():
                assert read(w.path, name) == data
        with fetch("s3://b/pre/d/*", s) as w:
            w.ready()
            assert read(w.path, "7") == want["d/7"]


def test_objects_of_a_prefix_have_the_times_of_the_server():
    """Was the time at which they were fetched."""
    credentials()
    with S3Server() as s:
        s.put("p/a", b"one")
        s.put("p/d/b", bytes(40 << 20), modified=1_600_000_000)
        with fetch("s3://b/p/", s) as w:
            w.ready()
            times = [os.stat(os.path.join(w.path, n)).st_mtime for n in ("a", "d/b")]
            assert times == [1_700_000_000, 1_600_000_000], times


def test_a_listing_may_have_etags_without_quotes():
    """Was told as a change of each object."""
    credentials()
    with S3Server(listed_etag="1") as s:
        s.put("p/a", b"one")
        with fetch("s3://b/p/", s) as w:
            w.ready()
            assert open(os.path.join(w.path, "a"), "rb").read() == b"one"


def test_a_listing_that_breaks_off_is_asked_for_again():
    # it has neither ETag nor date to go on by: seen failing with the first break
    credentials()
    with S3Server(page_size=5, break_lists=[None, 200, 300, 77, None, 400]) as s:
        want = {f"{i:02}": b"%d" % i for i in range(17)}
        for name, data in want.items():
            s.put("pre/" + name, data)
        with fetch("s3://b/pre/", s) as w:
            w.ready()
            assert {n: read(w.path, n) for n in os.listdir(w.path)} == want
        assert len([p for _, p, _ in s.log if "list-type=2" in p]) == 4 + 4
    with S3Server(break_lists=[200] * 9) as s:
        s.put("pre/x", b"1")
        fails("s3://b/pre/", s, "neither a strong ETag nor a date", "try again")
        assert len(s.log) == 5


def test_an_empty_object():
    # 416 to the look at its beginning, and nothing of its size: seen failing
    credentials()
    with S3Server() as s:
        with fetch(s.put("empty", b"", says_size=False), s) as w:
            w.ready()
            assert read(w.path) == b""


def test_braces_are_a_set():
    """Red when one of them is not held against the rule, or its name is cut at a '?'."""
    credentials()
    with S3Server() as s:
        want = {f"x-{i:02}.tar?a#b": random.randbytes(1000 + i) for i in range(12)}
        for name, data in want.items():
            s.put("pre/" + name, data)
        item = "s3://b/pre/x-{00..11}.tar?a#b"
        with fetch(item, s, rulematch="s3://b/pre/**") as w:
            m = w.ready()
            assert {n: read(w.path, n) for n in os.listdir(w.path)} == want
            assert int(m["files"]) == 12 and m["kind"] == "dir"
        with fetch(item, s, "shard=node", nodes=4, nodeindex=3) as w:
            w.ready()
            assert sorted(os.listdir(w.path)) == [f"x-{i:02}.tar?a#b" for i in (3, 7, 11)]
        asked = len(s.log)
        fails("s3://b/{pre/x,prefix/x}", s, "s3://b/prefix/x is outside of s3://b/pre/\\*\\*",
              "item of its own", rulematch="s3://b/pre/**")
        assert len(s.log) == asked
        fails("s3://b/{pre,other}/x", s, "have the same name")
        fails("s3://b/pre/x-{10..12}.tar?a#b", s, "x-12.tar.*404 NoSuchKey", "check bucket and key")


def test_patterns_are_sets():
    """Red when a "*" goes over a "/", or when what was listed is asked for its size again."""
    credentials()
    with S3Server(page_size=5) as s:
        for i in range(12):
            for name in (f"x-{i:02}.tar", f"x-{i:02}.json", f"sub/x-{i:02}.tar", f".x-{i:02}.tar"):
                s.put("pre/" + name, b"%d" % i * (i + 1))
        s.put("pre/y?[a]'*.tar", BIG)
        s.put("other/x-00.tar", b"1")
        with fetch("s3://b/pre/x-*.tar", s, rulematch="s3://b/pre/**") as w:
            m = w.ready()
            assert {n: read(w.path, n) for n in os.listdir(w.path)} == {
                f"x-{i:02}.tar": b"%d" % i * (i + 1) for i in range(12)}
            assert int(m["files"]) == 12 and m["kind"] == "dir"
        lists = [p for _, p, _ in s.log if "list-type=2" in p]
        # a page has five keys: those of sub/ would make it twice as many
        assert len(lists) == 5 and all("delimiter=%2F&" in p and p.endswith("prefix=pre%2Fx-") for p in lists), lists
        assert len(s.log) == 5 + 12, [p for _, p, _ in s.log]
        with fetch("s3://b/pre/*?[a]*.tar", s) as w:  # no pattern but the stars
            w.ready()
            assert os.listdir(w.path) == ["y?[a]'*.tar"] and read(w.path, "y?[a]'*.tar") == BIG
        with fetch("s3://b/*/x-*1.tar", s, "shard=node", nodes=2, nodeindex=1) as w:
            w.ready()
            assert os.listdir(w.path) == ["x-11.tar"]
        with fetch("s3://b/pre/{x-0*.json,x-11.tar,nothing*}", s) as w:
            w.ready()
            assert sorted(os.listdir(w.path)) == [f"x-{i:02}.json" for i in range(10)] + ["x-11.tar"]
        with fetch("s3://b/pre/x-0*.tar", s, "keep=1h+threads=1") as w:
            w.ready()
        fails("s3://b/*/x-00.tar", s, "have the same name")
        fails("s3://b/pre/none*", s, "no object fits the pattern", "check bucket and pattern")
        asked = len(s.log)
        fails("s3://b/{pre,other}/x-*", s, "s3://b/other/x-\\* is outside of s3://b/pre/\\*\\*",
              "item of its own", rulematch="s3://b/pre/**")
        assert len(s.log) == asked
    with S3Server(stuck=True, page_size=2) as s:
        for i in range(5):
            s.put(f"pre/{i}", b"1")
        fails("s3://b/pre/*", s, "lists keys twice", "tell the administrator")
    with S3Server(extra_keys=["pre/.."]) as s:  # which no "*" fits
        s.put("pre/0", b"1")
        with fetch("s3://b/pre/*", s) as w:
            w.ready()
            assert os.listdir(w.path) == ["0"]
        fails("s3://b/pre/.*", s, "name that a file could have")


def test_keys_that_lead_out_are_refused():
    credentials()
    for key in ("../x", "a/../../x", "/etc/x", "a//b", "./x", "a/./b"):
        with S3Server(extra_keys=["pre/" + key]) as s:
            s.put("pre/0", b"1")
            fails("s3://b/pre/", s, "can't be a path", "prefix without it")


# all that is not the server's own or in its log already
ASKED = {"Host", "User-Agent", "Accept", "Accept-Encoding", "Range", "If-Range", "x-amz-content-sha256", "x-amz-date",
         "Authorization"}


def check_headers(server):
    assert server.log
    for method, path, headers in server.log:
        assert method == "GET" and set(headers) <= ASKED, (path, headers)
        assert not any(c < " " or c == "\x7f" for v in headers.values() for c in v), headers


def test_line_ends_in_keys_and_etags_stay_there():
    """Red when an ETag of the listing goes into If-Range as it came."""
    credentials()
    names = [f"a{end}X-Evil: y" for end in ("\r\n", "\r", "\n", "%0d%0a")]
    with S3Server() as s:
        want = {n: n.encode() * 3 for n in names}
        for name, data in want.items():
            s.put("pre/" + name, data)
        with fetch("s3://b/pre/", s) as w:
            w.ready()
            assert {n: read(w.path, n) for n in os.listdir(w.path)} == want
        for name, data in want.items():
            with fetch(f"s3://b/pre/{name}".replace("%", "%25"), s) as w:
                if w.run_until("ready", "error")["op"] == "ready":
                    assert read(w.path) == data
        check_headers(s)
    for etag in ('"a&#13;X-Evil: y"', '"a&#13;&#10;X-Evil: y"', '"&#1;"'):
        plain = etag.replace("&#13;", "\r").replace("&#10;", "\n").replace("&#1;", "\x01")
        with S3Server(listed_etag=etag.replace('"', "&quot;")) as s:
            s.put("pre/x", BIG, etag=plain.replace("\n", ""))
            with fetch("s3://b/pre/", s) as w:
                w.run_until("ready", "error")
            check_headers(s)


def test_an_etag_of_several_parts_is_a_name_and_no_sum():
    credentials()
    tag = "9b2cf535f27731c974343645a3985328-5"
    for listed, etag in ((tag, tag), (tag, tag[:-1] + "6")):
        with S3Server(listed_etag=f"&quot;{listed}&quot;") as s:
            s.put("pre/x", BIG, etag=f'"{etag}"')
            with fetch("s3://b/pre/x", s) as w:
                w.ready()
                assert read(w.path) == BIG
            if listed != etag:
                fails("s3://b/pre/", s, "changed while it was fetched")
                continue
            with fetch("s3://b/pre/", s) as w:
                w.ready()
                assert read(w.path, "x") == BIG
            assert f'"{etag}"' in [h.get("If-Range") for _, _, h in s.log]


def test_keys_of_1024_bytes():
    """All of them written as three: as an item, and in a listing. One more is no key of S3's."""
    credentials()
    for letter in ("x", "\u00e4", "+"):
        with S3Server() as s:
            n = len(letter.encode())
            key = "pre" + "/" * (n != 2) + "/".join([letter * (200 // n)] * 6)
            key = key[:1024 // n - 10].rstrip("/")
            key += "y" * (1024 - len(key.encode()))
            assert len(key.encode()) == 1024 and max(len(c.encode()) for c in key.split("/")) <= 255
            with fetch(s.put(key, BIG), s) as w:
                w.ready()
                assert read(w.path) == BIG
            with fetch("s3://b/pre", s) if "pre/" not in key else fetch("s3://b/pre/", s) as w:
                if "pre/" in key:
                    w.ready()
                    assert read(w.path, key[4:]) == BIG
    with S3Server(extra_keys=["pre/" + "/".join(["x" * 200] * 6)[:1021]]) as s:
        s.put("pre/0", b"1")
        fails("s3://b/pre/", s, "listing can't be read", "tell the administrator")


def test_a_listing_of_many_keys():
    """Of 10^5, or STAGE_TEST_KEYS: all of them, in order, and the worker holds less than a KiB of
    each."""
    credentials()
    n = int(os.environ.get("STAGE_TEST_KEYS", "100000"))
    with S3Server(extra_keys=[f"pre/part-{i // 1000:05}/of-a-long-name-{i:08}.jpg" for i in range(n)]) as s:
        s.put("pre/zz.bin", BIG)
        with fetch("s3://b/pre/*z*", s) as w:
            peak = watch_memory(w.proc.pid)
            m = w.run_until("ready", "error", timeout=300)
            assert m and m["op"] == "ready", m
            pattern = peak[0]
            assert os.listdir(w.path) == ["zz.bin"]
        with fetch("s3://b/pre/", s, mode="plan") as w:
            peak = watch_memory(w.proc.pid)
            m = w.run_until("facts", "error", timeout=300)
            assert m and m["op"] == "facts" and m["nfiles"] == str(n + 1), m
            print(f"# {n} keys, {peak[0] >> 10} MiB; by a pattern {pattern >> 10} MiB")
            assert 0 < peak[0] < (32 << 10) + n, f"{peak[0] >> 10} MiB"


def test_a_file_and_a_directory_of_one_name():
    credentials()
    with S3Server() as s:
        s.put("pre/a", b"1")
        s.put("pre/a/b", b"2")
        fails("s3://b/pre/", s, "a/b")


def test_listings_that_lie():
    credentials()
    with S3Server(stuck=True, page_size=2) as s:
        for i in range(5):
            s.put(f"pre/{i}", b"1")
        fails("s3://b/pre/", s, "lists keys twice", "tell the administrator")
    with S3Server(doctype='<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">]>\n') as s:
        s.put("pre/0", b"1")
        fails("s3://b/pre/", s, "listing can't be read", "tell the administrator")
    with S3Server(extra_keys=["pre/z\0"]) as s:
        s.put("pre/0", b"1")
        fails("s3://b/pre/", s, "listing can't be read", "tell the administrator")
    with S3Server() as s:
        fails("s3://b/none/", s, "no object is below", "check bucket and prefix")


def test_what_changes_after_it_was_listed():
    credentials()
    with S3Server() as s:
        s.put("pre/0", b"1")
        s.put("pre/1", b"22", etag='"2"')  # the listing says "1"
        fails("s3://b/pre/", s, "changed while it was fetched")


def test_keys_absent_open_or_broken():
    with S3Server() as s:
        item = s.put("x", b"1")
        credentials("")
        fails(item, s, "No such file", "write ~/.aws/credentials")
        credentials(mode=0o644)
        fails(item, s, "can be read by others", "chmod 600")
        credentials("[default]\naws_access_key_id=A\n")
        fails(item, s, "has no keys", "write ~/.aws/credentials")
        credentials("[default]\naws_access_key_id=A\naws_secret_access_key=a\x01b\n")
        fails(item, s, "a byte that keys can't have")
        credentials(f"[default]\naws_access_key_id={ACCESS}\naws_secret_access_key=wrong\n")
        assert s.log == []
        fails(item, s, "answers 403 SignatureDoesNotMatch .The request signature", "check your keys")


def test_profiles():
    """Red when keys of another section, or of a file that others can read, are used."""
    keys = f"aws_access_key_id = {ACCESS}\naws_secret_access_key={SECRET_KEY}\n"
    wrong = "aws_access_key_id=X\naws_secret_access_key=Y\n"
    with S3Server() as s:
        item = s.put("x", BIG)
        credentials(f"[default]\n{wrong}[lab]\n{keys}")
        with fetch(item, s, "profile=lab") as w:
            w.ready()
        fails(item, s, "answers 403")
        fails(item, s, "credentials has no keys in its section .other.", "with [other]", options="profile=other")
        credentials(f"[default]\n{wrong}[profile other]\n{keys}[profile role]\nrole_arn=x\n", file="config")
        with fetch(item, s, "profile=other") as w:
            w.ready()
        with fetch(item, s, "profile=lab") as w:  # the first file counts
            w.ready()
        fails(item, s, "the profile role gets its keys by a role", "export-credentials", options="profile=role")
        credentials("")
        with fetch(item, s, "profile=other") as w:
            w.ready()
        credentials(f"[default]\n{wrong}[profile other]\n{keys}", 0o644, file="config")
        fails(item, s, "config can be read by others", "chmod 600", options="profile=other")
        fails(item, s, "credentials: No such file", "write ~/.aws/credentials with [lab]", options="profile=lab")
        credentials("", file="config")


def test_keys_of_the_environment_come_by_a_descriptor():
    """Red when those of the file go first, when none there is another failure than it was, or when
    the worker reads what it hands on."""
    keys = dict(access=ACCESS, secret=SECRET_KEY, token="tok/en+1==")
    with S3Server(token="tok/en+1==") as s:
        item = s.put("x", BIG)
        for file in "", f"[default]\naws_access_key_id=X\naws_secret_access_key=Y\n":
            credentials(file)
            with fetch(item, s, keys=keys) as w:
                w.ready()
                assert read(w.path) == BIG
        fails(item, s, "keys of AWS_ACCESS_KEY_ID: s3://b/x: the server answers 403 SignatureDoesNotMatch",
              "check your keys", keys=dict(keys, secret="wrong"))
        fails(item, s, "^(?!keys of AWS).*answers 403")
        credentials("")
        with fetch(item, s) as w:
            m = w.error()
            assert m["errno"] == "126", m  # ENOKEY: stagingd asks for some then
            assert m["text"].endswith("or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"), m
    # a server that says nothing: all is as it is while it is fetched
    with socket.create_server(("127.0.0.1", 0)) as quiet:
        web = f"endpoint\thttp://127.0.0.1:{quiet.getsockname()[1]}\nnetworks\t127.0.0.0/8\n"
        with Worker("x=s3://b/x:shm", web=web, tiers="shm", stall=600_000, keys=keys) as w:
            conn, _ = quiet.accept()
            with conn:
                conn.recv(1)
                fetcher = int(subprocess.check_output(["pgrep", "-P", str(w.proc.pid)]))
                assert memory_has(fetcher, SECRET_KEY.encode())
                assert not memory_has(w.proc.pid, SECRET_KEY.encode())
                for pid in fetcher, w.proc.pid:
                    for name in "cmdline", "environ":
                        assert SECRET_KEY.encode() not in read("/proc", str(pid), name)


def take_cores(where):
    """Whether any is there; they are gone then."""
    cores = [os.path.join(where, name) for name in os.listdir(where)]
    for core in cores:
        with open(core, "rb") as f:
            print("# a core" + (" with the key" if SECRET_KEY.encode() in f.read() else ""), flush=True)
        os.unlink(core)
    return bool(cores)


def test_a_fetch_that_crashes_with_keys_leaves_no_core():
    """By three lines of defence: the kernel asks for no limit where cores go to a program, and may
    have no Landlock, by which it can't write a core either. Red when stage-fetch may be dumped
    (its files in /proc are root's otherwise), and when worker and stage-fetch leave the limit as
    it comes."""
    keys = dict(access=ACCESS, secret=SECRET_KEY, token="tok/en+1==")
    root = os.geteuid() == 0
    unlimited = resource.RLIM_INFINITY, resource.RLIM_INFINITY

    def begin():
        os.chdir(where)
        resource.setrlimit(resource.RLIMIT_CORE, unlimited)
        if root:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

    with socket.create_server(("127.0.0.1", 0)) as quiet, tempfile.TemporaryDirectory() as where:
        os.chmod(where, 0o777)
        subprocess.run(["sh", "-c", "kill -SEGV $$"], preexec_fn=begin)
        print("# others leave one" if take_cores(where) else "# the kernel puts cores elsewhere", flush=True)
        web = f"endpoint\thttp://127.0.0.1:{quiet.getsockname()[1]}\nnetworks\t127.0.0.0/8\n"
        with Worker("x=s3://b/x:shm", web=web, tiers="shm", stall=600_000, keys=keys, limits=begin, start=False) as w:
            if root:
                subprocess.run(["chown", "-R", "65534:65534", w.base], check=True)
                w.uid = 65534
            w.start()
            conn, _ = quiet.accept()
            with conn:
                conn.recv(1)
                fetcher = int(subprocess.check_output(["pgrep", "-P", str(w.proc.pid)]))
                assert memory_has(fetcher, SECRET_KEY.encode())
                assert os.readlink(f"/proc/{fetcher}/cwd") == os.path.realpath(where)
                limit = re.search(rb"^Max core file size +(\S+) +(\S+) ", read("/proc", str(fetcher), "limits"), re.M)
                assert limit.groups() == (b"0", b"0"), limit
                assert os.stat(f"/proc/{fetcher}/environ").st_uid not in (65534, os.getuid() or 65534), "may be dumped"
                os.kill(fetcher, signal.SIGSEGV)
            m = w.error()
            assert not take_cores(where)
            assert SECRET_KEY not in w.stderr() and not any(SECRET_KEY in str(n) for n in w.messages)
            print("#", m["text"], flush=True)


def test_an_open_bucket_gets_no_keys():
    credentials()
    with S3Server(anonymous=True) as s:
        s.put("pre/x", BIG)
        with fetch("s3://b/pre/", s) as w:
            w.ready()
            assert read(w.path, "x") == BIG
        assert not any("Authorization" in h or "x-amz-date" in h for _, _, h in s.log)


def test_answers_of_s3():
    credentials()
    with S3Server() as s:
        fails("s3://b/none", s, "404 NoSuchKey .The specified key",
              "check bucket and key, or write s3://b/none/ for all objects below it")
        with fetch(s.put("x", BIG, status=[503]), s) as w:
            w.ready()
    with S3Server(skewed=True) as s:
        fails(s.put("x", b"1"), s, "RequestTimeTooSkewed .The difference", "clock")


def test_a_redirect_gets_neither_signature_nor_token():
    credentials(token="TOKEN")
    with S3Server(token="TOKEN") as s, Server() as other:
        other.add("/x", BIG)
        for status in (301, 302, 307):
            fails(s.put("x", b"", location=other.url("/x"), redirect=status), s,
                  f"answers {status}.*leads elsewhere", "Endpoint= and Region=")
        assert other.log == []


if __name__ == "__main__":
    run_tests(globals())
