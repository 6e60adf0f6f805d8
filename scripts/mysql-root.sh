#!/bin/sh
# Brings current servers under target/, beside whatever this machine has installed, without root:
#
#   scripts/mysql-root.sh [mysql] [router] [mariadb] [haproxy]      (nothing named: mysql)
#
#   mysql    target/mysql/mysqld, mysql, mysqladmin, mysqldump
#   router   target/mysqlrouter/mysqlrouter
#   mariadb  target/mariadb-new/mariadbd, mariadb, mariadb-install-db
#   haproxy  target/haproxy-new/haproxy
#   rustup   target/rustup/rustup (for scripts/rust.sh, where the distribution's own suite has none)
#
# The packages of the distribution's unstable suite (Debian: unstable, Ubuntu: devel) are fetched by a private
# apt from the mirror that this machine's apt already names, their signatures checked with the distribution's
# keyring. They are unpacked, not installed: no script of theirs runs. Their C library is newer than this
# machine's, so each program is started by the loader of its own root; the wrappers do that and name the
# folders that programs look for under /usr. A wrapper reads no option file of this machine unless it is told
# one.
#
# What is there is left alone: remove target/<name> to get a newer one. Packages stay in target/apt until
# clean.
set -eu
cd "$(dirname "$0")/.."
target=$PWD/target
apt=$target/apt

main() {
    [ $# -gt 0 ] || set -- mysql
    for what in "$@"; do
        case $what in
            mysql) bring mysql mysqld 'mysql-server-core' 'mysql-client-core' ;;
            router) bring mysqlrouter mysqlrouter 'mysql-router' ;;
            mariadb) # The plugins are in mariadb-server.
                bring mariadb-new mariadbd 'mariadb-server' 'mariadb-server-core' 'mariadb-client-core' ;;
            haproxy) bring haproxy-new haproxy 'haproxy' ;;
            rustup) bring rustup rustup 'rustup' ;;
            *)
                say "nothing is called '$what': mysql, router, mariadb, haproxy, rustup"
                exit 64
                ;;
        esac
    done
}

# bring <folder under target> <program that proves it> <package>...
bring() {
    folder=$1 program=$2
    shift 2
    version_flag=--version
    [ "$program" != haproxy ] || version_flag=-v
    [ -x "$target/$folder/$program" ] && "$target/$folder/$program" $version_flag >/dev/null 2>&1 && return 0
    sh scripts/install.sh mysql
    prepare_apt
    say "fetching $* of $suite ..."
    fetch "$@"
    rm -rf "$target/$folder" "$target/$folder.partial"
    unpack "$target/$folder.partial/root"
    wrap "$target/$folder.partial"
    version=$("$target/$folder.partial/$program" $version_flag 2>&1) || give_up "$program does not start: $version"
    mv "$target/$folder.partial" "$target/$folder"
    say "target/$folder/$program: $(echo "$version" | grep -Eo '[0-9]+\.[0-9]+\.[0-9]+[^ ]*' | head -n 1)"
}

# A private apt: its own package lists and an empty list of installed packages, so that it names every
# library.
prepare_apt() {
    command -v apt-get >/dev/null 2>&1 || give_up "this is neither Debian nor Ubuntu: there is no package to unpack"
    . /etc/os-release
    case $ID in
        debian) suite=unstable components=main keyring=debian-archive-keyring ;;
        ubuntu) suite=devel components="main universe" keyring=ubuntu-archive-keyring ;;
        *) give_up "no unstable suite is known for $ID (Debian and Ubuntu are)" ;;
    esac
    mirror=$(mirror_of_this_machine "${VERSION_CODENAME:-$suite}")
    [ -n "$mirror" ] || give_up "apt on this machine names no mirror of ${VERSION_CODENAME:-$ID} (apt-get indextargets)"
    signed_by=""
    for file in "/usr/share/keyrings/$keyring.gpg" "/usr/share/keyrings/$keyring.pgp"; do
        if [ -e "$file" ]; then signed_by="[signed-by=$file]"; fi
    done
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    echo "deb $signed_by $mirror $suite $components" >"$apt/sources.list"
    : >"$apt/status"
    cat >"$apt/apt.conf" <<CONF
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Etc::SourceList "$apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
APT::Default-Release "";
APT::Install-Recommends "false";
APT::Sandbox::User "";
APT::Get::AllowUnauthenticated "false";
Acquire::Languages "none";
Acquire::Retries "3";
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::DEP-11-icons-small;
#clear Acquire::IndexTargets::deb::DEP-11-icons;
#clear Acquire::IndexTargets::deb::CNF;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Install-Pkgs;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
CONF
    [ -e "$apt/updated" ] && [ -n "$(find "$apt/updated" -mmin -60)" ] && return 0
    quietly apt-get -c "$apt/apt.conf" update
    touch "$apt/updated"
}

mirror_of_this_machine() {
    apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
        awk -v name="$1" '($1 == name || $1 ~ /^(stable|oldstable|testing|unstable|sid)$/) && !found { print $2; found = 1 }'
}

