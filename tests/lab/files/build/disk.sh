#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
# Make a bootable disk image: disk.sh SCRATCH SIZE_MIB TARGET COMMAND...
# COMMAND makes the tree SCRATCH/tree, or SCRATCH/disk beside it, which then is what the disk holds.
set -e
scratch=$1 size_mib=$2 target=$3
shift 3
"$@"
tree=$scratch/tree
if [ -d "$scratch/disk" ]; then tree=$scratch/disk; fi
echo "making the file system"
# On the whole disk, without partitions, as cloud-init can grow it. extlinux starts no 64bit file system, and failed to
# read one with the blocks of 1 KiB that small disks get otherwise.
truncate -s "${size_mib}M" "$scratch/raw"
mke2fs -q -F -t ext4 -L root -b 4096 -O ^64bit -E lazy_itable_init=0,lazy_journal_init=0 -d "$tree" "$scratch/raw"
echo "installing the boot loader"
mkdir "$scratch/mnt"
mount -o loop "$scratch/raw" "$scratch/mnt"
extlinux --install "$scratch/mnt/boot/extlinux"
umount "$scratch/mnt"
echo "compressing"
qemu-img convert -c -W -m 4 -O qcow2 -o compression_type=zstd "$scratch/raw" "$target"
