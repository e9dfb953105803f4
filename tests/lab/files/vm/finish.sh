#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
# Finish the tree ($1) of a host that is a virtual machine: an initramfs that boots, and what all with an own kernel have.
set -e
tree=$1
here=$(dirname "$0")
# The setting in our files that forbids it counts from the first boot on.
rm -f "$tree"/boot/initrd.img-*
cp -rT --no-preserve=ownership "$here/tree" "$tree"
for kernel in "$tree"/lib/modules/*; do
  if [ -x "$tree/usr/sbin/dkms" ]; then chroot "$tree" dkms autoinstall -k "${kernel##*/}"; fi
  chroot "$tree" mkinitramfs -o "/boot/initrd.img-${kernel##*/}" "${kernel##*/}"
done
exec "$here/../own_kernel/finish.sh" "$tree"
