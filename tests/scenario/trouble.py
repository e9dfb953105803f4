# SPDX-License-Identifier: GPL-3.0-or-later
"""Trouble for the lab's hosts, each with an end of its own that comes even when the scenario around it fails."""

from __future__ import annotations

import contextlib
import typing as t

from .cloud import Cloud

# Monolithic or modular, whichever a host has.
_DAEMONS = "'libvirtd*' 'virtqemud*' 'virtproxyd*' 'virtstoraged*' 'virtnetworkd*' 'virtnodedevd*' 'virtsecretd*'"


@contextlib.contextmanager
def cut(cloud: Cloud, host: str, other: str | None = None) -> t.Iterator[None]:
    """Nothing passes between two hosts; without the other one, between a host and everybody, this machine too."""
    words = [host] if other is None else [host, other]
    with _healed(cloud):
        cloud.lab_well("cut", *words)
        yield


@contextlib.contextmanager
def slow(cloud: Cloud, host: str, mbit: int) -> t.Iterator[None]:
    """A host receives at most so many megabits in a second."""
    with _healed(cloud):
        cloud.lab_well("slow", host, str(mbit))
        yield


@contextlib.contextmanager
def _healed(cloud: Cloud) -> t.Iterator[None]:
    """Afterwards the network is as it was; of troubles in one another the first to end ends all."""
    try:
        yield
    finally:
        cloud.lab_well("heal")


@contextlib.contextmanager
def small_pool(cloud: Cloud, host: str, name: str, mib: int) -> t.Iterator[str]:
    """A storage pool with space for so much, in the memory of a host. Gives its directory; all in it goes at the
    end."""
    directory = f"/srv/{name}"
    try:
        cloud.on(
            host,
            f"mkdir -p {directory} && mount -t tmpfs -o size={mib}m,mode=755 {name} {directory}"
            f" && virsh pool-define-as {name} dir --target {directory} && virsh pool-start {name}",
        )
        yield directory
    finally:
        cloud.on(
            host,
            f"virsh pool-destroy {name}; virsh pool-undefine {name};"
            f" if mountpoint -q {directory}; then umount --lazy {directory}; fi; rm -rf --one-file-system {directory}",
        )


@contextlib.contextmanager
def filled(cloud: Cloud, host: str, directory: str, leave_mib: int = 0) -> t.Iterator[None]:
    """A file system of a host is full, but for so much. For small ones only: the bytes are written."""
    file = f"{directory}/.filled"
    room = f"$(df --output=avail -B1M {directory} | tail -1)"
    try:
        cloud.on(host, f"fallocate -l $(({room} - {leave_mib}))M {file}")
        yield
    finally:
        cloud.on(host, f"rm -f {file}")


@contextlib.contextmanager
def daemon_stopped(cloud: Cloud, host: str) -> t.Iterator[None]:
    """libvirt's daemon and its sockets are down; the host's machines run on."""
    units = cloud.on(
        host, f"systemctl list-units --plain --no-legend --state=active {_DAEMONS} | awk '{{print $1}}'"
    ).split()
    sockets = [unit for unit in units if unit.endswith(".socket")]
    services = [unit for unit in units if unit.endswith(".service")]
    try:
        cloud.on(host, f"systemctl stop {' '.join([*sockets, *services])}")
        yield
    finally:
        # Sockets first: a daemon that runs already cannot be given them.
        cloud.on(host, f"systemctl start {' '.join(sockets)} && virsh list >/dev/null")
