//! Hosts and servers as agents see them: the bottleneck, how much room is left, and the figures behind it.

use super::{Choice, Dashboard, Limits, Panel, Row, Unit};

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        path: "deploy/grafana/headroom-host.json",
        uid: "headroom-host",
        title: "Headroom / Hosts",
        description: "the bottleneck of each host and server by `headroom agent`, the room that is left, CPU, memory, disks, waits",
        chosen_by: "headroom_watch_gaps",
        choices: &[Choice { name: "server", label: "Server", metric: "headroom_watched_server_up" }],
        rows: vec![verdict(), host(), disks(), servers(), cost()],
    }
}

fn verdict() -> Row {
    Row {
        title: "What slows it down?",
        panels: vec![
            Panel::states("Bottlenecks", "max by (instance, server, name) (headroom_bottleneck{%})", "{{instance}} {{server}}: {{name}}")
                .wide(24)
                .limits(Limits::Bad)
                .says("The bottleneck in force; without a server it is the host. headroom watch has the evidence and what to try first; headroom watch --explain NAME the rule.")
                .guide("watch.md#how-a-verdict-is-found"),
            Panel::lines("Tightest ceiling", Unit::Share, "max by (instance, server, name) (headroom_tightest_ceiling_share{%})", "{{instance}} {{server}} {{name}}")
                .wide(16)
                .limits(Limits::Above(0.8, 1.0))
                .says("How much of the ceiling that is used most is used. From 1 on it is a bottleneck.")
                .guide("watch.md#how-a-verdict-is-found"),
            Panel::states("Servers answer", "max by (server) (headroom_watched_server_up{%,server=~\"$server\"})", "{{server}}")
                .wide(8)
                .limits(Limits::Good)
                .says("Whether a server answers its agent.")
                .guide("watch.md#the-account"),
        ],
    }
}

fn host() -> Row {
    Row {
        title: "Host",
        panels: vec![
            Panel::areas("CPU", Unit::Share, "avg by (kind) (headroom_host_cpu_share{%,kind!=\"idle\"})", "{{kind}}")
                .says("Share of the CPUs' time, by kind. steal is a noisy neighbour, softirq is packets."),
            Panel::lines("Busiest CPU", Unit::Share, "max by (instance) (1 - headroom_host_cpu_share{%,kind=\"idle\"} - ignoring (kind) headroom_host_cpu_share{%,kind=\"iowait\"})", "{{instance}}")
                .limits(Limits::Above(0.85, 0.97))
                .says("One CPU at 1 while the mean is low: one session, one applier, or packets on one CPU."),
            Panel::lines("Pressure", Unit::Share, "max by (resource, who) (headroom_host_pressure_share{%})", "{{resource}} {{who}}")
                .says("Share of time in which somebody (some) or everybody (full) waited for a resource."),
            Panel::lines("Memory available", Unit::Bytes, "min by (instance) (headroom_host_memory_available_bytes{%})", "{{instance}}")
                .says("Memory that programs could get."),
            Panel::lines("Packets dropped by the backlog", Unit::PerSecond, "sum by (instance, cpu) (headroom_host_backlog_dropped_per_second{%}) > 0", "{{instance}} CPU {{cpu}}")
                .says("Packets that found a CPU's backlog full: raise net.core.netdev_max_backlog."),
            Panel::lines("Segments sent again", Unit::PerSecond, "sum by (instance) (headroom_host_tcp_sent_again_per_second{%})", "{{instance}}")
                .says("TCP segments that were sent again: losses on the way."),
            Panel::lines("Frequency of the CPUs", Unit::Share, "min by (instance) (headroom_host_cpu_frequency_share{%})", "{{instance}}")
                .says("At which share of their highest frequency CPUs run: low while they are busy, the firmware's power profile, the governor or heat holds them back. Most guests do not know it."),
            Panel::lines("Held back for heat", Unit::Count, "max by (instance) (headroom_host_cpu_heat_throttles{%})", "{{instance}}")
                .says("How often heat held back the CPU that it held back most, in the agent's window: look at the cooling."),
        ],
    }
}

fn disks() -> Row {
    Row {
        title: "Disks",
        panels: vec![
            Panel::lines(
                "Requests",
                Unit::PerSecond,
                "sum by (instance, disk, kind) (headroom_host_disk_per_second{%})",
                "{{instance}} {{disk}} {{kind}}",
            )
            .wide(12)
            .says("Requests a second of each disk, by kind."),
            Panel::lines(
                "Time of a request",
                Unit::Seconds,
                "max by (instance, disk, kind) (headroom_host_disk_request_seconds{%})",
                "{{instance}} {{disk}} {{kind}}",
            )
            .wide(12)
            .says("Mean time of a request. Flushes decide how long commits take."),
        ],
    }
}

