#!/bin/sh
# Installs what a group of targets needs and this machine lacks, from the distribution's packages; says
# nothing when nothing is missing. One line is printed for each package that was put in.
#
#   scripts/install.sh build demo servers bench exporters drivers mysql browser monitoring units deny dist
#     arm64 chroot
#
# Looks for commands, not for packages: a MariaDB or a Go of your own is as good as the distribution's.
# The distribution's services (mariadb, haproxy, the exporters) are neither started nor enabled: only their
# programs are wanted. Uses sudo when not root. Where there is no apt-get it names what to install and exits
# with 1.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:/usr/local/go/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/libexec:/usr/libexec
log=target/install.log

main() {
    missing=""
    for group in "$@"; do
        case $group in
            build) needs_of_build ;;
            demo) needs_of_demo ;;
            servers) needs_of_servers ;;
            bench) needs_of_bench ;;
            exporters) needs_of_exporters ;;
            drivers) needs_of_drivers ;;
            mysql) needs_of_mysql ;;
            browser) needs_of_browser ;;
            monitoring) needs_of_monitoring ;;
            rustup) need rustup rustup ;;
            units) need systemd-analyze systemd ;;
            deny) needs_of_build ;;
            dist) needs_of_dist ;;
            arm64) needs_of_arm64 ;;
            chroot)
                need debootstrap debootstrap
                need systemd-nspawn systemd-container
                ;;
            *)
                say "no group is called '$group': build, demo, servers, bench, exporters, drivers, mysql, browser, monitoring, units, deny, dist, arm64, chroot"
                exit 64
                ;;
        esac
    done
    [ -z "$missing" ] || install_packages $missing
    case " $* " in *" build "* | *" deny "* | *" dist "*) sh scripts/rust.sh ;; esac
    case " $* " in *" deny "*) sh scripts/cargo-tool.sh deny ;; esac
    case " $* " in *" dist "*) sh scripts/cargo-tool.sh deb generate-rpm cyclonedx ;; esac
}

needs_of_build() {
    need make make
    need git git
    need cc gcc
    [ -e /usr/include/stdlib.h ] || want libc6-dev
    need pkg-config pkg-config
    need clang clang
    [ -e /usr/include/linux/bpf.h ] || want linux-libc-dev
    [ -e /etc/ssl/certs/ca-certificates.crt ] || [ -d /etc/pki ] || want ca-certificates
}

# A lab, and a client to look at it.
needs_of_demo() {
    need mariadbd mariadb-server
    need mariadb-install-db mariadb-server
    need mariadb mariadb-client
}

needs_of_servers() {
    needs_of_demo
    # Loop devices, their file systems and network interfaces, on which settings of the kernel are tested.
    need losetup mount
    need mkfs.ext4 e2fsprogs
    need mkfs.xfs xfsprogs
    need mkfs.btrfs btrfs-progs
    need ip iproute2
    need ethtool ethtool
    # Allocators that a server is tried with.
    ls /usr/lib/*/libjemalloc.so.* /usr/lib*/libjemalloc.so.* 2>/dev/null | grep -q . || want libjemalloc2
}

needs_of_bench() {
    need haproxy haproxy
    need sysbench sysbench
    need fio fio
    need mpstat sysstat
    need ss iproute2
}

# What the agent's cost is measured beside.
needs_of_exporters() {
    need prometheus-node-exporter prometheus-node-exporter
    need prometheus-mysqld-exporter prometheus-mysqld-exporter
}

needs_of_drivers() {
    need mariadb mariadb-client
    need sysbench sysbench
    need go golang-go
    need node nodejs
    need npm npm
    need javac default-jdk-headless
    need mvn maven
    need python3 python3-venv
    # Debian splits venv from python3; asking for the module costs an interpreter start, so only without a
    # venv of ours.
    [ -x target/drivers/venv/bin/python ] || python3 -Ic 'import ensurepip, venv' 2>/dev/null || want python3-venv
}

# The server itself comes from scripts/mysql-root.sh; this is what that script needs.
needs_of_mysql() {
    need apt-get apt
    need dpkg-deb dpkg
    need gpgv gpgv
    need tar tar
    if grep -q '^ID=debian' /etc/os-release; then
        [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || want debian-archive-keyring
    fi
}

# Tests the rules, and reads what we say of ourselves.
needs_of_monitoring() {
    need promtool prometheus
    need prometheus prometheus
}

# Packages, and what looks at them.
needs_of_dist() {
    needs_of_build
    need objcopy binutils
    need dpkg-deb dpkg
    need dpkg-shlibdeps dpkg-dev
    need lintian lintian
    need rpm rpm
}

# A linker, and the C library of the other architecture, with its headers for the kernel's programs.
needs_of_arm64() {
    need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    [ -e /usr/aarch64-linux-gnu/include/stdlib.h ] || want libc6-dev-arm64-cross
}

# What looks at pages: of the manual, and of the web. Any Chromium will do; Ubuntu has it as a snap only, by
# another name.
needs_of_browser() {
    need groff groff-base
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        if command -v $name >/dev/null 2>&1; then return; fi
    done
    if grep -q '^ID=ubuntu' /etc/os-release 2>/dev/null; then want chromium-browser; else want chromium; fi
}

# need <command> <package>
need() { command -v "$1" >/dev/null 2>&1 || want "$2"; }

want() {
    case " $missing " in *" $1 "*) ;; *) missing="$missing $1" ;; esac
}

install_packages() {
    if ! command -v apt-get >/dev/null 2>&1; then
        say "this is neither Debian nor Ubuntu: install by hand what they call: $*"
        exit 1
    fi
    as_root=""
    if [ "$(id -u)" != 0 ]; then
        as_root=sudo
        if ! command -v sudo >/dev/null 2>&1; then
            say "neither root nor sudo: run as root: apt-get install $*"
            exit 1
        fi
        # sudo drops them, and apt-get would not find its way out. By name: a value may hold a password.
        if [ -n "${http_proxy:-}${https_proxy:-}" ]; then
            as_root="sudo --preserve-env=http_proxy,https_proxy,no_proxy"
        fi
    fi
    mkdir -p target
    say "installing $* ..."
    if ! $as_root sh scripts/apt-quietly.sh "$@" >"$log" 2>&1; then
        tail -n 15 "$log" >&2
        say "apt-get could not install: $* (all of its words are in $log)"
        if grep -q 'remove is disabled' "$log"; then
            say "it would have removed packages that are installed here, so nothing was done; where they are a MySQL,"
            say "scripts/mysql-root.sh mariadb unpacks a MariaDB beside it: put $PWD/target/mariadb-new first in PATH"
        fi
        exit 1
    fi
    for package in "$@"; do
        say "installed $package $(dpkg-query -W -f '${Version}' "$package" 2>/dev/null || true)"
    done
}

say() { echo "install: $*" >&2; }

main "$@"
