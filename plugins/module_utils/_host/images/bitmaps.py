# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bitmaps in qcow2 files, in which QEMU notes what changes from a moment on."""

from __future__ import annotations

from dataclasses import dataclass

from ..._base.qemu_img import QCOW2, describe_qcow2, run_qemu_img

_SECONDS = 600.0


@dataclass(frozen=True, order=True)
class Bitmap:
    """One of them. granularity: how many bytes each bit stands for. flags: as qemu-img has them."""

    name: str
    granularity: int
    flags: tuple[str, ...]


def bitmaps_in(path: str, *, in_use: bool = False) -> list[Bitmap]:
    """Those of a qcow2 file. in_use: also while QEMU has it open, which may have more of them in its memory alone.

    Raises HostError for what cannot be read, UnsupportedError without qemu-img.
    """
    data = describe_qcow2(path, in_use=in_use).get("format-specific", {}).get("data", {})
    return sorted(
        Bitmap(one["name"], one["granularity"], tuple(sorted(one["flags"]))) for one in data.get("bitmaps", [])
    )


def remove_bitmap(path: str, name: str) -> None:
    """Delete one from a qcow2 file that nobody has open. Raises as bitmaps_in does."""
    answer = run_qemu_img("bitmap", QCOW2, "--remove", path, name, timeout_seconds=_SECONDS)
    answer.require(f"qemu-img cannot delete bitmap {name} from {path}")
