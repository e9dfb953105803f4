# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collecting who uses volumes: what fails is not taken for what has gone."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.storage import users


def test_an_error_without_a_code_is_nothing_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    # As an older libvirt.
    monkeypatch.delattr(libvirt, "VIR_ERR_NO_DOMAIN_CHECKPOINT")
    with (
        pytest.raises(HostError, match=r"^cannot list checkpoints: it failed"),
        users._unless_gone("DOMAIN_CHECKPOINT", "cannot list checkpoints"),
    ):
        raise libvirt.libvirtError("it failed")
