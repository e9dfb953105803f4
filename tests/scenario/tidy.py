# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes away what scenarios left behind, however they ended: troubles of the network, machines, volumes, marks."""

from __future__ import annotations

import typing as t
from concurrent.futures import ThreadPoolExecutor

from .cloud import Cloud

# What every hypervisor has.
_POOLS = "default images"
_IMAGES = "tiny-* debian-*"

# $keep: names of machines that stay. A host that is no hypervisor as yet has nothing to be taken away.
_TIDY = r"""
command -v virsh >/dev/null || exit 0
set -f
for name in $(virsh list --all --name); do
    case " $keep " in *" $name "*) continue ;; esac
    virsh destroy "$name"
    virsh undefine "$name" --nvram --snapshots-metadata --checkpoints-metadata --managed-save ||
        virsh undefine "$name" --nvram --snapshots-metadata --managed-save
done
for pool in $(virsh pool-list --all --name); do
    case " $pools " in *" $pool "*) continue ;; esac
    virsh pool-destroy "$pool"
    virsh pool-undefine "$pool"
done
virsh pool-refresh default
for volume in $(virsh vol-list default | awk 'NR > 2 {print $1}'); do
    for name in $keep; do
        case "$volume" in "$name"-*) continue 2 ;; esac
    done
    virsh vol-delete "$volume" default
done
virsh pool-refresh images
for volume in $(virsh vol-list images | awk 'NR > 2 {print $1}'); do
    for pattern in $images; do
        case "$volume" in $pattern) continue 2 ;; esac
    done
    virsh vol-delete "$volume" images
done
rm -f /var/lib/brine-virt/maintenance.json
virsh secret-undefine b51e0d7a-6d61-4e74-8e1c-6d61696e7400
exit 0
"""


def tidy(cloud: Cloud, keep: t.Collection[str]) -> bool:
    """Bring the lab back to hypervisors with their images and these machines; without a lab there is nothing to do.

    Returns whether there is one, all of whose hosts run now.
    """
    hosts = cloud.lab_hosts()
    if not hosts:
        return False
    cloud.lab_well("heal")
    # A host that lost its power in a scenario that failed.
    cloud.lab_well("up", "--hosts", str(len(hosts)))
    cloud.use()
    script = f"keep='{' '.join(keep)}' pools='{_POOLS}' images='{_IMAGES}'\n{_TIDY}"
    with ThreadPoolExecutor(len(hosts)) as pool:
        list(pool.map(lambda host: cloud.on(host, f"{{ {script}\n}} >/dev/null 2>&1"), hosts))
    return True
