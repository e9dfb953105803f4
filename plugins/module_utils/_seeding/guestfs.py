# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's disk seeded before its first boot, for images without cloud-init: by guestfish of libguestfs.

guestfish starts a small virtual machine, the appliance, which has the disk and nothing else of the hypervisor. All that
is read of the image or run from it happens there: https://libguestfs.org/guestfs-security.1.html.
"""

from __future__ import annotations

import re

from .._base.commands import Program
from .._base.errors import HostError, UnsupportedError, VirtError
from .._base.qemu_img import run_qemu_img

# The folder inside the image in which all of a seed lies while its script is at work, and the script.
STAGE = "/.brine-virt-seed"
SCRIPT = "apply"
# Several times what it takes with emulation on a slow host, its very first run included, which builds the appliance.
TIMEOUT_SECONDS = 900
_INFO_SECONDS = 30
# Where it is missing, the disk would be made before anybody knows.
GUESTFISH = Program(
    "guestfish",
    "the hypervisor has no guestfish to seed disks with",
    "Set virt_hypervisor_guestfs for its role, or install guestfish (Debian, Ubuntu) or libguestfs",
)
# What guestfish says around what is wrong: where in its input that was, and how to look for more.
_ADVICE = re.compile(r"\*stdin\*:\d+: |libguestfs: error: (sh: )?| To see full error messages.*")
# What guestfish says of a disk that is not what it is for, and what that means.
_NOT_ONE_SYSTEM = {
    "no operating system was found on this disk": "libguestfs finds no operating system on it",
    "multi-boot operating systems are not supported": "it has more than one operating system",
}


def seed_disk(
    path: str,
    image_format: str,
    archive: bytes,
    *,
    emulated: bool = False,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> None:
    """Write a machine's seed into the disk at a path, which no machine may be using.

    image_format: ``qcow2`` or ``raw``. archive: the seed, as seed_archive makes it. emulated: KVM is there and does not
    work, so that libguestfs is not to try it; where there is none libguestfs finds that out itself.
    Secrets go through a pipe into the appliance, and never lie in a file of the hypervisor.
    Raises UnsupportedError when the hypervisor or the image lacks something, HostError with guestfish's own complaint.
    """
    arguments = [f"--format={image_format}", "-a", path, "-i"]
    arguments += ["mkdir-mode", STAGE, "0700", ":", "tar-in", "-", STAGE, ":"]
    arguments += ["sh", f"/bin/sh {STAGE}/{SCRIPT} {STAGE}", ":", "rm-rf", STAGE, ":", "umount-all"]
    answer = GUESTFISH.run(
        *arguments,
        late=f"guestfish did not seed {path} within {timeout_seconds:.0f} s",
        data=archive,
        timeout_seconds=timeout_seconds,
        environment=appliance_environment(emulated),
    )
    if answer.status != 0:
        raise failure(path, image_format, answer.complaint)


def appliance_environment(emulated: bool) -> dict[str, str]:
    """The variables for a program of libguestfs. emulated: as for seed_disk."""
    environment = {"LIBGUESTFS_BACKEND": "direct"}
    if emulated:
        environment["LIBGUESTFS_BACKEND_SETTINGS"] = "force_tcg"
    return environment


def failure(
    path: str, image_format: str, complaint: str, *, program: str = "guestfish", doing: str | None = None
) -> UnsupportedError | HostError:
    """What a program's complaint, on one line, means to the user. doing: what it was to do, such as «seed the disk»."""
    doing = doing or f"seed the disk {path}"
    for words, meaning in _NOT_ONE_SYSTEM.items():
        if words in complaint:
            return UnsupportedError(
                f"{program} cannot {doing}: {meaning}",
                hint="Use an image with one Linux system, or another seed method"
                if program == "guestfish"
                else "keep_identity: true takes the disk as it is",
            )
    if "supermin" in complaint:
        return UnsupportedError(
            "libguestfs cannot build its appliance on this hypervisor",
            hint="It needs a kernel in /boot with its modules; libguestfs-test-tool shows more",
        )
    if "guestfs_launch failed" in complaint:
        # guestfish has a page of advice for this and no reason; QEMU's own tool has the reason if it is the disk.
        what = f"libguestfs could not start its appliance with the disk {path}"
        try:
            disk = run_qemu_img("info", image_format, path, timeout_seconds=_INFO_SECONDS)
        except VirtError as exc:
            return HostError(f"{what}: {exc.what}", hint=exc.hint)
        if disk.status != 0:
            return HostError(f"{what}: {disk.complaint}")
        return HostError(what, hint="libguestfs-test-tool, run on the hypervisor, shows more")
    return HostError(f"{program} could not {doing}: {_ADVICE.sub('', complaint)}")
