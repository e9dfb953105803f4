#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Builds packages of libvirt with modular daemons, under the names that Debian's packages have, in a tree of its own:
#   build.sh RULES       in the tree, which has dpkg-dev and Debian's sources; leaves the packages and their index in /repository
# They are a later version of what Debian has, so that apt takes them where it sees both.
set -euo pipefail

rules=$1
packages="libvirt-clients libvirt-daemon libvirt-daemon-config-network libvirt-daemon-config-nwfilter libvirt-daemon-driver-qemu
    libvirt-daemon-system libvirt-daemon-system-systemd libvirt0"
# What is built without: Ceph, GlusterFS, iSCSI-direct, Xen, LXC, sanlock, Wireshark, documentation, probes of systemtap.
without="libcurl4-gnutls-dev libfuse3-dev libglusterfs-dev libiscsi-dev librados-dev librbd-dev libsanlock-dev libselinux1-dev
    libssh-dev libssh2-1-dev libwireshark-dev libxen-dev nfs-common numad python3-docutils qemu-system-common qemu-utils
    systemtap-sdt-dev"

export DEBIAN_FRONTEND=noninteractive
mkdir -p /build /repository
cd /build
apt-get -qq update
apt-get -qq source libvirt
cd libvirt-*/

# The control file has the source's paragraph first, then one for each package.
awk -v RS= -v ORS='\n\n' -v names="$packages" -v left_out="$without" '
    BEGIN { count = split(names, list); for (i = 1; i <= count; i++) keep[list[i]]; count = split(left_out, out) }
    /^Source: / { for (i = 1; i <= count; i++) gsub("\n " out[i] "[^,\n]*,", ""); print; next }
    { split($0, lines, "\n"); if (substr(lines[1], 10) in keep) print }
' debian/control >debian/control.new
mv debian/control.new debian/control

# No manuals are built, and documentation is not packaged.
sed -i '\:usr/share/man/:d; \:virt-login-shell:d' debian/*.install
rm -f debian/*.docs debian/*.examples debian/*.lintian-overrides debian/not-installed
sed -i '\:libvirtd:d; \:sanlock:d' debian/libvirt-daemon.install
echo 'usr/lib/libvirt/virt-aa-helper
usr/sbin/virt*d
usr/share/augeas/lenses/tests/test_virt*d.aug
usr/share/augeas/lenses/virt*d.aug' >>debian/libvirt-daemon.install
sed -i '\:libvirtd.conf:d; \:virtlo[a-z]*d.conf:d' debian/libvirt-daemon-system.install
echo 'etc/apparmor.d/abstractions
etc/apparmor.d/libvirt
etc/apparmor.d/usr.lib.libvirt.virt-aa-helper
etc/apparmor.d/usr.sbin.virtqemud
etc/libvirt/virt*d.conf
lib/systemd/system/*
usr/lib/sysctl.d/60-*.conf' >>debian/libvirt-daemon-system.install
install --mode=755 "$rules" debian/rules

version=$(dpkg-parsechangelog --show-field Version)
{
    printf 'libvirt (%s+modular) bookworm; urgency=medium\n\n  * Modular daemons.\n\n' "$version"
    printf ' -- brine.virt <lab@virt.internal>  %s\n\n' "$(date --rfc-email)"
    cat debian/changelog
} >debian/changelog.new
mv debian/changelog.new debian/changelog

apt-get -qq build-dep .
DEB_BUILD_OPTIONS='nocheck noautodbgsym parallel='"$(nproc)" nice dpkg-buildpackage --build=binary --no-sign --unsigned-changes
cp ../*.deb /repository
cd /repository
dpkg-scanpackages --multiversion . >Packages
