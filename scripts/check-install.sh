#!/bin/bash
# Tries the installation where nothing is installed: a minimal Debian or Ubuntu in a chroot, a clean clone of
# HEAD in it, and a newcomer with sudo who runs scripts/install.sh. Needs root, debootstrap, and a few minutes
# a suite.
#
#   scripts/check-install.sh [bookworm|trixie|...] [newcomer|root]
#   MIRROR=<address> KEYRING=<file> scripts/check-install.sh noble (a suite that this machine's mirror has
#   not)
#
# Proves that what is wanted is there, Rust included; that a second run is silent; that no service was started
# or will start at boot; that the drivers' runners build with this suite's Go, Python, Node and Java; and that
# a current mysqld starts. The chroot is target/check-install/<suite>, made anew each time.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
    suite=${1:-bookworm} who=${2:-newcomer}
    [ "$(id -u)" = 0 ] || stop "needs root, for debootstrap and chroot"
    command -v debootstrap >/dev/null || stop "needs debootstrap: scripts/install.sh chroot"
    root=$PWD/target/check-install/$suite
    say "a minimal $suite in $root"
    rm -rf "$root"
    mkdir -p "$root"
    debootstrap --variant=minbase ${KEYRING:+--keyring="$KEYRING"} --components="$(components)" \
        "$suite" "$root" "${MIRROR:-$(mirror)}" $(recipe) >"$root.log" 2>&1 || {
        tail -n 5 "$root.log" >&2
        stop "debootstrap failed"
    }
    git clone --quiet --no-hardlinks . "$root/headroom"
    way_to_the_mirror
    # Mounts and processes live in namespaces of their own: nothing is left mounted or running, whatever
    # happens.
    export root who
    inside >"$root/check.sh"
    unshare --mount --pid --fork --kill-child --propagation private bash -c '
        mount -t proc proc "$root/proc" &&
            exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/root TERM=dumb LC_ALL=C.UTF-8 \
                PIP_CERT=/etc/ssl/certs/ca-certificates.crt NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt bash /check.sh "$who"
    ' || stop "$suite, $who: failed"
    say "$suite, $who: everything works"
}

# The first mirror that this machine's apt names; debootstrap keeps the suites of one distribution apart by
# itself.
mirror() {
    . /etc/os-release
    apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
        awk -v name="$VERSION_CODENAME" '$1 == name && !found { print $2; found = 1 }'
}

# Half of what is wanted is in Ubuntu's universe; Debian has no such component.
components() {
    case $(recipe)$(readlink "/usr/share/debootstrap/scripts/$suite") in *gutsy) echo main,universe ;; *) echo main ;; esac
}

# debootstrap of another distribution's day knows no name of a later suite; all Ubuntus share one recipe.
recipe() {
    [ -e "/usr/share/debootstrap/scripts/$suite" ] || echo gutsy
}

# The way to the mirror is this machine's: its proxy, its own authorities, what it lets pass of a mirror that
# lags.
way_to_the_mirror() {
    cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
    apt-config dump | grep -E '^Acquire::(Check-Valid-Until|Check-Date|https?::)' >"$root/etc/apt/apt.conf.d/90way" || true
    [ -d /usr/local/share/ca-certificates ] || return 0
    mkdir -p "$root/usr/local/share"
    cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
}

# What runs in the chroot.
inside() {
    cat <<'INSIDE'
set -euo pipefail
cd /headroom
as() { bash -c "$*"; }
if [ "$1" = newcomer ]; then
    { apt-get update && apt-get install -y --no-install-recommends sudo; } >/tmp/sudo.log 2>&1
    useradd --create-home --shell /bin/bash newcomer
    echo 'newcomer ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/newcomer
    chown -R newcomer /headroom
    # As a Debian user has it: no sbin in the PATH.
    as() { su newcomer -c "cd /headroom && export PATH=/usr/local/bin:/usr/bin:/bin && $*"; }
fi
wrong() { echo "check-install: $*" >&2; exit 1; }

as scripts/install.sh build servers bench drivers mysql deny || wrong "install.sh failed"

began=$(date +%s%N)
second=$(as scripts/install.sh build servers bench drivers mysql deny 2>&1)
echo "second run: $((($(date +%s%N) - began) / 1000000)) ms"
[ -z "$second" ] || wrong "the second run was not silent: $second"

for program in gcc clang make git mariadbd mariadb-install-db mariadb haproxy sysbench go python3 node npm javac mvn; do
    command -v $program >/dev/null || wrong "no $program"
done
[ ! -e /usr/sbin/policy-rc.d ] || wrong "policy-rc.d was left behind"
for comm in /proc/[0-9]*/comm; do
    case $(cat "$comm" 2>/dev/null) in mariadbd | haproxy) wrong "a service is running" ;; esac
done
for link in /etc/rc[2-5].d/S*mariadb /etc/rc[2-5].d/S*haproxy /etc/systemd/system/*.wants/mariadb.service /etc/systemd/system/*.wants/haproxy.service; do
    [ ! -e "$link" ] && [ ! -L "$link" ] || wrong "$link would start at boot"
done

as make help >/dev/null || wrong "make help"
for target in demo test bench; do as make -n $target >/dev/null || wrong "make -n $target"; done
as tests/drivers/prepare.sh || wrong "the drivers' runners do not build"
as scripts/mysql-root.sh mysql || wrong "no mysqld"
as target/mysql/mysqld --version || wrong "mysqld does not start"
channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
as 'PATH=$PWD/target/rust/bin:$HOME/.cargo/bin:$PATH cargo clippy --version && PATH=$PWD/target/rust/bin:$PATH cargo --version' |
    tee /dev/stderr | grep -q "cargo $channel" || wrong "no cargo $channel"
as 'PATH=$PWD/target/rust/bin:$HOME/.cargo/bin:$PATH scripts/lint.sh deny' || wrong "cargo-deny does not run"
INSIDE
}

say() { echo "check-install: $*"; }

stop() {
    echo "check-install: $*" >&2
    exit 1
}

main "$@"
