# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter that says how a machine would stand in the inventory."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter.host_vars import FilterModule

host_vars = FilterModule().filters()["host_vars"]
RECORD = {
    "name": "web1",
    "uuid": "7f2a4a4e-5d0b-4b0e-9f3e-0d6d8a4d2f11",
    "state": "running",
    "address": "192.0.2.7",
    "host_keys": ["ssh-ed25519 AAAA"],
}


def test_the_same_as_in_the_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    variables = host_vars(RECORD, "hv1")
    assert variables["ansible_host"] == "192.0.2.7"
    assert (variables["virt_hypervisor"], variables["virt_uri"]) == ("hv1", "qemu:///system")
    assert "UserKnownHostsFile=/home/me/.ssh/known_hosts.d/brine-virt" in variables["ansible_ssh_common_args"]


def test_without_a_file_ssh_is_left_as_it_is() -> None:
    assert "ansible_ssh_common_args" not in host_vars(RECORD, "hv1", known_hosts="")


@pytest.mark.parametrize("value", [None, [], "web1", {"name": "web1"}])
def test_wrong_input_is_one_sentence(value: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match="the input is not the record of a machine. Give what virt_info"):
        host_vars(value, "hv1")
