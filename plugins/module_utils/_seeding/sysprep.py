# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking the identity out of a copy of a disk, with virt-sysprep, which works inside libguestfs' appliance.

https://libguestfs.org/virt-sysprep.1.html
"""

from __future__ import annotations

from collections.abc import Callable

from .._base.commands import Program
from .guestfs import appliance_environment, failure

# Where it is missing, a disk would be copied for nothing, which takes long.
VIRT_SYSPREP = Program(
    "virt-sysprep",
    "the hypervisor has no virt-sysprep, which takes the identity out of an image",
    "Set virt_hypervisor_guestfs: true for its role, or install guestfs-tools. An image, but no clone, can be made "
    "without it: keep_identity: true",
)
# Beside what virt-sysprep removes by itself: the host name, and what cloud-init remembers of the old machine.
_OPTIONS = ("--hostname", "localhost", "--delete", "/var/lib/cloud/*", "--selinux-relabel")


def remove_identity(
    path: str,
    image_format: str,
    what: str,
    *,
    emulated: bool,
    timeout_seconds: float,
    watch: Callable[[], None] | None = None,
) -> None:
    """Take host name, SSH host keys, machine-id, logs, leases and the like out of the file system on a disk.

    path: of a file that nobody uses. image_format: ``qcow2`` or ``raw``. what: whose disk it is a copy of, in words.
    emulated: as for seed_disk. watch: as in run_program. Raises UnsupportedError when the hypervisor or the disk lacks
    something, HostError with virt-sysprep's own complaint.
    """
    answer = VIRT_SYSPREP.run(
        *("--quiet", f"--format={image_format}", "-a", path, *_OPTIONS),
        late=f"virt-sysprep did not finish the copy of {what} within {timeout_seconds:.0f} s",
        timeout_seconds=timeout_seconds,
        environment=appliance_environment(emulated),
        watch=watch,
    )
    if answer.status != 0:
        raise failure(path, image_format, answer.complaint, program="virt-sysprep", doing=f"prepare the disk of {what}")
