# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What says the format of a disk: never its own bytes, which its guest may have written."""

from __future__ import annotations

import posixpath
import typing as t

from .._base.xml import attribute, etree
from .metadata.machine import VolumeNote

RAW, QCOW2 = "raw", "qcow2"
_BY_ENDING = {".raw": RAW, ".iso": RAW, ".qcow2": QCOW2}


def format_by_name(name: str) -> str | None:
    """The format that the name of a file promises; None where it has no ending that does."""
    return _BY_ENDING.get(posixpath.splitext(name)[1])


def noted_format(note: VolumeNote) -> str | None:
    """The format that a volume was made with, for older notes by the name that every file was given; None where nothing
    says."""
    return note.format or (RAW if note.role == "seed" else format_by_name(note.name))


def driver_format(disk: etree._Element) -> str:
    """The format that a ``<disk>`` is opened with; libvirt's rule without one is raw.

    https://libvirt.org/formatdomain.html#hard-drives-floppy-disks-cdroms
    """
    return attribute(disk, "driver", "type") or RAW


def safest_format(formats: t.Iterable[str]) -> str | None:
    """Of what several say of one disk: raw if anybody has it as raw, since that one's guest can write anything."""
    known = sorted(set(formats), key=lambda one: (one != RAW, one))
    return known[0] if known else None
