"""Headroom's OTLP against a real collector: a router, an agent and a guard of a lab send to it, and what it
writes down is compared with what their /metrics say. Run by scripts/check-otlp.sh, which builds both programs.

    check.py HEADROOM COLLECTOR DIRECTORY [EXAMPLE]

EXAMPLE is a configuration by which a collector scrapes instead; what it sends on is compared in the same way.
Everything is on loopback and ends with this program. Exit code 0: all is as it should be.
"""

import json
import math
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

SECRET = "hunter2"
# Between two exports, and for what has to come.
INTERVAL_MS = 1000
LIMIT_S = 60
ATTEMPTS = 12


class Wrong(Exception):
    """What is not as it should be."""


def main():
    headroom, collector, directory = sys.argv[1:4]
    example = sys.argv[4] if len(sys.argv) > 4 else None
    run = Run(headroom, collector, pathlib.Path(directory))
    try:
        run.everything(example)
    except Wrong as why:
        print(f"check-otlp: FAILED: {why}\ncheck-otlp: logs are in {directory}", file=sys.stderr)
        sys.exit(1)
    finally:
        run.stop_all()
    print("check-otlp: all is as it should be")


class Run:
    """The processes of one check."""

    def __init__(self, headroom, collector, directory):
        self.headroom, self.collector, self.directory = headroom, collector, directory
        self.running = []
        self.http, self.grpc, self.agent, self.guard, self.prometheus = (port() for _ in range(5))

    def everything(self, example):
        lab = self.start_lab()
        self.start_collector()
        config = self.config_of_router(lab)
        admin = re.search(r'\[admin\]\naddress = "([^"]+)"', config.read_text()).group(1)
        reader, writer = re.findall(r'\[\[listener\]\]\naddress = "([^"]+)"', config.read_text())[:2]
        route = self.start("route", [self.headroom, "route", "--config", config], self.variables())
        self.start("agent", [self.headroom, "agent", "--config", config, "--listen", f"127.0.0.1:{self.agent}"], self.variables())
        guard = [self.headroom, "guard", "--dry-run", "--config", config, "--listen", f"127.0.0.1:{self.guard}"]
        guard += ["--admin-option-file", lab["credentials"]["admin"], "--journal", self.directory / "journals"]
        self.start("guard", guard, self.variables())
        within("the router answers", lambda: "headroom_writer_known 1" in scraped(admin))
        within("the agent answers", lambda: "headroom_host_" in scraped(f"127.0.0.1:{self.agent}"))
        within("the guard answers", lambda: "headroom_guard_active" in scraped(f"127.0.0.1:{self.guard}"))

        app = lab["credentials"]["app"]
        self.ask(app, reader, 5)
        self.ask(app, writer, 3)
        refused = subprocess.run([*client(reader), "--user=nobody", "--password=wrong", "-e", "SELECT 1"], capture_output=True)
        expect(refused.returncode != 0, "a wrong password was accepted")
        pushed = self.directory / "pushed.json"
        for service, address in [("route", admin), ("agent", f"127.0.0.1:{self.agent}"), ("guard", f"127.0.0.1:{self.guard}")]:
            count = compare(pushed, f"headroom-{service}", address)
            say(f"headroom {service}: {count} samples are the same in /metrics and in the collector's file")
        self.check_resource(pushed, admin)
        self.check_spans(reader, writer)
        if example:
            self.check_example(example, admin)
        self.check_collector_away(app, reader, pushed)
        route = self.check_take_over(route, config, admin, pushed)
        self.check_end(route, app, reader, pushed)
        self.check_prometheus(config)
        for log in self.directory.glob("*.log"):
            expect(SECRET not in log.read_text(errors="replace"), f"{log} has a header in it")
        say("no log shows the header that was sent")

    # What is started.

    def start(self, name, command, variables=None, stdout=None):
        log = open(self.directory / f"{name}.log", "ab")
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.directory), **(variables or {})}
        child = subprocess.Popen(
            [str(word) for word in command], env=environment, stdin=subprocess.DEVNULL, stdout=stdout or log, stderr=log
        )
        self.running.append(child)
        return child

    def stop_all(self):
        for child in reversed(self.running):
            end(child)

    def start_lab(self):
        command = [self.headroom, "lab", "up", "--json", "--zones", "a", "--replicas", "2", "--base", self.directory / "lab"]
        child = self.start("lab", command, stdout=subprocess.PIPE)
        line = child.stdout.readline()
        expect(line, "the lab did not come up")
        return json.loads(line)

    def start_collector(self):
        def receive(protocol, number):
            return {"protocols": {protocol: {"endpoint": f"127.0.0.1:{number}"}}}

        def file(name):
            return {"path": str(self.directory / name), "append": True, "flush_interval": "100ms"}

        config = {
            "receivers": {"otlp/pushed": receive("http", self.http), "otlp/scraped": receive("grpc", self.grpc)},
            "exporters": {
                "file/pushed": file("pushed.json"),
                "file/spans": file("spans.json"),
                "file/scraped": file("scraped.json"),
            },
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {
                    "metrics/pushed": {"receivers": ["otlp/pushed"], "exporters": ["file/pushed"]},
                    "traces": {"receivers": ["otlp/pushed"], "exporters": ["file/spans"]},
                    "metrics/scraped": {"receivers": ["otlp/scraped"], "exporters": ["file/scraped"]},
                },
            },
        }
        # JSON is YAML too.
        path = self.directory / "collector.yml"
        path.write_text(json.dumps(config, indent=2))
        collector = self.start("collector", [self.collector, "--config", path])
        within("the collector listens", lambda: listens(self.http) and listens(self.grpc))
        self.receiving = collector

    def config_of_router(self, lab):
        text = (pathlib.Path(lab["dir"]) / "headroom-a.toml").read_text()
        # A session that bypasses the router has no span, and an answer out of a cache is of another moment.
        text = text.replace("[router]\n", '[router]\nzero_hop = "off"\n').rstrip("\n")
        text = re.sub(r'(\[admin\]\naddress = "[^"]+")', r'\1\ncache = "0s"', text) + "\n"
        path = self.directory / "headroom.toml"
        path.write_text(text)
        return path

    def variables(self, **more):
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.http}",
            "OTEL_EXPORTER_OTLP_HEADERS": f"x-api-key={SECRET}",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_METRIC_EXPORT_INTERVAL": str(INTERVAL_MS),
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=trial%20run",
            **more,
        }

    def ask(self, app, address, times):
        host, number = address.rsplit(":", 1)
        for _ in range(times):
            command = ["mariadb", f"--defaults-file={app}", "--protocol=tcp", f"--host={host}", f"--port={number}", "-NBe", "SELECT 1"]
            answer = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
            expect(answer.stdout == "1\n", f"no answer through {address}: {answer.stderr}")

    # What is checked.

    def check_resource(self, pushed, admin):
        resource = last(pushed, "headroom-route")["resource"]
        for key, wanted in [
            ("service.instance.id", f"{socket.gethostname()}/{admin}"),
            ("host.name", socket.gethostname()),
            ("deployment.environment.name", "trial run"),
        ]:
            expect(resource.get(key) == wanted, f"{key} is {resource.get(key)!r} and not {wanted!r}")
        expect("service.version" in resource, f"no version: {resource}")
        say(f"the resource is {json.dumps(resource)}")

    def check_spans(self, reader, writer):
        def arrived():
            found = spans(self.directory / "spans.json")
            count = lambda listener: sum(one["attributes"].get("headroom.listener") == listener for one in found)
            return count(reader) >= 6 and count(writer) >= 3

        within("spans of all sessions arrive", arrived)
        found = spans(self.directory / "spans.json")
        for one in found:
            attributes = one["attributes"]
            for key in ["client.address", "client.port", "server.address", "server.port", "db.system.name", "headroom.server"]:
                expect(key in attributes, f"a span has no {key}: {one}")
            expect(int(one["endTimeUnixNano"]) > int(one["startTimeUnixNano"]), f"no time: {one}")
        failed = [one for one in found if one.get("status", {}).get("code") == 2]
        expect(len(failed) == 1 and "error.type" in failed[0]["attributes"], f"one session failed: {failed}")
        traces = {one["traceId"] for one in found}
        expect(len(traces) == len(found), "spans share a trace")
        say(f"{len(found)} sessions arrived as spans, one of them as an error; the last is {json.dumps(found[-1]['attributes'])}")

    def check_example(self, example, admin):
        text = pathlib.Path(example).read_text()
        for usual, ours in [("9306", admin), ("9307", f"127.0.0.1:{self.agent}"), ("9308", f"127.0.0.1:{self.guard}")]:
            expect(f'"127.0.0.1:{usual}"' in text, f"{example} scrapes no port {usual}")
            text = text.replace(f'"127.0.0.1:{usual}"', f'"{ours}"')
        text = text.replace("scrape_interval: 15s", "scrape_interval: 1s")
        # The one that it sends to has no certificate here; whatever its address says, gRPC wants TLS.
        endpoint = "    endpoint: ${env:OTLP_ENDPOINT}\n"
        expect(endpoint in text, f"{example} sends to no OTLP_ENDPOINT")
        text = text.replace(endpoint, endpoint + "    tls: { insecure: true }\n")
        path = self.directory / "example.yml"
        # Its own metrics have a fixed port, which another collector may have.
        path.write_text(text + "\n  telemetry: { metrics: { level: none } }\n")
        variables = {"OTLP_ENDPOINT": f"127.0.0.1:{self.grpc}"}
        child = self.start("example", [self.collector, "--config", path], variables)
        scraped_file = self.directory / "scraped.json"
        for job, address in [("router", admin), ("agent", f"127.0.0.1:{self.agent}"), ("guard", f"127.0.0.1:{self.guard}")]:
            count = compare(scraped_file, f"headroom-{job}", address)
            say(f"{example}: {count} samples of headroom-{job} are the same when they are scraped")
        end(child)

    def check_collector_away(self, app, reader, pushed):
        end(self.receiving)
        before = len(spans(self.directory / "spans.json"))
        self.ask(app, reader, 3)
        within("the log says that metrics do not arrive", lambda: "metrics did not arrive by OTLP" in self.log("route"))
        self.start_collector()
        back = time.time_ns()
        within("metrics arrive again", lambda: last(pushed, "headroom-route")["time"] > back)
        within("the log says so", lambda: "metrics arrive again by OTLP" in self.log("route"))
        within("what ended meanwhile arrives too", lambda: len(spans(self.directory / "spans.json")) >= before + 3)
        say("after the collector was away: newer metrics, and the spans of what ended meanwhile")

    def check_take_over(self, first, config, admin, pushed):
        starts = lambda: [one["start"] for one in messages(pushed, "headroom-route") if one["start"]]
        before = starts()[-1]
        second = self.start("route", [self.headroom, "route", "--config", config, "--take-over"], self.variables())
        within("the first process ends", lambda: first.poll() is not None)
        within("the second sends", lambda: starts()[-1] != before)
        time.sleep(3 * INTERVAL_MS / 1000)
        changes = sum(one != other for one, other in zip(starts(), starts()[1:]))
        expect(starts() == sorted(starts()) and changes == 1, f"two processes sent beside each other: {starts()}")
        compare(pushed, "headroom-route", admin)
        say("after a take-over one process sends, under the same service.instance.id")
        return second

    def check_end(self, route, app, reader, pushed):
        before = len(spans(self.directory / "spans.json"))
        self.ask(app, reader, 2)
        told = time.time_ns()
        route.send_signal(signal.SIGTERM)
        within("the router ends", lambda: route.poll() is not None)
        took = (time.time_ns() - told) / 1e9
        expect(route.returncode == 0, f"the router ended with {route.returncode}")
        within("its last metrics arrive", lambda: last(pushed, "headroom-route")["time"] >= told)
        within("its last spans arrive", lambda: len(spans(self.directory / "spans.json")) >= before + 2)
        say(f"at its end, {took:.1f} s after the signal: the last metrics and spans")

    def check_prometheus(self, config):
        help_text = subprocess.run(["prometheus", "--help"], capture_output=True, text=True) if which("prometheus") else None
        if not help_text or "web.enable-otlp-receiver" not in help_text.stdout + help_text.stderr:
            say("NOT TRIED: no Prometheus of this machine receives OTLP (3.0 and later do)")
            return
        path = self.directory / "prometheus.yml"
        path.write_text("global: {}\n")
        address = f"127.0.0.1:{self.prometheus}"
        command = ["prometheus", "--web.enable-otlp-receiver", f"--config.file={path}", f"--web.listen-address={address}"]
        self.start("prometheus", [*command, f"--storage.tsdb.path={self.directory / 'tsdb'}"])
        within("Prometheus listens", lambda: listens(self.prometheus))
        variables = self.variables(OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=f"http://{address}/api/v1/otlp/v1/metrics")
        self.start("route", [self.headroom, "route", "--config", config], variables)
        url = f"http://{address}/api/v1/query?query=count({{__name__=~%22headroom_.*%22}})by(__name__,job)"

        def names():
            series = json.loads(read(url))["data"]["result"]
            return {one["metric"]["__name__"] for one in series if one["metric"].get("job") == "headroom-route"}

        within("Prometheus has the metrics", lambda: "headroom_writer_known" in names())
        admin = re.search(r'\[admin\]\naddress = "([^"]+)"', config.read_text()).group(1)
        wanted = {key.split("{")[0] for key in lines_of_text(scraped(admin))}
        within("Prometheus has all of them, under the names of /metrics", lambda: wanted <= names())
        say(f"Prometheus has {len(wanted)} names, those of /metrics")

    def log(self, name):
        return (self.directory / f"{name}.log").read_text(errors="replace")


