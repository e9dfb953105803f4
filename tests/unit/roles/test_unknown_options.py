# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is given with -e to a playbook that has no such option is not ignored in silence."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.plugins.plugin_utils._option_names import (
    bare_profiles,
    lone_words,
    mistaken_choices,
    mistaken_host_variables,
    mistaken_options,
    mistaken_variables,
    names_meant,
)
from ansible_collections.brine.virt.tests.unit.roles.test_bare_hosts import PLAYBOOKS, bare_host, play

COLLECTION = Path(__file__).resolve().parents[3]
# What a playbook cannot do without: it says so itself.
NEEDED = {"power": ("state",)}


@pytest.mark.parametrize(
    ("given", "options", "meant"),
    [
        (["vm", "target"], ["vm", "to"], {"target": "to"}),
        (["dest"], ["vm", "file", "force"], {"dest": "file"}),
        (["limt"], ["limit"], {"limt": "limit"}),
        (["stop"], ["begin", "end"], {"stop": "end"}),
        (["form", "host"], ["from", "to"], {"form": "from", "host": "from"}),
        (["from", "host"], ["from", "to"], {"host": "to"}),
        (["name", "stat", "mem"], ["vm", "start", "memory"], {"name": "vm", "stat": "start", "mem": "memory"}),
        (["tags", "force"], ["vm", "tag", "on", "force"], {"tags": "tag"}),
        (["vm", "hypervisor", "keep"], ["vm", "force", "keep_disks", "on"], {"hypervisor": "on", "keep": "keep_disks"}),
        (
            ["vm", "on", "timeout"],
            ["vm", "hypervisor", "stop_timeout"],
            {"on": "hypervisor", "timeout": "stop_timeout"},
        ),
        # Of one's own, beside the one that is meant; or of everybody's.
        (["vm", "name"], ["vm"], {}),
        (["virt_vm", "ansible_user", "site"], ["vm", "to"], {}),
    ],
)
def test_the_right_option_is_named(given: list[str], options: list[str], meant: dict[str, str]) -> None:
    sentences, others = mistaken_options(given, options)
    assert sentences == [f"{name}: unknown option. Did you mean {option}?" for name, option in sorted(meant.items())]
    own = set(given) - set(options) - set(meant) - {"virt_vm", "ansible_user"}
    assert others == sorted(own)


@pytest.mark.parametrize(
    ("given", "options", "meant"),
    [
        # In a file, or for several playbooks: the user's own words, and options of another playbook.
        ("domain name names host node target action ram interfaces machines", ["vm", "to", "memory", "nics"], {}),
        ("domain host title timeout order description memory", [], {}),
        ("vm stop tags force", [], {}),
        ("hypervisr", ["vm", "hypervisor"], {"hypervisr": "hypervisor"}),
        ("keepdisks tags form", ["vm", "tag", "keep_disks", "from"], {"keepdisks": "keep_disks", "tags": "tag"}),
    ],
)
def test_of_what_may_be_meant_for_something_else_only_mistypings_are_refused(
    given: str, options: list[str], meant: dict[str, str]
) -> None:
    typed = {"form"}
    sentences, others = mistaken_options(given.split(), options, typed)
    hint = "If it is a variable of your own, give it another name."
    assert [one for one in sentences if "form" not in one] == [
        f"{name}: unknown option. Did you mean {option}? {hint}" for name, option in sorted(meant.items())
    ]
    assert [one for one in sentences if "form" in one] == (
        ["form: unknown option. Did you mean from?"] if "form" in given else []
    )
    assert others == sorted({*given.split()} - set(meant) - typed)


PURGE = ["vm", "on", "stop", "stop_timeout", "force", "keep_disks", "adopt", "disks", "output"]
POWER = ["vm", "tag", "on", "in_state", "all", "state", "only_pending", "force", "timeout", "output"]
OWN = "If it is a variable of your own, give it another name."


