# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files libvirt deletes with a machine; what becomes of them is tested in _operations/traps."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.machines.undefine import own_files

# What libvirt here need not know yet: the source of NVRAM is of 8.5, that of a TPM of 10.10.
TPM = "<devices><tpm><backend type='{}'><source type='file' path='/tpm/web1'/></backend></tpm></devices>"


@pytest.mark.parametrize(
    ("xml", "files"),
    [
        ("<os><nvram template='/t.fd'>/n/web1.fd</nvram></os>", ["/n/web1.fd"]),
        ("<os><nvram type='file'><source file='/n/web1.fd'/></nvram></os>", ["/n/web1.fd"]),
        ("<os><nvram type='network'><source protocol='nbd' name='x'/></nvram></os>", []),
        ("<os><nvram template='/t.fd'/></os>", []),
        (TPM.format("emulator"), ["/tpm/web1"]),
        (TPM.format("external"), []),
    ],
)
def test_the_files_of_a_machine(xml: str, files: list[str]) -> None:
    assert own_files(parse_xml(f"<domain>{xml}</domain>")) == files
