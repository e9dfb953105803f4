# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of guests that a hypervisor can run, by its capabilities."""

from __future__ import annotations

import re

from ..._base.errors import UnsupportedError
from ..._base.xml import read_description
from ..connection import VirConnect, translate_errors


class GuestCapabilities:
    """arch: the hypervisor's own architecture. domain_type: ``kvm`` where that works. machine_types: with aliases."""

    def __init__(self, conn: VirConnect) -> None:
        with translate_errors("cannot read the hypervisor's capabilities"):
            capabilities = read_description("the hypervisor", conn.getCapabilities())
        self.arch = capabilities.findtext("host/cpu/arch", "x86_64")
        arch = capabilities.find(f"guest[os_type='hvm']/arch[@name='{self.arch}']")
        if arch is None:
            raise UnsupportedError(f"this hypervisor cannot run guests of its own architecture {self.arch}")
        types = {domain.get("type") for domain in arch.iterfind("domain")}
        self.domain_type = next((kind for kind in ("kvm", "qemu", "test") if kind in types), "qemu")
        self._canonical = {m.text or "": m.get("canonical", m.text or "") for m in arch.iter("machine")}
        # Some capabilities name the machine types beside the domain types, some inside them.
        self.machine_types = {m.text or "" for m in arch.iter("machine")}

    @property
    def emulated(self) -> bool:
        """Guests run without hardware acceleration."""
        return self.domain_type == "qemu"

    def same_machine_type(self, have: str, wanted: str) -> bool:
        """Whether a machine of the type that its XML names (``pc-q35-7.2``) is what the spec calls ``q35``.

        libvirt replaces an alias by the newest version when it defines a machine; an older one is of that family still.
        """
        newest = self._canonical.get(wanted, wanted)
        return have in (wanted, newest) or _kind(have) == (_kind(newest) if newest != wanted else ["pc", wanted])

    def types_like(self, machine_type: str) -> str:
        """The newest machine types of the kind of one that is not known here, in words."""
        alike = [name for name in self.machine_types if "-" in name and _kind(name) == _kind(machine_type)]
        return ", ".join(sorted(alike, key=_version)[-3:]) or "none of this kind"


def _kind(machine_type: str) -> list[str]:
    """Of ``pc-q35-10.0`` the first two words, of ``virt-10.0`` and all others the first."""
    words = machine_type.split("-")
    return words[: 2 if words[0] == "pc" else 1]


def _version(machine_type: str) -> list[int]:
    return [int(number) for number in re.findall("[0-9]+", machine_type)]
