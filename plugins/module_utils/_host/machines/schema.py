# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's own schema for domains: what goes together is asked before anything is done."""

from __future__ import annotations

import functools
import os
import re
import typing as t

from ..._base.errors import InputError
from ..._base.xml import etree, parse_xml

# Where libvirt-daemon's packages have it on every distribution; virt-xml-validate reads the same file.
_SCHEMA = "/usr/share/libvirt/schemas/domain.rng"


_EXTRA = re.compile(r"Extra element (\S+) in interleave")


@functools.lru_cache(maxsize=1)
def _schema() -> t.Any:
    return etree.RelaxNG(etree.parse(_SCHEMA)) if os.path.exists(_SCHEMA) else None


def check_schema(xml: str, where: str) -> None:
    """Raises InputError, with libxml2's complaint, for a domain that libvirt's schema refuses, and for what makes
    libvirtd crash.

    Without the schema on this host nothing is said of it here: libvirt looks itself when the domain is defined.
    """
    schema, root = _schema(), parse_xml(xml)
    _check_distances(root, where)
    if schema is None or schema.validate(root):
        return
    # libxml2 says which element does not fit, and then once more for each element around it.
    complaints = " ".join(entry.message for entry in schema.error_log)
    element = _EXTRA.search(complaints)
    what = f"something in <{element.group(1)}> is not allowed there" if element else complaints
    raise InputError(
        f"the machine does not match libvirt's schema: {what}",
        where=where or None,
        hint="https://libvirt.org/formatdomain.html describes what is allowed",
    )


def _check_distances(root: etree._Element, where: str) -> None:
    """Refuse those between NUMA cells that libvirt refuses, as it frees what is not its own then (9.0.0)."""
    cells = {cell.get("id", str(index)): cell for index, cell in enumerate(root.iterfind("cpu/numa/cell"))}
    for number, cell in cells.items():
        for sibling in cell.iterfind("distances/sibling"):
            other, distance = sibling.get("id", ""), sibling.get("value", "")
            if other not in cells or (distance == "10") != (other == number):
                raise InputError(
                    f"the distance of NUMA cell {number} to {other} is {distance}",
                    where=where or None,
                    hint="It is 10 to the cell itself, and from 11 to 255 to another one of the machine",
                )
