#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
# Finish the tree ($1) of a host that is a virtual machine: our files in, an initramfs that boots, nothing of the build left.
set -e
tree=$1
here=$(dirname "$0")
# The setting in our files that forbids it counts from the first boot on.
rm -f "$tree"/boot/initrd.img-*
cp -rT --no-preserve=ownership "$here/tree" "$tree"
for kernel in "$tree"/lib/modules/*; do
  chroot "$tree" mkinitramfs -o "/boot/initrd.img-${kernel##*/}" "${kernel##*/}"
done
chroot "$tree" systemctl enable systemd-networkd.service
# Work on timers would take the processor from what is tried out.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer; do
  if [ -e "$tree/lib/systemd/system/$unit" ]; then chroot "$tree" systemctl mask "$unit"; fi
done
rm -f "$tree"/etc/ssh/ssh_host_* "$tree"/etc/hostname "$tree"/etc/apt/apt.conf.d/99mmdebstrap "$tree"/etc/resolv.conf
: > "$tree/etc/machine-id"
