# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One file of all machines: what is in it, when it is written, and that nobody's words become a template."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter import purges
from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.plugin_utils._reports.export import export_file
from ansible_collections.brine.virt.tests.unit.schema.editor import complaints

EXPORT: t.Callable[..., dict[str, t.Any]] = purges.FilterModule().filters()["export"]
ENTRY = {"name": "web1", "vcpus": 2, "memory": 1024, "disk_profile": "none"}


class Loader(yaml.SafeLoader):
    """Reads the tag as Ansible does: a plain text."""


Loader.add_constructor("!unsafe", lambda _loader, node: f"(unsafe) {node.value}")


def machine(name: str = "web1", *missing: str, **entry: t.Any) -> dict[str, t.Any]:
    return {"name": name, "managed": True, "entry": {**ENTRY, "name": name, **entry}, "not_exported": list(missing)}


def left_out(name: str, msg: str) -> dict[str, t.Any]:
    return {"name": name, "managed": False, "entry": None, "not_exported": [], "msg": msg}


def refusal(*args: t.Any, **options: t.Any) -> str:
    with pytest.raises(VirtError) as caught:
        export_file(*args, **options)
    return str(caught.value)


RESULTS: dict[str, t.Any] = {
    "hv1": {
        "machines": [
            machine("web1", "seed: only a hash of it is known", "line\nbreak"),
            left_out("my machine", "bad\nname"),
        ]
    },
    "hv2": {"machines": [machine("db1", tags=["a"])]},
}
SILENT = {**RESULTS, "hv3": {"msg": "timed\nout", "unreachable": True}}


def test_the_file_has_every_machine_with_its_hypervisor_and_fits_the_schema() -> None:
    found = export_file(RESULTS)
    data = yaml.load(found["text"], Loader)  # noqa: S506 - a safe one
    assert data == {"virt_vms": found["entries"]}
    assert [(entry["name"], entry["hypervisor"]) for entry in data["virt_vms"]] == [("web1", "hv1"), ("db1", "hv2")]
    assert complaints(data) == []
    _first, _line, rest = found["text"].partition("\n")
    assert (
        rest
        == """# my machine on hv1 is left out: bad name
---
virt_vms:
  - name: web1
    hypervisor: hv1
    vcpus: 2
    memory: 1024
    disk_profile: none
    # Not exported: seed: only a hash of it is known
    # Not exported: line break
  - name: db1
    hypervisor: hv2
    vcpus: 2
    memory: 1024
    disk_profile: none
    tags:
      - a
"""
    )
    assert found["report"].splitlines() == [
        "Left out of web1 on hv1:",
        "  seed: only a hash of it is known",
        "  line break",
        "my machine on hv1 is left out: bad name",
        "2 machines in vms.yml",
    ]


def test_the_words_of_others_are_no_templates_and_no_yaml() -> None:
    words = [
        "{{ lookup('pipe', 'id') }}",
        "{% raw %}",
        "{# x #}",
        # The beginning by which Ansible lets a text choose its own braces.
        "#jinja2:variable_start_string:'[[', variable_end_string:']]'\n[[ lookup('pipe', 'id') ]]",
        "yes",
        "1e3",
        "2030-01-01",
        "a: b",
        "- c",
        "é\x7f\n---\n",
        "!x",
        "a\x85\x85b\u2028 \u2029c",
    ]
    found = export_file({"hv1": [machine(variables={"a": words, "b": {"{{ c }}": None}}, title=words[0])]})
    (entry,) = yaml.load(found["text"], Loader)["virt_vms"]  # noqa: S506 - a safe one
    assert entry["variables"]["a"] == [f"(unsafe) {word}" for word in words[:4]] + words[4:]
    assert entry["title"] == f"(unsafe) {words[0]}"


