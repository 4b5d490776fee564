#!/usr/bin/env python3
"""Waits until the job's datasets are ready and prints their paths: the protocol in thirty lines.

One packet of a SOCK_SEQPACKET socket is one message of NUL-terminated key=value texts; see
docs/protocol.md. Usage, inside a job: stage-data-client.py [NAME...]
"""
import os
import socket
import sys


def encode(**fields):
    return b"".join(f"{key}={value}".encode() + b"\0" for key, value in fields.items())


def decode(packet):
    return dict(field.decode("utf-8", "surrogateescape").split("=", 1)
                for field in packet.split(b"\0")[:-1])


def ask(op, **fields):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(os.environ["STAGE_DATA_SOCKET"])
        s.send(encode(proto=1, op=op, id=1, **fields))
        while packet := s.recv(65536):
            message = decode(packet)
            yield message
            if message["op"] == "done":
                return
    sys.exit("stagingd has hung up")


for answer in ask("wait", names=",".join(sys.argv[1:]), progress=1):
    if answer["op"] == "dataset":
        print(answer["name"], answer["state"], answer["bytes"], answer["path"])
    else:
        print(answer["text"], file=sys.stderr)
        sys.exit(int(answer["code"]))
