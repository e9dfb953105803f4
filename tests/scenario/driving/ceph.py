# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's Ceph cluster, and a pool of it on hypervisors, as the role makes it."""

from __future__ import annotations

import json
import time
import typing as t

from ..cloud import Cloud
from .tasks import role_well

# The pool as libvirt calls it, and the secret that has its key.
POOL, SECRET = "ceph", "client.libvirt"
_GATHERED_SECONDS = 12
_FOLDERS = [
    {"name": "default", "path": "/var/lib/libvirt/images"},
    {"name": "images", "path": "/var/lib/libvirt/virt-images"},
]


def start(cloud: Cloud) -> dict[str, str]:
    """Have the cluster; how it is reached."""
    cloud.lab_well("up", "--ceph", "--hosts", str(len(cloud.lab_hosts())))
    text = cloud.lab_well("ceph")
    return dict(json.loads(text[text.index("{") :]))


def role(cloud: Cloud, reached: dict[str, str], *, changes: bool) -> None:
    """The role virt_hypervisor with the pool, which has to change something, or nothing."""
    pool = {"name": POOL, "type": "rbd", "hosts": [reached["host"]], "ceph_pool": reached["pool"]}
    role_well(
        cloud,
        "virt_hypervisor",
        "hypervisors",
        changes=changes,
        virt_hypervisor_secrets=[{"name": SECRET, "usage": "ceph", "value_base64": reached["key"]}],
        virt_hypervisor_pools=[*_FOLDERS, {**pool, "user": reached["user"], "secret": SECRET}],
    )


def listed(cloud: Cloud) -> dict[str, dict[str, t.Any]]:
    """All volumes of the pool by their names, as Ceph itself lists them; snapshots by ``name@snapshot``."""
    text = cloud.lab_well("ceph", "rbd", "ls", "--long", "--format", "json", "vms")
    rows = json.loads(text[text.index("[") :])
    return {row["image"] + (f"@{row['snapshot']}" if "snapshot" in row else ""): row for row in rows}


def identities(cloud: Cloud, *names: str) -> dict[str, str]:
    """What tells each volume from every other one, of its name or not."""
    found = {}
    for name in names:
        text = cloud.lab_well("ceph", "rbd", "info", "--format", "json", f"vms/{name}")
        found[name] = str(json.loads(text[text.index("{") :])["id"])
    return found


def traffic_bytes(cloud: Cloud) -> tuple[int, int]:
    """How much has been read from the pool, and written to it, since it was made."""
    # The cluster gathers the figures every few seconds.
    time.sleep(_GATHERED_SECONDS)
    text = cloud.lab_well("ceph", "rados", "df", "--pool", "vms", "--format", "json")
    (pool,) = json.loads(text[text.index("{") :])["pools"]
    return int(pool["read_bytes"]), int(pool["write_bytes"])


def clear(cloud: Cloud) -> None:
    """Take the pool away from the hypervisors, and all that is in it."""
    for host in cloud.lab_hosts():
        cloud.lab(
            "ssh",
            host,
            f"virsh pool-destroy {POOL}; virsh pool-undefine {POOL};"
            " virsh secret-undefine $(virsh secret-list | awk '/ceph/ {print $1}')",
        )
    there = listed(cloud)
    # Clones first.
    for name in sorted(there, key=lambda name: "parent" not in there[name]):
        if "@" not in name:
            for words in (("snap", "unprotect", f"vms/{name}@brine"), ("snap", "purge", f"vms/{name}")):
                cloud.lab("ceph", "rbd", *words)
            cloud.lab("ceph", "rbd", "rm", f"vms/{name}")