# Expositions and messages, both as {name{labels}: value}.


def compare(path, service, address):
    """Waits for a message whose moment lies between two looks at /metrics, and compares it with them. A value
    that moved is compared with both looks if it only grows; one that jumps about is tried again."""
    wrong = []
    for _ in range(ATTEMPTS):
        before, looked = lines_of_text(scraped(address)), time.time_ns()
        within(f"a message of {service} arrives", lambda: last(path, service)["time"] > looked)
        message = last(path, service)
        after = lines_of_text(scraped(address))
        wrong = differences(before, message["lines"], after)
        if not wrong:
            return len(message["lines"])
    raise Wrong(f"{service}: {wrong[:5]} and {max(0, len(wrong) - 5)} more")


def differences(before, message, after):
    wrong = [f"{key} is in no message" for key in before.keys() & after.keys() if key not in message]
    wrong += [f"{key} is not in /metrics" for key in message if key not in before and key not in after]
    for key in before.keys() & message.keys() & after.keys():
        low, found, high = before[key], message[key], after[key]
        grows = re.search(r"(_total|_bucket|_sum|_count)\{", key)
        same = found == low or math.isnan(found) and math.isnan(low)
        if low == high and not same or grows and not low <= found <= high:
            wrong.append(f"{key} is {found}, and in /metrics {low}, then {high}")
    return wrong


