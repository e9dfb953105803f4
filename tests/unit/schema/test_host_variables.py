# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bridges, pools, networks, volumes and secrets as the README files and the guide write them can be read."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Callable

import pytest
import yaml

from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.network.spec import read_network
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.pool import read_pool
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.secret import read_secret
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.volume import read_volume_spec
from ansible_collections.brine.virt.plugins.module_utils._network.spec import read_bridges
from ansible_collections.brine.virt.plugins.module_utils._operations.resources import GivenResources
from ansible_collections.brine.virt.tests.gate.docsite.blocks import code_blocks
from ansible_collections.brine.virt.tests.unit.schema.test_documentation import DOCUMENTS, mappings

# What a vault would give: "value" in base64.
TEMPLATE = re.compile(r"\{\{.*?\}\}")
VALUE = "dmFsdWU="


def read_all(reader: Callable[[t.Any], t.Any]) -> Callable[[t.Any], t.Any]:
    """A reader of a list of what `reader` reads one of."""
    return lambda value: GivenResources.of({"items": value}, "items", ()).read(reader)


def read_one(reader: Callable[[t.Any], t.Any]) -> Callable[[t.Any], t.Any]:
    """The same of one, as a task gives it."""
    return lambda value: read_all(reader)([value])


def read_new_network(given: t.Any) -> t.Any:
    """A network that does not exist yet."""
    return read_network(given, lambda _name: None)


READERS: dict[str, Callable[[t.Any], t.Any]] = {
    "virt_bridge_bridges": lambda value: read_bridges(value, "virt_bridge_bridges"),
    "virt_hypervisor_pools": read_all(read_pool),
    "virt_hypervisor_networks": read_all(read_new_network),
    "virt_hypervisor_volumes": read_all(read_volume_spec),
    "virt_hypervisor_secrets": read_all(read_secret),
    "brine.virt.virt_network": read_one(read_new_network),
    "brine.virt.virt_secret": read_one(read_secret),
}


def examples(name: str) -> list[t.Any]:
    """The values that the pages give a variable, or the options that they give a module."""
    blocks = [block for page in DOCUMENTS for block in code_blocks(page) if block.language == "yaml"]
    data = [yaml.safe_load(TEMPLATE.sub(VALUE, block.text)) for block in blocks]
    return [found[name] for block in data for found in mappings(block) if name in found]


@pytest.mark.parametrize("name", sorted(READERS))
def test_examples_can_be_read(name: str) -> None:
    found = examples(name)
    assert found
    for value in found:
        READERS[name](value)
