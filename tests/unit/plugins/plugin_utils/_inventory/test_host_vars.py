# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables, groups and names of machines as inventory hosts."""

from __future__ import annotations

import shlex
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.plugin_utils._inventory.host_vars import (
    group_names,
    host_vars,
    is_allowed_variable,
    known_hosts_path,
    listed_machines,
    name_hosts,
    needed_of,
    ssh_arguments,
)

UUID = "7f2a4a4e-5d0b-4b0e-9f3e-0d6d8a4d2f11"
RECORD: dict[str, t.Any] = {
    "name": "web1",
    "uuid": UUID,
    "state": "running",
    "vcpus": 2,
    "address": "192.0.2.7",
    "addresses": ["192.0.2.7", "198.51.100.7"],
    "nics": [
        {"addresses": [{"address": "192.0.2.7", "origin": "agent"}]},
        {"addresses": [{"address": "198.51.100.7", "origin": "lease"}]},
    ],
    "user": "ansible",
    "host_keys": ["ssh-ed25519 AAAA"],
    "tags": ["web", "front end"],
    "variables": {"http_port": 8080},
    "building": False,
}


@pytest.mark.parametrize(
    ("change", "known_hosts", "connection"),
    [
        (
            {},
            "/kh",
            {
                "ansible_host": "192.0.2.7",
                "ansible_user": "ansible",
                "ansible_ssh_common_args": (
                    f"-o HostKeyAlias=virt-{UUID} -o UserKnownHostsFile=/kh -o StrictHostKeyChecking=yes"
                ),
            },
        ),
        # Without a host key to check, what the guest claims does not count.
        ({}, None, {"ansible_host": "198.51.100.7", "ansible_user": "ansible"}),
        ({"host_keys": []}, "/kh", {"ansible_host": "198.51.100.7", "ansible_user": "ansible"}),
        ({"host_keys": [], "addresses": ["192.0.2.7"]}, "/kh", {"ansible_user": "ansible"}),
        ({"address": None, "addresses": [], "user": None, "host_keys": []}, "/kh", {}),
        ({"building": True, "host_keys": []}, "/kh", {"ansible_user": "ansible"}),
        # What no seed has, a hypervisor has made up for whoever puts it into a command of the controller.
        ({"user": "$(id>/tmp/x)"}, None, {"ansible_host": "198.51.100.7"}),
        ({"user": "-oProxyCommand=id"}, None, {"ansible_host": "198.51.100.7"}),
        ({"user": "a\n"}, None, {"ansible_host": "198.51.100.7"}),
        (
            {"variables": {"ansible_host": "203.0.113.1", "ansible_connection": "local"}, "host_keys": []},
            "/kh",
            {"ansible_host": "198.51.100.7", "ansible_user": "ansible"},
        ),
    ],
)
def test_how_a_machine_is_connected_to(
    change: dict[str, t.Any], known_hosts: str | None, connection: dict[str, str]
) -> None:
    variables = host_vars({**RECORD, **change}, hypervisor="hv1", uri="qemu:///system", known_hosts=known_hosts)
    assert {key: value for key, value in variables.items() if key.startswith("ansible_")} == connection


@pytest.mark.parametrize(("origin", "counts"), [("static", True), ("lease", True), ("agent", False), ("arp", False)])
def test_which_addresses_count_where_no_host_key_is_known(origin: str, counts: bool) -> None:
    nics = [{"addresses": [{"address": "192.0.2.7", "origin": origin}]}]
    record = {**RECORD, "host_keys": [], "addresses": ["192.0.2.7"], "nics": nics}
    for trust in (False, True):
        found = host_vars(record, hypervisor="hv1", uri="u", known_hosts="/kh", trust_guest_addresses=trust)
        assert found.get("ansible_host") == ("192.0.2.7" if counts or trust else None)


@pytest.mark.parametrize("address", ["-oProxyCommand=id", "fe80::1%$(id)", "db1", 7])
def test_what_is_no_address_is_none(address: t.Any) -> None:
    """A hypervisor may have said it, and it would be an argument of ssh."""
    nics = [{"addresses": [{"address": address, "origin": "static"}]}]
    record = {**RECORD, "address": address, "addresses": [address], "nics": nics}
    for one in (record, {**record, "host_keys": []}):
        assert "ansible_host" not in host_vars(one, hypervisor="hv1", uri="u", known_hosts="/kh")


