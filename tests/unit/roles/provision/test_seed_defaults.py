# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role makes of virt_seed: the keys of who runs the play, and a word that says whether there are seeds."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machines

ROLE = Path(__file__).resolve().parents[4] / "roles/virt_provision"
MINE = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMine me@example"
THEIRS = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAITheirs they@example"
BARE: dict[str, t.Any] = {"vcpus": 1, "memory": 512}


def defaults_for_all(**given: t.Any) -> t.Any:
    """What the role says of all seeds."""
    role = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    names = ("virt_provision_seed_word", "virt_provision_seed")
    words = {name: trust_as_template(role[name]) for name in names}
    return Templar(DataLoader(), variables={**words, **given}).template(words["virt_provision_seed"])


@pytest.mark.parametrize(
    ("given", "method", "keys"),
    [
        ({}, "nocloud", [MINE]),
        ({"virt_seed": None}, "nocloud", [MINE]),
        ({"virt_seed": ""}, "nocloud", [MINE]),
        ({"virt_seed": True}, "nocloud", [MINE]),
        ({"virt_seed": "yes"}, "nocloud", [MINE]),
        ({"virt_seed": {"packages": ["vim"]}}, "nocloud", [MINE]),
        ({"virt_seed": {"authorized_keys": [THEIRS]}}, "nocloud", [THEIRS]),
        ({"virt_seed": {"authorized_keys": None}}, "nocloud", []),
        ({"virt_seed": False}, "none", [MINE]),
        ({"virt_seed": "False"}, "none", [MINE]),
        ({"virt_seed": {"method": "none"}}, "none", [MINE]),
    ],
    ids=str,
)
def test_the_seed_of_machines_that_say_nothing_and_something(
    given: dict[str, t.Any], method: str, keys: list[str]
) -> None:
    specs = [{**BARE, "name": "silent"}, {**BARE, "name": "own", "seed": {"user": "admin"}}]
    silent, own = read_machines(specs, seed_defaults=defaults_for_all(**given), default_keys=[MINE])
    assert silent.seed.method == method
    # Who has a seed where the others have none needs a key as well.
    assert (own.seed.method, own.seed.user, list(own.seed.authorized_keys)) == ("nocloud", "admin", keys)


@pytest.mark.parametrize("wrong", ["user: admin", ["user"]], ids=str)
def test_what_is_no_mapping_is_left_for_the_check_to_refuse(wrong: t.Any) -> None:
    assert defaults_for_all(virt_seed=wrong) == wrong


@pytest.mark.parametrize(
    "common", [{}, {"user": "admin"}, {"authorized_keys": [THEIRS]}, {"authorized_keys": None}], ids=str
)
def test_a_machine_that_says_null_of_its_keys_gets_none(common: dict[str, t.Any]) -> None:
    spec = {**BARE, "name": "web1", "seed": {"authorized_keys": None}}
    (machine,) = read_machines([spec], seed_defaults=common, default_keys=[MINE])
    assert (machine.seed.method, machine.seed.authorized_keys, machine.seed.keys_by_default) == ("nocloud", (), False)