# Package names carry a version in some suites (mysql-server-core-8.4): the plain name first, else the
# highest.
fetch() {
    wanted=""
    for package in "$@"; do
        name=$(apt-cache -c "$apt/apt.conf" pkgnames "$package" | grep -Ex "$package(-[0-9.]+)?" | sort -V | awk '
            NR == 1 && $0 !~ /-[0-9.]+$/ { plain = $0 } { last = $0 } END { print plain ? plain : last }')
        [ -n "$name" ] || give_up "$suite has no $package at the moment"
        wanted="$wanted $name"
    done
    # Asked before they are fetched, and of an empty folder: apt names no file that it has already.
    mkdir -p "$apt/none/partial"
    debs=$(apt-get -c "$apt/apt.conf" -o Dir::Cache::archives="$apt/none" install -y --print-uris $wanted 2>/dev/null |
        sed -n "s/^'[^']*' \([^ ]*\) .*/\1/p" | grep -Ev '^(perl|libperl|debconf)')
    quietly apt-get -c "$apt/apt.conf" install -y --download-only $wanted
}

unpack() {
    mkdir -p "$1"
    (
        cd "$apt/cache/archives"
        printf '%s\n' $debs | xargs -P 2 -I DEB sh -c \
            'dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --keep-directory-symlink --no-same-owner \
                --exclude=./usr/share/doc --exclude=./usr/share/man --exclude=./usr/share/locale --exclude=./usr/share/perl' \
            unpack DEB "$1"
    ) || give_up "a package could not be unpacked into $1"
}

# Every program in the root becomes a wrapper of the same name beside its own binary (<name>.elf), so that
# scripts of the packages that call it by path work too; the ones people call get a second wrapper on top.
wrap() {
    root=$1/root
    loader=$(find "$root" -name 'ld-linux*.so.*' ! -type d | head -n 1)
    [ -n "$loader" ] || give_up "no dynamic loader in $root"
    loader=${loader#"$root"/}
    folders=$(find "$root" -name '*.so*' ! -type d -printf '%h\n' | sort -u | grep -Ev '/(plugins?|gconv|engines-3|ossl-modules|sasl2|gdb|security)(/|$)' | sed "s|^$root/||")
    for binary in "$root"/usr/sbin/* "$root"/usr/bin/*; do
        is_elf "$binary" || continue
        mv "$binary" "$binary.elf"
        write_wrapper "$binary" ../..
        case $(basename "$binary") in
            mysqld | mysql | mysqladmin | mysqldump | mysqlrouter | mysqlrouter_passwd | haproxy | rustup | mariadbd | mariadb | mariadb-admin | mariadb-dump)
                write_wrapper "$1/$(basename "$binary")" root "${binary#"$root"/}.elf"
                ;;
        esac
    done
    if [ -e "$root/usr/bin/mariadb-install-db" ]; then
        printf '#!/bin/sh\nroot=$(dirname "$(readlink -f "$0")")/root\nexec "$root/usr/bin/mariadb-install-db" --no-defaults --basedir="$root/usr" "$@"\n' \
            >"$1/mariadb-install-db"
        chmod 755 "$1/mariadb-install-db"
    fi
}

is_elf() { [ -f "$1" ] && [ ! -L "$1" ] && [ "$(dd if="$1" bs=1 skip=1 count=3 2>/dev/null | tr -d '\0')" = ELF ]; }

# write_wrapper <file> <root as seen from it> [<binary in the root>]
write_wrapper() {
    binary_in_root=${3:-${1#"$root"/}.elf}
    {
        echo '#!/bin/sh'
        echo "root=\$(dirname \"\$(readlink -f \"\$0\")\")/$2"
        options_of "$(basename "$1")"
        printf 'exec "$root/%s" --argv0 "$0" --library-path "' "$loader"
        printf '%s\n' "$folders" | sed 's|^|$root/|' | paste -sd : | tr -d '\n'
        printf '" "$root/%s" "$@"\n' "$binary_in_root"
    } >"$1"
    chmod 755 "$1"
}

# Options that say where things are come before the caller's (which win), but after --defaults-file and its
# kin, which must stand first.
options_of() {
    share='--character-sets-dir="$root/usr/share/SHARE/charsets"'
    where='--basedir="$root/usr" --lc-messages-dir="$root/usr/share/SHARE" --plugin-dir="$root/usr/lib/PLUGIN"'
    case $1 in
        mysqld) options="$where $share --secure-file-priv=NULL" share_name=mysql plugin=mysql/plugin ;;
        mariadbd) options="$where $share" share_name=mariadb plugin=mysql/plugin ;;
        mysql | mysqladmin | mysqldump) options="$share --plugin-dir=\"\$root/usr/lib/PLUGIN\"" share_name=mysql plugin=mysql/plugin ;;
        mariadb | mariadb-admin | mariadb-dump) options="$share --plugin-dir=\"\$root/usr/lib/PLUGIN\"" share_name=mariadb plugin=mysql/plugin ;;
        mysqlrouter)
            echo 'set -- "$@" --DEFAULT.plugin_folder="$root/usr/lib/mysqlrouter/plugin"'
            return 0
            ;;
        *) return 0 ;;
    esac
    options=$(echo "$options" | sed "s|SHARE|$share_name|; s|SHARE|$share_name|; s|PLUGIN|$plugin|")
    cat <<WRAPPER
first='' placed=''
for argument; do
    shift
    if [ -z "\$placed" ]; then
        case \$argument in
            --no-defaults | --defaults-*=* | --print-defaults | --login-path=* | --no-login-paths) first=given ;;
            *)
                [ -n "\$first" ] || set -- "\$@" --no-defaults
                set -- "\$@" $options
                placed=yes
                ;;
        esac
    fi
    set -- "\$@" "\$argument"
done
if [ -z "\$placed" ]; then
    [ -n "\$first" ] || set -- "\$@" --no-defaults
    set -- "\$@" $options
fi
WRAPPER
}

quietly() {
    "$@" >"$apt/log" 2>&1 || {
        tail -n 5 "$apt/log" >&2
        give_up "$(echo "$*" | cut -c1-60)... failed (all of its words are in target/apt/log)"
    }
}

give_up() {
    say "$*"
    exit 1
}

say() { echo "mysql-root: $*" >&2; }

main "$@"
