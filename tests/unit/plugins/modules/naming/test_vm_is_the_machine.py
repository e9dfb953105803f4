# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The word of the playbooks for a machine, `vm`, is taken by all modules that are about machines by their names."""

from __future__ import annotations

import json
import typing as t

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.modules import (
    virt_adopt,
    virt_backup,
    virt_info,
    virt_migrate,
    virt_power,
    virt_purge,
    virt_rebase,
    virt_restore,
    virt_snapshot,
    virt_spec_info,
    virt_wait,
)

BY_OPTION: dict[str, t.Any] = {
    "name": (virt_adopt, virt_backup, virt_info, virt_migrate, virt_power, virt_purge, virt_rebase, virt_spec_info),
    "names": (virt_wait,),
    "machine": (virt_restore,),
    "vm": (virt_snapshot,),
}
ALL = [pytest.param(module, option, id=module.__name__[-9:]) for option in BY_OPTION for module in BY_OPTION[option]]


@pytest.mark.parametrize(("module", "option"), [param for param in ALL if hasattr(param.values[0], "ARGUMENTS")])
def test_vm_is_the_option_for_the_machine(module: t.Any, option: str) -> None:
    found = ArgumentSpecValidator(module.ARGUMENTS).validate({"vm": "web1"})
    assert not [message for message in found.error_messages if "vm" in message or option in message.split()]
    assert found.validated_parameters[option] == ("web1" if module in (virt_restore, virt_migrate) else ["web1"])
    assert found.unsupported_parameters == set()


def test_machines_are_shown_by_this_word(capsys: pytest.CaptureFixture[str], node_uri: str) -> None:
    with patch_module_args({"uri": node_uri, "vm": "web1"}), pytest.raises(SystemExit):
        virt_info.main()
    assert [machine["name"] for machine in json.loads(capsys.readouterr().out)["machines"]] == ["web1"]


@pytest.mark.parametrize(("module", "option"), ALL)
def test_the_documentation_has_the_word(module: t.Any, option: str) -> None:
    entry = yaml.safe_load(module.DOCUMENTATION)["options"][option]
    assert "vm" in (option, *entry.get("aliases", ()))