@pytest.mark.parametrize(
    ("typed", "files", "options", "meant"),
    [
        # What would keep the disks is never passed over, nor what limits who is restarted.
        ("vm keep", [], PURGE, {"keep": "keep_disks"}),
        ("vm", ["keep_volumes domain"], PURGE, {"keep_volumes": "keep_disks"}),
        ("keep_storage", ["vm"], PURGE, {"keep_storage": "keep_disks"}),
        ("tag state", ["pending"], POWER, {"pending": "only_pending"}),
        # Beside an option of the playbook.
        ("vm target", [], ["vm", "to", "pool", "disks"], {"target": "to"}),
        ("from host", [], ["from", "to", "reason"], {"host": "to"}),
        ("", ["from source target"], ["from", "to", "reason"], {"target": "to"}),
        ("host", ["tag state"], POWER, {"host": "on"}),
        ("", ["vm ram interfaces"], ["vm", "memory", "nics"], {"ram": "memory", "interfaces": "nics"}),
        ("", ["vm host"], ["vm", "image", "hypervisor"], {"host": "hypervisor"}),
        # Alone, or in another file, it may be the user's own.
        ("vm state", ["host node domain"], POWER, {}),
        ("target", [], ["vm", "to", "pool", "disks"], {}),
        ("vm", ["target name"], ["vm", "to", "pool", "disks"], {}),
        # Meant for another import.
        ("vm on hypervisor state", [], ["vm", "to", "pool", "disks"], {}),
        ("vm stop on", [], ["vm", "image", "hypervisor", "end"], {}),
    ],
)
def test_another_word_beside_an_option_of_the_playbook_is_refused_in_a_site_playbook(
    typed: str, files: list[str], options: list[str], meant: dict[str, str]
) -> None:
    names = {*typed.split()}
    in_files = [{*file.split()} for file in files]
    company = names_meant(names, in_files, options, site=True)
    given = names.union(*in_files)
    sentences, others = mistaken_options(given, options, (), company)
    assert sentences == [
        f"{name}: unknown option. Did you mean {option}? {OWN}" for name, option in sorted(meant.items())
    ]
    assert others == sorted(given - {*options, *meant})


def test_a_file_with_an_option_of_the_playbook_is_meant_for_it_where_this_is_called_itself() -> None:
    """The file of a machine that is to go, with a word of purge; and files with other things."""
    options = ["vm", "state", "hypervisor"]
    files = [{"vm", "state", "keep_disks", "host"}, {"on", "title", "domain"}]
    company = names_meant({"site"}, files, options, site=False)
    sentences, others = mistaken_options({"site"}.union(*files), options, {"site"}, company)
    assert sentences == [
        f"host: unknown option. Did you mean hypervisor? {OWN}",
        f"keep_disks: this playbook does not have this option. Its options: hypervisor, state, vm. {OWN}",
    ]
    assert others == ["domain", "on", "site", "title"]


@pytest.mark.parametrize("name", ["vm", "on", "tag", "in_state", "keep_disks", "file", "limit", "image", "autostart"])
def test_what_is_meant_for_another_playbook_is_not_ignored(name: str) -> None:
    missing = f"{name}: this playbook does not have this option."
    assert mistaken_options([name, "site"], []) == ([f"{missing} It has none."], ["site"])
    assert mistaken_options([name, "end", "site"], ["end", "begin"]) == (
        [f"{missing} Its options: begin, end."],
        ["site"],
    )


def test_the_options_of_all_playbooks_are_known() -> None:
    variables = yaml.safe_load((COLLECTION / "roles/virt_provision/vars/main.yml").read_text(encoding="utf-8"))
    for playbook in PLAYBOOKS:
        first = yaml.safe_load((COLLECTION / "playbooks" / f"{playbook}.yml").read_text(encoding="utf-8"))[0]
        options = first["vars"]["virt_named_options"]
        if playbook == "provision":
            options = [*re.findall(r"'([a-z_]+)'", options.partition("]")[0]), *variables["virt_provision_options"]]
        for option in options:
            assert mistaken_options([option], [])[1] == [], (playbook, option)


def test_a_key_that_yaml_does_not_read_as_a_text_is_named() -> None:
    sentence = "true: unknown option, as YAML reads on and yes without quotes. Its options: on, vm."
    assert mistaken_options({True: "hv1", "vm": "web1"}, ["vm", "on"]) == ([sentence], [])


EMPTY: list[t.Any] = ["", " , ", "\t", [], [""], ["", " "], [None], {}, None]
GIVEN: list[t.Any] = ["web1", ["web1"], ["", "web1"], {"data": {"pool": "fast"}}, 0]


