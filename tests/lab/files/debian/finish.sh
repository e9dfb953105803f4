#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
# Finish the Debian guest's tree ($1): our files in, a kernel image that boots, nothing of the build left.
set -e
tree=$1
here=$(dirname "$0")
cp -rT --no-preserve=ownership "$here/tree" "$tree"
chroot "$tree" update-initramfs -u -k all
# A guest that lives for minutes: work on timers only delays its boot.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer; do
  if [ -e "$tree/lib/systemd/system/$unit" ]; then chroot "$tree" systemctl mask "$unit"; fi
done
# Generated in each guest: keys by cloud-init or by the seed, the identity by systemd.
rm -f "$tree"/etc/ssh/ssh_host_* "$tree"/etc/hostname "$tree"/etc/apt/apt.conf.d/99mmdebstrap "$tree"/etc/resolv.conf
: > "$tree/etc/machine-id"
