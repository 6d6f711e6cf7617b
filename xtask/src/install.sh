# Installs the servers that the tests start, and what shifts a clock, on Debian and its kin. Runs as root.
#
# Debian starts what it installs. Tests start servers of their own, so a default cluster and a
# default pooler would only hold ports: both are prevented, and the machine's settings are left as
# the packages bring them.
set -e
export DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1

cluster=/etc/postgresql-common/createcluster.conf
policy=/usr/sbin/policy-rc.d
ours=
ours_policy=
if [ ! -e "$cluster" ]; then
    mkdir -p "${cluster%/*}"
    echo 'create_main_cluster = false' >"$cluster"
    ours=yes
fi
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    ours_policy=yes
fi
restore() {
    if [ -n "$ours_policy" ]; then rm -f "$policy"; fi
    if [ -n "$ours" ]; then
        # ucf kept our file and put the package's own beside it.
        if [ -e "$cluster.ucf-dist" ]; then mv "$cluster.ucf-dist" "$cluster"; else rm -f "$cluster"; fi
    fi
}
trap restore EXIT
trap 'exit 1' HUP INT TERM

apt-get update
apt-get install -y --no-install-recommends postgresql pgbouncer faketime
