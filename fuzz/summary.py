#!/usr/bin/env python3
"""Makes summary.md of a folder in which scripts/fuzz.sh has put the ends of libFuzzer's logs, one a target."""
import pathlib, platform, re, sys

folder = pathlib.Path(sys.argv[1])


def stat(text, name):
    found = re.search(rf"^stat::{name}:\s+(\d+)", text, re.M)
    return int(found[1]) if found else None


def shown(number):
    return "-" if number is None else f"{number:,}"


rows, total, finds = [], 0, 0
for log in sorted(folder.glob("*.log")):
    text = log.read_text(errors="replace")
    executed = stat(text, "number_of_executed_units")
    find = re.search(r"SUMMARY: (.*)", text)
    # A log without final statistics ended in another way than by its limit.
    what = find[1] if find else "none" if executed is not None else "ended without statistics"
    total += executed or 0
    finds += what != "none"
    corpus = re.search(r"^corpus: (\d+)", text, re.M)
    slowest = stat(text, "slowest_unit_time_sec")
    rows.append(f"| {log.stem} | {shown(executed)} | {shown(stat(text, 'average_exec_per_sec'))} | {what} | "
                f"{corpus[1] if corpus else '-'} | {'under 1 s' if slowest == 0 else f'{slowest} s'} | "
                f"{shown(stat(text, 'peak_rss_mb'))} |")

(folder / "summary.md").write_text(f"""# Fuzzing

libFuzzer with AddressSanitizer, release build with debug assertions; Linux {platform.release()}, {platform.machine()}.
{total:,} executions of {len(rows)} targets, {finds} finds. Inputs that take longer than 5 s count as a hang.

| target | executions | executions/s | crash or hang | corpus | slowest input | peak memory, MiB |
|---|---:|---:|---|---:|---|---:|
""" + "\n".join(rows) + "\n")
