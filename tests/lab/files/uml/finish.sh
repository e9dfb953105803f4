#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
# Finish the tree ($1) of a host with User Mode Linux: its kernel and its modules from this machine, and what all with an
# own kernel have.
set -e
tree=$1
here=$(dirname "$0")
cp -rT --no-preserve=ownership "$here/tree" "$tree"
# libvirt finds no UUID of its own here either, and takes another one each time that it starts, unless it is told.
mkdir -p "$tree/etc/libvirt" "$tree/etc/dpkg/dpkg.cfg.d"
cp "$here"/../host/etc/libvirt/libvirtd.conf "$here"/../host/etc/libvirt/virtqemud.conf "$tree/etc/libvirt/"
cp "$here"/../host/etc/dpkg/dpkg.cfg.d/brine-virt-lab "$tree/etc/dpkg/dpkg.cfg.d/"
mkdir -p "$tree/lib/modules" "$tree/boot"
cp -r --no-preserve=ownership /usr/lib/uml/modules/. "$tree/lib/modules/"
cp /usr/bin/linux.uml "$tree/boot/vmlinuz-uml"
exec "$here/../own_kernel/finish.sh" "$tree"
