#!/usr/bin/env python3
"""The datasets of a Slurm job, for Python programs. No dependencies; Python 3.6 or later.

    import stage_data

    images = stage_data.wait("images")["images"]   # waits, then returns the path

In a shell, inside a job: python3 stage_data.py [NAME...] waits and prints names and paths.

A message is one packet of NUL-terminated key=value texts; see docs/protocol.md.
"""
import os
import socket
import sys
import time
from typing import Dict, Iterator, List, NamedTuple, Optional

NOT_READY = 3
TIMED_OUT = 124


class StageError(Exception):
    """Staging has failed, or the answer did not arrive. code is an exit status of stagectl(1)."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Dataset(NamedTuple):
    """A dataset as it is now. total is 0 if it is unknown; code and reason are of a failure."""
    name: str
    state: str
    path: str
    method: str
    tier: str
    bytes: int
    total: int
    code: int
    reason: str


def wait(*names: str, timeout: Optional[float] = None) -> Dict[str, str]:
    """Waits until the datasets (default: all) are ready; name -> path. timeout is in seconds.

    Raises StageError as soon as one of them fails, and with code 124 after the timeout. A dataset
    with onfail=ignore that has failed is left out."""
    found = _datasets("wait", names, timeout)
    return {d.name: d.path for d in found if d.state == "ready"}


def status(*names: str) -> List[Dataset]:
    """The datasets (default: all) as they are now."""
    return _datasets("status", names, 60)


def path(name: str) -> str:
    """The path of a dataset that is ready. Raises StageError, with code 3 if it is not ready
    yet."""
    dataset = status(name)[0]
    if dataset.state == "failed":
        raise StageError(dataset.code, "{}: {}".format(name, dataset.reason))
    if dataset.state != "ready":
        raise StageError(NOT_READY, "{} is not ready: {}".format(name, dataset.state))
    return dataset.path


def _datasets(op: str, names: "tuple[str, ...]", timeout: Optional[float]) -> List[Dataset]:
    return [_to_dataset(m) for m in _ask(op, ",".join(names), timeout) if m["op"] == "dataset"]


def _to_dataset(message: Dict[str, str]) -> Dataset:
    return Dataset(*[int(message.get(name) or 0) if kind is int else message.get(name, "")
                     for name, kind in Dataset.__annotations__.items()])


def _ask(op: str, names: str, timeout: Optional[float]) -> Iterator[Dict[str, str]]:
    end = None if timeout is None else time.monotonic() + timeout
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        _connect(s)
        request = {"proto": "1", "op": op, "id": "1", "names": names}
        s.send(b"".join(os.fsencode("{}={}".format(*field)) + b"\0" for field in request.items()))
        while True:
            message = _receive(s, end)
            if message["op"] == "done":
                if message["code"] != "0":
                    raise StageError(int(message["code"]), message["text"])
                return
            yield message


def _connect(s: socket.socket) -> None:
    address = os.environ.get("STAGE_DATA_SOCKET")
    if not address:
        raise StageError(NOT_READY, "STAGE_DATA_SOCKET is not set: this is no job with --stage-data")
    try:
        s.connect(address)
    except OSError as e:
        raise StageError(NOT_READY, "{}: {}".format(address, e.strerror)) from e


def _receive(s: socket.socket, end: Optional[float]) -> Dict[str, str]:
    if end is not None:
        s.settimeout(max(end - time.monotonic(), 0.001))
    try:
        packet = s.recv(65536)
    except socket.timeout:
        raise StageError(TIMED_OUT, "the datasets are not ready after the timeout") from None
    if not packet:
        raise StageError(1, "stagingd has closed the connection")
    return dict(os.fsdecode(field).split("=", 1) for field in packet.split(b"\0")[:-1])


def _main() -> None:
    try:
        for name, where in wait(*sys.argv[1:]).items():
            print(name, where, sep="\t")
    except StageError as e:
        print("stage_data: {}".format(e), file=sys.stderr)
        sys.exit(e.code)


if __name__ == "__main__":
    _main()