@pytest.mark.parametrize(("value", "empty"), [*((one, True) for one in EMPTY), *((one, False) for one in GIVEN)])
def test_an_option_that_needs_a_value_is_not_empty(value: t.Any, empty: bool) -> None:
    sentences = ["vm: it is empty. Give a value, or leave it out."] if empty else []
    assert mistaken_choices({"vm": value}, {"vm": []}) == sentences
    assert mistaken_choices({}, {"vm": []}) == []


@pytest.mark.parametrize(
    ("given", "sentences"),
    [
        ({}, []),
        ({"output": "json", "other": "x"}, []),
        ({"output": "jsno"}, ["output: there is no 'jsno'. Did you mean json?"]),
        ({"snapshot_state": "Deleted"}, ["snapshot_state: there is no 'Deleted'. Did you mean absent?"]),
        ({"output": True}, ["output: there is no 'True'. Known: json, text."]),
        ({"output": None}, ["output: it is empty. Give a value, or leave it out."]),
        ({"state": "running, shutoff"}, []),
        ({"state": ["running", "off,running"]}, ["state: there is no 'off'. Did you mean shutoff?"]),
        ({"state": "{{ mine }}"}, []),
    ],
)
def test_a_word_that_an_option_does_not_have_is_named(given: dict[str, t.Any], sentences: list[str]) -> None:
    of_snapshot = ["present", "reverted", "absent"]
    choices = {"output": ["text", "json"], "state": ["running", "shutoff"], "snapshot_state": of_snapshot}
    assert mistaken_choices(given, choices) == sentences


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_what_narrows_a_playbook_does_not_widen_it_where_it_is_empty(playbook: str) -> None:
    """As in -e vm=$NAME -e on=hv1, where the shell knows no NAME. Those of provision describe a machine."""
    first = yaml.safe_load((COLLECTION / "playbooks" / f"{playbook}.yml").read_text(encoding="utf-8"))[0]
    options = [] if playbook == "provision" else first["vars"]["virt_named_options"]
    narrowing = {"vm", "tag", "on", "in_state", "state", "from", "to", "pool", "disks", "disk", "file", "begin", "end"}
    assert set(options) & narrowing <= {*first["vars"].get("virt_named_choices", {}), *NEEDED.get(playbook, ())}


@pytest.mark.parametrize(
    ("given", "sentences"),
    [
        ({"vm": "web1"}, []),
        (
            {"vm": "web1,", "_raw_params": "db1"},
            [
                "'db1' stands alone behind -e. A value with spaces needs quotes of its own, as in"
                " -e 'title=\"SOME WORDS\"', and names in a list no spaces."
            ],
        ),
        ({"_raw_params": "my/vms.yml"}, ["'my/vms.yml' stands alone behind -e. A file needs an @: -e @my/vms.yml."]),
    ],
)
def test_words_behind_a_value_with_spaces_are_named(given: dict[str, t.Any], sentences: list[str]) -> None:
    assert lone_words(given) == sentences
    assert mistaken_options(given, ["vm"]) == ([], [])


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"virt": {"disk": {"default": []}, "tunnel": True}, "virt.nic": {}}, ["virt.nic", "virt"]),
        ({"virt.disk": {}, "virt_disk_profiles": {"virt.disk": {}}}, ["virt.disk"]),
        ({"virt": {"site": "prague"}}, []),
        ({"virt": "yes"}, []),
    ],
)
def test_a_salt_configuration_beside_the_variables_is_named(given: dict[str, t.Any], names: list[str]) -> None:
    assert [line.partition(":")[0] for line in bare_profiles(given, ["disk_profile"])] == names
    assert bare_profiles(given, ["vm"]) == []


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["virt_migrate_bandwith"], "virt_migrate_bandwidth"),
        (["virt_provision_wiat"], "virt_provision_wait"),
        (["virt_backup_ownr", "virt_site"], "virt_backup_owner"),
        (["virt_migrate_bandwith", "virt_migrate_bandwidth"], ""),
        (["virt_migrate_pool", "virt_power_words", "virt_provision_src"], ""),
        (["virt_know_hosts"], "virt_known_hosts"),
        (["virt_answer_second"], "virt_answer_seconds"),
        (["virt_usneen"], "virt_unseen"),
        (["virt_hypervisor"], "virt_hypervisors"),
        (["virt_backups_keep"], "virt_backup_keep"),
        (["virt_migration_bandwidth"], "virt_migrate_bandwidth"),
        (["virt_host", "virt_nodes", "virt_rack", "virt_owner", "virt_backup_host", "virt_timeout"], ""),
        (["virt_hypervisor_user", "virt_hypervisor_ksm", "virt_tls_name", "virt_bridge_bridge"], ""),
    ],
)
def test_a_variable_of_a_playbook_that_is_misspelled_is_named(given: list[str], meant: str) -> None:
    assert mistaken_variables(given) == ([f"{given[0]}: unknown variable. Did you mean {meant}?"] if meant else [])


