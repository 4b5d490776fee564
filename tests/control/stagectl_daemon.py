"""A thread that plays stagingd for tests of stagectl: it answers requests as the test says."""
import os
import socket
import subprocess
import tempfile
import threading
import unittest

CHECK_JSON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib/check-json")


def assert_fits(text, *args):
    """Checks text with tests/lib/check-json ARGS. Without python3-jsonschema the test is skipped,
    or fails where STAGE_TEST_MUST names jsonschema or all."""
    r = subprocess.run([CHECK_JSON, *args], input=text, stderr=subprocess.PIPE, text=True, timeout=60)
    if r.returncode == 77 and not {"jsonschema", "all"} & set(os.environ.get("STAGE_TEST_MUST", "").split(",")):
        raise unittest.SkipTest("python3-jsonschema is missing")
    if r.returncode:
        raise AssertionError(r.stderr or f"check-json: status {r.returncode}")


def encode(**fields):
    return b"".join(f"{k}={v}".encode("utf-8", "surrogateescape") + b"\0"
                    for k, v in fields.items())


def decode(packet):
    return dict(f.decode("utf-8", "surrogateescape").split("=", 1)
                for f in packet.split(b"\0")[:-1])


def dataset(name, state, **fields):
    return {"op": "dataset", "name": name, "state": state, "node": "n1",
            "path": f"/run/x/t/data/{name}", **fields}


def done(code=0, text=""):
    return {"op": "done", "code": code, "text": text}


class FakeDaemon:
    """answers: op -> function(request) that yields messages; bytes are sent as they are, None hangs
    up, a threading.Event is waited for."""

    def __init__(self, listen_as=None, **answers):
        self.top = tempfile.mkdtemp(prefix="stagectl-", dir="/dev/shm")
        self.path = f"{self.top}/sock"
        self.answers = answers
        self.requests = []
        self.stopped = threading.Event()
        self.left = threading.Event()  # a client has closed its connection
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.bind(self.path)
        if listen_as:  # SO_PEERCRED is of who listens
            os.seteuid(listen_as)
        self.sock.listen(64)
        if listen_as:
            os.seteuid(0)
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    def accept(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            t = threading.Thread(target=self.serve, args=(conn,), daemon=True)
            self.threads.append(t)
            t.start()

    def serve(self, conn):
        with conn:
            try:
                while packet := conn.recv(65536):
                    if not self.answer(conn, decode(packet)):
                        return
                self.left.set()
            except OSError:
                pass

    def answer(self, conn, request):
        self.requests.append(request)
        for m in self.answers[request["op"]](request):
            if m is None:
                return False
            if isinstance(m, threading.Event):
                while not m.wait(0.02):
                    if self.stopped.is_set():
                        return False
                continue
            conn.send(m if isinstance(m, bytes)
                      else encode(**{"proto": 1, "id": request["id"], **m}))
        return True

    def close(self):
        self.stopped.set()
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        os.unlink(self.path)
        os.rmdir(self.top)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
