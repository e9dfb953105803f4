# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of a machine."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machines


def test_it_is_refused_with_its_place() -> None:
    machines = [{"name": name, "vcpus": 1, "memory": 128} for name in ("web1", "Localhost")]
    with pytest.raises(InputError) as caught:
        read_machines(machines, where="virt_vms")
    assert str(caught.value) == (
        "virt_vms[1].name: 'Localhost' is the controller itself to Ansible and SSH. Choose another name for the machine"
    )
