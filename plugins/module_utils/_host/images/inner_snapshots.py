# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The internal snapshots in qcow2 files."""

from __future__ import annotations

import json

from ..._base.qemu_img import QCOW2, run_qemu_img

_SECONDS = 600.0


def snapshots_in(path: str, *, in_use: bool = False) -> list[str]:
    """The names of those of a qcow2 file; two can have the same. in_use: also while QEMU has it open.

    Raises HostError for what cannot be read, UnsupportedError without qemu-img.
    """
    force_share = ["-U"] if in_use else []
    answer = run_qemu_img("info", QCOW2, *force_share, "--output=json", path, timeout_seconds=_SECONDS)
    info = json.loads(answer.require(f"qemu-img cannot read {path}").text)
    return [str(one["name"]) for one in info.get("snapshots", [])]
