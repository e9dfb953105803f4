#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
# From a tree ($1) with an unpacked kernel and busybox make the tiny guest's disk contents beside it ($1/../disk).
set -e
tree=$1
here=$(dirname "$0")
disk=$(dirname "$tree")/disk
root=$(dirname "$tree")/initramfs
busybox=$tree/bin/busybox
release=$(basename "$tree"/lib/modules/*)
mkdir -p "$root/bin" "$root/lib/modules/$release" "$disk"
cp -rT --no-preserve=ownership "$here/initramfs" "$root"
cp "$busybox" "$root/bin/busybox"
# The kernel starts init by its first line, before init has made the other links.
ln -s busybox "$root/bin/sh"
# With what each of them needs; busybox reads the dependencies that depmod writes.
for module in virtio virtio_ring virtio_pci virtio_pci_legacy_dev virtio_pci_modern_dev virtio_blk virtio_net failover net_failover \
  virtio_balloon virtio-rng rng-core button evdev llc stp garp mrp 8021q; do
  find "$tree/lib/modules/$release" -name "$module.ko*" -exec cp {} "$root/lib/modules/$release/" \;
done
"$busybox" depmod -b "$root" "$release"
cp -rT --no-preserve=ownership "$here/tree" "$disk"
cp "$tree/boot/vmlinuz-$release" "$disk/boot/vmlinuz"
# Not compressed: three megabytes are read faster than they are unpacked under emulation.
(cd "$root" && find . | "$busybox" cpio -o -H newc) > "$disk/boot/initramfs"
