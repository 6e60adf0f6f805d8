#!/bin/bash
# Tries the installation where nothing is installed: a minimal Debian or Ubuntu in a chroot, a clean clone of
# HEAD in it, and a newcomer with sudo who runs scripts/install.sh. Needs root, debootstrap, and a few minutes
# a suite.
#
#   scripts/check-install.sh [bookworm|trixie|...] [newcomer|root]     from source, as below
#   scripts/check-install.sh [bookworm|trixie|...] package             the .deb that `make dist` has made
#   scripts/check-install.sh [bookworm|trixie|...] service             the same, booted, under systemd
#   MIRROR=<address> KEYRING=<file> scripts/check-install.sh noble (a suite that this machine's mirror has
#   not)
#
# Proves that what is wanted is there, Rust included; that a second run is silent; that no service was started
# or will start at boot; that the drivers' runners build with this suite's Go, Python, Node and Java; and that
# a current mysqld starts. The chroot is target/check-install/<suite>-<what>, made anew each time.
#
# package: installs the .deb beside a MariaDB, edits two lines of /etc/headroom/headroom.toml, runs the
# service's command line as its user, sends a query through it, and says how long that took; purging leaves
# nothing.
# service: boots the chroot in systemd-nspawn (systemd-container) with a network of its own; the unit starts,
# reloads, refuses a bad file, is killed and upgraded under connects, and keeps to its watchdog.
set -euo pipefail
cd "$(dirname "$0")/.."

main() {
    suite=${1:-bookworm} who=${2:-newcomer}
    [ "$(id -u)" = 0 ] || stop "needs root, for debootstrap and chroot"
    command -v debootstrap >/dev/null || stop "needs debootstrap: scripts/install.sh chroot"
    root=$PWD/target/check-install/$suite-$who
    say "a minimal $suite in $root"
    rm -rf "$root"
    mkdir -p "$root"
    local more=""
    [ "$who" != service ] || more=--include=systemd,systemd-sysv,dbus
    debootstrap --variant=minbase $more ${KEYRING:+--keyring="$KEYRING"} --components="$(components)" \
        "$suite" "$root" "${MIRROR:-$(mirror)}" $(recipe) >"$root.log" 2>&1 || {
        tail -n 5 "$root.log" >&2
        stop "debootstrap failed"
    }
    way_to_the_mirror
    case $who in
        package) the_package && in_chroot inside_package ;;
        service) the_package && in_chroot inside_service_before && booted inside_service ;;
        *) git clone --quiet --no-hardlinks . "$root/headroom" && in_chroot inside ;;
    esac || stop "$suite, $who: failed"
    say "$suite, $who: everything works"
}

the_package() {
    local packages=(target/dist/out/headroom_*_"$(dpkg --print-architecture)".deb)
    [ -e "${packages[0]}" ] || stop "there is no package: make dist"
    cp "${packages[0]}" "$root/headroom.deb"
}

# Runs what a function below prints, in the chroot. Mounts and processes live in namespaces of their own:
# nothing is left mounted or running, whatever happens.
in_chroot() {
    export root who
    "$1" >"$root/check.sh"
    unshare --mount --pid --fork --kill-child --propagation private bash -c '
        mount -t proc proc "$root/proc" &&
            exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/root TERM=dumb LC_ALL=C.UTF-8 \
                PIP_CERT=/etc/ssl/certs/ca-certificates.crt NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt bash /check.sh "$who"
    '
}

