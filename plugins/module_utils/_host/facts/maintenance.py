# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a hypervisor is in maintenance: a small file on the hypervisor itself, which outlives a restart.

Who places machines reads it and puts none here. What is here already is left alone.

A move is done by the hypervisor that the machine is on. All that it can see of its target is what libvirt there shows,
so the maintenance stands there a second time: as the description of a secret that has no value. libvirt keeps it over a
restart, and nothing uses it. https://libvirt.org/formatsecret.html
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from datetime import datetime, timezone

from ..._base.files import file_errors, read_text, sync_folder, write_whole
from ..._base.xml import etree, read_description
from ..connection import VirConnect, libvirt, suppress_codes, translate_errors

PATH = "/var/lib/brine-virt/maintenance.json"
# Chosen once for this purpose; it never changes, or hypervisors of different versions would not see each other's.
SECRET_UUID = "b51e0d7a-6d61-4e74-8e1c-6d61696e7400"
_TITLE = "brine.virt maintenance: "


@dataclass(frozen=True)
class Maintenance:
    """since: the beginning, in UTC as ISO 8601 writes it, None when the file does not say; reason: the user's words."""

    since: str | None
    reason: str | None

    def as_dict(self) -> dict[str, str | None]:
        return {"since": self.since, "reason": self.reason}


def begin(reason: str | None) -> Maintenance:
    """A maintenance that begins now."""
    return Maintenance(datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), reason)


def read_maintenance(path: str = PATH) -> Maintenance | None:
    """What the file says; None where there is none. A file that makes no sense is a maintenance all the same.

    Raises HostError when the file cannot be read.
    """
    text = read_text(path)
    if text is None:
        return None
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        return Maintenance(None, f"{path} cannot be parsed")
    since, reason = content.get("since"), content.get("reason")
    return Maintenance(since if isinstance(since, str) else None, reason if isinstance(reason, str) else None)


def write_maintenance(wanted: Maintenance | None, path: str = PATH) -> None:
    """Make the file say this, in one stroke; None removes it. Raises HostError."""
    directory = os.path.dirname(path)
    with file_errors(f"cannot write {path}"):
        if wanted is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
                sync_folder(directory)
            return
        os.makedirs(directory, mode=0o755, exist_ok=True)
        # It survives the very power cut that a maintenance may be about.
        write_whole(path, f"{json.dumps(wanted.as_dict())}\n".encode(), 0o644)


def show_maintenance(conn: VirConnect, maintenance: Maintenance | None) -> bool:
    """Have libvirt show this, or that there is none; whether that was a change. Raises an error of ours."""
    if find_maintenance(conn) == maintenance:
        return False
    with translate_errors("cannot publish the maintenance through libvirt"):
        if maintenance is None:
            conn.secretLookupByUUIDString(SECRET_UUID).undefine()
        else:
            conn.secretDefineXML(_to_xml(maintenance), 0)
    return True


def find_maintenance(conn: VirConnect) -> Maintenance | None:
    """The maintenance that a hypervisor's libvirt shows. Raises an error of ours when it cannot be asked."""
    # A libvirt without secrets shows none either.
    none_there = (libvirt.VIR_ERR_NO_SECRET, libvirt.VIR_ERR_NO_SUPPORT)
    with translate_errors("cannot ask libvirt about maintenance"), suppress_codes(*none_there):
        text = conn.secretLookupByUUIDString(SECRET_UUID).XMLDesc(0)
        return _from_description(read_description("the mark of maintenance", text).findtext("description") or "")
    return None


def _to_xml(maintenance: Maintenance) -> str:
    root = etree.Element("secret", ephemeral="no", private="yes")
    etree.SubElement(root, "uuid").text = SECRET_UUID
    etree.SubElement(root, "description").text = _TITLE + json.dumps(maintenance.as_dict())
    return etree.tostring(root, encoding="unicode")


def _from_description(text: str) -> Maintenance:
    """A description that makes no sense is a maintenance all the same."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        content = json.loads(text[len(_TITLE) :])
        return Maintenance(content["since"], content["reason"])
    return Maintenance(None, None)
