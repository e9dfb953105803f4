# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin: populating from plain data, and whole runs of ansible-inventory on libvirt's test driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.template import trust_as_template

from ansible_collections.brine.virt.plugins.inventory.domains import InventoryModule
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.host_vars import FACTS
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.hypervisors import (
    HypervisorEntry,
    of_now,
    with_last_answers,
)

pytestmark = pytest.mark.medium

UUID = "7f2a4a4e-5d0b-4b0e-9f3e-0d6d8a4d2f11"


def _machine(name: str, **change: t.Any) -> dict[str, t.Any]:
    return {
        "name": name,
        "uuid": UUID,
        "state": "running",
        "vcpus": 2,
        "memory_mib": 2048,
        "tags": [],
        "variables": {},
        "host_keys": [],
        "address": "192.0.2.7",
        "addresses": ["192.0.2.7"],
        "nics": [{"addresses": [{"address": "192.0.2.7", "origin": "lease"}]}],
        "user": "ansible",
        "building": False,
        **change,
    }


def _answer(hypervisor: str, *machines: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"hypervisor": hypervisor, "uri": f"test://{hypervisor}", "machines": list(machines), "error": None}


@pytest.fixture
def plugin() -> InventoryModule:
    """The plugin with an empty inventory and the defaults of ``constructed``."""
    plugin = InventoryModule()
    plugin.inventory = InventoryData()
    plugin.loader = DataLoader()
    plugin._options = {
        "compose": {},
        "groups": {},
        "keyed_groups": [],
        "strict": True,
        "use_extra_vars": False,
        "leading_separator": True,
        "trust_guest_addresses": False,
        "ssh_common_args": "",
        "facts": list(FACTS),
        "hostnames": [],
        "filters": [],
    }
    return plugin


def _groups(plugin: InventoryModule, host: str) -> set[str]:
    assert plugin.inventory is not None
    return {group.name for group in plugin.inventory.hosts[host].get_groups()} - {"all"}


def test_a_machine_becomes_a_host_with_groups(plugin: InventoryModule) -> None:
    plugin.populate([_answer("hv-1.example", _machine("web1", tags=["front end"]))], None)
    assert plugin.inventory is not None
    variables = plugin.inventory.hosts["web1"].get_vars()
    assert (variables["ansible_host"], variables["ansible_user"]) == ("192.0.2.7", "ansible")
    assert _groups(plugin, "web1") == {"virt_machines", "virt_running", "virt_on_hv_1_example", "virt_tag_front_end"}


def test_one_that_is_being_made_is_listed_without_an_address(plugin: InventoryModule) -> None:
    plugin.populate([_answer("hv1", _machine("half", building=True))], None)
    assert plugin.inventory is not None
    assert "ansible_host" not in plugin.inventory.hosts["half"].get_vars()
    assert "virt_building" in _groups(plugin, "half")


def test_two_files_that_list_one_machine_make_one_host_of_it(plugin: InventoryModule) -> None:
    """Otherwise each task would run twice on it, at the same time."""
    plugin.populate([_answer("hv1", _machine("web1"))], None)
    plugin._options.update(
        hostnames=[trust_as_template("name ~ '.example'")],
        keyed_groups=[{"key": trust_as_template("virt_state"), "prefix": "is"}],
    )
    other = {**_machine("web1"), "uuid": "00000000-0000-4000-8000-000000000099"}
    plugin.populate([_answer("hv1", _machine("web1")), _answer("hv2", other)], None)
    assert plugin.inventory is not None
    assert set(plugin.inventory.hosts) == {"web1", "web1.example"}
    assert {"virt_machines", "is_running", "virt_on_hv1"} <= _groups(plugin, "web1")
    assert plugin.inventory.hosts["web1.example"].get_vars()["virt_hypervisor"] == "hv2"


def test_what_is_constructed(plugin: InventoryModule) -> None:
    plugin._options.update(
        compose={"gib": trust_as_template("virt_memory_mib // 1024")},
        groups={"big": trust_as_template("virt_vcpus > 1")},
        keyed_groups=[{"key": trust_as_template("virt_state"), "prefix": "is"}],
    )
    plugin.populate([_answer("hv1", _machine("web1"))], None)
    assert plugin.inventory is not None
    assert plugin.inventory.hosts["web1"].get_vars()["gib"] == 2
    assert {"big", "is_running"} <= _groups(plugin, "web1")


