# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of its hypervisor a machine holds, so that it cannot run on another one: the one list of it."""

from __future__ import annotations

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree

# By path in the domain's XML: https://libvirt.org/formatdomain.html
_TIES = (
    ("devices/hostdev", "a device of the hypervisor"),
    ("devices/filesystem", "a folder of the hypervisor"),
    ("devices/interface[@type='hostdev']", "a network card of the hypervisor"),
    ("devices/interface[@type='vdpa']", "a network card of the hypervisor"),
    ("devices/tpm/backend[@type='passthrough']", "the TPM of the hypervisor"),
)


def ties_of_domain(*domains: etree._Element) -> list[str]:
    """What the machine has of its hypervisor, in words that follow «it has»; empty for most.

    domains: parsed ``<domain>`` elements of one machine: as it runs, as it will run after its next start.
    """
    found = [words for path, words in _TIES if any(domain.find(path) is not None for domain in domains)]
    return list(dict.fromkeys(found))