def lines_of_text(text):
    lines = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        series, value = line.rsplit(" ", 1)
        name, _, inside = series.partition("{")
        labels = re.findall(r'([a-zA-Z0-9_]+)="((?:[^"\\]|\\.)*)"', inside)
        lines[key(name, labels)] = float(value)
    return lines


def key(name, labels):
    """A label that is empty is one that is absent; a bound is a number."""
    bound = lambda name, value: repr(float(value)) if name == "le" else value
    inside = sorted(f'{name}="{bound(name, value)}"' for name, value in labels if value)
    return f"{name}{{{','.join(inside)}}}"


def lines_of_metrics(metrics):
    lines = {}
    for metric in metrics:
        name = metric["name"]
        if "gauge" in metric:
            lines.update(number(name, point) for point in points_of(metric))
        elif "sum" in metric:
            total = metric["sum"]
            expect(total.get("isMonotonic") and total["aggregationTemporality"] == 2, f"{name} is no counter")
            # A collector that scrapes keeps the end that Prometheus's names have.
            name = name if name.endswith("_total") else f"{name}_total"
            lines.update(number(name, point) for point in points_of(metric))
        else:
            for point in points_of(metric):
                lines.update(buckets(name, point))
    return lines


def number(name, point):
    return key(name, attributes_of(point)), float(point.get("asDouble", point.get("asInt", 0)))