def test_one_that_could_not_be_read_is_named_and_not_called_unchecked(
    plugin: InventoryModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(plugin, "_warn", said.append)
    plugin.populate([_answer("hv1", {"name": "web2", "uuid": UUID, "state": "running", "vcpus": None})], "/tmp/kh")
    assert plugin.inventory is not None
    assert "HostKeyAlias=" in plugin.inventory.hosts["web2"].get_vars()["ansible_ssh_common_args"]
    assert [text.split(":")[0] for text in said] == ["Hypervisor hv1 could not read web2"]


def test_one_that_cannot_be_read_now_is_listed_as_it_was(plugin: InventoryModule) -> None:
    unread = _answer("hv1", {"name": "web1", "uuid": UUID, "state": "shutdown", "vcpus": None})
    last = {**_answer("hv1", _machine("web1", tags=["web"], host_keys=["key"])), "at": "2026-01-01"}
    answers = with_last_answers([unread], [last])
    plugin.populate(answers, None)
    assert plugin.inventory is not None
    assert plugin.inventory.hosts["web1"].get_vars()["virt_stale_since"] == "2026-01-01"
    assert {"virt_tag_web", "virt_shutdown"} <= _groups(plugin, "web1")
    # To known_hosts it is one that could not be read, whose lines stay.
    (record,) = of_now(answers)[0]["machines"]
    assert (record["vcpus"], record["host_keys"]) == (None, [])


def test_a_cached_failure_is_asked_about_again(plugin: InventoryModule) -> None:
    plugin._options.update(cache=True, concurrency=2, timeout=10)
    good = {**_answer("hv1", _machine("web1")), "at": "2026-01-01"}
    silent = {"hypervisor": "hv2", "uri": "test:///default", "machines": None, "error": "down", "at": "2026-01-01"}
    key = plugin.get_cache_key("cloud.virt.yml")
    plugin._cache = {key: [good, silent]}
    entries = [HypervisorEntry("hv1", "test://hv1"), HypervisorEntry("hv2", "test:///default")]
    (first, second), asked = plugin._answers(entries, "cloud.virt.yml", cache=True)
    assert (first, asked) == (good, {"hv2"})
    assert ([record["name"] for record in second["machines"]], second["error"]) == (["test"], None)
    assert plugin._cache[key] == [good, silent]


def test_a_host_that_strict_ends_at_is_not_called_unchecked(plugin: InventoryModule) -> None:
    plugin._options.update(keyed_groups=[{"key": trust_as_template("virt_title"), "prefix": "t"}])
    with pytest.raises(AnsibleParserError):
        plugin.populate([_answer("hv1", _machine("web1", host_keys=["ssh-ed25519 AAAA"]))], "/tmp/known_hosts")
    # Ansible goes on with what is there.
    assert plugin.inventory is not None
    variables = plugin.inventory.hosts["web1"].get_vars()
    assert variables["ansible_host"] == "192.0.2.7"
    assert "HostKeyAlias=" in variables["ansible_ssh_common_args"]


def test_the_name_of_a_machine_does_not_draw_on_the_terminal(
    plugin: InventoryModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(plugin.display, "warning", warnings.append)
    plugin._options.update(strict=False, filters=[{"include": trust_as_template("nothing.at.all")}])
    twice = _machine("web\x1b[2J\x9b2J")
    plugin.populate([_answer("hv1", twice), _answer("hv2", {**twice, "host_keys": ["ssh-ed25519 AAAA"]})], "/kh")
    assert len(warnings) == 3
    assert all(text.isprintable() for text in warnings), warnings


@pytest.mark.parametrize("existing", ["host", "group"])
def test_a_machine_named_like_something_else_does_not_become_it(plugin: InventoryModule, existing: str) -> None:
    assert plugin.inventory is not None
    if existing == "host":
        plugin.inventory.add_host("hv1")
    else:
        plugin.inventory.add_group("hv1")
    plugin.populate([_answer("hv1", _machine("hv1"))], None)
    assert "hv1_hv1" in plugin.inventory.hosts
    if existing == "host":
        assert "ansible_host" not in plugin.inventory.hosts["hv1"].get_vars()


@pytest.mark.parametrize(
    ("title", "group"), [("..", "__"), ("a/../db", "a_.._db"), ("db.yml", "db_yml"), ("front-end 1.0", "front-end 1.0")]
)
def test_a_group_is_no_path_to_the_variables_of_others(plugin: InventoryModule, title: str, group: str) -> None:
    plugin._options["keyed_groups"] = [{"key": trust_as_template("virt_title"), "prefix": "", "separator": ""}]
    plugin.populate([_answer("hv1", _machine("web1", title=title))], None)
    assert group in _groups(plugin, "web1")


def test_a_machine_does_not_become_a_hypervisor_that_another_source_is_yet_to_list(plugin: InventoryModule) -> None:
    assert plugin.inventory is not None
    plugin.populate([_answer("hv1", _machine("hv2")), _answer("hv2")], None)
    assert set(plugin.inventory.hosts) == {"hv2_hv1"}


OTHER = UUID.replace("7", "8")


@pytest.mark.parametrize(
    ("known", "hostnames", "decoy", "host"),
    [
        (f"# virt-{UUID} brine.virt:hv2 db1", [], [], "db1"),
        (f"# virt-{OTHER} brine.virt:hv2 db1", [], [], "db1_hv1"),
        # Whatever was made of it before, and whatever name it is given now.
        (f"# virt-{OTHER} brine.virt:hv1 db1", [], [], "db1_hv1"),
        (f"# virt-{OTHER} brine.virt:hv2 db1", [], [("zzz", OTHER)], "db1_hv1"),
        (f"# virt-{OTHER} brine.virt:hv2 db1", ["virt_name ~ '.example.org'"], [], "db1.example.org_hv1"),
    ],
)
def test_while_a_hypervisor_is_silent_nobody_becomes_a_machine_of_it(
    plugin: InventoryModule, known: str, hostnames: list[str], decoy: list[tuple[str, str]], host: str
) -> None:
    assert plugin.inventory is not None
    plugin._options["hostnames"] = [trust_as_template(one) for one in hostnames]
    silent = {**_answer("hv2"), "machines": None, "error": "no route"}
    others = [_machine(name, uuid=uuid) for name, uuid in decoy]
    plugin.populate([_answer("hv1", _machine("db1"), *others), silent], None, [known])
    assert set(plugin.inventory.hosts) - {"zzz"} == {host}
    # When all answer, it is nowhere else.
    plugin.inventory = InventoryData()
    plugin.populate([_answer("hv1", _machine("db1"), *others), _answer("hv2")], None, [known])
    assert set(plugin.inventory.hosts) - {"zzz"} == {host.removesuffix("_hv1")}


def test_a_host_that_the_user_calls_a_machine_is_the_machine(plugin: InventoryModule) -> None:
    assert plugin.inventory is not None
    plugin.inventory.add_group("virt_machines")
    plugin.inventory.add_host("web1", group="virt_machines")
    plugin.populate([_answer("hv1", _machine("web1"))], None)
    assert plugin.inventory.hosts["web1"].get_vars()["ansible_host"] == "192.0.2.7"
    # But not that of another file, which may be another machine.
    plugin.populate([_answer("hv9", _machine("web1", state="shutoff"))], None)
    assert plugin.inventory.hosts["web1"].get_vars()["virt_state"] == "running"
    assert plugin.inventory.hosts["web1_hv9"].get_vars()["virt_state"] == "shutoff"


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_the_controller_stays_itself_whatever_a_machine_is_called(plugin: InventoryModule, name: str) -> None:
    assert plugin.inventory is not None
    plugin.populate([_answer("hv1", _machine(name))], None)
    assert set(plugin.inventory.hosts) == {f"{name}_hv1"}
    localhost = plugin.inventory.get_host(name)
    assert localhost is not None
    assert localhost.implicit
    assert localhost.get_vars()["ansible_connection"] == "local"


def test_an_address_that_the_guest_claims_needs_a_host_key_or_the_users_word(plugin: InventoryModule) -> None:
    assert plugin.inventory is not None
    claimed = [{"addresses": [{"address": "192.0.2.7", "origin": "agent"}]}]
    machines = [
        _machine("stranger", nics=claimed),
        _machine("ours", nics=claimed, uuid=UUID.replace("7f", "80"), host_keys=["ssh-ed25519 AAAA"]),
    ]
    plugin.populate([_answer("hv1", *machines)], "/kh")
    assert "ansible_host" not in plugin.inventory.hosts["stranger"].get_vars()
    assert plugin.inventory.hosts["ours"].get_vars()["ansible_host"] == "192.0.2.7"
    plugin._options["trust_guest_addresses"] = True
    plugin.inventory = InventoryData()
    plugin.populate([_answer("hv1", *machines)], "/kh")
    assert plugin.inventory.hosts["stranger"].get_vars()["ansible_host"] == "192.0.2.7"


class Run(t.NamedTuple):
    """What ansible-inventory said."""

    data: dict[str, t.Any]
    errors: str


Inventory = t.Callable[..., Run]


def _without_mark(value: dict[str, t.Any]) -> t.Any:
    """ansible-inventory marks text that is no template; the mark itself is not what is looked for here."""
    return value["__ansible_unsafe"] if set(value) == {"__ansible_unsafe"} else value


@pytest.fixture
def inventory(tmp_path: Path, collections_root: Path) -> Inventory:
    """Run ansible-inventory --list on files that are written for it, named by the arguments in their order."""

    def run(_environment: dict[str, str] | None = None, **files: t.Any) -> Run:
        sources = []
        for name, content in files.items():
            path = tmp_path / (f"{name}.virt.yml" if "plugin" in content else f"{name}.yml")
            path.write_text(content if isinstance(content, str) else json.dumps(content))
            sources += ["-i", str(path)]
        environment = {
            **os.environ,
            "HOME": str(tmp_path),
            "ANSIBLE_COLLECTIONS_PATH": str(collections_root),
            "ANSIBLE_HOME": str(tmp_path / "ansible"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_NOCOLOR": "1",
            "COLUMNS": "2000",
            **(_environment or {}),
        }
        done = subprocess.run(
            [sys.executable, "-m", "ansible.cli.inventory", "--list", *sources],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return Run(json.loads(done.stdout or "{}", object_hook=_without_mark), done.stderr)

    return run


def _cloud(**options: t.Any) -> dict[str, t.Any]:
    return {"plugin": "brine.virt.domains", **options}


def test_a_whole_run(inventory: Inventory, node_uri: str, tmp_path: Path) -> None:
    hosts = {
        "hypervisors": {
            "hosts": {
                "hv1": {"virt_uri": "test://{{ node }}", "node": node_uri.removeprefix("test://")},
                "hv2": {"virt_uri": "test:///default"},
                "hv3": {"virt_uri": "qemu+unix:///system?socket=/nonexistent/socket"},
            }
        }
    }
    run = inventory(hosts=hosts, cloud=_cloud(hypervisor_group="hypervisors", known_hosts="kh/cloud"))
    assert set(run.data["virt_machines"]["hosts"]) == {"db1", "half", "test", "web1"}
    assert run.data["virt_building"]["hosts"] == ["half"]
    assert run.data["virt_tag_front_end"]["hosts"] == ["web1"]
    assert set(run.data["virt_on_hv1"]["hosts"]) == {"db1", "half", "web1"}
    assert run.data["virt_on_hv2"]["hosts"] == ["test"]

    web1 = run.data["_meta"]["hostvars"]["web1"]
    assert (web1["ansible_host"], web1["ansible_user"]) == ("192.168.122.129", "ansible")
    assert f"UserKnownHostsFile={tmp_path}/kh/cloud" in web1["ansible_ssh_common_args"]
    keyless = {"db1": "hv1", "half": "hv1", "test": "hv2"}
    assert (tmp_path / "kh" / "cloud").read_text().splitlines() == [
        *(
            f"# virt-{run.data['_meta']['hostvars'][name]['virt_uuid']} brine.virt:{hypervisor} {name}"
            for name, hypervisor in keyless.items()
        ),
        f"virt-{UUID} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2p brine.virt:hv1 web1",
    ]
    assert web1["http_port"] == 8080
    assert "ansible_connection" not in web1
    assert "ansible_host" not in run.data["_meta"]["hostvars"]["half"]

    warnings = [line for line in run.errors.splitlines() if "WARNING" in line]
    assert len(warnings) == 1
    assert "Hypervisor hv3 did not answer, its machines are missing: cannot connect to qemu+unix" in warnings[0]


@pytest.mark.slow
def test_a_variable_that_cannot_be_read_costs_its_own_hypervisor_at_most(inventory: Inventory, node_uri: str) -> None:
    """What the connection does not need is not read, and one warning names the hypervisor and the variable."""
    hosts = {
        "hypervisors": {
            "hosts": {
                "hv1": {"virt_uri": node_uri, "ansible_become_password": "{{ my_vault }}", "ansible_host": "{{ no }}"},
                "hv2": {"virt_uri": "test://{{ nowhere.at.all }}"},
                "hv3": {"ansible_host": "{{ rack", "ansible_connection": "ssh"},
                "hv4": {"ansible_port": "twenty", "ansible_winrm_transport": "{{ no }}"},
                "hv5": {
                    "virt_uri": "test:///default",
                    "ansible_user": "{{ lookup('ansible.builtin.env', 'NO') | no }}",
                },
            }
        }
    }
    run = inventory(hosts=hosts, cloud=_cloud(hypervisor_group="hypervisors", known_hosts=""))
    assert set(run.data["virt_machines"]["hosts"]) == {"db1", "half", "test", "web1"}, run.errors

    warnings = [line for line in run.errors.splitlines() if "WARNING" in line]
    assert len(warnings) == 3, run.errors
    for name, what, reason in (
        ("hv2", "its variable virt_uri cannot be read: ", "'nowhere' is undefined"),
        ("hv3", "its variable ansible_host cannot be read: ", "Syntax error in template"),
        ("hv4", "its variables for SSH are wrong: ", "twenty"),
    ):
        begin = f"Hypervisor {name} was not asked, its machines are missing: {what}"
        assert sum(begin in line and reason in line for line in warnings) == 1, warnings


SSH_OURS = f"-o HostKeyAlias=virt-{UUID} -o UserKnownHostsFile={{}} -o StrictHostKeyChecking=yes"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "group", "environment", "before", "after"),
    [
        ({}, {}, {}, "", ""),
        ({}, {"all": "-o ProxyJump={{ bastion }}"}, {}, "", " -o ProxyJump=gate"),
        # What is said of the machines' own group comes before what is said of all.
        ({}, {"all": "-o ProxyJump=a", "virt_machines": "-o ProxyJump=b"}, {}, "", " -o ProxyJump=b"),
        ({}, {"virt_tag_web": "-o ProxyJump=c"}, {}, "", " -o ProxyJump=c"),
        ({"ssh_common_args": "-F /x"}, {"all": "-o ProxyJump=a"}, {}, "-F /x ", " -o ProxyJump=a"),
        ({}, {}, {"ANSIBLE_SSH_COMMON_ARGS": "-o ProxyJump=e"}, "", " -o ProxyJump=e"),
        # The check of host keys is not for a group variable to undo: SSH takes the first value.
        ({}, {"all": "-o StrictHostKeyChecking=no"}, {}, "", " -o StrictHostKeyChecking=no"),
        (
            {"compose": {"ansible_ssh_common_args": "ansible_ssh_common_args ~ ' -o ProxyJump=f'"}},
            {"all": "-o ProxyJump=a"},
            {},
            "",
            " -o ProxyJump=f",
        ),
    ],
)
def test_ssh_arguments_of_the_user_stay_beside_ours(
    inventory: Inventory,
    node_uri: str,
    tmp_path: Path,
    options: dict[str, t.Any],
    group: dict[str, str],
    environment: dict[str, str],
    before: str,
    after: str,
) -> None:
    for name, words in group.items():
        path = tmp_path / "group_vars" / f"{name}.yml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"ansible_ssh_common_args": words, "bastion": "gate"}))
    cloud = _cloud(hypervisors=[{"name": "hv1", "uri": node_uri}], known_hosts="kh", **options)
    run = inventory(environment, cloud=cloud)
    found = run.data["_meta"]["hostvars"]["web1"]["ansible_ssh_common_args"]
    assert found == before + SSH_OURS.format(tmp_path / "kh") + after


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        ("config", "-o ControlPersist=5m -o UserKnownHostsFile=/dev/null"),
        ("config", "-o StrictHostKeyChecking=no -o HostKeyAlias=all"),
        ("environment", "-ouserknownhostsfile=/dev/null"),
        ("variable", "-o 'StrictHostKeyChecking accept-new' -o ProxyJump={{ bastion }}"),
        ("config", None),
        ("config", "-o ControlPersist=5m"),
    ],
)
def test_ssh_checks_the_host_keys_whatever_the_users_arguments_are(
    inventory: Inventory,
    node_uri: str,
    tmp_path: Path,
    collections_root: Path,
    source: str,
    arguments: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What Ansible calls ssh with, as ssh itself understands it: it takes the first value of an option."""
    # ansible-test sets it.
    monkeypatch.delenv("ANSIBLE_HOST_KEY_CHECKING", raising=False)
    (tmp_path / "ssh").write_text(f'#!/bin/sh\nexec ssh -G "$@" > {tmp_path}/told\n')
    (tmp_path / "ssh").chmod(0o700)
    settings = [f"[ssh_connection]\nssh_executable = {tmp_path}/ssh\n"]
    environment = {"ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")}
    if arguments is None:
        settings.insert(0, "[defaults]\nhost_key_checking = false\n")
    elif source == "config":
        settings.append(f"ssh_args = {arguments}\n")
    elif source == "environment":
        environment["ANSIBLE_SSH_ARGS"] = arguments
    else:
        (tmp_path / "group_vars").mkdir()
        variables = {"ansible_ssh_args": arguments, "bastion": "gate"}
        (tmp_path / "group_vars" / "all.yml").write_text(json.dumps(variables))
    (tmp_path / "ansible.cfg").write_text("".join(settings))
    cloud = _cloud(hypervisors=[{"name": "hv1", "uri": node_uri}], known_hosts="kh")
    run = inventory(environment, cloud=cloud)
    changed = arguments != "-o ControlPersist=5m"
    assert ("ansible_ssh_args" in run.data["_meta"]["hostvars"]["web1"]) is changed, run.errors

    command = ["-m", "ansible.cli.adhoc", "-i", "cloud.virt.yml", "web1", "-m", "ansible.builtin.raw", "-a", "true"]
    subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(collections_root), **environment},
        cwd=tmp_path,
        capture_output=True,
        timeout=300,
        check=False,
    )
    told = dict(line.split(" ", 1) for line in (tmp_path / "told").read_text().splitlines() if " " in line)
    assert (told["hostkeyalias"], told["userknownhostsfile"], told["stricthostkeychecking"]) == (
        f"virt-{UUID}",
        str(tmp_path / "kh"),
        "true",
    )
    # And what else the user has said stays.
    assert told["controlpersist"] == ("300" if "ControlPersist" in (arguments or "") else told["controlpersist"])
    assert told.get("proxyjump") == ("gate" if source == "variable" else None)


def test_text_of_machines_is_never_a_template(inventory: Inventory, node_uri: str) -> None:
    cloud = _cloud(
        hypervisors=[{"name": "hv1", "uri": node_uri}],
        compose={"copied": "virt_title", "said": "motto | default()"},
        known_hosts="",
        strict=True,
    )
    run = inventory(cloud=cloud)
    web1 = run.data["_meta"]["hostvars"].get("web1") or pytest.fail(run.errors)
    assert web1["virt_title"] == web1["copied"] == "{{ lookup('pipe', 'touch /tmp/never') }}"
    assert web1["motto"] == web1["said"] == "{{ 6 * 7 }}"


@pytest.mark.slow
def test_ssh_is_what_ansible_has_for_the_hypervisor(inventory: Inventory, tmp_path: Path) -> None:
    """A program in ssh's place says what it was called with; group_vars, templates and ansible.cfg all count."""
    program = tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/told\nexit 255\n')
    program.chmod(0o700)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "hypervisors.yml").write_text(
        f"ansible_user: '{{{{ admin }}}}'\nadmin: me\nansible_ssh_executable: {program}\nansible_ssh_extra_args: -v\n"
    )
    hosts = {
        "hypervisors": {
            "hosts": {
                "hv1": {
                    "ansible_host": "192.0.2.1",
                    "ansible_port": 2222,
                    "ansible_ssh_private_key_file": "~/keys/id",
                    "ansible_ssh_common_args": "-o UserKnownHostsFile='/my hosts' -o StrictHostKeyChecking=yes",
                }
            }
        }
    }
    run = inventory(
        {"ANSIBLE_SSH_ARGS": "-o ForwardAgent=yes"}, hosts=hosts, cloud=_cloud(hypervisor_group="hypervisors")
    )
    told = (tmp_path / "told").read_text().splitlines()
    expected = [
        "BatchMode=yes",
        f"IdentityFile={tmp_path}/keys/id",
        "ForwardAgent=yes",
        "UserKnownHostsFile=/my hosts",
        "StrictHostKeyChecking=yes",
        "-v",
    ]
    # libvirt says BatchMode once more by itself.
    assert list(dict.fromkeys(word for word in told if word in expected)) == expected
    assert told[told.index("-p") + 1] == "2222"
    assert told[told.index("-l") + 1] == "me"
    assert told[told.index("--") + 1] == "192.0.2.1"
    assert "Hypervisor hv1 did not answer" in run.errors
    assert "qemu+ssh://me@192.0.2.1:2222/system" in run.errors