def test_no_variable_of_the_playbooks_and_roles_is_taken_for_another() -> None:
    """What plays have registered is a variable of the host in those that follow."""
    folders = (COLLECTION / "playbooks", COLLECTION / "roles")
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.yml")]
    names = set(re.findall(r"\bvirt_[a-z_]*[a-z]\b", "\n".join(texts)))
    assert {"virt_migrate_bandwidth", "virt_provision_concurrency", "virt_hypervisor_pools"} <= names
    # A group of hosts, and what the live inventory says of machines.
    assert [name for name in sorted(names - {"virt_hypervisor"}) if mistaken_variables([name])] == []


def test_what_is_misspelled_in_the_inventory_is_named_with_the_hypervisors_that_have_it() -> None:
    common = ["inventory_hostname", "virt_hypervisor", "virt_rack", "virt_migrate_tsl", "limt"]
    hosts = {
        "hv1": [*common, "virt_backup_must_be_mount", "virt_know_hosts"],
        "hv2": [*common, "virt_migrate_source_volume"],
        # Of its own, beside the right one.
        "hv3": [*common, "virt_backup_must_be_mount", "virt_know_hosts", "virt_known_hosts"],
    }
    assert mistaken_host_variables(hosts, ["virt_power_concurency"], ["virt_migrate_tsl", "limt"]) == [
        "virt_backup_must_be_mount (hv1, hv3): unknown variable. Did you mean virt_backup_must_be_mounted?",
        "virt_know_hosts (hv1): unknown variable. Did you mean virt_known_hosts?",
        "virt_power_concurency: unknown variable. Did you mean virt_power_concurrency?",
        "virt_migrate_source_volume (hv2): unknown variable. Did you mean virt_migrate_source_volumes?",
    ]
    assert mistaken_host_variables({}, ["virt_know_hosts"], []) == []


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_each_playbook_says_what_it_takes(playbook: str) -> None:
    first = yaml.safe_load((COLLECTION / "playbooks" / f"{playbook}.yml").read_text(encoding="utf-8"))[0]
    assert "virt_named_options" in first["vars"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("playbook", "given", "sentence"),
    [
        ("migrate", {"vm": "web1", "target": "hv3"}, "target: unknown option. Did you mean to? Nothing was changed."),
        ("list", {"output": "jsno"}, "output: there is no 'jsno'. Did you mean json? Nothing was changed."),
        ("list", {"state": "of"}, "state: there is no 'of'. Known: blocked, crashed,"),
        ("list", {"virt_answer_seconds": "soon"}, "virt_answer_seconds: 'soon' is not a number of seconds. Give a"),
        (
            "provision",
            {"vm": "db1", "state": "absent", "keep_disks": True},
            "keep_disks: this playbook does not have this option. Its options: ",
        ),
        (
            "export",
            {"output": "x"},
            "output: this playbook does not have this option. Its options: file, force, vm. N",
        ),
        ("export", {"vm": ""}, "vm: it is empty. Give a value, or leave it out. Nothing was changed."),
        (
            "power",
            {"vm": "", "on": "hv1", "state": "stopped"},
            "vm: it is empty. Give a value, or leave it out. Nothing",
        ),
        ("migrate", {"vm": "web1", "virt_migrate_tsl": 1}, "virt_migrate_tsl: unknown variable. Did you mean virt_m"),
        ("list", {"vm": "web1,", "_raw_params": "db1"}, "'db1' stands alone behind -e."),
        ("maintenance", {"stop": "hv1"}, "stop: unknown option. Did you mean end? Nothing was changed."),
        ("power", {"vm": "web1", "sate": "stopped"}, "sate: unknown option. Did you mean state? Nothing was changed."),
        ("purge", {"vm": "web1", "keepdisks": True}, "keepdisks: unknown option. Did you mean keep_disks? Nothing was"),
        (
            "provision",
            {"vm": "web1", "vcpus": 1, "memory": 128, "stat": False},
            "stat: unknown option. Did you mean state? Nothing was changed.",
        ),
        (
            "provision",
            {"virt_vms": [{"name": "web1"}], "virt": {"disk": {"default": []}}},
            "virt: profiles in Salt's form are read inside virt_disk_profiles and virt_nic_profiles. Put it there. N",
        ),
        (
            "provision",
            {"virt_vms": [{"name": "web1"}], "vcpus": 1, "memory": 128},
            "vcpus, memory: for one machine on the command line, which needs -e vm=NAME.",
        ),
    ],
)
def test_a_misspelled_option_ends_the_run(
    tmp_path: Path, playbook: str, given: dict[str, t.Any], sentence: str
) -> None:
    hosts = {"hypervisors": {"hosts": {"hv1": bare_host(tmp_path)}}}
    done = play(tmp_path, playbook, hosts, "--check", "-e", json.dumps(given))
    assert sentence in done.stdout + done.stderr, done.stdout + done.stderr
    assert done.returncode == 2


