"""The program of a slice's owner as an attacker: more connections than it may have, streams that it does not read, half requests and rubbish.

Writes a byte when all of it is open, and ends when its input does.
"""

import socket
import sys


def connect():
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    connection.connect(sys.argv[1])
    return connection


def send(text, read=True):
    connection = connect()
    try:
        connection.sendall(text)
        if read:
            while connection.recv(65536):
                pass
    except OSError:
        pass
    return connection


def post(path, body):
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return send(head.encode() + body)


STREAM = b"GET /v1/slices/slow-path?slice=alpha HTTP/1.1\r\nHost: x\r\n\r\n"

kept = [send(STREAM, read=False)]
for body in [b"\xff\xfe", b"mi 0 packet " + b"00" * 400_000, b"mi 0 packet 00\n" * 300, b"mi 0 packet 0\n", b"x" * 2_000_000]:
    post("/v1/slices/reinject?slice=alpha", body)
    post("/v1/slices/reinject?slice=beta", body)
    post("/v1/slices/batch", body)
for rubbish in [b"\0" * 1000, b"GET", STREAM[:40], b"POST /v1/slices/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n"]:
    kept += [send(rubbish, read=False) for _ in range(8)]
kept += [connect() for _ in range(40)]
sys.stdout.write(".")
sys.stdout.flush()
sys.stdin.read()