@pytest.mark.parametrize(
    ("variables", "transport", "uri"),
    [
        ({}, "ssh", "qemu+ssh://hv1/system"),
        (
            {"ansible_host": "192.0.2.1", "ansible_port": 23, "ansible_user": "me"},
            "ssh",
            "qemu+ssh://me@192.0.2.1:23/system",
        ),
        ({"ansible_host": "192.0.2.1", "ansible_port": 23, "ansible_user": "me"}, "tls", "qemu+tls://192.0.2.1/system"),
        ({}, "local", "qemu:///system"),
        ({"ansible_connection": "local"}, "ssh", "qemu:///system"),
        ({"ansible_connection": "local", "virt_uri": "qemu+tls://x/system"}, "ssh", "qemu+tls://x/system"),
        (
            {"virt_uri": trust_as_template("qemu+tls://{{ inventory_hostname }}.lan/system")},
            "ssh",
            "qemu+tls://hv1.lan/system",
        ),
        ({"virt_uri": "qemu+tls://{{ not_ours }}/system"}, "ssh", "qemu+tls://{{ not_ours }}/system"),
    ],
)
def test_which_uri_a_hypervisor_has(
    plugin: InventoryModule, variables: dict[str, t.Any], transport: str, uri: str
) -> None:
    assert plugin.inventory is not None
    plugin.inventory.add_host("hv1")
    for name, value in variables.items():
        plugin.inventory.set_variable("hv1", name, value)
    plugin._options["transport"] = transport
    hypervisor = plugin._hypervisor(HypervisorEntry("hv1"))
    assert hypervisor.uri == uri
    assert (hypervisor.ssh is not None) == uri.startswith("qemu+ssh")


