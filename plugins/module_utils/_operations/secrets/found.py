# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets that libvirt has: what is known of each, and who uses it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..._base.errors import ConflictError
from ..._base.xml import etree, read_description
from ..._host.connection import VirConnect, libvirt, suppress_codes, translate_errors
from ..._host.secret_users import users_of_secret
from ..._model.spec.resources.secret import SecretSpec, options_of

# What is known of a value.
SET, NOT_SET, NOT_READABLE = "set", "not set", "not readable"
# What a plan makes of it.
SET_AGAIN = "set again"


@dataclass(frozen=True)
class FoundSecret:
    """A secret as libvirt has it. value: None where there is none, or it is private and cannot be read."""

    handle: t.Any
    root: etree._Element
    value: bytes | None = None

    @classmethod
    def read(cls, handle: t.Any, words: str) -> FoundSecret:
        """All of one. Raises VirtError."""
        with translate_errors(f"cannot inspect the {words}"):
            root = read_description(f"the {words}", handle.XMLDesc(0))
            value = None
            if not options_of(root)["private"]:
                # The same code says that it has no value, and that it has gone.
                with suppress_codes(libvirt.VIR_ERR_NO_SECRET):
                    value = handle.value(0)
        return cls(handle, root, value)

    @property
    def uuid(self) -> str:
        """In libvirt's form."""
        return self.root.findtext("uuid", "")

    @property
    def value_state(self) -> str:
        """SET, NOT_SET or NOT_READABLE."""
        if options_of(self.root)["private"]:
            return NOT_READABLE
        return NOT_SET if self.value is None else SET


def look_up(conn: VirConnect, spec: SecretSpec) -> t.Any:
    """libvirt's handle of it. Raises libvirtError."""
    return conn.secretLookupByUsage(usage_number(spec), spec.name)


def usage_number(spec: SecretSpec) -> int:
    """libvirt's number for the type of its use."""
    return int(getattr(libvirt, f"VIR_SECRET_USAGE_TYPE_{spec.usage.upper()}"))


def require_unused(conn: VirConnect, spec: SecretSpec, found: FoundSecret, what: str, key: str, hint: str = "") -> None:
    """Raise ConflictError where something uses a secret, or may.

    what: what becomes of it then; key: the option that asked for another thing; hint: another way.
    """
    use = users_of_secret(conn, usage=spec.usage, name=spec.name, uuid=found.uuid)
    if use.users:
        raise ConflictError(
            f"the {spec.words} {what}: it is used by {', '.join(use.users)}",
            where=spec.at(key),
            hint=hint or "Remove these first, or give them another secret",
        )
    if use.unknown:
        raise ConflictError(
            f"the {spec.words} {what}: it cannot be determined whether something uses it: {'; '.join(use.unknown)}",
            where=spec.at(key),
        )


def shown(spec: SecretSpec, root: etree._Element, value_state: str) -> dict[str, t.Any]:
    """A secret in the words of a result."""
    return {
        "name": spec.name,
        "usage": spec.usage,
        "uuid": root.findtext("uuid"),
        **{"description": None, **options_of(root)},
        "value_state": value_state,
    }
