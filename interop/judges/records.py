"""Sends usual TLS records, and TLS records that no usual client sends, and checks the answer of the server to each record.

Argument: the address of the server, as `HOST:PORT`.

Prints a line of JSON: the version of tlslite-ng, the numbers of passed and failed checks, and a description of each failed check. If a check failed,
the exit status is 1.
"""

import importlib.metadata
import json
import socket
import sys

from tlslite.api import HandshakeSettings, TLSConnection
from tlslite.errors import TLSError
from tlslite.messages import Message

host, port = sys.argv[1].rsplit(":", 1)


def connect():
    stream = socket.create_connection((host, int(port)))
    stream.settimeout(3)
    return stream


def alert(stream):
    """Reads the answer of the server. Returns `alert N` for an alert, `answered` for another record, `closed` or `reset` if the connection ended, and
    `waits` if the server sent nothing for 3 s."""
    try:
        head = stream.recv(7)
    except TimeoutError:
        return "waits"
    except OSError:
        return "reset"
    if not head:
        return "closed"
    return f"alert {head[6]}" if head[0] == 21 else "answered"


def record(kind, length, version=b"\x03\x03", body=None):
    return bytes([kind]) + version + length.to_bytes(2, "big") + (body if body is not None else bytes(length))


class Kept:
    """A socket that records the sent bytes."""

    def __init__(self, stream):
        self.stream, self.sent = stream, b""

    def send(self, data):
        self.sent += bytes(data)
        return self.stream.send(data)

    def sendall(self, data):
        self.sent += bytes(data)
        return self.stream.sendall(data)

    def __getattr__(self, name):
        return getattr(self.stream, name)


def settings(version):
    wanted = HandshakeSettings()
    wanted.minVersion = wanted.maxVersion = version
    return wanted


def hello():
    """Returns the record with the ClientHello that tlslite sends."""
    kept = Kept(connect())
    connection = TLSConnection(kept)
    for _ in connection.handshakeClientCert(settings=settings((3, 4)), async_=True):
        if kept.sent:
            break
    kept.stream.close()
    length = int.from_bytes(kept.sent[3:5], "big")
    return kept.sent[: 5 + length]


def raw(sent):
    stream = connect()
    stream.sendall(sent)
    return alert(stream)


def inner(kind, content, version=(3, 4)):
    """Sends a record after the handshake, and returns the result in the form of `alert`."""
    stream = connect()
    connection = TLSConnection(stream)
    connection.handshakeClientCert(settings=settings(version))
    for _ in connection._recordLayer.sendRecord(Message(kind, bytearray(content))):
        pass
    try:
        came = connection.read(1, 1)
        return "answered" if came else "closed"
    except TLSError as why:
        return f"alert {why.description}" if hasattr(why, "description") else "closed"
    except TimeoutError:
        return "waits"
    except OSError:
        return "reset"


good = hello()
# Each entry has the name of a record, the result, and the expected result. If the name contains "(the library's)", the TLS library causes the result.
expected = [
    ("a hello", raw(good), "answered"),
    ("a hello in two records", raw(record(22, 10, body=good[5:15]) + record(22, len(good) - 15, body=good[15:])), "answered"),
    ("a hello whose record says version 3.0 (the library's)", raw(good[:1] + b"\x03\x00" + good[3:]), "answered"),
    ("a hello that says version 3.0 itself (the library's)", raw(good[:9] + b"\x03\x00" + good[11:]), "answered"),
    ("application data first", raw(record(23, 5)), "alert 10"),
    ("a change of the cipher first", raw(record(20, 1, body=b"\x01")), "alert 10"),
    ("a record of no kind", raw(record(99, 5)), "alert 50"),
    ("a record beyond 2^14 + 2,048 (the library's; record_overflow is 22)", raw(record(22, 18433)), "alert 50"),
    ("a record of 2^14 + 1 that goes on (the library's)", raw(record(22, 16385, body=b"\x01\x00\x80\x00" + bytes(16381))), "waits"),
    ("an alert within", inner(21, b"\x02\x28"), "closed"),
    ("an inner plaintext of nothing but zeros (the library's)", inner(0, bytes(16)), "closed"),
]
wrong = [f"{what}: {came}, not {hoped}" for what, came, hoped in expected if came != hoped]
version = importlib.metadata.version("tlslite-ng")
print(json.dumps({"version": version, "passed": len(expected) - len(wrong), "skipped": 0, "failed": len(wrong), "notes": "; ".join(wrong)}))
sys.exit(bool(wrong))