def test_a_name_that_the_inventory_does_not_know_is_its_own_address(plugin: InventoryModule) -> None:
    plugin._options["transport"] = "tls"
    assert plugin._hypervisor(HypervisorEntry("hv7.example.org")).uri == "qemu+tls://hv7.example.org/system"
    assert plugin._hypervisor(HypervisorEntry("hv7", None, "local")).uri == "qemu:///system"
    assert plugin._hypervisor(HypervisorEntry("hv7", "test:///x")).uri == "test:///x"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "no hypervisors are named. Set hypervisors to a list of them, or hypervisor_group to a group"),
        ({"hypervisors": ["hv1"], "timout": 3}, "unknown option 'timout'. Did you mean timeout?"),
        (
            {"hypervisors": ["hv1"], True: 3},
            "unknown option 'true'. YAML reads on and yes without quotes as true. K",
        ),
        ({"hypervisors": ["hv1"], "timeout": 0}, "timeout is 0.0. Give a number above 0"),
        ({"hypervisors": ["hv1"], "transport": "tcp"}, "tcp"),
        ({"hypervisors": [{"nam": "hv1"}]}, "hypervisors[0]: unknown option 'nam'. Did you mean name?"),
        ({"hypervisors": ["hv1"], "facts": ["disk"]}, "Valid values are: address, hardware, disks,"),
        ({"hypervisors": ["hv1"], "filters": [{"only": "x"}]}, "filters[0]: {'only': 'x'} is not a filter."),
        ({"hypervisors": ["hv1"], "hostnames": [""]}, "hostnames[0]: '' is not an expression."),
        ({"hypervisor_group": "cloud"}, "hypervisor_group: there is no group 'cloud' in the inventory parsed before"),
    ],
)
def test_wrong_options_are_refused_in_one_sentence(
    inventory: Inventory, options: dict[t.Any, t.Any], sentence: str
) -> None:
    run = inventory(cloud={**_cloud(), **options})
    assert sentence in run.errors
    assert "virt_machines" not in run.data


