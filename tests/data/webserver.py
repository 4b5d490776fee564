"""A web server that misbehaves: it closes connections, stalls, sends wrong lengths, redirects,
or changes the object. Each path is a Thing whose fields say how it behaves. If a field is a
list, each request uses the next element."""
import email.utils
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Thing:
    def __init__(self, data=b"", **how):
        self.data = data
        self.etag = '"1"'
        self.modified = 1_700_000_000
        self.ranges = True
        self.if_range = True      # look at If-Range
        self.status = []          # these first, each with its Retry-After
        self.retry_after = None
        self.location = None      # a redirect
        self.redirect = 302
        self.break_after = []     # bytes of the body, then the connection is closed
        self.stall_after = []     # …, then nothing for stall seconds
        self.stall = 60
        self.rate = 0             # bytes a second
        self.framing = "length"   # "close", "chunked", "chunked-cut", "chunked-odd", "two", "short", "long", "word"
        self.headers = {}
        self.wrong_range = 0      # added to where parts begin
        self.says_size = True     # with 416
        self.changes_at = 0       # from this request on data and etag are others
        self.changed = b""
        self.changed_etag = '"2"'
        self.requests = 0
        self.__dict__.update(how)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120

    def log_message(self, *args):
        pass

    def do_GET(self):
        server = self.server
        path = self.path.split("?")[0]
        with server.lock:
            server.log.append((self.command, self.path, dict(self.headers)))
            thing = server.things.get(path)
            if thing:
                thing.requests += 1
                if thing.changes_at and thing.requests >= thing.changes_at:
                    thing.data, thing.etag, thing.changes_at = thing.changed, thing.changed_etag, 0
                status = thing.status.pop(0) if thing.status else 0
        if not thing:
            return self.answer(404, b"nothing here")
        if status:
            return self.answer(status, b"not now", thing)
        if thing.location:
            return self.answer(thing.redirect, b"elsewhere", thing, {"Location": thing.location})
        self.serve(thing)

    do_HEAD = do_GET

    def answer(self, status, body, thing=None, headers=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for k, v in (headers or {}).items():
            self.send_header(k, v)
        if thing and thing.retry_after is not None:
            self.send_header("Retry-After", str(thing.retry_after))
        self.end_headers()
        self.wfile.write(body)

    def wanted(self, thing):
        """The part that is asked for, or None for all."""
        m = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        state = self.headers.get("If-Range")
        if not m or not thing.ranges:
            return None
        if state and thing.if_range and state not in (
                thing.etag, email.utils.formatdate(thing.modified, usegmt=True)):
            return None
        return int(m[1]), min(int(m[2]) + 1 if m[2] else len(thing.data), len(thing.data))

    def serve(self, thing):
        part = self.wanted(thing)
        size = len(thing.data)
        if part and part[0] >= size:
            return self.answer(416, b"", thing, {"Content-Range": f"bytes */{size}"} if thing.says_size else {})
        begin, end = part or (0, size)
        body = thing.data[begin:end]
        self.send_response(206 if part else 200)
        if part:
            begin += thing.wrong_range
            self.send_header("Content-Range", f"bytes {begin}-{begin + len(body) - 1}/{size}")
        if thing.etag:
            self.send_header("ETag", thing.etag)
        if thing.modified:
            self.send_header("Last-Modified", email.utils.formatdate(thing.modified, usegmt=True))
        for k, v in thing.headers.items():
            self.send_header(k, v)
        self.send_framing(thing, len(body))
        self.end_headers()
        if self.command != "HEAD":
            self.send_body(thing, body)

    def send_framing(self, thing, n):
        how = thing.framing
        if how.startswith("chunked"):
            self.send_header("Transfer-Encoding", "chunked")
        elif how == "close":
            self.send_header("Connection", "close")
        elif how == "word":
            self.send_header("Content-Length", "many")
        else:
            self.send_header("Content-Length", str(n + {"short": -7, "long": 7}.get(how, 0)))
        if how == "two":
            self.send_header("Content-Length", str(n + 3))

    def send_body(self, thing, body):
        with self.server.lock:
            limit = thing.break_after.pop(0) if thing.break_after else None
            stall = thing.stall_after.pop(0) if thing.stall_after else None
        try:
            if stall is not None and stall < len(body):
                self.put(thing, body[:stall])
                self.server.ended.wait(thing.stall)
                body = body[stall:]
            if limit is not None and limit < len(body):
                self.put(thing, body[:limit])
                self.hang_up()
                return
            self.put(thing, body)
            if thing.framing == "chunked":
                self.wfile.write(b"0\r\n\r\n")
            if thing.framing in ("close", "chunked-cut", "long", "short"):
                self.hang_up()
        except OSError:
            self.close_connection = True

    def put(self, thing, data):
        step = max(1, thing.rate // 20) if thing.rate else 1 << 18
        for i in range(0, len(data), step):
            piece = data[i:i + step]
            if thing.framing.startswith("chunked"):
                odd = 2 * (thing.framing == "chunked-odd")  # bytes more than it has
                piece = b"%x\r\n%s\r\n" % (len(piece) + odd, piece)
            self.wfile.write(piece)
            if thing.rate and self.server.ended.wait(0.05):
                raise OSError("ended")

    def hang_up(self):
        self.close_connection = True
        self.wfile.flush()
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, context=None, host="127.0.0.1", port=0):
        super().__init__((host, port), Handler)
        self.things, self.log, self.lock = {}, [], threading.Lock()
        self.ended = threading.Event()
        self.n_connections, self.connections = 0, []
        self.context = context
        self.scheme = "https" if context else "http"
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def get_request(self):
        sock, address = super().get_request()
        self.n_connections += 1
        if self.context:
            sock.settimeout(20)
            sock = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self.connections.append(sock)
        return sock, address

    def handle_error(self, request, client_address):
        pass

    def add(self, path, data=b"", **how):
        self.things[path] = Thing(data, **how)
        return self.url(path)

    def url(self, path, host="127.0.0.1"):
        return f"{self.scheme}://{host}:{self.port}{path}"

    def rule(self, networks="127.0.0.0/8", host="127.0.0.1", path="/**"):
        return f"allow\t{self.url(path, host)}\t{networks}\n"

    def asked(self, path):
        return [h for _, p, h in self.log if p.split("?")[0] == path]

    def __exit__(self, *exc):
        self.ended.set()
        self.shutdown()
        self.server_close()


def in_place_of_fetch(where, worker, library, **env):
    """stage-worker beside a stage-fetch with slow.c's functions, whose environment is empty
    otherwise."""
    words = " ".join(f"{k}={v}" for k, v in dict(env, LD_PRELOAD=library).items())
    os.chmod(where, 0o755)
    shutil.copy(worker, f"{where}/stage-worker")
    with open(f"{where}/stage-fetch", "w") as f:
        f.write(f"#!/bin/sh\n{words} exec {os.path.dirname(os.path.abspath(worker))}/stage-fetch\n")
    os.chmod(f"{where}/stage-fetch", 0o755)
    return f"{where}/stage-worker"


def make_self_signed(where, *names):
    """A certificate that nobody but its own key has signed; (its file, a server's context)."""
    cert, key = os.path.join(where, "self.pem"), os.path.join(where, "self.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                    key, "-out", cert, "-days", "2", "-subj", "/CN=server", "-addext", "basicConstraints=critical,CA:FALSE",
                    "-addext", "subjectAltName=" + ",".join(names)],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context


def make_ca(where, *names, days=2, key="ca"):
    """A throw-away authority and a certificate of its for names; (its file, a server's context)."""
    def run(*argv):
        subprocess.run(["openssl", *argv], cwd=where, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    run(*new, "-keyout", f"{key}.key", "-out", f"{key}.pem", "-days", "2", "-subj", "/CN=test CA")
    run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
        f"{key}-server.key", "-out", f"{key}-server.csr", "-subj", "/CN=server")
    with open(os.path.join(where, f"{key}-ext"), "w") as f:
        f.write("subjectAltName=" + ",".join(names) + "\n")
    with open(os.path.join(where, f"{key}-conf"), "w") as f:
        f.write("[ca]\ndefault_ca=test\n[test]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=any\n"
                "[any]\ncommonName=supplied\n")
    open(os.path.join(where, "index"), "w").close()
    # `x509 -req` takes no end in the past any more (OpenSSL 3.5)
    begin, end = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + d * 86400)) for d in (-3, days))
    run("ca", "-batch", "-notext", "-create_serial", "-config", f"{key}-conf", "-in", f"{key}-server.csr", "-cert",
        f"{key}.pem", "-keyfile", f"{key}.key", "-startdate", begin, "-enddate", end, "-extfile", f"{key}-ext",
        "-out", f"{key}-server.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(where, f"{key}-server.pem"),
                            os.path.join(where, f"{key}-server.key"))
    return os.path.join(where, f"{key}.pem"), context
