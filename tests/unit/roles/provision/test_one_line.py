# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One machine on the command line (-e vm=NAME ...): every option of a machine counts, and what is misspelt is named."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.plugins.filter.misspelled import VARIABLES, misspelled
from ansible_collections.brine.virt.plugins.modules import virt_init
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.host_vars import _FIELDS
from ansible_collections.brine.virt.tests.unit.roles.provision.test_provision_role import provision

COLLECTION = Path(__file__).resolve().parents[4]
ROLE = COLLECTION / "roles" / "virt_provision"
# Nothing of it runs.
NODE = """<node><memory>16777216</memory>
<domain type='test' xmlns:brine='urn:brine:virt:1' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
<test:runstate>5</test:runstate><name>off1</name><uuid>00000000-0000-4000-8000-000000000001</uuid>
<metadata><brine:machine status='ready'/></metadata>
<memory unit='MiB'>128</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os></domain>
<pool type='dir'><name>default</name><target><path>/nowhere</path></target></pool></node>"""
BARE = ("disk_profile=none", "nic_profile=none", "seed=false")


def one_line(
    directory: Path,
    *words: str,
    fails: bool = False,
    play: dict[str, t.Any] | None = None,
    second: dict[str, t.Any] | None = None,
    node: str = NODE,
) -> str:
    """What the role says of a machine on the command line, in check mode with the differences.

    play: variables of the play; second: of a second hypervisor in the inventory; node: what the hypervisors have.
    """
    (directory / "node.xml").write_text(node, encoding="utf-8")
    uri = {"uri": f"test://{directory}/node.xml"}
    hosts = {"hv1": uri} if second is None else {"hv1": uri, "hv2": {**uri, **second}}
    options = [option for word in words for option in ("-e", word)]
    return provision(directory, hosts, play or {}, "--check", "--diff", *options, fails=fails)


def test_every_option_of_a_machine_is_known() -> None:
    variables = yaml.safe_load((ROLE / "vars" / "main.yml").read_text(encoding="utf-8"))
    # The name is the variable vm, and an image may be a file or a URL.
    assert sorted(variables["virt_provision_options"]) == sorted(set(virt_init.MACHINE_OPTIONS) - {"name", "image"})


