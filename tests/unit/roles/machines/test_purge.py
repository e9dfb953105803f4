# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook brine.virt.purge on libvirt's test driver, which forgets what was done when a task ends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible, run_last_play

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow

GOES = """web1 on hv1 (running):
  power off
  delete default/web1-system.qcow2: it belongs to this machine
  keep images/debian-0123456789abcdef.qcow2: it is a stored image, which virt_image removes when nothing uses it
  delete the machine itself
"""
NONE = " No machine was removed."


@pytest.fixture
def uri(tmp_path: Path, fixtures: Path) -> str:
    """A hypervisor that has the volume of its machine web1, too."""
    volume = "<volume><name>web1-system.qcow2</name><capacity>1048576</capacity></volume>"
    place = "<target><path>/var/lib/libvirt/images</path></target>"
    text = (fixtures / "node.xml").read_text(encoding="utf-8")
    assert text.count(place) == 1
    (tmp_path / "node.xml").write_text(text.replace(place, f"{place}{volume}"), encoding="utf-8")
    return f"test://{tmp_path / 'node.xml'}"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "No machine is named. Give its name with -e vm=NAME."),
        (("vm=web1,db*",), "db* is not the name of a machine. Name every machine that is to be removed."),
        (("vm=all",), "all is not the name of a machine. Name every machine that is to be removed."),
        (("vm=web1,db1", "disks=vda"), "With -e disks=, name one machine, and leave out keep_disks."),
        (("vm=web1", "force=maybe"), "force is neither true nor false."),
        (("vm=web1", "stop_timeout=soon"), "stop_timeout: 'soon' is not a number of seconds. Give a whole number, 1"),
    ],
)
def test_wrong_words_are_one_sentence(tmp_path: Path, uri: str, words: tuple[str, ...], sentence: str) -> None:
    # What is in the inventory does not count.
    status, text = run_last_play(tmp_path, "purge", uri, *words, vm="web1", force=True)
    assert (status, sentence in text, "changed=0" in text) == (2, True, True), text


def test_one_that_runs_is_refused(tmp_path: Path, uri: str) -> None:
    status, text = run_last_play(tmp_path, "purge", uri, "vm=web1", force=True)
    sentence = (
        "hv1: web1 is running, so it is not removed. Add -e stop=true to have it shut down first, or -e force=true, "
        f"which powers it off at once.{NONE}"
    )
    assert (status, sentence in text, "changed=0" in text) == (2, True, True), text


def test_what_goes_and_what_stays_is_shown_first(tmp_path: Path, uri: str) -> None:
    status, text = run_last_play(tmp_path, "purge", uri, "vm=web1,gone", "force=true")
    assert status == 0, text
    shown, done = text.index(GOES), text.index("TASK [Remove the machines]")
    assert shown < done
    assert "gone: there is no such machine on hv1" in text
    assert "changed=1" in text
    assert text.index("\nRemoved: web1 on hv1. There was no machine gone\n") > done


def test_what_was_removed_is_no_longer_known_to_be_there(tmp_path: Path, uri: str) -> None:
    """No live inventory is among the sources, which would see to it."""
    uuid = "00000000-0000-4000-8000-000000000001"
    others = f"# virt-{uuid} brine.virt:hv1 db1\n# virt-{uuid} brine.virt:hv9 web1\n"
    keys = tmp_path / "keys"
    keys.write_text(f"virt-{uuid} ssh-ed25519 AAAA brine.virt:hv1 web1\n{others}")
    before = keys.read_text()
    status, text = run_last_play(tmp_path, "purge", uri, "vm=web1", "force=true", "--check", virt_known_hosts=str(keys))
    assert (status, keys.read_text()) == (0, before), text
    status, text = run_last_play(tmp_path, "purge", uri, "vm=web1", "force=true", virt_known_hosts=str(keys))
    assert (status, keys.read_text()) == (0, others), text


def test_check_mode_shows_the_same(tmp_path: Path, uri: str) -> None:
    status, text = run_last_play(tmp_path, "purge", uri, "vm=web1", "force=1", "--check")
    assert (status, GOES in text) == (0, True), text
    assert "\nThis was a check: nothing was done.\n" in text and "Removed" not in text


def test_a_machine_that_is_nowhere_is_no_change(tmp_path: Path, uri: str) -> None:
    status, text = run_last_play(tmp_path, "purge", uri, "vm=gone")
    assert (status, "gone: there is no such machine on hv1" in text, "changed=0" in text) == (0, True, True), text