@pytest.mark.slow
def test_a_word_of_the_command_line_that_is_no_option_ends_the_run(tmp_path: Path) -> None:
    hosts = {"hypervisors": {"hosts": {"hv1": bare_host(tmp_path)}}}
    done = play(tmp_path, "purge", hosts, "-e", "vm=web1 preserve_disks=true", "-e", '{"rack": 7}')
    output = done.stdout + done.stderr
    assert "preserve_disks: unknown option. Its options: adopt, " in output, output
    assert "-e @FILE. Nothing was changed." in output, output
    assert "Not an option of this playbook: rack\n" in output, output
    assert done.returncode == 2


@pytest.mark.slow
def test_a_word_of_ones_own_in_a_file_is_only_named(tmp_path: Path) -> None:
    hosts = {"hypervisors": {"hosts": {"hv1": bare_host(tmp_path)}}}
    (tmp_path / "prod.yml").write_text("domain: example.org\nname: prod\ntitle: Production\n")
    done = play(tmp_path, "maintenance", hosts, "-e", "@prod.yml")
    output = done.stdout + done.stderr
    assert "Not an option of this playbook: domain, name, title" in output, output
    assert done.returncode == 0
    done = play(tmp_path, "maintenance", hosts, "-e", "@prod.yml", "-e", "name=hv1")
    assert "name: unknown option. Its options: begin, end, reason, start. A variable of your own" in done.stdout
    assert done.returncode == 2
    (tmp_path / "prod.yml").write_text("raeson: disk\n")
    done = play(tmp_path, "maintenance", hosts, "-e", "@prod.yml")
    assert "raeson: unknown option. Did you mean reason? If it is a variable of your own, give it" in done.stdout
    assert done.returncode == 2


@pytest.mark.slow
def test_another_word_beside_an_option_in_the_same_file_ends_the_run(tmp_path: Path) -> None:
    hosts = {"hypervisors": {"hosts": {"hv1": bare_host(tmp_path)}}}
    (tmp_path / "web1.yml").write_text("vm: web1\nram: 8192\n")
    (tmp_path / "own.yml").write_text("host: example.org\n")
    done = play(tmp_path, "provision", hosts, "--check", "-e", "@own.yml", "-e", "@web1.yml")
    output = done.stdout + done.stderr
    assert f"ram: unknown option. Did you mean memory? {OWN} Nothing was changed." in output, output
    assert "Not an option of this playbook: host\n" in output
    assert done.returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("playbook", ["backup", "list", "provision"])
def test_what_is_misspelled_in_the_inventory_ends_each_run(tmp_path: Path, playbook: str) -> None:
    """Also in the vars of an import, and not that of a hypervisor that does not take part."""
    hosts = {name: {**bare_host(tmp_path), "virt_site": "prague"} for name in ("hv1", "hv2", "hv3")}
    hosts["hv2"] |= {"virt_backup_must_be_mount": "/srv/nas"}
    hosts["hv3"] |= {"virt_know_hosts": "seen"}
    imported = {"import_playbook": f"brine.virt.{playbook}", "vars": {"virt_migrate_source_volume": "none"}}
    (tmp_path / "site.yml").write_text(json.dumps([imported]))
    inventory = {"hypervisors": {"hosts": hosts}, "others": {"hosts": {"app": {"virt_label": 1}}}}
    done = play(tmp_path, "./site.yml", inventory, "--limit", "!hv3")
    assert (
        "virt_migrate_source_volume: unknown variable. Did you mean virt_migrate_source_volumes? "
        "virt_backup_must_be_mount (hv2): unknown variable. Did you mean virt_backup_must_be_mounted? Nothing was"
    ) in done.stdout, done.stdout + done.stderr
    assert "know_hosts" not in done.stdout + done.stderr and "virt_label" not in done.stdout + done.stderr
    assert done.returncode == 2


