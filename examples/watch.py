#!/usr/bin/env python3
"""Prints what a device receives, one JSON object a line. Needs nothing but Python.

    python3 examples/watch.py TOKEN [DEVICE_ID] [HOST:PORT]
"""
import base64
import json
import os
import socket
import struct
import sys

if len(sys.argv) < 2 or not sys.argv[1]:
    sys.exit("a token is needed: python3 examples/watch.py TOKEN [DEVICE_ID] [HOST:PORT]; `onescribe token --user 1001` makes one")
token = sys.argv[1]
device = sys.argv[2] if len(sys.argv) > 2 else "watcher"
host, port = (sys.argv[3] if len(sys.argv) > 3 else "127.0.0.1:8080").rsplit(":", 1)

try:
    stream = socket.create_connection((host, int(port)))
except OSError as error:
    sys.exit(f"no server at {host}:{port} ({error.strerror}): start one with `cargo run --release`")
reader = stream.makefile("rb")


def send(opcode, payload):
    """One frame; clients mask theirs (RFC 6455, 5.3)."""
    mask, size = os.urandom(4), len(payload)
    head = bytes([0x80 | opcode]) + (bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack(">H", size))
    stream.sendall(head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)))


def receive():
    first, size = reader.read(2)
    if size == 126:
        (size,) = struct.unpack(">H", reader.read(2))
    elif size == 127:
        (size,) = struct.unpack(">Q", reader.read(8))
    payload = reader.read(size)
    if len(payload) < size:
        raise ValueError("the connection broke within a frame")
    return first & 0x0F, payload


stream.sendall(
    f"GET /v1/ws HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n".encode()
)
status = reader.readline().decode().strip()
if " 101 " not in status + " ":
    sys.exit(f"the server did not open a WebSocket: {status}")
while reader.readline().strip():
    pass

send(1, json.dumps({"id": 1, "type": "hello", "token": token, "device_id": device, "platform": "python"}).encode())
try:
    while True:
        opcode, payload = receive()
        if opcode == 1:
            print(payload.decode(), flush=True)
        elif opcode == 9:
            send(10, payload)
        elif opcode == 8:
            code = struct.unpack(">H", payload[:2])[0] if payload else 1005
            sys.exit(f"closed with {code}")
except (KeyboardInterrupt, ValueError):
    pass
