#!/bin/sh
# The first process of the emulated machine: this machine's files, copy on write, with the microsandbox home and a
# temporary folder on a disk of its own; then the command. `lab` is a folder shared with whoever started the machine.
export PATH=/bin
trap 'sync; poweroff -f' EXIT
set -e

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module"; done </modules/order

# Cached without ever looking again: without that, starting Python takes ten seconds here.
nine="trans=virtio,version=9p2000.L,msize=1048576"
mount -t 9p -o "ro,$nine,cache=loose" machine /lower
mount -t 9p -o "$nine" lab /lab
mount -t ext4 -o noatime /dev/vda /disk
mount -t overlay -o lowerdir=/lower,upperdir=/disk/upper,workdir=/disk/work,xino=off overlay /root
mount -t proc proc /root/proc
mount -t sysfs sys /root/sys
mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
mount -t devtmpfs dev /root/dev
mkdir -p /root/dev/pts /root/dev/shm /root/vm
mount -t devpts -o mode=620,ptmxmode=666 devpts /root/dev/pts
mount -t tmpfs -o mode=1777 shm /root/dev/shm
mount -t tmpfs -o mode=755 run /root/run
mount --bind /disk/tmp /root/vm
for link in fd:fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do ln -sf "/proc/self/${link#*:}" "/root/dev/${link%:*}"; done
ip link set lo up
hostname codemode-vm
echo "127.0.0.1 localhost codemode-vm" >>/root/etc/hosts

. /lab/places # microsandbox, out
mkdir -p "/root$microsandbox" "/root$out"
mount --bind /disk/home "/root$microsandbox"
mount -t 9p -o "$nine" out "/root$out"
cp /lab/command /root/run/command

for port in /sys/class/virtio-ports/*; do
    case $(cat "$port/name") in stdout) stdout=/dev/${port##*/} ;; stderr) stderr=/dev/${port##*/} ;; esac
done
mkfifo /stdout /stderr
cat /stdout >"$stdout" &
cat /stderr >"$stderr" &

cut -d' ' -f1 /proc/uptime >/lab/started
status=0
chroot /root /bin/sh /run/command </dev/null >/stdout 2>/stderr || status=$?
# What the command left running may hold its output open: five seconds for that to drain, and no more.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    jobs >/running
    grep -q Running /running || break
    sleep 0.5
done
echo "$status" >/lab/status