@pytest.mark.slow
def test_a_variable_of_ones_own_is_named_once(tmp_path: Path) -> None:
    hosts = {"hypervisors": {"hosts": {"hv1": bare_host(tmp_path), "hv2": bare_host(tmp_path)}}}
    done = play(tmp_path, "maintenance", hosts, "-e", '{"site": "prague", "rack": 7}')
    output = done.stdout + done.stderr
    assert output.count("Not an option of this playbook: rack, site") == 1, output
    assert done.returncode == 0


@pytest.mark.slow
def test_a_mistake_in_a_bridge_is_named_with_its_place_before_any_role_begins(tmp_path: Path) -> None:
    hosts = {"hypervisors": {"hosts": {"hv1": bare_host(tmp_path), "hv2": bare_host(tmp_path)}}}
    bridges = [{"name": "br0"}, {"name": "service_br", "uplnk": False}, {"name": "x_br", "uplink": {"vlan": 5000}}]
    done = play(tmp_path, "hypervisors", hosts, "--check", "-e", json.dumps({"virt_bridge_bridges": bridges}))
    output = done.stdout + done.stderr
    assert "(1) virt_bridge_bridges[1]: unknown option 'uplnk'. Did you mean uplink? (hv1, hv2)" in output, output
    assert "(2) virt_bridge_bridges[2].uplink" in output, output
    assert "Supported parameters" not in output
    assert "virt_hypervisor :" not in output
    assert done.returncode == 2


@pytest.mark.slow
def test_a_text_where_a_list_belongs_is_named_before_any_role_begins(tmp_path: Path) -> None:
    hosts = {"hypervisors": {"hosts": {"hv1": bare_host(tmp_path), "hv2": bare_host(tmp_path)}}}
    wrong = {"virt_hypervisor_pools": "default", "virt_bridge_bridges": "br0", "virt_tls_names": None}
    done = play(tmp_path, "hypervisors", hosts, "--check", "-e", json.dumps(wrong))
    (said,) = re.findall(r'"msg": "(.*)"', done.stdout.partition("fatal: ")[2])
    assert said == (
        "(1) virt_hypervisor_pools: this is not a list; write it as a list: [{name: NAME}] (hv1, hv2)."
        " (2) virt_tls_names: this is not a list; write it as a list: [] (hv1, hv2)."
        " (3) virt_bridge_bridges: 'br0' is not a list. Write a list with name: br0 in it (hv1, hv2)."
        " Nothing was changed."
    )


@pytest.mark.slow
def test_a_list_that_is_made_of_facts_is_none_before_these_are_there(tmp_path: Path) -> None:
    """What is wrong beside it is said all the same."""
    made = {**bare_host(tmp_path), "virt_tls_names": "{{ [ansible_facts.fqdn] }}"}
    hosts = {"hypervisors": {"hosts": {"hv1": made, "hv2": bare_host(tmp_path)}}}
    done = play(tmp_path, "hypervisors", hosts, "--check", "-e", '{"virt_hypervisor_pools": "default"}')
    (said,) = re.findall(r'"msg": "(.*)"', done.stdout.partition("fatal: ")[2])
    assert said == (
        "virt_hypervisor_pools: this is not a list; write it as a list: [{name: NAME}] (hv1, hv2). Nothing was changed."
    )


@pytest.mark.slow
def test_what_a_bridge_is_made_of_and_is_not_there_is_named(tmp_path: Path) -> None:
    bridges = [{"name": "br0", "uplink": "{{ ansible_facts.default_ipv4.interface }}"}]
    hosts = {"hypervisors": {"hosts": {"hv1": {**bare_host(tmp_path), "virt_bridge_bridges": bridges}}}}
    done = play(tmp_path, "hypervisors", hosts, "--check")
    assert "has no attribute 'default_ipv4'" in done.stdout.partition("fatal: ")[2], done.stdout
    assert "virt_hypervisor :" not in done.stdout
