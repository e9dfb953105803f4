# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes in the lists of the role virt_hypervisor, before it changes anything."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from jinja2.exceptions import UndefinedError

from ansible_collections.brine.virt.plugins.plugin_utils._resource_mistakes import resource_mistakes, type_mistakes

ROLES = Path(__file__).resolve().parents[4] / "roles"


@pytest.mark.parametrize(
    ("variable", "item", "sentence"),
    [
        ("v_pools", {"name": "a", "pth": "/x"}, "v_pools[1]: unknown option 'pth'. Did you mean path?"),
        ("v_pools", {"name": "a", "type": "x"}, "v_pools[1].type: "),
        ("v_networks", {"name": "a", "adresses": []}, "v_networks[1]: unknown option 'adresses'. Did you"),
        ("v_volumes", {"name": "../a", "pool": "p", "size": "1MiB"}, "v_volumes[1].name: "),
        ("v_volumes", {"name": "a", "pool": "p", "size": -5}, "v_volumes[1].size: "),
        ("v_bridges", {"name": "a", "uplnk": False}, "v_bridges[1]: unknown option 'uplnk'. Did you mean uplink?"),
        ("v_bridges", {"name": "a", "uplink": {"vlan": 5000, "link": "eth9"}}, "v_bridges[1].uplink"),
        ("v_bridges", {"name": "b"}, "v_bridges[1].name: there are two bridges called b"),
        ("v_secrets", {"name": "a", "valu": "x"}, "v_secrets[1]: unknown option 'valu'. Did you mean value?"),
    ],
)
def test_the_place_and_what_is_wrong(variable: str, item: dict[str, t.Any], sentence: str) -> None:
    right = {
        "_pools": {"name": "b", "path": "/b"},
        "_volumes": {"name": "b", "pool": "p", "size": "1GiB"},
        "_secrets": {"name": "b", "usage": "ceph"},
    }
    first = right.get(variable.removeprefix("v"), {"name": "b"})
    (found,) = resource_mistakes({variable: [first, item]})
    assert found.startswith(sentence)


def test_all_of_them_each_once() -> None:
    lists = {"v_pools": [{"name": "a", "x": 1, "y": 2}, "text"], "v_networks": "none", "v_volumes": [], "v_secrets": []}
    assert [sentence.partition(":")[0] for sentence in resource_mistakes(lists)] == [
        "v_pools[0]",
        "v_pools[0]",
        "v_pools[1]",
        "v_networks",
    ]


def test_two_of_one_name() -> None:
    network = {"name": "a", "mode": "nat"}
    lists = {"v_pools": [{"name": "a"}, {"name": "b"}, {"name": "a"}, {"name": "a"}], "v_networks": [network, network]}
    assert resource_mistakes(lists) == [
        "v_pools[2].name: has the same name as v_pools[0].name",
        "v_pools[3].name: has the same name as v_pools[0].name",
        "v_networks[1].name: has the same name as v_networks[0].name",
    ]
    volumes = [{"name": "a.iso", "pool": pool, "size": "1MiB"} for pool in ("b", "c")]
    assert resource_mistakes({"v_volumes": volumes}) == []


def test_no_secret_is_in_a_sentence() -> None:
    assert "hidden" not in str(
        resource_mistakes({"v_secrets": [{"name": "a", "usage": "x", "value_base64": "hidden!"}]})
    )


@pytest.mark.parametrize("wrong", [[], {"v_disks": []}])
def test_what_it_is_not_for(wrong: t.Any) -> None:
    with pytest.raises(AnsibleFilterError):
        resource_mistakes(wrong)


def test_what_the_documentation_shows_is_right() -> None:
    text = (ROLES / "virt_hypervisor/README.md").read_text(encoding="utf-8")
    blocks = [yaml.safe_load(part.split("```")[0]) for part in text.split("```yaml\n")[1:]]
    lists = [
        {key: value}
        for block in blocks
        if isinstance(block, dict)
        for key, value in block.items()
        if key.endswith(("_pools", "_networks", "_volumes", "_secrets"))
    ]
    assert len(lists) > 2
    # Ansible has templated it by then.
    lists = [yaml.safe_load(yaml.safe_dump(one).replace("'{{ vault_ceph_key }}'", "aGlkZGVu")) for one in lists]
    assert [resource_mistakes(one) for one in lists] == [[] for _one in lists]


OPTIONS = {
    "names": {"type": "list", "elements": "str"},
    "pools": {"type": "list", "elements": "dict"},
    "sysctl": {"type": "dict"},
    "days": {"type": "int"},
}
NO_LIST = "this is not a list; write it as a list:"
NO_MAPPING = "this is not a mapping; write it as a mapping:"


@pytest.mark.parametrize(
    ("name", "value", "sentences"),
    [
        ("names", [], []),
        ("names", ("a",), []),
        ("names", "ops, dev", [f"names: {NO_LIST} [ops, dev]"]),
        ("names", "O=x,CN=*", [f'names: {NO_LIST} ["O=x,CN=*"]']),
        ("names", {"ops": None, "dev": 1}, [f"names: {NO_LIST} [ops, dev]"]),
        ("names", 7, [f"names: {NO_LIST} [7]"]),
        ("names", None, [f"names: {NO_LIST} []"]),
        ("pools", [{"name": "a"}], []),
        ("pools", "a secret", [f"pools: {NO_LIST} [{{name: NAME}}]"]),
        ("pools", {"name": "a"}, [f"pools: {NO_LIST} [{{name: NAME}}]"]),
        ("pools", None, [f"pools: {NO_LIST} []"]),
        ("pools", [{"name": "a"}, "b"], ["pools[1]: an item is a mapping, such as {name: NAME}"]),
        ("sysctl", {}, []),
        ("sysctl", "a=b", [f"sysctl: {NO_MAPPING} {{NAME: VALUE}}"]),
        ("sysctl", None, [f"sysctl: {NO_MAPPING} {{}}"]),
        ("days", "soon", []),
        ("other", "x", []),
    ],
)
def test_a_variable_that_is_no_list_or_no_mapping(name: str, value: t.Any, sentences: list[str]) -> None:
    assert type_mistakes({name: value}, OPTIONS) == ({name: sentences} if sentences else {})


def test_a_variable_that_is_made_of_facts_is_passed_over_before_these_are_there() -> None:
    """Such as ``"{{ [ansible_facts.fqdn] }}"`` where a playbook looks at the options first: the role looks again."""

    class Variables(dict[str, t.Any]):
        def __getitem__(self, name: str) -> t.Any:
            if name == "names":
                raise UndefinedError("object of type 'dict' has no attribute 'fqdn'")
            return super().__getitem__(name)

    values = Variables(names="{{ [ansible_facts.fqdn] }}", pools="x")
    options = {"names": {"type": "list"}, "pools": {"type": "list", "elements": "dict"}}
    assert list(type_mistakes(values, options)) == ["pools"]
