#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
# Finish the tree ($1) of a host with a kernel of its own, of whichever kind: our files in, nothing of the build left.
set -e
tree=$1
cp -rT --no-preserve=ownership "$(dirname "$0")/tree" "$tree"
chroot "$tree" systemctl enable systemd-networkd.service
# Work on timers would take the processor from what is tried out.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer; do
  if [ -e "$tree/lib/systemd/system/$unit" ]; then chroot "$tree" systemctl mask "$unit"; fi
done
rm -f "$tree"/etc/ssh/ssh_host_* "$tree"/etc/hostname "$tree"/etc/apt/apt.conf.d/99mmdebstrap "$tree"/etc/resolv.conf
: > "$tree/etc/machine-id"
