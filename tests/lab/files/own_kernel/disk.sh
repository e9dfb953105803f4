#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
# Make what a host with a kernel of its own boots from: disk.sh SCRATCH SIZE_MIB TARGET COMMAND...
# COMMAND makes the tree SCRATCH/tree. Makes TARGET.vmlinuz, TARGET.initrd where there is one and, last of all, TARGET.raw.
set -e
scratch=$1 size_mib=$2 target=$3
shift 3
"$@"
cp "$scratch"/tree/boot/vmlinuz-* "$target.vmlinuz"
for initramfs in "$scratch"/tree/boot/initrd.img-*; do
  if [ -e "$initramfs" ]; then cp "$initramfs" "$target.initrd"; fi
done
echo "making the file system"
# On the whole disk, without partitions: no boot loader reads it.
truncate -s "${size_mib}M" "$target.new.raw"
mke2fs -q -F -t ext4 -L root -E lazy_itable_init=0,lazy_journal_init=0 -d "$scratch/tree" "$target.new.raw"
mv "$target.new.raw" "$target.raw"
