# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each disk of a machine gets its limit, and what is in the way of that for a while is told from what always is."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.plugin_utils._events.thresholds import set_thresholds

_SIZE = 1000


@pytest.fixture
def limits(machine: t.Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What was set; the test driver can set none."""
    del machine
    found: dict[str, int] = {}
    monkeypatch.setattr(libvirt.virDomain, "blockInfo", lambda _domain, _device: [_SIZE, 0, 0])
    monkeypatch.setattr(
        libvirt.virDomain, "setBlockThreshold", lambda _domain, device, limit: found.update({device: limit})
    )
    return found


def raising(code: int) -> t.Callable[..., t.Any]:
    def ask(*_given: t.Any) -> t.Any:
        error = libvirt.libvirtError("it is so")
        error.err = (code, libvirt.VIR_FROM_QEMU, "it is so", 2, None, None, None, -1, -1)
        raise error

    return ask


def test_each_disk_gets_its_part(machine: t.Any, limits: dict[str, int]) -> None:
    assert set_thresholds(machine.connect(), machine.UUIDString(), 80) is True
    assert limits == {"vda": 800}


def test_a_machine_that_is_busy_is_to_be_tried_again(
    machine: t.Any, limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libvirt.virDomain, "blockInfo", raising(libvirt.VIR_ERR_OPERATION_TIMEOUT))
    assert set_thresholds(machine.connect(), machine.UUIDString(), 80) is False
    assert limits == {}


@pytest.mark.parametrize("code", ["VIR_ERR_OPERATION_UNSUPPORTED", "VIR_ERR_OPERATION_INVALID"])
def test_what_can_have_none_is_passed_over(
    machine: t.Any, limits: dict[str, int], monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(libvirt.virDomain, "setBlockThreshold", raising(getattr(libvirt, code)))
    assert set_thresholds(machine.connect(), machine.UUIDString(), 80) is True
    assert set_thresholds(machine.connect(), "00000000-0000-4000-8000-000000000000", 80) is True
    assert limits == {}
