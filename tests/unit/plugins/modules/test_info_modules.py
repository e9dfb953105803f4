# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules that only read, called as Ansible calls them, on libvirt's test driver."""

from __future__ import annotations

import json
import typing as t

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.module_utils._host.info.machines import SUBSETS
from ansible_collections.brine.virt.plugins.module_utils._module import subset_choices
from ansible_collections.brine.virt.plugins.modules import virt_host_info, virt_info

Call = t.Callable[..., dict[str, t.Any]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], node_uri: str) -> Call:
    """Run a module's main() with arguments and give back its result."""

    def run(module: t.Any, **arguments: t.Any) -> dict[str, t.Any]:
        with patch_module_args({"uri": node_uri, **arguments}), pytest.raises(SystemExit):
            module.main()
        result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        return result

    return run


@pytest.mark.parametrize("check_mode", [False, True])
def test_all_machines(call: Call, check_mode: bool) -> None:
    result = call(virt_info, _ansible_check_mode=check_mode)
    assert [machine["name"] for machine in result["machines"]] == ["db1", "half", "web1"]
    assert result["changed"] is False
    assert "machine" not in result
    assert result["missing"] == []


def test_one_machine(call: Call) -> None:
    result = call(virt_info, name="web1")
    assert result["machine"] == result["machines"][0]
    assert (result["machine"]["name"], result["machine"]["address"]) == ("web1", "192.168.122.129")


def test_no_such_machine_is_no_error(call: Call) -> None:
    result = call(virt_info, name="nobody")
    assert (result["machine"], result["machines"], result["changed"]) == (None, [], False)
    assert result["missing"] == ["nobody"]


@pytest.mark.parametrize(
    ("names", "machines", "missing"),
    [
        (["web1", "db1"], ["db1", "web1"], []),
        (["web1", "nobody", "nobody", "web1"], ["web1"], ["nobody"]),
        # Who asks for the machines of a list that is empty asks for none, and not for all.
        ([], [], []),
    ],
)
def test_several_machines(call: Call, names: list[str], machines: list[str], missing: list[str]) -> None:
    result = call(virt_info, name=names)
    assert [machine["name"] for machine in result["machines"]] == machines
    assert result["missing"] == missing
    assert "machine" not in result


def test_one_machine_in_a_list_is_one_machine(call: Call) -> None:
    assert call(virt_info, name=["web1"])["machine"]["name"] == "web1"


def test_no_addresses_when_nobody_wants_them(call: Call) -> None:
    machine = call(virt_info, name="web1", addresses=False)["machine"]
    assert "addresses" not in machine and "address" not in machine
    assert machine["vcpus"] == 2


@pytest.mark.parametrize(
    ("filters", "machines"),
    [
        ({"state": ["running"]}, ["web1"]),
        ({"state": "running,shutoff", "name": "db1,web1"}, ["db1", "web1"]),
        ({"tag": "web"}, ["web1"]),
        ({"uuid": "7F2A4A4E-5D0B-4B0E-9F3E-0D6D8A4D2F11"}, ["web1"]),
        ({"uuid": "7f2a4a4e-5d0b-4b0e-9f3e-0d6d8a4d2f11", "state": "shutoff"}, []),
    ],
)
def test_filters(call: Call, filters: dict[str, t.Any], machines: list[str]) -> None:
    result = call(virt_info, gather_subset=["min"], **filters)
    assert [machine["name"] for machine in result["machines"]] == machines
    assert result["missing"] == []
    assert "known" not in result


def test_all_names_come_with_one_that_is_missing(call: Call) -> None:
    assert call(virt_info, name="wbe1")["known"] == ["db1", "half", "web1"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"state": "runing"}, "state must be one or more of: running, paused"),
        ({"gather_subset": "disk"}, "gather_subset must be one or more of: all, min, metadata"),
        ({"uuid": "web1"}, "uuid: 'web1' is not a UUID"),
    ],
)
def test_an_unknown_word_is_refused(call: Call, arguments: dict[str, t.Any], words: str) -> None:
    result = call(virt_info, **arguments)
    assert result["failed"] is True and words in result["msg"]


