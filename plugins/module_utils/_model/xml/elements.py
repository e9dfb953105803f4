# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Elements that libvirt's XML always has."""

from __future__ import annotations

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree


def need(parent: etree._Element, path: str) -> etree._Element:
    """The element at a path. Raises HostError, for a person who knows libvirt, where it is missing."""
    found = parent.find(path)
    if found is None:
        raise HostError(f"libvirt's XML has a <{parent.tag}> without <{path}>")
    return found
