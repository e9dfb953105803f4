# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who changes what root's runs change as well has to be root."""

from __future__ import annotations

import json
import os
import types
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._module import require_root
from ansible_collections.brine.virt.plugins.modules import (
    virt_claim,
    virt_image,
    virt_init,
    virt_maintenance,
    virt_migrate,
    virt_power,
    virt_purge,
)


@pytest.mark.parametrize(
    "uri", ["qemu:///system", "qemu+unix:///system", "qemu:///system?mode=legacy", "lxc:///system"]
)
def test_who_cannot_hold_roots_lock_does_not_change_the_whole_hypervisor(
    monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    sentence = "virt_init changes the machines of the whole hypervisor, and needs root: run it with become: true"
    with pytest.raises(HostError, match=f"^{sentence}$"):
        require_root("virt_init", uri)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    require_root("virt_init", uri)


# Of another host root here holds no lock either.
@pytest.mark.parametrize("uri", ["qemu:///session", "test:///system", "test:///default", "qemu+tls://hv1/system"])
def test_machines_of_ones_own_need_no_root(monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    require_root("virt_init", uri)


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(
    ("module", "options", "changes"),
    [
        (virt_init, {"name": "web1"}, "machines"),
        (virt_claim, {"machines": [{"name": "web1", "memory_mib": 1, "vcpus": 1}]}, "machines"),
        (virt_claim, {"withdraw": {"web1": "token"}}, "machines"),
        (virt_migrate, {"name": "web1", "target": "hv2"}, "machines"),
        (virt_power, {"name": "web1", "state": "stopped", "timeout": -1}, "machines"),
        (virt_purge, {"name": ""}, "machines"),
        (virt_image, {"name": "debian", "path": "/none"}, "images"),
        (virt_maintenance, {}, "maintenance"),
    ],
)
def test_each_module_that_takes_a_lock_refuses_first(
    monkeypatch: pytest.MonkeyPatch,
    module: types.ModuleType,
    options: dict[str, t.Any],
    changes: str,
    check_mode: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever is wrong besides, and without a connection."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    name = module.__name__.rpartition(".")[2]
    with patch_module_args({**options, "_ansible_check_mode": check_mode}), pytest.raises(SystemExit):
        module.main()
    assert json.loads(capsys.readouterr().out)["msg"] == (
        f"{name} changes the {changes} of the whole hypervisor, and needs root: run it with become: true"
    )
