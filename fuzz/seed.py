#!/usr/bin/env python3
"""Makes the first corpus of every target: recorded sessions of crates/wire/tests/recorded/, files of /proc of
crates/observe/tests/recorded/."""
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

for recording in sorted((HERE.parent / "crates/observe/tests/recorded").glob("*/*")):
    data = recording.read_bytes()
    add("proc", data + b"\0" + data)