def test_what_was_exported_is_replaced_and_nothing_else() -> None:
    own = export_file(RESULTS)["text"]
    assert export_file(RESULTS, old=own)["text"] == own
    assert export_file(RESULTS, old=own.rstrip("\n"))["text"] == own
    for other in ("", "virt_vms: []\n", own.replace("vcpus: 2", "vcpus: 4"), own + "# mine\n", own.partition("\n")[2]):
        assert refusal(RESULTS, old=other).startswith(
            "file: vms.yml was not written by an export, or has been changed since, so it is kept. Name another file"
        )
        assert export_file(RESULTS, old=other, force=True)["text"] == own


def test_a_silent_hypervisor_is_named_and_replaces_no_file() -> None:
    found = export_file(SILENT)
    assert found["silent"] == ["hv3 did not answer: timed out"]
    assert "# hv3 did not answer: timed out. Its machines are missing here.\n" in found["text"]
    own = export_file(RESULTS)["text"]
    assert "hv3 did not answer: timed out, so vms.yml, which an earlier export has written, is kept" in refusal(
        SILENT, old=own
    )
    assert export_file(SILENT, old=own, force=True)["silent"] == found["silent"]


def test_no_answer_at_all() -> None:
    assert refusal({"hv3": SILENT["hv3"]}) == "no hypervisor answered: hv3 did not answer: timed out"


def test_no_machine_at_all() -> None:
    found = export_file({"hv1": []})
    assert yaml.safe_load(found["text"]) == {"virt_vms": []}
    assert found["report"] == "0 machines in vms.yml"


def test_what_a_hypervisor_says_of_a_machine_is_of_that_machine_there() -> None:
    results = {"hv1": {"machines": [machine("web1", hypervisor="hv2"), {**machine("db1"), "entry": ENTRY}]}}
    found = export_file(results)
    assert [(entry["name"], entry["hypervisor"]) for entry in found["entries"]] == [("web1", "hv1")]
    assert "db1 on hv1 is left out: its hypervisor gives the entry of another machine for it" in found["report"]


def test_some_machines() -> None:
    assert [entry["name"] for entry in export_file(RESULTS, ["db1"])["entries"]] == ["db1"]
    assert refusal(RESULTS, ["bd1"]) == "vm: there is no machine 'bd1' on hv1, hv2. Did you mean db1?"
    assert refusal(SILENT, ["bd1"]).endswith("on hv1, hv2. hv3 did not answer: timed out")


def test_two_machines_of_one_name() -> None:
    both = {"hv1": [machine("a"), machine("b")], "hv2": [machine("a")]}
    assert "virt_vms can have only one: a on each of hv1, hv2. Rename one" in refusal(both)
    assert len(export_file(both, ["b"])["entries"]) == 1


def test_the_filter_gives_mistakes_back() -> None:
    assert EXPORT({"hv1": []}, ["x"], errors="return")["errors"] == [
        "vm: there is no machine 'x' on hv1. There are none at all"
    ]
    assert EXPORT({"hv1": []}, "x", errors="return")["errors"] == ["names: 'x' is not a list of names"]
    assert EXPORT({"hv1": []}, force="maybe", errors="return")["errors"] == ["force: 'maybe' is neither true nor false"]
    with pytest.raises(AnsibleFilterError, match=r"brine\.virt\.export: the input is not a mapping"):
        EXPORT([])


def test_who_has_to_be_adopted_first_is_named() -> None:
    """provision refuses a file with one of them as a whole."""
    found = {"hv1": {"machines": [machine("web1"), {**machine("old1"), "managed": False}]}}
    result = export_file(found)
    words = (
        "old1 on hv1 was not created by this collection: before this file can be provisioned, "
        "brine.virt.adopt -e vm=old1, or leave it out"
    )
    assert words in result["report"].splitlines() and f"# {words}" in result["text"].splitlines()
    assert "web1 on hv1 was" not in result["report"]
    assert [entry["name"] for entry in yaml.load(result["text"], Loader=Loader)["virt_vms"]] == ["web1", "old1"]
