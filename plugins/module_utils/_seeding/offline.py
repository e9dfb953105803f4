# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A seed for an image without cloud-init: a tar of files, with the script that puts them where they belong.

The script runs inside libguestfs's appliance with the image as its root, never on the hypervisor. What it has to do is
a list of calls at its end, one a line, every word quoted for the shell.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from .._model.spec.machine import Machine
from .._model.spec.seed_parts import User
from .guestfs import SCRIPT
from .host_keys import HostKey
from .nocloud import tar_of
from .offline_network import network_files

# For the shell of any image; that of the smallest is busybox's.
_FUNCTIONS = r"""set -eu
umask 077
stage=$1
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH SYSTEMD_OFFLINE=1

die() { echo "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }
enabled() { has systemctl && systemctl is-enabled "$1.service" >/dev/null 2>&1; }
folder_of() { (umask 022; mkdir -p "${1%/*}/"); }

# put FILE PATH MODE OWNER
put() {
    [ ! -d "$2" ] || die "$2 is a directory in the image"
    folder_of "$2"
    cat "$stage/$1" >"$2"
    chown "$4" "$2"
    chmod "$3" "$2"
}

# Keep what the image has, out of the way.
set_aside() {
    for file; do
        [ -f "$file" ] || continue
        folder_of "/var/lib/brine-virt/replaced$file"
        mv "$file" "/var/lib/brine-virt/replaced$file"
    done
}

# put_all FOLDER TARGET MODE
put_all() {
    for file in "$stage/$1"/*; do
        [ ! -f "$file" ] || put "$1/${file##*/}" "$2/${file##*/}" "$3" 0:0
    done
}

# What no two machines may have in common, and what would undo the rest at the first boot.
identity() {
    if [ -e /etc/machine-id ] || has systemctl; then
        rm -f /etc/machine-id
        : >/etc/machine-id
        chmod 444 /etc/machine-id
    fi
    [ ! -f /var/lib/dbus/machine-id ] || ln -sf /etc/machine-id /var/lib/dbus/machine-id
    rm -f /var/lib/systemd/random-seed /etc/udev/rules.d/70-persistent-net.rules /etc/ssh/ssh_host_*
    [ ! -d /etc/cloud ] || : >/etc/cloud/cloud-init.disabled
}

# host_name SHORT FULL
host_name() {
    rm -f /etc/hostname
    echo "$1" >/etc/hostname
    chmod 644 /etc/hostname
    [ ! -f /etc/HOSTNAME ] || [ -L /etc/HOSTNAME ] || echo "$1" >/etc/HOSTNAME
    { grep -v '^127\.0\.1\.1[[:space:]]' /etc/hosts || true; } >"$stage/hosts" 2>/dev/null
    grep -q '^127\.0\.0\.1[[:space:]]' "$stage/hosts" || echo '127.0.0.1 localhost' >>"$stage/hosts"
    if [ "$1" = "$2" ]; then echo "127.0.1.1 $1"; else echo "127.0.1.1 $2 $1"; fi >>"$stage/hosts"
    put hosts /etc/hosts 0644 0:0
}

time_zone() {
    [ -f "/usr/share/zoneinfo/$1" ] || die "the image has no time zone $1"
    ln -sf "/usr/share/zoneinfo/$1" /etc/localtime
    [ ! -f /etc/timezone ] || echo "$1" >/etc/timezone
}

# Without PAM sshd refuses who is locked with a "!", the right key or not.
no_password() { echo "$1:*" | chpasswd -e 2>/dev/null || die "the image's chpasswd cannot lock the password of $1"; }

# account NAME SHELL FULL-NAME
account() {
    # Whoever is there already keeps his account, not his password.
    id -u "$1" >/dev/null 2>&1 || new_account "$@"
    no_password "$1"
}

new_account() {
    shell=$2
    if [ ! -x "$shell" ]; then
        [ "$shell" = /bin/bash ] || die "the image has no $shell for user $1"
        shell=/bin/sh
    fi
    if has useradd; then
        if grep -q "^$1:" /etc/group; then
            useradd -m -s "$shell" -c "$3" -g "$1" "$1"
        else
            useradd -m -U -s "$shell" -c "$3" "$1"
        fi
    elif has adduser; then
        adduser -D -s "$shell" -g "$3" "$1"
    else
        die "the image has neither useradd nor adduser"
    fi
}

# join NAME GROUP...
join() {
    name=$1
    shift
    for group; do
        grep -q "^$group:" /etc/group || { if has groupadd; then groupadd "$group"; else addgroup "$group"; fi; }
        if has usermod; then usermod -a -G "$group" "$name"; else addgroup "$name" "$group"; fi
    done
}

# password FILE, which has NAME:HASH
password() { chpasswd -e <"$stage/$1"; }

sudoer() {
    has sudo || die "the image has no sudo for user $1 (without it the seed's user can only be root)"
    folder_of /etc/sudoers.d/90-brine-virt
    echo "$1 ALL=(ALL) NOPASSWD:ALL" >>/etc/sudoers.d/90-brine-virt
    chmod 440 /etc/sudoers.d/90-brine-virt
}

# keys NAME FILE
keys() {
    home=$(while IFS=: read -r name x x x x home x; do
        if [ "$name" = "$1" ]; then echo "$home"; fi
    done </etc/passwd)
    [ -n "$home" ] || die "the image has no home directory for user $1"
    owner=$(id -u "$1"):$(id -g "$1")
    mkdir -p "$home/.ssh"
    list=$home/.ssh/authorized_keys
    [ ! -s "$list" ] || [ -z "$(tail -c 1 "$list")" ] || echo >>"$list"
    cat "$stage/$2" >>"$list"
    chown "$owner" "$home/.ssh" "$list"
    chmod 700 "$home/.ssh"
    chmod 600 "$list"
}

# For sshd the first word on a matter counts.
password_logins() {
    if [ -f /etc/ssh/sshd_config ]; then
        { echo "PasswordAuthentication $1"; cat /etc/ssh/sshd_config; } >"$stage/sshd_config"
        cat "$stage/sshd_config" >/etc/ssh/sshd_config
    else
        folder_of /etc/ssh/sshd_config.d/10-brine-virt.conf
        echo "PasswordAuthentication $1" >/etc/ssh/sshd_config.d/10-brine-virt.conf
    fi
}

resolver() {
    if [ ! -f "$stage/resolver/resolv.conf" ] || [ -L /etc/resolv.conf ]; then return; fi
    put resolver/resolv.conf /etc/resolv.conf 0644 0:0
    [ ! -f /etc/dhcp/dhclient.conf ] || cat "$stage/resolver/dhclient.conf" >>/etc/dhcp/dhclient.conf
}

# For the program that the image uses; its own description of the network, which was not made for this machine, goes.
network() {
    if enabled NetworkManager && ! enabled systemd-networkd; then
        keyfiles
    elif has netplan && [ -d /etc/netplan ]; then
        set_aside /etc/netplan/*.yaml
        put_all netplan /etc/netplan 0600
        enabled systemd-resolved || resolver
    elif enabled systemd-networkd; then
        set_aside /etc/systemd/network/*.network
        put_all links /etc/systemd/network 0644
        put_all networkd /etc/systemd/network 0644
        enabled systemd-resolved || resolver
    elif has ifup && [ -d /etc/network ]; then
        set_aside /etc/network/interfaces /etc/network/interfaces.d/*
        put_all ifupdown /etc/network 0644
        put_all links /etc/systemd/network 0644
        has resolvconf || resolver
    elif has NetworkManager; then
        keyfiles
    else
        die "the image has no netplan, NetworkManager, systemd-networkd or ifupdown to configure its network with"
    fi
}

keyfiles() {
    set_aside /etc/NetworkManager/system-connections/* /etc/sysconfig/network-scripts/ifcfg-[!l]*
    put_all links /etc/systemd/network 0644
    put_all keyfiles /etc/NetworkManager/system-connections 0600
}

# What was written has no labels yet; the machine gives them at its first boot, and starts once more.
labels() {
    if [ -f /etc/selinux/config ] && ! grep -q '^SELINUX=disabled' /etc/selinux/config; then : >/.autorelabel; fi
}

"""