fn servers() -> Row {
    Row {
        title: "Servers",
        panels: vec![
            Panel::lines("Statements", Unit::PerSecond, "max by (server) (headroom_watched_server_statements_per_second{%,server=~\"$server\"})", "{{server}}")
                .says("Statements a second by the server's own count."),
            Panel::lines("p99 of statements", Unit::Seconds, "max by (server) (headroom_watched_server_statement_p99_seconds{%,server=~\"$server\"})", "{{server}}")
                .says("99 of 100 statements take at most this long, by the server's own count."),
            Panel::lines("Sessions at work", Unit::Count, "max by (server) (headroom_watched_server_sessions_at_work{%,server=~\"$server\"})", "{{server}} at work")
                .query("max by (server) (headroom_watched_server_sessions_connected{%,server=~\"$server\"})", "{{server}} connected")
                .says("Sessions that run a statement, beside all that are connected."),
            Panel::areas("What sessions wait for", Unit::Count, "max by (server, for) (headroom_watched_server_sessions_waiting{%,server=~\"$server\"})", "{{server}} {{for}}")
                .says("Sessions at work that wait: for a row lock, a metadata lock, their commit.")
                .guide("watch.md#how-a-verdict-is-found"),
            Panel::lines("Pages read from the disk", Unit::PerSecond, "max by (server) (headroom_watched_server_pool_misses_per_second{%,server=~\"$server\"})", "{{server}}")
                .says("Pages that were not in the buffer pool and had to be read."),
            Panel::lines("Redo log in use", Unit::Share, "max by (server) (headroom_watched_server_checkpoint_age_share{%,server=~\"$server\"})", "{{server}}")
                .limits(Limits::Above(0.6, 0.75))
                .says("Share of the redo log used since the last checkpoint. Near the top, writes wait for pages to be flushed."),
            Panel::lines("Limits in use", Unit::Share, "max by (server, limit) (headroom_watched_server_limit_used_share{%,server=~\"$server\"})", "{{server}} {{limit}}")
                .limits(Limits::Above(0.85, 0.95))
                .says("CPU, memory, IO and threads of the server's cgroup, open files of its process: how much of what is allowed is used.")
                .guide("watch.md#how-a-verdict-is-found"),
            Panel::lines("Room for the data", Unit::Bytes, "max by (server) (headroom_watched_server_disk_available_bytes{%,server=~\"$server\"})", "{{server}} left")
                .query("max by (server) (headroom_watched_server_disk_size_bytes{%,server=~\"$server\"})", "{{server}} size")
                .says("What is left on the file system of the data, beside its size."),
            Panel::lines("Held back by the CPU limit", Unit::Share, "max by (server) (headroom_watched_server_cpu_held_back_share{%,server=~\"$server\"})", "{{server}}")
                .says("Share of the periods in which the CPU limit of the server's cgroup held it back, also where its mean use is far below the limit.")
                .guide("watch.md#how-a-verdict-is-found"),
        ],
    }
}

fn cost() -> Row {
    Row {
        title: "What watching costs",
        panels: vec![
            Panel::lines("CPU of the agent", Unit::Share, "max by (instance) (headroom_watch_cpu_cores{%})", "{{instance}}")
                .query("max by (instance) (headroom_watch_held_back{%})", "{{instance}} is held back")
                .wide(6)
                .says("Share of one CPU that watching uses; the goal is half a per cent. A line at 1: it uses up the CPU limit of its own cgroup, and its readings come late.")
                .guide("watch.md#what-it-costs"),
            Panel::lines("Memory of the agent", Unit::Bytes, "max by (instance) (headroom_watch_resident_bytes{%})", "{{instance}}")
                .wide(6)
                .says("Resident memory of the agent; the goal is 20 MiB.")
                .guide("watch.md#what-it-costs"),
            Panel::lines("Time a reading costs the server", Unit::Seconds, "max by (server) (headroom_watched_server_asking_seconds{%,server=~\"$server\"})", "{{server}}")
                .wide(6)
                .says("What a reading costs the server at most; the next comes after 100 times that at the earliest.")
                .guide("watch.md#what-it-costs"),
            Panel::lines("Gaps", Unit::Count, "max by (instance) (headroom_watch_gaps{%})", "{{instance}}")
                .wide(6)
                .says("Times since its start at which the agent could not read. /history.json has the reasons.")
                .guide("watch.md#the-history"),
        ],
    }
}