@pytest.mark.slow
def test_answers_are_cached_as_plain_data(inventory: Inventory, node_uri: str, tmp_path: Path) -> None:
    cloud = _cloud(
        hypervisors=[{"name": "hv1", "uri": node_uri}],
        known_hosts="kh",
        cache=True,
        cache_plugin="ansible.builtin.jsonfile",
        cache_connection=str(tmp_path / "cache"),
        compose={"copied": "virt_title"},
    )
    first = inventory(cloud=cloud)
    (cached,) = (tmp_path / "cache").iterdir()
    content = cached.read_text()
    # Proof that the second run is answered from there: a machine that exists nowhere else.
    cached.write_text(content.replace("db1", "db-from-cache"))
    (tmp_path / "kh").unlink()
    second = inventory(cloud=cloud)
    assert "db-from-cache" in second.data["virt_machines"]["hosts"]
    assert second.data["_meta"]["hostvars"]["web1"] == first.data["_meta"]["hostvars"]["web1"]
    # SSH has the key. Where the machine is now, a cache does not know.
    (line,) = [line for line in (tmp_path / "kh").read_text().splitlines() if UUID in line]
    assert line.endswith(" brine.virt:hv1")


@pytest.mark.slow
@pytest.mark.parametrize("other", [{"hv2": {}}, {"hv1": {"virt_uri": "test:///default"}}])
def test_answers_of_other_hypervisors_are_not_those_of_these(
    inventory: Inventory, node_uri: str, tmp_path: Path, other: dict[str, t.Any]
) -> None:
    cloud = {
        "plugin": "brine.virt.domains",
        "hypervisor_group": "hypervisors",
        "known_hosts": "",
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(tmp_path / "cache"),
    }
    # The same file, named after the inventory of one cloud, and after that of another.
    here = {"hypervisors": {"hosts": {"hv1": {"virt_uri": node_uri}}}}
    there = {"hypervisors": {"hosts": {name: {"virt_uri": "test:///default", **more} for name, more in other.items()}}}
    assert "web1" in inventory(hosts=here, cloud=cloud).data["virt_machines"]["hosts"]
    assert inventory(hosts=there, cloud=cloud).data["virt_machines"]["hosts"] == ["test"]


