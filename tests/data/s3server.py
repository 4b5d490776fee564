"""An S3 server that checks signatures. It computes signature version 4 by itself; its code was
written from the description of the format and shares nothing with ours. It has objects, listings
in pages, and the errors of S3."""
import datetime
import hashlib
import hmac
import os
import sys
import urllib.parse
from xml.sax.saxutils import escape

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from webserver import *  # noqa: E402

ACCESS, SECRET_KEY = "AKIATEST", "secret/+key"


def quote(text, safe=""):
    return urllib.parse.quote(text, safe=safe + "-._~")


class S3Handler(Handler):
    def refuse(self, status, code, message):
        body = (f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code>'
                f"<Message>{escape(message)}</Message><RequestId>1</RequestId></Error>").encode()
        self.answer(status, body)

    def expected(self, fields):
        """What Authorization has to be, by what the request itself says."""
        path, _, query = self.path.partition("?")
        names = fields["SignedHeaders"].split(";")
        assert names == sorted(names) and "host" in names and "x-amz-date" in names, names
        for name in self.headers:  # whatever is x-amz- has to be signed
            assert not name.lower().startswith("x-amz-") or name.lower() in names, name
        headers = "".join(f"{n}:{' '.join(self.headers[n].split())}\n" for n in names)
        pairs = sorted((quote(k), quote(v)) for k, v in
                       urllib.parse.parse_qsl(query, keep_blank_values=True))
        canonical = "\n".join(["GET", quote(urllib.parse.unquote(path), "/"),
                               "&".join(f"{k}={v}" for k, v in pairs), headers,
                               fields["SignedHeaders"], hashlib.sha256(b"").hexdigest()])
        access, day, region, service, end = fields["Credential"].split("/")
        scope = f"{day}/{region}/{service}/{end}"
        assert (access, region, service, end) == (ACCESS, self.server.region, "s3", "aws4_request")
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], scope,
                          hashlib.sha256(canonical.encode()).hexdigest()])
        key = ("AWS4" + SECRET_KEY).encode()
        for part in (day, region, service, end):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()

    def is_signed(self):
        words = self.headers.get("Authorization", "")
        if not words.startswith("AWS4-HMAC-SHA256 "):
            return False
        fields = dict(f.strip().split("=", 1) for f in words.split(" ", 1)[1].split(","))
        try:
            return hmac.compare_digest(fields["Signature"], self.expected(fields))
        except (AssertionError, KeyError, ValueError, AttributeError):
            return False

    def do_GET(self):
        s = self.server
        now = datetime.datetime.now(datetime.timezone.utc)
        with s.lock:
            s.log.append((self.command, self.path, dict(self.headers)))
        if s.skewed:
            return self.refuse(403, "RequestTimeTooSkewed", "The difference between the request time "
                               "and the current time is too large.")
        if s.anonymous:
            if "Authorization" in self.headers:
                return self.refuse(400, "InvalidRequest", "no signature wanted")
        elif not self.is_signed():
            return self.refuse(403, "SignatureDoesNotMatch", "The request signature we calculated "
                               "does not match the signature you provided.")
        elif self.headers["x-amz-date"][:8] != now.strftime("%Y%m%d"):
            return self.refuse(403, "RequestTimeTooSkewed", "too old")
        elif s.token and self.headers.get("x-amz-security-token") != s.token:
            return self.refuse(403, "InvalidToken", "The provided token is malformed.")
        path, _, query = self.path.partition("?")
        path = urllib.parse.unquote(path)
        if query:
            return self.list(path, dict(urllib.parse.parse_qsl(query, keep_blank_values=True)))
        if path in s.archived:
            return self.refuse(403, "InvalidObjectState", "The operation is not valid for the object's storage class")
        thing = s.things.get(path)
        if not thing:
            return self.refuse(404, "NoSuchKey", "The specified key does not exist.")
        with s.lock:
            thing.requests += 1
            status = thing.status.pop(0) if thing.status else 0
        if status:
            return self.refuse(status, "SlowDown", "Please reduce your request rate.")
        if thing.location:
            return self.answer(thing.redirect, b"", thing, {"Location": thing.location})
        self.serve(thing)

    def list(self, bucket, q):
        s = self.server
        assert q["list-type"] == "2" and q["encoding-type"] == "url", q
        keys = s.sorted_keys(bucket, q["prefix"])
        deeper = {k[:k.index("/", len(q["prefix"])) + 1] for k in keys
                  if q.get("delimiter") and "/" in k[len(q["prefix"]):]}
        keys = [k for k in keys if not any(k.startswith(p) for p in deeper)]
        begin = 0 if s.stuck else int(q.get("continuation-token", "page=0").split("=")[1])
        page = keys[begin:begin + s.page_size]
        more = begin + s.page_size < len(keys)
        xml = ['<?xml version="1.0" encoding="UTF-8"?>\n' + s.doctype + '<ListBucketResult '
               'xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
               f"<Name>{bucket[1:]}</Name><EncodingType>url</EncodingType>"
               f"<IsTruncated>{str(more).lower()}</IsTruncated>"]
        if more:
            xml.append(f"<NextContinuationToken>page={begin + s.page_size}</NextContinuationToken>")
        for k in page:
            thing = s.things.get(f"{bucket}/{k}")
            size = len(thing.data) if thing else 1
            etag = f"<ETag>{s.listed_etag}</ETag>" if s.listed_etags else ""
            xml.append(f"<Contents><Key>{quote(k, '/')}</Key>{etag}"
                       f"<Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>")
        xml += [f"<CommonPrefixes><Prefix>{quote(p, '/')}</Prefix></CommonPrefixes>" for p in sorted(deeper)]
        body = "".join(xml + ["</ListBucketResult>"]).encode()
        with s.lock:
            cut = s.break_lists.pop(0) if s.break_lists else None
        if cut is None:
            return self.answer(200, body)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut])
        self.hang_up()


class S3Server(Server):
    def __init__(self, **how):
        self.region, self.token, self.anonymous, self.skewed = "eu-test-1", None, False, False
        self.page_size, self.extra_keys, self.stuck, self.doctype = 1000, [], False, ""
        self.listed_etags, self.break_lists = True, []
        self.archived = ()
        self.listed_etag, self.sorted = "&quot;1&quot;", ()
        self.__dict__.update(how)
        super().__init__()
        self.RequestHandlerClass = S3Handler

    def sorted_keys(self, bucket, prefix):
        """As S3 has them, by their bytes; as long as there are no more of them they are not sorted
        again."""
        asked = bucket, prefix, len(self.things), len(self.extra_keys)
        if not self.sorted or self.sorted[0] != asked:
            keys = [k[len(bucket) + 1:] for k in self.things if k.startswith(bucket + "/")] + self.extra_keys
            self.sorted = asked, sorted((k for k in keys if k.startswith(prefix)), key=lambda k: k.encode())
        return self.sorted[1]

    def put(self, key, data, bucket="b", **how):
        self.add(f"/{bucket}/{key}", data, **how)
        return f"s3://{bucket}/{key}"

    def web(self):
        return (f"networks\t127.0.0.0/8\nendpoint\t{self.url('')}\nregion\t{self.region}\n" +
                ("anonymous\tyes\n" if self.anonymous else ""))