@pytest.mark.parametrize("check_mode", [False, True])
def test_the_hypervisor(call: Call, check_mode: bool) -> None:
    result = call(virt_host_info, _ansible_check_mode=check_mode)
    assert result["changed"] is False
    assert result["host"]["memory"]["free_mib"] == 10752
    assert [image["name"] for image in result["host"]["images"]] == ["debian"]
    assert {machine["name"]: machine["disks"] for machine in result["host"]["machines"]} == {
        "web1": ["system"],
        "db1": [],
        "half": [],
    }


@pytest.mark.parametrize(
    ("subset", "keys"),
    [
        ("min", set()),
        ("capabilities", {"machine_types", "default_machine_type"}),
        ("machines", {"machines", "arriving", "arriving_anti_affinity"}),
        ("pools", {"pools"}),
        ("networks", {"networks", "bridges", "bridge_details"}),
        ("images", {"images"}),
        ("certificates", {"certificates", "revocation_lists"}),
    ],
)
def test_a_hypervisor_says_what_it_is_asked(call: Call, subset: str, keys: set[str]) -> None:
    least = call(virt_host_info, gather_subset=["min"])["host"]
    host = call(virt_host_info, gather_subset=[subset])["host"]
    assert set(host) - set(least) == keys
    assert set(least["memory"]) == {"total_mib"}
    assert ("free_mib" in host["memory"]) is (subset == "machines")
    assert ("committed" in host["vcpus"]) is (subset == "machines")
    assert host["kvm"] is False


def test_images_are_looked_for_where_told(call: Call) -> None:
    assert call(virt_host_info, image_pool="default")["host"]["images"] == []


@pytest.mark.parametrize("module", [virt_info, virt_host_info])
def test_a_hypervisor_that_does_not_answer_is_one_sentence(call: Call, module: t.Any) -> None:
    result = call(module, uri="qemu+unix:///system?socket=/nonexistent/socket")
    assert result["failed"] is True
    assert result["msg"].startswith("cannot connect to qemu+unix:///system?socket=/nonexistent/socket: ")
    assert "\n" not in result["msg"]


@pytest.mark.parametrize("module", [virt_info, virt_host_info])
def test_an_unknown_option_is_refused(call: Call, module: t.Any) -> None:
    result = call(module, nmae="web1")
    assert result["failed"] is True
    assert "nmae" in result["msg"]


@pytest.mark.parametrize(("module", "names"), [(virt_info, SUBSETS), (virt_host_info, virt_host_info.SUBSETS_OF_ALL)])
def test_the_documented_subsets_are_those_that_there_are(module: t.Any, names: tuple[str, ...]) -> None:
    assert yaml.safe_load(module.DOCUMENTATION)["options"]["gather_subset"]["choices"] == subset_choices(names)


@pytest.mark.parametrize("module", [virt_info, virt_host_info])
def test_the_documented_keys_are_those_returned(call: Call, module: t.Any) -> None:
    documented = yaml.safe_load(module.RETURN)
    if module is virt_info:
        everything = call(module, gather_subset=["all"])["machines"][0]
        assert set(everything) == set(documented["machines"]["contains"])
        said = {key: value["returned"] for key, value in documented["machines"]["contains"].items()}
        least = {key for key, when in said.items() if when == "always"}
        assert set(call(module, gather_subset=["min"])["machines"][0]) == least
        for subset in SUBSETS:
            with_it = set(call(module, gather_subset=[subset])["machines"][0])
            assert with_it - least == {key for key, when in said.items() if f"V({subset})" in when}, subset
    else:
        assert set(call(module)["host"]) == set(documented["host"]["contains"])
