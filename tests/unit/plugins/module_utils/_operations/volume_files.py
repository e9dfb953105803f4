# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes of libvirt's test driver with files behind them, made and deleted in the place of a hypervisor's daemon."""

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

from ansible_collections.brine.virt.plugins.module_utils._base.xml import need, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt

MAKE: t.Any = getattr(getattr(libvirt, "virStoragePool", None), "createXML", None)
DELETE: t.Any = getattr(getattr(libvirt, "virStorageVol", None), "delete", None)


def make_file(pool: t.Any, xml: str, flags: int = 0) -> t.Any:
    """What the daemon does, with qemu-img."""
    root = parse_xml(xml)
    made = MAKE(pool, xml, flags)
    image_format, size = need(root, "target/format").get("type", ""), root.findtext("capacity", "")
    below = root.findtext("backingStore/path")
    backing = ["-b", below, "-F", "qcow2"] if below else []
    subprocess.run(["qemu-img", "create", "-q", "-f", image_format, *backing, made.path(), size], check=True)
    return made


def delete_file(volume: t.Any, flags: int = 0) -> t.Any:
    path = volume.path()
    answer = DELETE(volume, flags)
    Path(path).unlink()
    return answer