def buckets(name, point):
    labels, below = attributes_of(point), 0
    for bound, count in zip([*point.get("explicitBounds", []), math.inf], point["bucketCounts"]):
        below += int(count)
        yield key(f"{name}_bucket", [*labels, ("le", bound)]), float(below)
    yield key(f"{name}_count", labels), float(point.get("count", 0))
    yield key(f"{name}_sum", labels), float(point.get("sum", 0))


def attributes_of(thing):
    def escaped(value):
        value = next(iter(value.values()), "")
        return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return [(one["key"], escaped(one.get("value", {}))) for one in thing.get("attributes", [])]


def messages(path, service):
    """What one service has sent, oldest first."""
    return [message for line in whole_lines(path) for message in messages_of(line, service)]


def messages_of(line, service):
    """A scraper's own metrics (up, scrape_...) are left out, and so is its mark of a series that has ended."""
    found = []
    for resource in json.loads(line).get("resourceMetrics", []):
        attributes = dict(attributes_of(resource["resource"]))
        if attributes.get("service.name") != service:
            continue
        metrics = [one for scope in resource["scopeMetrics"] for one in scope["metrics"] if one["name"].startswith("headroom_")]
        points = [point for one in metrics for point in points_of(one)]
        starts = {int(point.get("startTimeUnixNano", 0)) for one in metrics if "sum" in one for point in points_of(one)}
        found.append(
            {
                "resource": attributes,
                "lines": lines_of_metrics(metrics),
                "time": max((int(point["timeUnixNano"]) for point in points), default=0),
                "start": max(starts, default=0),
            }
        )
    return found