def seed_archive(machine: Machine, host_keys: Sequence[HostKey]) -> bytes:
    """All files of the seed and the script, as a tar that belongs to root and nobody else may read."""
    return tar_of(seed_files(machine, host_keys), 0o600)


def seed_files(machine: Machine, host_keys: Sequence[HostKey]) -> dict[str, bytes]:
    """The files by their names below STAGE, the script among them."""
    files: dict[str, bytes] = {name: text.encode() for name, text in network_files(machine).items()}
    calls: list[tuple[str, ...]] = [("identity",), ("host_name", *_names(machine))]
    if machine.seed.timezone:
        calls.append(("time_zone", machine.seed.timezone))
    for key in host_keys:
        for half, suffix, mode in ((key.private, "", "0600"), (key.public + "\n", ".pub", "0644")):
            name = f"ssh_host_{key.kind}_key{suffix}"
            files[f"ssh/{name}"] = half.encode()
            calls.append(("put", f"ssh/{name}", f"/etc/ssh/{name}", mode, "0:0"))
    calls.append(("password_logins", "yes" if machine.seed.ssh_pwauth else "no"))
    for index, user in enumerate(_users(machine)):
        calls += _user_calls(user, str(index), files)
    calls.append(("network",))
    for index, file in enumerate(machine.seed.files):
        files[f"files/{index}"] = file.data
        calls.append(("put", f"files/{index}", file.path, file.mode, file.owner))
    calls.append(("labels",))
    files[SCRIPT] = (_FUNCTIONS + "".join(f"{shlex.join(call)}\n" for call in calls)).encode()
    return files


def _names(machine: Machine) -> tuple[str, str]:
    """The short and the full name of the machine."""
    short = machine.seed.hostname.split(".")[0]
    return short, machine.seed.fqdn or machine.seed.hostname


def _users(machine: Machine) -> list[User]:
    """The user that Ansible logs in as, then the others."""
    seed = machine.seed
    first = User(
        seed.user, sudo=seed.user != "root", authorized_keys=seed.authorized_keys, password_hash=seed.password_hash
    )
    return [first, *seed.users]


def _user_calls(user: User, number: str, files: dict[str, bytes]) -> list[tuple[str, ...]]:
    calls: list[tuple[str, ...]] = [("account", user.name, user.shell, user.gecos or "")]
    if user.groups:
        calls.append(("join", user.name, *user.groups))
    if user.password_hash:
        files[f"passwords/{number}"] = f"{user.name}:{user.password_hash}\n".encode()
        calls.append(("password", f"passwords/{number}"))
    if user.sudo:
        calls.append(("sudoer", user.name))
    if user.authorized_keys:
        files[f"keys/{number}"] = "".join(f"{key}\n" for key in user.authorized_keys).encode()
        calls.append(("keys", user.name, f"keys/{number}"))
    return calls
