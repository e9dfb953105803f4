# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook brine.virt.adopt on libvirt's test driver, which forgets what was done when a task ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_last_play

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow

OLD = """<domain type="test"><name>old1</name><memory unit="MiB">64</memory><os><type>hvm</type></os><devices>
<disk type="file"><driver type="qcow2"/><source file="/var/lib/libvirt/images/old1.qcow2"/><target dev="vda"/></disk>
<interface type="network"><mac address="52:54:00:00:00:07"/><source network="default"/></interface>
</devices></domain>"""
SHOWN = """old1 on hv1 (running) is adopted:
  disk vda, default/old1.qcow2: {}
  nic eth0, 52:54:00:00:00:07
"""
NONE = " No machine was adopted."


@pytest.fixture
def uri(tmp_path: Path, fixtures: Path) -> str:
    """A hypervisor with a machine of somebody else."""
    place = "<target><path>/var/lib/libvirt/images</path></target>"
    volume = "<volume><name>old1.qcow2</name><capacity>1048576</capacity></volume>"
    text = (fixtures / "node.xml").read_text(encoding="utf-8")
    text = text.replace(place, f"{place}{volume}").replace("</node>", f"{OLD}</node>")
    (tmp_path / "node.xml").write_text(text, encoding="utf-8")
    return f"test://{tmp_path / 'node.xml'}"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "No machine is named. Give its name with -e vm=NAME."),
        (("vm=old1,web1", "disks=vda"), "With -e disks=, name one machine."),
        (("vm=odl1",), "vm: there is no machine 'odl1' on hv1."),
        (("vm=old1", "disks=vdx"), "hv1: disks[0]: 'vdx' is not a disk of machine old1. Did you mean vda?"),
        (("vm=old1", "on=hv7"), "on: there is no hypervisor 'hv7'. Known: hv1."),
    ],
)
def test_wrong_words_are_one_sentence(tmp_path: Path, uri: str, words: tuple[str, ...], sentence: str) -> None:
    # What is in the inventory does not count.
    status, text = run_last_play(tmp_path, "adopt", uri, *words, vm="old1")
    assert (status, sentence in text, "changed=0" in text) == (2, True, True), text


@pytest.mark.parametrize("words", [(), ("--check",)])
def test_what_is_remembered_is_shown_first(tmp_path: Path, uri: str, words: tuple[str, ...]) -> None:
    status, text = run_last_play(tmp_path, "adopt", uri, "vm=old1,web1", *words)
    why = "not its own, as disks does not name it. Nothing else uses it, so it can be named"
    assert (status, SHOWN.format(why) in text, "changed=1" in text) == (0, True, True), text
    assert "web1 on hv1 (running) belongs to this collection already:" in text


def test_a_disk_that_is_named(tmp_path: Path, uri: str) -> None:
    status, text = run_last_play(tmp_path, "adopt", uri, "vm=old1", "disks=vda")
    why = "its own, as disks names it, and nothing else uses it"
    assert (status, SHOWN.format(why) in text, "changed=1" in text) == (0, True, True), text


def test_one_name_on_two_hypervisors(tmp_path: Path, uri: str) -> None:
    status, text = run_last_play(tmp_path, "adopt", uri, "vm=old1", hosts=("hv1", "hv2"))
    sentence = (
        "vm: there is a machine 'old1' on each of hv1, hv2. Say which one: -e on=hv1; or wait, if it is being "
        f"moved.{NONE}"
    )
    assert (status, sentence in text) == (2, True), text
    status, text = run_last_play(tmp_path, "adopt", uri, "vm=old1", "on=hv2", hosts=("hv1", "hv2"))
    assert (status, "old1 on hv2 (running) is adopted:" in text, text.count("changed=1")) == (0, True, 1), text


def test_hypervisors_that_a_narrower_pattern_leaves_out_are_named(tmp_path: Path, uri: str) -> None:
    words = ("vm=gone", "virt_hypervisors=hv1", "--limit", "hv1")
    status, text = run_last_play(tmp_path, "adopt", uri, *words, hosts=("hv1", "hv2"))
    sentence = "there is no machine 'gone' on hv1. hv2 was not asked (--limit, virt_hypervisors)"
    assert (status, sentence in text, "changed=0" in text) == (2, True, True), text