def test_what_is_known_of_a_machine_has_the_prefix() -> None:
    variables = host_vars(
        {**RECORD, "variables": {"http_port": 8080, "virt_state": "lie", "hostvars": 1, "no-name": 1}},
        hypervisor="hv1",
        uri="qemu:///system",
    )
    assert variables["http_port"] == 8080
    assert (variables["virt_state"], variables["virt_hypervisor"], variables["virt_uri"]) == (
        "running",
        "hv1",
        "qemu:///system",
    )
    assert {key for key in variables if not key.startswith(("virt_", "ansible_"))} == {"http_port"}
    documented = (
        "name uuid state hypervisor uri vcpus memory_mib autostart title description tags addresses "
        "disks nics graphics image managed"
    )
    assert set(variables) >= {f"virt_{name}" for name in documented.split()}


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("http_port", True),
        ("_private", True),
        ("ansible_host", False),
        ("virt_name", False),
        ("inventory_hostname", False),
        ("groups", False),
        ("lookup", False),
        ("1st", False),
        ("with-dash", False),
        ("with blank", False),
        ("", False),
        ("trailing\n", False),
    ],
)
def test_which_variables_a_machine_may_bring(name: str, allowed: bool) -> None:
    assert is_allowed_variable(name) is allowed


@pytest.mark.parametrize(
    ("path", "option"),
    [
        ("/kh", "UserKnownHostsFile=/kh"),
        ("/my files/kh", 'UserKnownHostsFile="/my files/kh"'),
        ("/100%/kh", "UserKnownHostsFile=/100%%/kh"),
    ],
)
def test_ssh_finds_the_file_whatever_its_name(path: str, option: str) -> None:
    assert shlex.split(ssh_arguments(UUID, path))[3] == option


@pytest.mark.parametrize(
    ("text", "basedir", "path"),
    [("", None, None), (None, None, None), ("/a/b", "/x", "/a/b"), ("b", "/x", "/x/b"), ("../b", "/x/y", "/x/b")],
)
def test_where_the_file_is(text: str | None, basedir: str | None, path: str | None) -> None:
    assert known_hosts_path(text, basedir) == path


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert known_hosts_path("~/.ssh/kh", "/x") == "/home/me/.ssh/kh"


@pytest.mark.parametrize(
    ("change", "groups"),
    [
        ({}, ["virt_machines", "virt_running", "virt_on_hv1", "virt_tag_web", "virt_tag_front end"]),
        ({"tags": [], "state": "shutoff"}, ["virt_machines", "virt_shutoff", "virt_on_hv1"]),
        ({"tags": [], "building": True}, ["virt_machines", "virt_running", "virt_on_hv1", "virt_building"]),
    ],
)
def test_groups(change: dict[str, t.Any], groups: list[str]) -> None:
    assert group_names({**RECORD, **change}, "hv1") == groups


def _answer(hypervisor: str, *names: str) -> dict[str, t.Any]:
    return {
        "hypervisor": hypervisor,
        "uri": f"test://{hypervisor}",
        "machines": [{"name": name, "uuid": f"{hypervisor}-{name}"} for name in names],
        "error": None,
    }


@pytest.mark.parametrize(
    ("answers", "taken", "hosts"),
    [
        ([], (), []),
        ([{"hypervisor": "hv1", "uri": "u", "machines": None, "error": "down"}], (), []),
        ([_answer("hv1", "a", "b"), _answer("hv2", "c")], (), ["a", "b", "c"]),
        ([_answer("hv1", "a"), _answer("hv2", "a", "b")], (), ["a_hv1", "a_hv2", "b"]),
        ([_answer("hv1", "hv1", "a")], ("hv1", "hv2"), ["hv1_hv1", "a"]),
        # A qualified name that is somebody's own name gives way.
        ([_answer("hv1", "a", "a_hv2"), _answer("hv2", "a")], (), ["a_hv1", "a_hv2", "a_hv2_hv2-a"]),
        ([_answer("hv1", "a"), _answer("hv2", "a")], ("a_hv1",), ["a_hv1_hv1-a", "a_hv2"]),
        # Names that mean something to Ansible, whatever the inventory has.
        ([_answer("hv1", "localhost", "a")], (), ["localhost_hv1", "a"]),
        ([_answer("hv1", "Localhost", "127.0.0.1", "ALL")], (), ["Localhost_hv1", "127.0.0.1_hv1", "ALL_hv1"]),
        ([_answer("hv1", "virt_running", "virt_on_hv1")], (), ["virt_running_hv1", "virt_on_hv1_hv1"]),
        # Ansible reads host_vars/<name>, and ssh takes a dash for an option.
        ([_answer("hv1", "..", "a/../b", "/c")], (), [".._hv1", "a_.._b_hv1", "_c_hv1"]),
        ([_answer("hv1", "db1.yml", "db1.JSON", "d~")], (), ["db1.yml_hv1", "db1.JSON_hv1", "d~_hv1"]),
        ([_answer("hv1", "-oA=b", "a.old", ".a", "a-b")], (), ["_oA=b_hv1", "a.old", ".a", "a-b"]),
    ],
)
def test_no_two_machines_share_a_name(
    answers: list[dict[str, t.Any]], taken: tuple[str, ...], hosts: list[str]
) -> None:
    named = name_hosts(listed_machines(answers), taken)
    assert [one.host for one in named] == hosts
    assert all((one.warning is None) == (one.host == one.record["name"]) for one in named)