def points_of(metric):
    kind = next(kind for kind in ("gauge", "sum", "histogram") if kind in metric)
    return [point for point in metric[kind].get("dataPoints", []) if not point.get("flags", 0) & 1]


def last(path, service):
    for line in reversed(whole_lines(path)):
        if service in line and (found := messages_of(line, service)):
            return found[-1]
    return {"resource": {}, "lines": {}, "time": 0, "start": 0}


def spans(path):
    found = []
    for line in whole_lines(path):
        for resource in json.loads(line).get("resourceSpans", []):
            for scope in resource["scopeSpans"]:
                found += [{**span, "attributes": dict(attributes_of(span))} for span in scope["spans"] if span["name"] == "session"]
    return found


def whole_lines(path):
    """The last may be half written."""
    text = path.read_text() if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


# Small things.


def client(address):
    host, number = address.rsplit(":", 1)
    return ["mariadb", "--no-defaults", "--protocol=tcp", f"--host={host}", f"--port={number}"]


def scraped(address):
    request = urllib.request.Request(f"http://{address}/metrics", headers={"Accept": "application/openmetrics-text"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return ""


def read(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return '{"data": {"result": []}}'


def listens(number):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", number)) == 0


def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def which(program):
    return any(os.access(os.path.join(place, program), os.X_OK) for place in os.environ["PATH"].split(":"))


def end(child):
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(timeout=30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def within(what, holds):
    until = time.monotonic() + LIMIT_S
    while not holds():
        if time.monotonic() > until:
            raise Wrong(f"not within {LIMIT_S} s: {what}")
        time.sleep(0.1)


def expect(holds, why):
    if not holds:
        raise Wrong(why)


def say(text):
    print(f"check-otlp: {text}", flush=True)


if __name__ == "__main__":
    main()