# Boots the chroot and runs there what a function below prints; its output goes to a file.
booted() {
    command -v systemd-nspawn >/dev/null || stop "needs systemd-nspawn: scripts/install.sh chroot"
    "$1" >"$root/check.sh"
    cat >"$root/etc/systemd/system/check.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash /check.sh
ExecStopPost=/bin/sh -c 'echo "$EXIT_STATUS" >/check.status; systemctl poweroff --no-block'
StandardOutput=file:/check.log
StandardError=inherit
TimeoutStartSec=10min
[Install]
WantedBy=default.target
UNIT
    mkdir -p "$root/etc/systemd/system/default.target.wants"
    ln -sf ../check.service "$root/etc/systemd/system/default.target.wants/check.service"
    SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 timeout --kill-after=20 900 unshare --mount --propagation private \
        systemd-nspawn --quiet --register=no --keep-unit --private-network --directory="$root" --boot \
        --console=pipe </dev/null >"$root.boot.log" 2>&1 || true
    cat "$root/check.log" || true
    [ "$(cat "$root/check.status" 2>/dev/null)" = 0 ]
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

# What both ways of trying the package share: a server with two accounts, the two lines, a query.
inside_common() {
    cat <<'INSIDE'
set -euo pipefail
wrong() { echo "check-install: $*" >&2; exit 1; }
# until_works <seconds> <command>...: as often as it takes.
until_works() {
    local ends=$((SECONDS + $1))
    shift
    until "$@" 2>/tmp/why; do
        [ $SECONDS -lt $ends ] || { cat /tmp/why >&2; return 1; }
        sleep 0.2
    done
}
accounts() {
    mariadb <<'SQL'
CREATE USER headroom@'%' IDENTIFIED BY 'asks';
GRANT SLAVE MONITOR, BINLOG MONITOR, REPLICATION MASTER ADMIN, PROCESS ON *.* TO headroom@'%';
GRANT SELECT ON performance_schema.* TO headroom@'%';
CREATE USER app@'%' IDENTIFIED BY 'works';
SQL
}
two_lines() {
    install -o headroom -m 400 /dev/stdin /etc/headroom/password <<<asks
    sed -i -e 's/^seeds = .*/seeds = ["127.0.0.1:3316"]/' \
        -e 's/^#password_file = .*/password_file = "\/etc\/headroom\/password"/' /etc/headroom/headroom.toml
}
# query <port>: through the router, with the application's own account.
query() { [ "$(mariadb --no-defaults --protocol=tcp --connect-timeout=20 -h127.0.0.1 "-P$1" -uapp -pworks -BNe 'SELECT @@port')" = 3316 ]; }
INSIDE
}

inside_package() {
    inside_common
    cat <<'INSIDE'
# All that is on the disk, and who has an account; not what apt and dpkg keep for themselves.
everything() {
    find / -xdev \( -path /proc -o -path /tmp -o -path /run -o -path /var/cache -o -path /var/lib/apt -o -path /var/log \
        -o -path /var/lib/dpkg \) -prune -o -print | sort
    sort /etc/passwd /etc/group
}
{ apt-get update && apt-get install -y --no-install-recommends mariadb-server mariadb-client iproute2; } >/tmp/apt.log 2>&1 ||
    { tail /tmp/apt.log >&2; wrong "no MariaDB"; }
everything >/tmp/before

SECONDS=0
apt-get install -y --no-install-recommends /headroom.deb >/tmp/apt.log 2>&1 || { tail /tmp/apt.log >&2; wrong "the package cannot be installed"; }
headroom --version
[ "$(stat -c %U:%a /usr/bin/headroom)" = root:755 ] || wrong "the program's owner or mode"
for path in /usr/share/man/man1/headroom.1.gz /usr/share/bash-completion/completions/headroom /usr/share/doc/headroom/guide/install.md \
    /usr/share/headroom/zero-hop.conf /usr/lib/systemd/system/headroom-route.service; do
    [ -e "$path" ] || wrong "no $path"
done
headroom route --check --config /etc/headroom/headroom.toml || wrong "the file that was shipped is not right"
serve() {
    ip link set lo up
    install -d -o mysql /run/mysqld
    mariadbd-safe --user=mysql --port=3316 --bind-address=127.0.0.1 >/tmp/mariadb.log 2>&1 &
    until_works 60 mariadb -e 'SELECT 1' >/dev/null || wrong "MariaDB does not start"
    accounts
    two_lines
    install -d -o headroom -m 700 /run/headroom /var/lib/headroom
    setpriv --reuid=headroom --regid=headroom --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all \
        $(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/headroom-route.service) >/tmp/route.log 2>&1 &
    router=$!
    until_works 60 query 3307 || { cat /tmp/route.log >&2; wrong "no query came through"; }
    echo "first query through the router, after the package was installed by apt: $SECONDS s"
    query 3306 || wrong "no read came through"
    kill $router
    wait $router || wrong "the router did not end in order"
    mariadb-admin shutdown
    wait
}
export -f serve wrong until_works accounts two_lines query
export SECONDS
unshare --net bash -euc "SECONDS=$SECONDS; serve" || wrong "it does not serve"
apt-get purge -y --autoremove headroom >/tmp/apt.log 2>&1 || { tail /tmp/apt.log >&2; wrong "it cannot be purged"; }
# What the server itself wrote meanwhile is its own.
everything >/tmp/after
diff <(grep -v '^/var/lib/mysql/' /tmp/before) <(grep -v '^/var/lib/mysql/' /tmp/after) || wrong "purged, and not as before"
INSIDE
}

# The chroot before it is booted, with a network.
inside_service_before() {
    cat <<'INSIDE'
set -euo pipefail
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
{ apt-get update && apt-get install -y --no-install-recommends mariadb-server mariadb-client /headroom.deb; } >/tmp/apt.log 2>&1 ||
    { tail /tmp/apt.log >&2; exit 1; }
rm /usr/sbin/policy-rc.d
printf '[mariadbd]\nport = 3316\n' >/etc/mysql/mariadb.conf.d/99-port.cnf
# It would hold port 3306, which the router's file names.
systemctl --quiet mask mariadb.socket
[ ! -e /etc/systemd/system/multi-user.target.wants/headroom-route.service ] || { echo "it would start by itself" >&2; exit 1; }
INSIDE
}

# What runs in the booted chroot, as root.
inside_service() {
    inside_common
    cat <<'INSIDE'
export SYSTEMD_PAGER=
why() { journalctl --no-pager -n 40 -u headroom-route -u headroom-agent >&2; wrong "$*"; }
pid() { systemctl show -P MainPID headroom-route; }
systemctl start mariadb || wrong "MariaDB does not start"
accounts
two_lines
systemctl start headroom-route || why "it does not start"
until_works 60 query 3307 || why "no query came through"
query 3306 || why "no read came through"
echo "sandbox: $(systemd-analyze security headroom-route | tail -n 1)"
runuser -u headroom -- headroom status | grep -q '127.0.0.1:3307' || why "no status"
grep -E '^(CapEff|NoNewPrivs|Seccomp):' "/proc/$(pid)/status" | tr '\n' ' '; echo
curl -s http://127.0.0.1:9306/status.json 2>/dev/null | grep -o '"data_path":"[^"]*"' || true

systemctl reload headroom-route || why "a right file is refused"
cp /etc/headroom/headroom.toml /tmp/right
echo 'nonsense = 1' >>/etc/headroom/headroom.toml
! systemctl reload headroom-route 2>/dev/null || why "a wrong file is not refused"
cp /tmp/right /etc/headroom/headroom.toml
query 3307 || why "a refused reload stopped it"
echo "reload: a wrong file is refused before the process hears of it"

# Killed: whoever connects before the next process is there waits for it.
before=$(pid)
systemctl kill --kill-whom=main --signal=KILL headroom-route
query 3307 || why "a connect was refused after a kill"
[ "$(pid)" != "$before" ] || why "it was not started again"
echo "killed: a client that came in between was served by the next process"

# Upgraded: connects all the time, none fails; then the new process keeps to the watchdog.
before=$(pid)
systemctl kill --kill-whom=main --signal=USR2 headroom-route
ends=$((SECONDS + 60)) queries=0
while [ "$(pid)" = "$before" ]; do
    query 3307 || why "a connect was refused in an upgrade"
    queries=$((queries + 1))
    [ $SECONDS -lt $ends ] || why "the new process does not become the main one"
done
for _ in $(seq 20); do query 3307 || why "a connect was refused after an upgrade"; done
after=$(pid)
sleep 40
[ "$(pid)" = "$after" ] && [ "$(systemctl show -P NRestarts headroom-route)" = 1 ] || why "the watchdog killed the new process"
echo "upgraded: $((queries + 20)) connects, none refused; alive beyond the watchdog's 30 s"
systemctl kill --kill-whom=main --signal=KILL headroom-route
query 3307 || why "a connect was refused after the new process was killed"
[ "$(pid)" != "$after" ] || why "the process that had taken over was not started again"

systemctl start headroom-agent || why "the agent does not start"
until_works 30 bash -c 'exec 3<>/dev/tcp/127.0.0.1/9307; printf "GET /watch.json HTTP/1.0\r\nHost: localhost\r\n\r\n" >&3; grep -q verdict <&3' ||
    why "the agent does not answer"
echo "agent: answers"
# Its file needs no listener; a wrong one is rejected, and it goes on.
sed -i '/^\[\[listener\]\]/,$d' /etc/headroom/headroom.toml
systemctl reload headroom-agent || why "the agent's reload is refused without a listener"
until_works 10 bash -c 'journalctl --no-pager -u headroom-agent | grep -q "configuration read again"' || why "the agent did not reload"
echo 'nonsense = 1' >>/etc/headroom/headroom.toml
systemctl reload headroom-agent
until_works 10 bash -c 'journalctl --no-pager -u headroom-agent | grep -q "reload rejected"' || why "the agent took a wrong file"
systemctl is-active --quiet headroom-agent || why "a wrong file ended the agent"
cp /tmp/right /etc/headroom/headroom.toml
systemctl start headroom-guard
[ "$(systemctl is-active headroom-guard)" = inactive ] || why "the guard starts without an account"

systemctl stop headroom-route headroom-agent
[ "$(systemctl show -P Result headroom-route)" = success ] || why "it did not end in order"
[ ! -e /run/headroom ] || why "/run/headroom stays"
! query 3307 2>/dev/null || wrong "something still listens"
systemctl enable --quiet headroom-route
apt-get purge -y headroom >/tmp/apt.log 2>&1 || { tail /tmp/apt.log >&2; wrong "it cannot be purged"; }
for path in /etc/headroom /var/lib/headroom /usr/bin/headroom /etc/systemd/system/multi-user.target.wants/headroom-route.service; do
    [ ! -e "$path" ] && [ ! -L "$path" ] || wrong "$path is left behind"
done
! getent passwd headroom || wrong "the user is left behind"
echo "purged: nothing is left"
INSIDE
}

say() { echo "check-install: $*"; }

stop() {
    echo "check-install: $*" >&2
    exit 1
}

main "$@"