def test_nobody_takes_the_name_of_a_machine_that_is_known_where_nobody_answers() -> None:
    machines = listed_machines([_answer("hv1", "a", "b")])
    known = {"a": {"hv1-a"}, "b": {"hv2-b"}}
    moved, another = name_hosts(machines, elsewhere=known)
    assert (moved.host, moved.warning, another.host) == ("a", None, "b_hv1")
    assert another.warning == (
        "Another machine b is known, and a hypervisor does not answer that may have it; the one on hv1 is listed as "
        "b_hv1."
    )


def test_not_even_where_a_hypervisor_lists_one_uuid_twice() -> None:
    answer = _answer("hv1", "x", "x", "x")
    named = name_hosts(listed_machines([answer]), taken=("x_hv1_hv1-x",))
    assert [one.host for one in named] == ["x_hv1", "x_hv1_hv1-x_2", "x_hv1_hv1-x_3"]


def test_machines_are_called_as_the_user_wants_and_no_two_the_same() -> None:
    machines = listed_machines([_answer("hv1", "a", "b", "c"), _answer("hv2", "a", "d")])
    wanted = {("hv1", "a"): "web", ("hv1", "b"): "web", ("hv2", "a"): "a.hv2", ("hv2", "d"): "localhost"}
    named = name_hosts(machines, name_of=lambda machine: wanted.get((machine[0], machine[2]["name"])))
    assert [one.host for one in named] == ["web_hv1", "web_hv1_hv1-b", "c", "a.hv2", "localhost_hv2"]
    assert named[0].warning == "2 machines on hv1 are to be called web; the one on hv1 is listed as web_hv1."


def test_only_the_facts_that_are_wanted_become_variables() -> None:
    record = {"name": "a", "uuid": "1", "state": "running", "vcpus": 2, "disks": [], "tags": ["x"]}
    variables = host_vars(record, hypervisor="hv1", uri="test:///default", facts=["tags"])
    assert set(variables) == {
        *("virt_name", "virt_uuid", "virt_state", "virt_managed", "virt_errors", "virt_hypervisor", "virt_uri"),
        "virt_tags",
    }
    kept = needed_of({**record, "nics": [], "address": None, "seed": {}}, ["tags"])
    assert set(kept) == {"name", "uuid", "state", "vcpus", "tags"}
    assert {"nics", "address"} <= set(needed_of({**record, "nics": [], "address": None}, ["address"]))


def test_a_claim_is_no_second_machine() -> None:
    first, second = _answer("hv1", "a", "b"), _answer("hv2", "a", "b")
    first["machines"][0]["claimed"] = first["machines"][1]["claimed"] = second["machines"][1]["claimed"] = True
    named = name_hosts(listed_machines([first, second]))
    assert [(one.host, one.hypervisor, one.warning) for one in named] == [("b", "hv1", None), ("a", "hv2", None)]


def test_the_warning_says_what_happened() -> None:
    first, second = name_hosts(listed_machines([_answer("hv1", "a"), _answer("hv2", "a")]))
    assert first.warning == "There is a machine a on each of hv1, hv2; the one on hv1 is listed as a_hv1."
    (third,) = name_hosts(listed_machines([_answer("hv1", "localhost")]))
    assert third.warning == (
        "The name of machine localhost on hv1 is the controller itself to Ansible and SSH; the one on hv1 is listed as "
        "localhost_hv1."
    )
    assert second.warning == "There is a machine a on each of hv1, hv2; the one on hv2 is listed as a_hv2."
