# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the documentation of a module says of async is what Ansible does with it."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.plugins.doc_fragments._attributes import ModuleDocFragment

PLUGINS = Path(
    importlib.import_module("ansible_collections.brine.virt.plugins.action.virt_init").__file__ or ""
).parents[1]
MODULES = sorted(path.stem for path in (PLUGINS / "modules").glob("virt_*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_async_is_documented_as_it_is(name: str) -> None:
    module = importlib.import_module(f"ansible_collections.brine.virt.plugins.modules.{name}")
    fragments = yaml.safe_load(module.DOCUMENTATION)["extends_documentation_fragment"]
    told = "brine.virt._attributes.no_async" not in fragments
    assert yaml.safe_load(ModuleDocFragment.NO_ASYNC)["attributes"]["async"]["support"] == "none"
    can = True
    if (PLUGINS / "action" / f"{name}.py").is_file():
        action = importlib.import_module(f"ansible_collections.brine.virt.plugins.action.{name}").ActionModule
        can = action._supports_async
    assert told is can