@pytest.mark.slow
def test_a_silent_hypervisor_is_listed_as_it_was_when_there_is_a_cache(
    inventory: Inventory, node_uri: str, tmp_path: Path
) -> None:
    known_hosts = tmp_path / "kh"
    options: dict[str, t.Any] = {
        "known_hosts": "kh",
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(tmp_path / "cache"),
        "cache_timeout": 1,
    }
    inventory(cloud=_cloud(hypervisors=[{"name": "hv1", "uri": node_uri}], **options))
    lines = known_hosts.read_text()
    (cached,) = (tmp_path / "cache").iterdir()
    os.utime(cached, (1e9, 1e9))  # too old for anything else
    silent = [{"name": "hv1", "uri": "qemu+unix:///system?socket=/nonexistent/socket"}]
    run = inventory(cloud=_cloud(hypervisors=silent, **options))
    assert set(run.data["virt_machines"]["hosts"]) == {"db1", "half", "web1"}
    since = run.data["_meta"]["hostvars"]["web1"]["virt_stale_since"]
    assert f"Hypervisor hv1 did not answer, its machines are listed as of {since}: cannot connect" in run.errors
    assert known_hosts.read_text() == lines
    os.utime(cached, (1e9, 1e9))
    run = inventory(cloud=_cloud(hypervisors=silent, strict_hypervisors=True, **options))
    assert "Hypervisor hv1 did not answer" in run.errors
    assert "virt_machines" not in run.data


