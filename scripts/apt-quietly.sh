#!/bin/sh
# Installs packages (arguments) with apt-get as root, without questions, and leaves no service started or
# enabled that was not there before. Removes nothing: a server of another kind that is in the way (MariaDB's
# and MySQL's packages exclude each other) may be in use. Called by install.sh; runs alone so that one sudo
# covers all of it.
set -eu
# install.sh reads what apt-get says.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
policy=/usr/sbin/policy-rc.d
# In the policy that is ours.
mark="of headroom's scripts/apt-quietly.sh, while it installs"
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
    apt-get install -y --no-remove --no-install-recommends -o DPkg::Lock::Timeout=300 \
        -o Dpkg::Options::=--force-confold "$@"
}

all_known() {
    for package in "$@"; do
        apt-cache policy "$package" | grep -q 'Candidate: [0-9]' || return 1
    done
}

# 101 is what invoke-rc.d takes as "forbidden by policy". A policy that is there already is kept and put back;
# one of ours was left by a killed run, or belongs to one beside us.
forbid_starts() {
    if [ -e "$policy" ] && ! is_ours; then mv "$policy" "$policy.before-headroom"; fi
    printf '#!/bin/sh\n# %s\nexit 101\n' "$mark" >"$policy"
    chmod 755 "$policy"
}

is_ours() { grep -qsF "$mark" "$policy"; }

give_policy_back() {
    if is_ours; then rm -f "$policy"; fi
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
