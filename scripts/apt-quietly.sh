#!/bin/sh
# Installs packages (arguments) with apt-get as root, without questions, and leaves no service started or
# enabled that was not there before. Called by install.sh; runs alone so that one sudo covers all of it.
set -eu
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
services="mariadb haproxy prometheus prometheus-node-exporter prometheus-mysqld-exporter"

main() {
    already=" $(installed_services) "
    trap give_policy_back EXIT
    trap 'exit 130' INT TERM HUP
    forbid_starts
    all_known "$@" || apt-get update || true
    # Stale package lists name files that the mirror no longer has: ask once more with fresh ones.
    apt_install "$@" || { apt-get update || true; apt_install "$@"; }
    for service in $services; do
        case $already in *" $service "*) ;; *) disable "$service" ;; esac
    done
}

apt_install() {
    apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold "$@"
}

all_known() {
    for package in "$@"; do
        apt-cache policy "$package" | grep -q 'Candidate: [0-9]' || return 1
    done
}

# 101 is what invoke-rc.d takes as "forbidden by policy". A policy that is there already is kept and put back.
forbid_starts() {
    if [ -e "$policy" ]; then mv "$policy" "$policy.before-headroom"; fi
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
}

give_policy_back() {
    rm -f "$policy"
    if [ -e "$policy.before-headroom" ]; then mv "$policy.before-headroom" "$policy"; fi
}

installed_services() {
    for service in $services; do
        if [ -e "/lib/systemd/system/$service.service" ] || [ -e "/etc/init.d/$service" ]; then echo "$service"; fi
    done | tr '\n' ' '
}

# Installed but not started would still start at the next boot.
disable() {
    if command -v systemctl >/dev/null 2>&1 && [ -e "/lib/systemd/system/$1.service" ]; then
        systemctl disable "$1.service" || true
    elif [ -e "/etc/init.d/$1" ]; then
        update-rc.d "$1" disable || true
    fi
}

main "$@"
