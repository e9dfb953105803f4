# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook brine.virt.export on libvirt's test driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible, run_last_play
from ansible_collections.brine.virt.tests.unit.roles.provision.test_provision_role import provision

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow

OLD = """<domain type="test"><name>old1</name><title>{{ 1 + 1 }}</title><memory unit="MiB">64</memory>
<os><type>hvm</type></os><devices><sound model="ich9"/></devices></domain>"""


@pytest.fixture
def uri(tmp_path: Path, fixtures: Path) -> str:
    """A hypervisor with a machine of somebody else."""
    text = (fixtures / "node.xml").read_text(encoding="utf-8").replace("</node>", f"{OLD}</node>")
    (tmp_path / "node.xml").write_text(text, encoding="utf-8")
    return f"test://{tmp_path / 'node.xml'}"


def test_a_file_that_ansible_reads_as_it_was_meant(tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWD", "/")
    status, text = run_last_play(tmp_path, "export", uri, "--check", file="elsewhere.yml")
    file = tmp_path / "vms.yml"
    assert (status, "changed=1" in text, file.exists()) == (0, True, False), text
    status, text = run_last_play(tmp_path, "export", uri)
    assert (status, "changed=1" in text) == (0, True), text
    assert "Left out of old1 on hv1:\n  devices/sound model=ich9\n" in text
    assert file.stat().st_mode & 0o777 == 0o600
    status, text = run_last_play(tmp_path, "export", uri)
    assert (status, "changed=0" in text) == (0, True), text
    done = run_ansible(tmp_path, "localhost", "-m", "debug", "-a", "var=virt_vms", "-e", "@vms.yml", program="adhoc")
    assert '"title": "{{ 1 + 1 }}"' in done.stdout, done.stdout + done.stderr
    assert done.stdout.count('"hypervisor": "hv1"') == file.read_text(encoding="utf-8").count("hypervisor: hv1")
    file.write_text(file.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    status, text = run_last_play(tmp_path, "export", uri)
    assert (status, "or has been changed since, so it is kept." in text, "changed=0" in text) == (2, True, True), text
    assert "Nothing was written." in text
    status, text = run_last_play(tmp_path, "export", uri, "force=true", "vm=old1")
    assert (status, "1 machine in " in text, "# mine" in file.read_text(encoding="utf-8")) == (0, True, False), text


@pytest.mark.parametrize(
    ("file", "sentence"), [("", " is a directory. Name a file in it"), ("/none/vms.yml", "There is no directory ")]
)
def test_a_place_that_cannot_be_written_is_said_in_check_mode_too(
    tmp_path: Path, uri: str, file: str, sentence: str
) -> None:
    status, text = run_last_play(tmp_path, "export", uri, f"file={tmp_path}{file}", "--check")
    assert (status, sentence in text, "changed=0" in text) == (2, True, True), text


def test_one_name_on_two_hypervisors(tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWD", "/")
    status, text = run_last_play(tmp_path, "export", uri, "vm=old1", "file=other.yml", hosts=("hv1", "hv2"))
    assert (status, "old1 on each of hv1, hv2. Rename one of them" in text) == (2, True), text
    assert not (tmp_path / "other.yml").exists()


def test_a_hypervisor_that_does_not_answer(tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWD", "/")
    broken = "{{ '/nowhere/python' if inventory_hostname == 'hv2' else ansible_playbook_python }}"
    status, text = run_last_play(
        tmp_path,
        "export",
        uri,
        f"file={tmp_path}/part.yml",
        hosts=("hv1", "hv2"),
        ansible_python_interpreter=broken,
    )
    assert (status, "Its machines are missing in" in text) == (2, True), text
    assert "# hv2 did not answer: " in (tmp_path / "part.yml").read_text(encoding="utf-8")


# As virt_adopt leaves it, on a hypervisor that has what it is plugged into.
ADOPTED = """<node><memory>16777216</memory>
<domain type="test" xmlns:brine="urn:brine:virt:1"><name>old2</name><uuid>00000000-0000-4000-8000-000000000002</uuid>
<title>{{ 1 + 1 }}</title><metadata><brine:machine status="ready"><brine:disk name="vda" target="vda"/>
<brine:disk name="hdc" target="hdc"/><brine:nic name="eth0" mac="52:54:00:00:00:02"/></brine:machine></metadata>
<memory unit="KiB">65555</memory><vcpu current="1">2</vcpu><os><type arch="x86_64">hvm</type><boot dev="hd"/></os>
<features><acpi/></features><clock offset="localtime"/><devices>
<disk type="file"><driver type="raw"/><source file="/elsewhere/old2.img"/><target dev="vda" bus="virtio"/></disk>
<disk type="file" device="cdrom"><target dev="hdc" bus="ide"/><readonly/></disk>
<interface type="network"><mac address="52:54:00:00:00:02"/><source network="default"/><model type="pcnet"/>
</interface>
<graphics type="vnc" passwd="geheim"/><sound model="ich9"/></devices></domain>
<network><name>default</name><bridge name="virbr0"/><ip address="192.0.2.1" netmask="255.255.255.0"/></network>
</node>"""


@pytest.mark.parametrize("words", [(), ("--check",)])
def test_an_adopted_machine_is_provisioned_as_it_was_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PWD", "/")
    (tmp_path / "node.xml").write_text(ADOPTED, encoding="utf-8")
    uri = f"test://{tmp_path}/node.xml"
    status, text = run_last_play(tmp_path, "export", uri)
    assert (status, "graphics.password: a secret" in text, "geheim" in text) == (0, True, False), text
    assert "geheim" not in (tmp_path / "vms.yml").read_text(encoding="utf-8")
    variables = {"virt_provision_wait": False}
    output = provision(tmp_path, {"hv1": {"uri": uri}}, variables, "-e", "@vms.yml", *words, fails=False)
    assert "changed=0" in output, output
    assert "1 machine is already up to date." in output
    for words_of_a_change in ("pending until", "stays as it was created"):
        assert words_of_a_change not in output, output


def test_what_the_inventory_says_of_the_hypervisors_is_not_about_this_computer(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has to become root there may not be able to here, and wants a file of their own."""
    monkeypatch.setenv("PWD", "/")
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_text(
        "ansible_become: true\nansible_become_user: nobody\nansible_become_exe: /bin/false\n", encoding="utf-8"
    )
    status, text = run_last_play(tmp_path, "export", uri, ansible_become=False)
    assert (status, "changed=1" in text, (tmp_path / "vms.yml").exists()) == (0, True, True), text
