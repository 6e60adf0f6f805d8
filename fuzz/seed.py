#!/usr/bin/env python3
"""Makes the first corpus of every target: recorded sessions of crates/wire/tests/recorded/, files of /proc of
crates/diagnose/tests/recorded/."""
import hashlib, pathlib

HERE = pathlib.Path(__file__).resolve().parent


def add(target, data):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


def payloads(stream):
    """The payloads of the packets of one direction."""
    while len(stream) >= 4:
        length = int.from_bytes(stream[:3], "little")
        yield stream[4:4 + length]
        stream = stream[4 + length:]


for recording in sorted((HERE.parent / "crates/wire/tests/recorded").glob("*.txt")):
    lines = [line.split(" ", 1) for line in recording.read_text().splitlines()]
    runs = [(mark, bytes.fromhex(rest)) for mark, rest in lines if mark in ("C", "S")]
    turns = b"\0"
    for mark, data in runs:
        # The kind's low part says who sends, its high part how the bytes are split.
        turns += bytes([0x00 if mark == "C" else 0x10 + 0x05]) + len(data).to_bytes(2, "little") + data
    add("tracker", turns)
    # All terms of a login are tried on the recorded one, packet by packet.
    packets = [(mark, payload) for mark, data in runs[:12] for payload in payloads(data) if len(payload) < 256]
    if packets and packets[0][0] == "S":
        login = b"".join(
            bytes([number % 8 * 4 + 2 + (mark == "S"), len(payload)]) + payload
            for number, (mark, payload) in enumerate(packets[1:], 1))
        for terms in range(128):
            add("bridge", bytes([terms, 0, len(packets[0][1])]) + packets[0][1] + login)
    for mark, target in (("S", "greeting"), ("C", "login")):
        for data in [data for m, data in runs if m == mark][:1]:
            for payload in list(payloads(data))[:1]:
                add(target, payload)
    for mark, data in runs:
        for payload in payloads(data):
            if mark == "S":
                add("response", payload + b"\1")
            elif payload[:1] in (b"\x03", b"\x16"):
                add("statement", payload[1:] + b"\0\1")
                add("digest", payload[1:] + b"\0")

for recording in sorted((HERE.parent / "crates/diagnose/tests/recorded").glob("*/*")):
    data = recording.read_bytes()
    add("proc", data + b"\0" + data)

signature = b"\r\n\r\n\0\r\nQUIT\n"
for command, family, length in ((0x21, 0x11, 12), (0x21, 0x21, 36), (0x20, 0, 0), (0x21, 0x31, 216)):
    add("proxy", signature + bytes([command, family]) + length.to_bytes(2, "big") + bytes(range(length)))
for comment in (b"endpoint='/cart',traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'",
                b"a%2Bb='%C3%A9'", b" endpoint: cart , request_id=7 "):
    add("tags", comment)
