# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pools, networks, secrets and volumes return alike is documented alike.

Fragments for that need a later version of Ansible.
"""

from __future__ import annotations

import types
import typing as t

import pytest
import yaml

from ansible_collections.brine.virt.plugins.modules import virt_network, virt_pool, virt_secret, virt_volume


def results(module: types.ModuleType, key: str) -> dict[str, t.Any]:
    found: dict[str, t.Any] = yaml.safe_load(module.RETURN)[key]["contains"]
    return found


@pytest.mark.parametrize("word", ["present", "changed", "failed", "msg", "actions"])
def test_the_same_is_said_of_all(word: str) -> None:
    modules = ((virt_network, "networks"), (virt_pool, "pools"), (virt_secret, "secrets"), (virt_volume, "volumes"))
    said = [{**results(module, key)[word], "sample": None} for module, key in modules]
    assert said == [said[0]] * len(modules)


def test_what_is_pending_begins_alike() -> None:
    modules = ((virt_network, "networks"), (virt_pool, "pools"), (virt_secret, "secrets"), (virt_volume, "volumes"))
    assert all(
        results(module, key)["pending"]["description"].startswith("What takes effect only later")
        for module, key in modules
    )