@pytest.mark.slow
def test_an_inventory_can_insist_on_every_hypervisor(inventory: Inventory, node_uri: str) -> None:
    dead = {"name": "hv2", "uri": "qemu+unix:///system?socket=/nonexistent/socket"}
    cloud = _cloud(hypervisors=[{"name": "hv1", "uri": node_uri}, dead], known_hosts="", strict_hypervisors=True)
    run = inventory(cloud=cloud)
    assert "cloud.virt.yml: Hypervisor hv2 did not answer, its machines are missing: cannot connect" in run.errors
    assert "virt_machines" not in run.data


def test_filters_and_names_are_the_users_expressions(inventory: Inventory, node_uri: str) -> None:
    cloud = _cloud(
        hypervisors=[{"name": "hv1", "uri": node_uri}],
        known_hosts="",
        facts=["tags", "description"],
        filters=[{"exclude": "state == 'shutoff' and not managed"}, {"include": "motto is defined"}, {"exclude": True}],
        # The title is what somebody wrote into the machine: it names nothing and is no template.
        hostnames=["title", "name ~ '.' ~ hypervisor"],
    )
    run = inventory(cloud=cloud)
    assert run.data["virt_machines"]["hosts"] == ["web1.hv1"]
    web1 = run.data["_meta"]["hostvars"]["web1.hv1"]
    assert web1["virt_title"] == "{{ lookup('pipe', 'touch /tmp/never') }}"
    assert "front end" in web1["virt_tags"]
    assert not {"ansible_host", "virt_disks", "virt_nics", "virt_vcpus", "virt_stale_since"} & set(web1)
    assert "WARNING" not in run.errors


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("cloud.virt.yml", True),
        ("cloud.virt.yaml", True),
        ("virt.yml", False),
        ("cloud.yml", False),
        ("cloud.virt.json", False),
    ],
)
def test_which_files_are_ours(tmp_path: Path, name: str, ours: bool) -> None:
    path = tmp_path / name
    path.write_text("plugin: brine.virt.domains\n")
    assert InventoryModule().verify_file(str(path)) is ours


def test_a_file_of_ours_with_another_name_is_told_what_its_name_should_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, plugin in (("mine.yml", "brine.virt.domains"), ("other.yml", "example.cloud.machines")):
        (tmp_path / name).write_text(f"---\nplugin: '{plugin}'\n")
        assert InventoryModule().verify_file(str(tmp_path / name)) is False
    assert InventoryModule().verify_file(str(tmp_path)) is False
    said = " ".join(capsys.readouterr().err.split())
    assert "mine.yml: the name of a file for brine.virt.domains ends in .virt.yml or .virt.yaml. Rename it" in said
    assert "other.yml" not in said


def test_a_pipe_for_another_plugin_is_not_read_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert InventoryModule().verify_file(str(tmp_path / "pipe")) is False


def test_a_file_that_is_not_there_is_not_ours(tmp_path: Path) -> None:
    assert InventoryModule().verify_file(str(tmp_path / "cloud.virt.yml")) is False
