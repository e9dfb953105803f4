# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The internal snapshots in qcow2 files."""

from __future__ import annotations

from ..._base.qemu_img import describe_qcow2


def snapshots_in(path: str, *, in_use: bool = False) -> list[str]:
    """The names of those of a qcow2 file; two can have the same. in_use: also while QEMU has it open.

    Raises HostError for what cannot be read, UnsupportedError without qemu-img.
    """
    return [str(one["name"]) for one in describe_qcow2(path, in_use=in_use).get("snapshots", [])]
