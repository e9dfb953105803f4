# SPDX-License-Identifier: GPL-3.0-or-later
"""Users of a volume of whom only virsh and qemu-img know; whatever deletes volumes has to see them."""

from __future__ import annotations

import contextlib
import typing as t

from ..cloud import Cloud

# Somebody's overlay, in no pool.
CLONE = "/var/tmp/brine-clone.qcow2"
# Takes the host, another machine that runs there, and the path of the volume. Gives the words for who uses it.
User = t.Callable[[Cloud, str, str, str], t.ContextManager[str]]


@contextlib.contextmanager
def attached(cloud: Cloud, host: str, machine: str, path: str) -> t.Iterator[str]:
    """The machine has the volume until it is stopped."""
    cloud.on(
        host,
        f"virsh attach-disk {machine} {path} vdc --subdriver qcow2 --live"
        f" && ! virsh dumpxml --inactive {machine} | grep -F {path}",
    )
    try:
        yield f"machine {machine}"
    finally:
        cloud.on(host, f"virsh destroy {machine} && virsh start {machine}")


@contextlib.contextmanager
def cloned(cloud: Cloud, host: str, machine: str, path: str) -> t.Iterator[str]:
    """An overlay on the volume lies in no pool, and the machine has it at its next start."""
    cloud.on(
        host,
        f"qemu-img create -q -f qcow2 -b {path} -F qcow2 {CLONE}"
        f" && virsh attach-disk {machine} {CLONE} vdd --subdriver qcow2 --config",
    )
    try:
        yield f"machine {machine}"
    finally:
        cloud.on(host, f"virsh detach-disk {machine} vdd --config; rm {CLONE}")


# With the words of a title.
USERS: tuple[tuple[str, User], ...] = (
    ("a running machine has", attached),
    ("somebody's clone is backed by", cloned),
)
