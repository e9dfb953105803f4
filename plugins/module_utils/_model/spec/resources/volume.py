# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec for a volume of a storage pool: its words and their checks, and where the plain ones stand in libvirt's XML.

https://libvirt.org/formatstorage.html#storage-volume-xml
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...._base.errors import InputError, Mistakes
from ...._base.xml import MIB
from ...image.checksum import Checksum, parse_checksum
from ...xml.disk_source import QCOW2, RAW
from ..fields import validators
from ..fields.given import GivenOptions
from ..fields.table import Field, TextField
from ..fields.units import parse_capacity_mib
from ..names import pool_name
from ..seed import DEFAULT_POOL

# What is on a CD or DVD, which machines have as a raw disk.
ISO = "iso"
FORMATS = (QCOW2, RAW, ISO)
# Where the content of a volume comes from.
SOURCES = ("src", "path")

volume_name = validators.pattern(
    r"[A-Za-z0-9_][^/\x00-\x1f\x7f]{0,254}", "the name of a volume, which begins with a letter or digit", "data1.qcow2"
)
_USER = r"[0-9]{1,10}|[A-Za-z_][A-Za-z0-9_.-]{0,31}"

# Lines below <permissions>. YAML reads 0640 without quotes as a number, and nobody can tell from which words.
PERMISSIONS: tuple[Field, ...] = (
    TextField("mode", validators.pattern(r"0[0-7]{3}", "a mode of four octal digits in quotes", '"0640"'), "mode"),
    TextField("owner", validators.pattern(_USER, "a user's name or number", "qemu"), "owner"),
    TextField("group", validators.pattern(_USER, "a group's name or number", "kvm"), "group"),
)

VOLUME_RULES: dict[str, validators.Rule] = {
    "name": volume_name,
    "pool": pool_name,
    "size": parse_capacity_mib,
    "format": validators.choice(*FORMATS),
    "src": validators.filled_line,
    "path": validators.path,
    "checksum": parse_checksum,
    "replace": validators.yes_or_no,
    "state": validators.choice("present", "absent"),
    **{field.key: field.check for field in PERMISSIONS},
}
# What says nothing of a volume without content.
_WITH_SOURCE = ("checksum", "replace")


@dataclass(frozen=True)
class VolumeSpec:
    """One volume.

    size_mib None: as large as its content. format None: that of its content, else what the pool holds best. src: a file
    of the controller; path: one of the hypervisor; checksum: what it has to hash to. replace: it takes the place of
    other content. permissions: by the fields of PERMISSIONS. given: where all this comes from.
    """

    name: str
    pool: str = DEFAULT_POOL
    size_mib: int | None = None
    format: str | None = None
    src: str | None = None
    path: str | None = None
    checksum: Checksum | None = None
    replace: bool = False
    present: bool = True
    permissions: dict[str, str] = field(default_factory=dict)
    given: GivenOptions = field(default=GivenOptions({}), compare=False, repr=False)

    @property
    def size_bytes(self) -> int | None:
        """The size for a guest; None where it is not named."""
        return None if self.size_mib is None else self.size_mib * MIB

    @property
    def disk_format(self) -> str | None:
        """The format in the words of a machine's disk; None where it is not named."""
        return RAW if self.format == ISO else self.format

    @property
    def source(self) -> str | None:
        """The file that the content comes from, as the user has named it."""
        return self.src or self.path

    @property
    def where_source(self) -> str:
        """The place of that in the input."""
        return self.given.at("src" if self.src else "path")


def read_volume_spec(given: GivenOptions) -> VolumeSpec:
    """A volume out of its options. Raises InputError for everything that is wrong with them."""
    mistakes = Mistakes()
    with mistakes.noted():
        if given.values.get("name") is None:
            raise InputError("is missing", where=given.at("name"), hint="Give the name of the volume")
    clean: dict[str, t.Any] = {}
    with mistakes.noted():
        clean = given.read(VOLUME_RULES)
    mistakes.conclude()
    _check_source(clean, given)
    return VolumeSpec(
        size_mib=clean.pop("size", None),
        present=clean.pop("state", "present") == "present",
        permissions={option.key: clean.pop(option.key) for option in PERMISSIONS if option.key in clean},
        given=given,
        **clean,
    )


def _check_source(clean: t.Mapping[str, t.Any], given: GivenOptions) -> None:
    """What goes with a file that the content comes from, and what does not."""
    mistakes = Mistakes()
    named = [word for word in SOURCES if word in clean]
    if len(named) > 1:
        with mistakes.noted():
            raise InputError(
                "src and path are given together", where=given.place or None, hint="Its content comes from one file"
            )
    for word in _WITH_SOURCE:
        if clean.get(word) and not named:
            with mistakes.noted():
                raise InputError("needs src or path", where=given.at(word))
    if clean.get("format") == ISO and "size" in clean:
        with mistakes.noted():
            raise InputError("an ISO file is as large as its content", where=given.at("size"), hint="Leave it out")
    mistakes.conclude()
