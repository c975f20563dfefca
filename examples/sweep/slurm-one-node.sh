#!/bin/bash
# Sets up Slurm with this machine as its only node, from Debian's packages: enough to try `ndp sweep run --engine slurm`.
# Needs root. It replaces /etc/slurm/slurm.conf. Limits are Slurm's own: arrays have 1,001 tasks at most.
set -euo pipefail

[[ $EUID -eq 0 ]] || { echo "run it as root" >&2; exit 2; }
if ! command -v slurmctld > /dev/null; then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q slurmctld slurmd slurm-client munge
fi

name=$(hostname -s)
memory=$(awk '/^MemTotal/ { print int($2 / 1024 * 0.9) }' /proc/meminfo)
mkdir -p /etc/slurm /var/spool/slurmctld /var/spool/slurmd /var/log/slurm
cat > /etc/slurm/slurm.conf << END
ClusterName=one-node
SlurmctldHost=$name
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
NodeName=$name CPUs=$(nproc) RealMemory=$memory State=UNKNOWN
PartitionName=all Nodes=$name Default=YES MaxTime=INFINITE State=UP
END

if ! pgrep -x munged > /dev/null; then
    [[ -s /etc/munge/munge.key ]] || { dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 status=none; }
    chown munge: /etc/munge/munge.key
    chmod 400 /etc/munge/munge.key
    mkdir -p /run/munge && chown munge: /run/munge
    runuser -u munge -- /usr/sbin/munged
fi
pkill -x slurmd || true
pkill -x slurmctld || true
slurmctld
slurmd
for _ in $(seq 30); do
    if sinfo --noheader --format=%t 2> /dev/null | grep -q '^\(idle\|mix\|alloc\)'; then
        sinfo
        exit 0
    fi
    sleep 1
done
echo "the node is not up after 30 s; see /var/log/slurm" >&2
exit 1