@pytest.mark.slow
def test_options_are_those_of_the_machine(tmp_path: Path) -> None:
    graphics = json.dumps({"graphics": {"type": "vnc"}, "variables": {"port": 80}})
    output = one_line(
        tmp_path, "vm=new1", "vcpus=1", "memory=128", *BARE, "start=false", "tags=web", "title=Two", graphics
    )
    for line in (
        "+tags:",
        "+- web",
        "+title: Two",
        "+graphics:",
        "+  type: vnc",
        "+variables:",
        "+  port: 80",
        "+disks: {}",
    ):
        assert f"\n{line}\n" in output
    assert re.search(r"^new1 +hv1 +.*created ", output, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize(("start", "started"), [("false", False), ("no", False), ("true", True)])
def test_a_machine_that_is_not_to_be_started_is_not(tmp_path: Path, start: str, started: bool) -> None:
    output = one_line(tmp_path, "vm=off1", "vcpus=1", "memory=128", *BARE, f"start={start}")
    assert (re.search(r"^off1 +hv1 +.*changed .* start off1$", output, re.MULTILINE) is not None) is started


LIST = {"virt_vms": [{"name": "of_list", "vcpus": 1, "memory": 128, "disk_profile": "none", "nic_profile": "none"}]}


@pytest.mark.slow
@pytest.mark.parametrize(("second", "play"), [({"vm": "hidden"}, LIST), (None, {**LIST, "vm": "hidden"})])
def test_a_machine_from_anywhere_does_not_hide_the_list(
    tmp_path: Path, second: dict[str, t.Any] | None, play: dict[str, t.Any]
) -> None:
    output = one_line(tmp_path, play=play, second=second, fails=True)
    assert "vm and virt_vms are both set" in output
    assert "hidden on hv" not in output and "of_list on hv" not in output


@pytest.mark.slow
def test_a_machine_on_the_command_line_comes_before_the_list(tmp_path: Path) -> None:
    output = one_line(tmp_path, "vm=new1", "vcpus=1", "memory=128", *BARE, play=LIST)
    assert re.search(r"^new1 +hv1 +.*created ", output, re.MULTILINE) and "of_list" not in output
    assert "Not used for" not in output


@pytest.mark.slow
def test_an_option_that_is_not_on_the_command_line_is_refused_with_its_place(tmp_path: Path) -> None:
    play, second = {"title": "of the play", "memory": 256, **LIST}, {"image": "debian", "tags": "rack"}
    words = ("vm=new1", "vcpus=1", "memory=128", *BARE, "tags=web")
    output = one_line(tmp_path, *words, play=play, second=second, fails=True)
    missing = "and not on the command line, where new1 gets its options from"
    help_ = "in virt_vms and leave out -e vm"
    # What is on the command line takes precedence, as everywhere in Ansible.
    sentences = [
        f"image: set in the inventory (hv2), {missing}. Add -e image=..., or describe new1 {help_}.",
        f"title: set in the play, {missing}. Add -e title=..., or describe new1 {help_}.",
    ]
    assert "\n" + "\n".join(sentences) + "\n" in output
    # Ansible breaks no line in a message of its own.
    assert f'"msg": "(1) {sentences[0]} (2) {sentences[1]} Nothing was changed."' in output
    assert "new1 on hv1" not in output


@pytest.mark.slow
@pytest.mark.parametrize("mark", ["/", "?", "#", "["])
def test_a_password_that_is_not_escaped_is_not_repeated(tmp_path: Path, mark: str) -> None:
    """Ansible's urlsplit would, of an address that ends inside of it."""
    store = f"<pool type='dir'><name>images</name><target><path>{tmp_path}</path></target></pool></node>"
    image = f"image=https://me:Geheim{mark}x1@example.invalid/debian.qcow2"
    bare = ("nic_profile=none", "seed=false", f"checksum=sha256:{'0' * 64}")
    node = NODE.replace("</node>", store)
    output = one_line(tmp_path, "vm=new1", "vcpus=1", "memory=128", *bare, image, fails=True, node=node)
    assert "hv1: image.url: this is not an address to download from: " in output
    assert "Geheim" not in output and "x1@" not in output


@pytest.mark.slow
def test_a_machine_of_the_play_has_its_options_there(tmp_path: Path) -> None:
    bare = {"disk_profile": "none", "nic_profile": "none", "virt_provision_wait": False, "seed": False}
    output = one_line(tmp_path, play={"vm": "new1", "vcpus": 1, "memory": 128, "title": "Two", **bare})
    assert "\n+title: Two\n" in output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("vcpus=two", "memory=128"), "vcpus: 'two' is not allowed. Give a whole number from 1 to "),
        (("vcpus=1", "memory=128", "start=perhaps"), "start: 'perhaps' is neither true nor false"),
        (("vm=new1,new2", "vcpus=1", "memory=128"), "vm: here it is the name of one machine, and its options"),
        (
            ('{"vm": ["new1", "new2"]}', "vcpus=1", "memory=128"),
            "vm: here it is the name of one machine, and its options",
        ),
        (("vcpus=1",), "there is no machine 'new1', and memory is missing. A new machine needs name, vcpus and memory"),
        (
            ("vcpus=1", "memory=128", '{"virt_disk_profile": {"default": {"system": {"size": "1MiB"}}}}'),
            "virt_disk_profile: unknown variable. Did you mean virt_disk_profiles?",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    output = one_line(tmp_path, "vm=new1", *BARE, *words, fails=True)
    assert re.search(rf'"msg": "{re.escape(sentence)}[^\n]* Nothing was changed\."', output), output
    assert "argument_spec" not in output


@pytest.mark.parametrize(
    ("names", "sentences"),
    [
        (["virt_disk_profile"], ["virt_disk_profile: unknown variable. Did you mean virt_disk_profiles?"]),
        (["virt_polcy", "virt_vm", "virt_image"], ["virt_image", "virt_polcy", "virt_vm"]),
        # Of one's own, beside the one that is meant.
        (["virt_image", "virt_images"], []),
        (["virt_ours", "my_virt_vm", "virt_provision_waited"], []),
        ([], []),
    ],
)
def test_a_variable_that_is_close_to_a_known_one(names: list[str], sentences: list[str]) -> None:
    found = misspelled(names)
    assert len(found) == len(sentences)
    assert all(line.startswith(sentence) for line, sentence in zip(found, sentences, strict=True))


def test_the_known_variables_are_those_of_the_role() -> None:
    specs = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    options: dict[str, t.Any] = specs["argument_specs"]["main"]["options"]
    assert set(VARIABLES) == {name for name in options if name.startswith("virt_")}


def test_no_variable_of_the_collection_is_taken_for_another() -> None:
    texts = [
        path.read_text(encoding="utf-8")
        for folder in ("roles", "playbooks")
        for path in (COLLECTION / folder).rglob("*.yml")
    ]
    # Modules are called so, not variables.
    names = set(re.findall(r"(?<!brine[.]virt[.])\bvirt_[a-z_]*[a-z]\b", "\n".join(texts)))
    assert [name for name in sorted(names - {"virt_hypervisor"}) if misspelled([name])] == []
    # A machine of the live inventory may be a hypervisor itself.
    assert misspelled([*(f"virt_{field}" for field in _FIELDS), "virt_hypervisor", "virt_uri"]) == []
