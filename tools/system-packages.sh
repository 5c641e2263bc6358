#!/bin/sh
# Installs the system tools of tools/system-packages.txt: system-packages.sh run|test [--check]
# As root or through passwordless sudo; without either it says what is missing and what that means, and goes on.
# No service is started, sshd is not left enabled, and PostgreSQL gets no cluster. Does nothing when all is there.
set -eu

wanted=${1:?usage: system-packages.sh run|test [--check]}
mode=${2:-install}
table=$(dirname "$0")/system-packages.txt
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { printf '%s\n' "$*" >&2; }

trim() { printf '%s' "$1" | sed 's/^ *//; s/ *$//'; }

have_postgresql_program() {
    # Debian and SUSE keep them by version, outside PATH; Red Hat's are on PATH.
    for program in /usr/lib/postgresql*/bin/"$1" /usr/lib/postgresql/*/bin/"$1" /usr/pgsql-*/bin/"$1"; do
        [ -x "$program" ] && return 0
    done
    # Debian's wrapper of that name works only with a server version behind it, found above.
    [ ! -d /usr/share/postgresql-common ] && command -v "$1" >/dev/null
}

present() {
    case $1 in
    pg:*) have_postgresql_program "${1#pg:}" ;;
    py:*) python=$("$(dirname "$0")/find-python.sh" 2>/dev/null) && "$python" -c "import ${1#py:}" 2>/dev/null ;;
    font:*) find /usr/share/fonts /usr/local/share/fonts -iname "${1#font:}*.ttf" 2>/dev/null | grep -q . ;;
    chromium) command -v chromium || command -v chromium-browser || command -v google-chrome ;;
    *) command -v "$1" ;;
    esac >/dev/null
}

if command -v apt-get >/dev/null; then
    manager=apt column=4
elif command -v dnf >/dev/null; then
    manager=dnf column=5
elif command -v zypper >/dev/null; then
    manager=zypper column=6
else
    manager='' column=4
fi

# Lines "part|package|loss" of what is missing.
missing() {
    while IFS='|' read -r set_name part probe apt dnf zypper loss; do
        set_name=$(trim "$set_name")
        case $set_name in '#'* | '') continue ;; esac
        [ "$wanted" = run ] && [ "$set_name" != run ] && continue
        present "$(trim "$probe")" && continue
        case $column in 4) package=$apt ;; 5) package=$dnf ;; *) package=$zypper ;; esac
        printf '%s|%s|%s\n' "$(trim "$part")" "$(trim "$package")" "$(trim "$loss")"
    done <"$table"
}

report() {
    printf '%s\n' "$1" | while IFS='|' read -r part package loss; do
        say "  $part (package $package): $loss"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install() {
    case $manager in
    apt)
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
        ;;
    dnf) as_root dnf install -y -q --setopt=install_weak_deps=False "$@" ;;
    zypper) as_root zypper --non-interactive --quiet install --no-recommends "$@" ;;
    esac </dev/null >&2
}

# Debian starts what it installs, and makes a PostgreSQL cluster: both are switched off for the time of the installation.
policy=/usr/sbin/policy-rc.d
cluster_conf=/etc/postgresql-common/createcluster.conf
made_policy='' made_cluster_conf=''
quiet_debian() {
    [ "$manager" = apt ] || return 0
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
        as_root chmod 755 $policy
        made_policy=yes
    fi
    if [ ! -e $cluster_conf ] && ! present pg:initdb; then
        install postgresql-common || return 0
        as_root cp -p $cluster_conf $cluster_conf.labctl
        printf 'create_main_cluster = false\n' | as_root tee -a $cluster_conf >/dev/null
        made_cluster_conf=yes
    fi
}
restore_debian() {
    [ -z "$made_policy" ] || as_root rm -f $policy
    [ -z "$made_cluster_conf" ] || as_root mv $cluster_conf.labctl $cluster_conf
    made_policy='' made_cluster_conf=''
}

lacking=$(missing)
[ -n "$lacking" ] || exit 0
if [ "$mode" = --check ]; then
    say "Missing:"
    report "$lacking"
    exit 1
fi
if [ -z "$manager" ]; then
    reason='no apt-get, dnf or zypper here'
elif [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
    reason='neither root nor passwordless sudo'
else
    reason=''
fi
if [ -n "$reason" ]; then
    say "Not installed ($reason), so this is left out:"
    report "$lacking"
    say "The rest works. To install all of it as root: $0 $wanted"
    exit 0
fi

packages=$(printf '%s\n' "$lacking" | cut -d '|' -f 2 | sort -u)
# shellcheck disable=SC2086  # names of packages, one word each
say "Installing with $manager:" $packages
trap restore_debian EXIT
trap 'exit 130' INT TERM
case $manager in
apt) as_root apt-get update -qq </dev/null >&2 || say "The package lists could not be refreshed; trying with the old ones." ;;
dnf)
    # Alma, Rocky and CentOS offer EPEL as a package; RHEL and Fedora do not have it and need nothing here.
    if ! rpm -q epel-release >/dev/null 2>&1; then
        install epel-release >/dev/null 2>&1 || true
    fi
    ;;
esac
quiet_debian
had_sshd=yes
case " $(printf '%s' "$packages" | tr '\n' ' ') " in *' openssh-server '*) had_sshd='' ;; esac
# shellcheck disable=SC2086
install $packages || {
    # One unknown name must not cost the others.
    for package in $packages; do
        install "$package" || say "Could not install $package."
    done
}
restore_debian
if [ -z "$had_sshd" ] && command -v systemctl >/dev/null; then
    # The tests start an sshd of their own; opening the machine is not ours to do.
    for unit in ssh.service ssh.socket sshd.service sshd.socket; do
        as_root systemctl disable --quiet "$unit" 2>/dev/null || true
    done
fi

lacking=$(missing)
if [ -n "$lacking" ]; then
    say "Still missing, so this is left out:"
    report "$lacking"
fi
