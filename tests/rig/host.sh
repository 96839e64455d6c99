#!/usr/bin/env bash
# The first process of a host: makes a machine of its own out of this one, starts sshd, stays. host.py starts it, in new
# namespaces, with the host's name, its directory, the size of its disk and the path of sshd.
set -euo pipefail
umask 022
name=$1 directory=$2 disk=$3 sshd=$4
read -r pid _ </proc/self/stat # the number outside: this /proc is still the machine's
mapfile -t private <"$directory/private"
mapfile -t visible <"$directory/visible"

cd -- "$directory"
mount -t tmpfs -o mode=755,size=16m tmpfs /run
mkdir -p /run/rig /run/disk /run/aside /run/lock /run/sshd
mount --no-canonicalize --bind . /run/rig # by its own name it may lie below /run
cd /

# Some places are this host's own. What must be seen below them is put aside first and comes back afterwards, read-only.
for i in "${!visible[@]}"; do
    mkdir "/run/aside/$i"
    mount --bind "${visible[i]}" "/run/aside/$i"
    mount -o remount,bind,ro "/run/aside/$i"
done
mount -t tmpfs -o "mode=755,size=$disk" tmpfs /run/disk
for place in "${private[@]}"; do
    [ -d "$place" ] || continue # it lies below one that is private by now
    mkdir -p "/run/disk$place"
    mount --bind "/run/disk$place" "$place"
done
chmod 1777 /tmp /var/tmp
mkdir /home/tb
cp /etc/skel/.bashrc /home/tb/ 2>/dev/null || :
chown -R 10077:10077 /home/tb
for i in "${!visible[@]}"; do
    mkdir -p "${visible[i]}"
    mount --move "/run/aside/$i" "${visible[i]}"
done

# Its own name, users, terminals, shared memory, processes and network cards.
hostname "$name"
for file in hosts hostname resolv.conf passwd group shadow; do
    [ ! -e "/etc/$file" ] || mount --bind "/run/rig/$file" "/etc/$file"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t proc proc /proc
mount -t sysfs -o ro sysfs /sys
mount -o remount,bind,ro / # so that nothing but the host's own is written
ip link set lo up

"$sshd" -f /run/rig/sshd_config -E /run/rig/sshd.log
echo "$pid"
read -r _ || : # the host lives as long as the pipe; meanwhile bash reaps orphans, as a first process must
