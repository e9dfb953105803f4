# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine undefined, with the files that libvirt keeps for it and that are nobody else's.

Their names are in its XML. Whoever copies a machine by its XML has two machines with one file.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import shlex
from collections.abc import Iterator

from ..._base.errors import ConflictError
from ..._base.files import file_errors
from ..._base.xml import etree, read_description
from ..connection import VirConnect, libvirt, suppress_codes, translate_errors
from ..storage.shared_pools import shared_path_because
from ..storage.usage import Usage
from .domains import undefine_handle

_NVRAM, _TPM = "nvram", "tpm"
# Where libvirt puts the NVRAM of a machine whose XML names no place for it (qemuDomainNVRAMPathFormat).
_NVRAM_PLACE = "/qemu/nvram"


def undefine(
    conn: VirConnect, name: str, *, tpm: bool = False, never_started: bool = False, moved: bool = False
) -> None:
    """Undefine a machine with what libvirt itself keeps of it: NVRAM, saved state, metadata of snapshots and of
    checkpoints. A missing one is no error. A file that anything else uses stays.

    tpm: the state of its TPM goes in any case; without it only where libvirt would not keep it by the definition.
    never_started: libvirt has made no NVRAM for it, so that one that is there is not its own, and stays. moved: it runs
    elsewhere, and on storage that both have these files are its own there: NVRAM and TPM stay, whatever tpm says.

    Raises ConflictError for one that runs or is paused: nothing here ever stops a machine to be rid of it.
    """
    with translate_errors(f"cannot undefine machine {name}"), suppress_codes(libvirt.VIR_ERR_NO_DOMAIN):
        handle = conn.lookupByName(name)
        if handle.isActive():
            raise ConflictError(f"machine {name} is running, and so it is not undefined")
        root = read_description(f"machine {name}", handle.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        files = dict(_files(root))
        kept = kept_files(root, name, Usage(conn)) if files else {}
        keep_nvram, keep_tpm = (files.get(kind) in kept for kind in (_NVRAM, _TPM))
        common = libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
        flags = common | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
        keep_nvram = keep_nvram or never_started or moved
        keep_tpm = keep_tpm or moved
        flags |= libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM if keep_nvram else libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
        # Both of libvirt 8.9. A daemon before that refuses them, and knows no state of a TPM in a place of its own.
        word = "VIR_DOMAIN_UNDEFINE_KEEP_TPM" if keep_tpm else "VIR_DOMAIN_UNDEFINE_TPM"
        more = getattr(libvirt, word, 0) if keep_tpm or tpm else 0
        undefine_handle(handle, flags | more, flags, common)


def remove_left_nvram(conn: VirConnect, moved: etree._Element) -> None:
    """Delete the NVRAM of a machine that runs on another hypervisor now, which libvirt leaves here: a new machine of
    its name would start with it. On storage that other hosts may have, it is the machine's own there, and stays.

    moved: its description there. Raises VirtError.
    """
    name = moved.findtext("name", "")
    path = dict(_files(moved)).get(_NVRAM)
    if path is None or shared_path_because(path) is not None:
        return
    with translate_errors(f"cannot look for machine {name}"), suppress_codes(libvirt.VIR_ERR_NO_DOMAIN):
        conn.lookupByName(name)
        return
    if path in kept_files(moved, name, Usage(conn)):
        return
    with file_errors(f"cannot delete {path}"), contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def kept_files(root: etree._Element, name: str, usage: Usage) -> dict[str, str]:
    """Of the files that libvirt would delete with a machine, those that stay, each with the reason.

    root: the machine's permanent description.
    """
    kept = {}
    # Of a pool that is not active, or an overlay that cannot be read, no machine has its NVRAM.
    unknown = [one.words for one in usage.unknown if one.writes and one.machine != name]
    for kind, path in _files(root):
        users = sorted({user.words for user in usage.users_at(path) if user.machine != name})
        if users:
            kept[path] = f"it is used by {', '.join(users)}"
        elif unknown:
            kept[path] = f"it cannot be determined whether something uses it: {'; '.join(unknown)}"
        elif kind != _NVRAM or not _is_libvirts_own(path, name):
            remove = "rm" if kind == _NVRAM else "rm -r"
            kept[path] = (
                f"libvirt has not created it for this machine. If nobody needs it: {remove} {shlex.quote(path)}"
            )
    return kept


def _is_libvirts_own(path: str, name: str) -> bool:
    """Whether libvirt itself has chosen this place for a machine's NVRAM: what else is named there may be anything."""
    place, file = posixpath.split(path)
    return place.endswith(_NVRAM_PLACE) and file.startswith(f"{name}_VARS.")


def own_files(root: etree._Element) -> list[str]:
    """The files that libvirt deletes with a machine, whether they are there or not."""
    return [path for _kind, path in _files(root)]


def _files(root: etree._Element) -> Iterator[tuple[str, str]]:
    """https://libvirt.org/formatdomain.html#bios-bootloader (nvram), #tpm-device (source)"""
    source = root.find("os/nvram/source")
    nvram = (root.findtext("os/nvram") or "").strip() if source is None else source.get("file", "")
    if nvram:
        yield _NVRAM, nvram
    for source in root.iterfind("devices/tpm/backend[@type='emulator']/source"):
        if source.get("path"):
            yield _TPM, source.get("path", "")
