"""Attacks by callers with read access, or without access: `hostile.py SECONDS SOCKET [HOST:PORT READ-TOKEN]`.

Each attack runs in a thread for the whole time. At the end the script prints how often each has reached the router, one `NAME COUNT`
a line. The counts show that no attack was idle.
"""

import collections
import os
import socket
import ssl
import sys
import threading
import time

seconds, path = float(sys.argv[1]), sys.argv[2]
remote = sys.argv[3].rsplit(":", 1) if len(sys.argv) > 3 else None
token = sys.argv[4] if len(sys.argv) > 4 else ""
end = time.monotonic() + seconds
counts = collections.Counter()


def local():
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(2)
    connection.connect(path)
    return connection


def plain():
    return socket.create_connection((remote[0], int(remote[1])), timeout=2)


def encrypted():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(plain())


def bearer(word):
    return f"authorization: Bearer {word}\r\n"


def hold(name, dial, number, first, drip=b"", pause=0.05):
    """Holds `number` connections that have sent `first`, slowly sends a byte of `drip` on each, and never reads."""
    held = []
    at = 0
    while time.monotonic() < end:
        while len(held) < number and time.monotonic() < end:
            try:
                connection = dial()
                connection.sendall(first)
                held.append(connection)
                counts[name] += 1
            except OSError:
                break
        alive = []
        for connection in held:
            try:
                if drip:
                    connection.sendall(drip[at % len(drip):at % len(drip) + 1])
                elif isinstance(connection, ssl.SSLSocket):
                    # Checks only whether the connection was closed, below the encryption, and reads nothing.
                    if closed(connection.fileno()):
                        raise OSError
                elif closed(connection.fileno()):
                    raise OSError
                alive.append(connection)
            except OSError:
                connection.close()
        held = alive
        at += 1
        time.sleep(pause)


def closed(number):
    other = socket.socket(fileno=os.dup(number))
    try:
        other.setblocking(False)
        return other.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        other.close()


def repeat(name, dial, make):
    """Sends complete requests one after the other, and reads the beginning of each answer."""
    while time.monotonic() < end:
        try:
            with dial() as connection:
                for piece in make():
                    connection.sendall(piece)
                connection.recv(4096)
                counts[name] += 1
        except OSError:
            counts[name] += 1


def flood(name, dial, keep):
    """Connects at full speed, with this many connections open at the same time."""
    held = collections.deque()
    while time.monotonic() < end:
        try:
            held.append(dial())
            counts[name] += 1
        except OSError:
            pass
        while len(held) > keep:
            held.popleft().close()


def body(extra, piece, times, chunked=False):
    head = f"POST /v1/check HTTP/1.1\r\nhost: x\r\n{extra}"
    if chunked:
        yield (head + "transfer-encoding: chunked\r\n\r\n").encode()
        for _ in range(times):
            yield f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
        yield b"0\r\n\r\n"
    else:
        yield (head + f"content-length: {len(piece) * times}\r\n\r\n").encode()
        for _ in range(times):
            yield piece


PORTS = b"[port.a]\n[port.b]\nb = [[],[],[],[],{}]\n" * 1000
DENSE = b"[" + b"a." * 40 + b"a]\n"


def attacks(where, dial, extra):
    get = f"host: x\r\n{extra}\r\n"
    half_body = f"POST /v1/check HTTP/1.1\r\nhost: x\r\n{extra}content-length: 1000000\r\n\r\nversion"
    yield hold, (where + " half head", dial, 64, b"GET /v1/po")
    yield hold, (where + " half body", dial, 64, half_body.encode())
    yield hold, (where + " slow head", dial, 32, b"GET /v1/status HTTP/1.1\r\nx: ", b"abcdefgh")
    yield hold, (where + " slow body", dial, 32, half_body.encode(), b"version = 1\n")
    for address in ["/metrics", "/v1/links", "/v1/config", "/v1/openapi.json", "/v1/routes?limit=1000000"]:
        yield hold, (where + " unread " + address, dial, 16, f"GET {address} HTTP/1.1\r\n{get}".encode())
    schedule = f"GET /v1/schedule?time=60s&events=2000000 HTTP/1.1\r\n{get}"
    yield hold, (where + " schedule", dial, 4, schedule.encode())
    for _ in range(6):
        yield repeat, (where + " huge body", dial, lambda: body(extra, b"#" * 65536, 63 * 16))
    yield repeat, (where + " huge chunked body", dial, lambda: body(extra, b"#" * 65536, 63 * 16, True))
    yield repeat, (where + " ports", dial, lambda: body(extra, PORTS, 20))
    yield repeat, (where + " dense", dial, lambda: body(extra, DENSE * 100, 120))
    yield repeat, (where + " unknown", dial, lambda: body(extra, b"a=1\n", 1))


def all_attacks():
    yield from attacks("socket", local, "")
    yield flood, ("socket flood", local, 0)
    yield flood, ("socket flood held", local, 300)
    if remote:
        yield from attacks("tls", encrypted, bearer(token))
        yield flood, ("tls flood", plain, 0)
        yield flood, ("tls flood held", plain, 300)
        wrong = f"GET /v1/status HTTP/1.1\r\nhost: x\r\n{bearer('x' * 64)}\r\n".encode()
        yield repeat, ("tls wrong token", encrypted, lambda: [wrong])
        yield hold, ("tls half handshake", plain, 128, b"\x16\x03\x01\x02\x00\x01\x00")


threads = [threading.Thread(target=run, args=arguments, daemon=True) for run, arguments in all_attacks()]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(max(0.1, end + 3 - time.monotonic()))
for name, count in sorted(counts.items()):
    print(name, count)