def test_a_machine_that_is_moved_meanwhile_is_not_called_removed(tmp_path: Path, uri: str) -> None:
    words = ("vm=web1", "force=true")
    run_last_play(tmp_path, "purge", uri, *words, "--list-tasks")
    file = tmp_path / "playbooks/purge.yml"
    (play,) = yaml.safe_load(file.read_text(encoding="utf-8"))
    (number,) = (index for index, task in enumerate(play["tasks"]) if task["name"] == "Remove the machines")
    moved = {"content": "<node></node>", "dest": uri.removeprefix("test://")}
    play["tasks"].insert(number, {"ansible.builtin.copy": moved})
    file.write_text(yaml.safe_dump([play]), encoding="utf-8")
    done = run_ansible(tmp_path, "-i", "hosts.yml", str(file), *(part for word in words for part in ("-e", word)))
    sentence = "web1 was on hv1 when this run looked, and no longer when it came to remove it. Another run has moved or"
    assert (done.returncode, sentence in done.stdout + done.stderr) == (2, True), done.stdout


def test_one_name_on_two_hypervisors(tmp_path: Path, uri: str) -> None:
    status, text = run_last_play(tmp_path, "purge", uri, "vm=web1", "force=true", hosts=("hv1", "hv2"))
    sentence = (
        "vm: there is a machine 'web1' on each of hv1, hv2. Say which one: -e on=hv1; or wait, if it is being "
        f"moved.{NONE}"
    )
    assert (status, sentence in text) == (2, True), text
    status, text = run_last_play(tmp_path, "purge", uri, "vm=web1", "force=true", "on=hv2", hosts=("hv1", "hv2"))
    assert (status, "web1 on hv2 (running):" in text, text.count("changed=1")) == (0, True, 1), text


def test_one_that_the_inventory_has_seen_on_a_silent_hypervisor(tmp_path: Path, uri: str) -> None:
    """hv2 does not answer. Every host stands for the machine as well, which is enough for what is read of it."""
    text = Path(uri.removeprefix("test://")).read_text(encoding="utf-8")
    (tmp_path / "hv1.xml").write_text(text, encoding="utf-8")
    uri = f"test://{tmp_path}/{{{{ inventory_hostname }}}}.xml"
    seen = {"virt_uuid": "0", "virt_name": "web1", "virt_hypervisor": "hv2"}
    status, text = run_last_play(tmp_path, "purge", uri, "vm=web1", "force=true", hosts=("hv1", "hv2"), **seen)
    sentence = "machine 'web1' is on hv1, but was on hv2 when the inventory was read, which did not answer"
    assert (status, sentence in text, "changed=0" in text) == (2, True, True), text
    status, text = run_last_play(
        tmp_path, "purge", uri, "vm=web1", "force=true", "on=hv1", hosts=("hv1", "hv2"), **seen
    )
    assert (status, GOES in text, "changed=1" in text) == (0, True, True), text


def test_one_that_was_seen_on_a_hypervisor_that_a_narrower_pattern_leaves_out(tmp_path: Path, uri: str) -> None:
    seen = {"virt_uuid": "0", "virt_name": "web1", "virt_hypervisor": "hv2"}
    words = ("vm=web1", "force=true", "virt_hypervisors=hv1", "--limit", "hv1")
    status, text = run_last_play(tmp_path, "purge", uri, *words, hosts=("hv1", "hv2"), **seen)
    sentence = "machine 'web1' is on hv1, but was on hv2 when the inventory was read, which was not asked (--limit, "
    assert (status, sentence in text, "changed=0" in text) == (2, True, True), text


def test_one_that_others_created_needs_an_option(tmp_path: Path, uri: str) -> None:
    file = Path(uri.removeprefix("test://"))
    text = file.read_text(encoding="utf-8")
    file.write_text(re.sub(r"(?s)<metadata>.*?</metadata>", "", text), encoding="utf-8")
    status, text = run_last_play(tmp_path, "purge", uri, "vm=web1", "force=true")
    sentence = (
        "web1 was not created by this collection, so it is not removed. With -e adopt=true it is. Its disks are kept, "
        "except those that -e disks=DISK names."
    )
    assert (status, sentence in text) == (2, True), text


def test_the_other_options_count_when_it_is_planned(tmp_path: Path, uri: str) -> None:
    status, text = run_last_play(tmp_path, "purge", uri, "vm=web1", "force=true", "keep_disks=true")
    assert (status, "keep default/web1-system.qcow2: keep_disks is set" in text) == (0, True), text
    status, text = run_last_play(tmp_path, "purge", uri, "vm=web1", "force=true", "disks=vdz")
    assert (status, "disks[0]: 'vdz' is not a disk of machine web1" in text) == (2, True), text
