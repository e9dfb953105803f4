# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage pools that libvirt has: what each is now, and at its next start."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ..._base.errors import NotFoundError, UnsupportedError
from ..._base.xml import etree, read_description
from ..._host.connection import VirConnect, is_local, libvirt, suppress_codes, translate_errors
from ..._host.storage.setup.directory import group_number, user_number
from ..._model.spec.resources.pool import ACTIVE, INACTIVE, PoolSpec, options_of
from ..._model.spec.resources.pool_fields import without_password

# libvirt's type of the secret that a pool of each type logs in with. https://libvirt.org/formatsecret.html
_SECRET_USAGES = {"rbd": ("ceph", "VIR_SECRET_USAGE_TYPE_CEPH"), "iscsi": ("iscsi", "VIR_SECRET_USAGE_TYPE_ISCSI")}


@dataclass(frozen=True)
class FoundPool:
    """A pool as libvirt has it.

    root: its permanent definition; live: what is in force, where it is active.
    """

    handle: t.Any
    name: str
    root: etree._Element
    live: etree._Element | None
    autostart: bool
    persistent: bool

    @classmethod
    def read(cls, handle: t.Any) -> FoundPool:
        """All of one. Raises VirtError."""
        name = handle.name()
        with translate_errors(f"cannot inspect storage pool {name}"):
            now = read_description(f"storage pool {name}", handle.XMLDesc(0))
            return cls(
                handle=handle,
                name=name,
                root=_permanent(handle, name, now),
                live=now if handle.isActive() else None,
                autostart=bool(handle.autostart()),
                persistent=bool(handle.isPersistent()),
            )

    @property
    def kind(self) -> str:
        """Its type."""
        return self.root.get("type", "")

    @property
    def active(self) -> bool:
        """Whether it is started."""
        return self.live is not None

    @property
    def have(self) -> dict[str, t.Any]:
        """Its permanent definition in the words of the options."""
        return options_of(self.root)

    def shown(self) -> dict[str, t.Any]:
        """All of it for a result."""
        return shown(self.name, self.root, active=self.active, autostart=self.autostart)


def _permanent(handle: t.Any, name: str, now: etree._Element) -> etree._Element:
    # libvirt's test driver knows no flags here.
    with suppress_codes(libvirt.VIR_ERR_INVALID_ARG):
        return read_description(f"storage pool {name}", handle.XMLDesc(libvirt.VIR_STORAGE_XML_INACTIVE))
    return now


def shown(name: str, root: etree._Element, *, active: bool, autostart: bool) -> dict[str, t.Any]:
    """A pool in the words of a result. root: its definition."""
    options = options_of(root)
    if options.get("mount_options"):
        options["mount_options"] = [without_password(option) for option in options["mount_options"]]
    return {
        "name": name,
        "type": root.get("type"),
        "state": ACTIVE if active else INACTIVE,
        "autostart": autostart,
        **{key: _plain(value) for key, value in options.items()},
    }


def _plain(value: t.Any) -> t.Any:
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def with_numbers(conn: VirConnect, spec: PoolSpec) -> Mapping[str, t.Any]:
    """The options of a spec with the numbers of owner and group, as libvirt has them. Raises VirtError."""
    options = dict(spec.options)
    for key, find in (("owner", user_number), ("group", group_number)):
        if isinstance(options.get(key), str):
            if not is_local(conn.getURI()):
                raise UnsupportedError(
                    f"the number of {key} {options[key]} is known only on the hypervisor itself",
                    where=spec.at(key),
                    hint="Give the number",
                )
            options[key] = find(options[key], spec.at(key))
    return options


def missing_secret(conn: VirConnect, spec: PoolSpec) -> NotFoundError | None:
    """The error for a secret that is named and not there. Raises VirtError."""
    secret = spec.options.get("secret")
    if secret is None or spec.type not in _SECRET_USAGES:
        return None
    word, constant = _SECRET_USAGES[spec.type]
    with translate_errors("cannot look up the secret", spec.at("secret")), suppress_codes(libvirt.VIR_ERR_NO_SECRET):
        by_uuid = secret in (handle.UUIDString() for handle in conn.listAllSecrets(0))
        if by_uuid or conn.secretLookupByUsage(getattr(libvirt, constant), secret) is not None:
            return None
    # It is not repeated: somebody may have given the password itself.
    return NotFoundError(
        f"libvirt has no secret for {word} of that name or UUID",
        where=spec.at("secret"),
        hint=f"Create it first: brine.virt.virt_secret with usage: {word}",
    )
