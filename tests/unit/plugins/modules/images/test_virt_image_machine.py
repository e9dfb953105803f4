# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images that are made of machines, on libvirt's test driver with real disks. The scenario seeding boots such a one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._host.images import store as image_store
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    DiskNote,
    MachineNotes,
    notes_to_element,
)
from ansible_collections.brine.virt.plugins.module_utils._operations import images, machine_image
from ansible_collections.brine.virt.plugins.modules import virt_image

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")

DOMAIN = """<domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
  <test:runstate>{state}</test:runstate>
  <name>golden</name><uuid>11111111-2222-4333-8444-555555555555</uuid>{metadata}
  <memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type>hvm</type></os><devices>{disks}</devices></domain>"""
DISK = (
    "<disk type='file' device='disk'><driver name='qemu' type='{format}'/><source file='{path}'/>"
    "<target dev='{target}' bus='virtio'/>{more}</disk>"
)
# VIR_DOMAIN_RUNNING and VIR_DOMAIN_SHUTOFF.
RUNNING, OFF = 1, 5
MIB = 1024 * 1024


class Machine:
    """A hypervisor with a store and one machine, whose disk is an overlay; and tasks there."""

    def __init__(self, capsys: pytest.CaptureFixture[str], node: t.Any, directory: Path) -> None:
        self._capsys, self._node, self._directory = capsys, node, directory
        self.disk = directory / "golden.qcow2"
        self.state, self.disks, self.metadata = OFF, "", ""
        base = directory / "base.raw"
        base.write_bytes(b"base".ljust(2 * MIB, b"\1"))
        words = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(base), "-F", "raw", str(self.disk)]
        subprocess.run(words, check=True)
        self.write("own")

    def write(self, text: str) -> None:
        """As a guest would: into the second MiB of the disk."""
        words = ["qemu-io", "-f", "qcow2", "-c", f"write -P {ord(text[0])} {MIB} 4096", str(self.disk)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    def task(self, *, check_mode: bool = False, **options: t.Any) -> dict[str, t.Any]:
        uri = self._node.uri()
        file = self._node.file
        disks = self.disks or DISK.format(format="qcow2", path=self.disk, target="vda", more="")
        domain = DOMAIN.format(state=self.state, disks=disks, metadata=self.metadata)
        file.write_text(file.read_text().replace("</node>", f"{domain}</node>"))
        given = {"uri": uri, "name": "web", "machine": "golden", "keep_identity": True, **options}
        given = {key: value for key, value in given.items() if value is not None}
        with patch_module_args({**given, "_ansible_check_mode": check_mode}), pytest.raises(SystemExit):
            virt_image.main()
        return dict(json.loads(self._capsys.readouterr().out))

    def refusal(self, **options: t.Any) -> str:
        result = self.task(**options)
        assert result.get("failed"), result
        assert self._node.names() == []
        return str(result["msg"])


@pytest.fixture
def machine(
    capsys: pytest.CaptureFixture[str], node: t.Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Machine:
    lock = machine_image.machine_lock

    def own_lock(name: str, wait_seconds: float) -> t.Any:
        assert name == "golden"
        assert wait_seconds > 0
        return lock(f"unit-test-{os.getpid()}", wait_seconds)

    monkeypatch.setattr(machine_image, "machine_lock", own_lock)
    return Machine(capsys, node, tmp_path)


def test_one_file_without_a_backing_file_and_nothing_when_nobody_has_written(machine: Machine, node: t.Any) -> None:
    disk = machine.disk.read_bytes()
    ahead = machine.task(check_mode=True)
    assert ahead["changed"] and ahead["image"]["volume"] is None and node.names() == []
    assert ahead["diff"]["after"]["volumes"] == ["web of machine golden"]
    made = machine.task()
    assert made["changed"] and made["image"]["format"] == "qcow2", made
    path = made["image"]["path"]
    info = json.loads(
        subprocess.run(["qemu-img", "info", "--output=json", path], check=True, capture_output=True).stdout
    )
    assert "backing-filename" not in info and info["virtual-size"] == 2 * MIB
    same = subprocess.run(["qemu-img", "compare", "-q", path, str(machine.disk)], check=False)
    assert same.returncode == 0
    assert not machine.task()["changed"] and not machine.task(check_mode=True)["changed"]
    assert ahead["origin"] == made["origin"] == machine.task(check_mode=True)["origin"]
    # The same state under a second name is the same file.
    other = machine.task(name="other")
    assert other["changed"] and os.stat(other["image"]["path"]).st_ino == os.stat(path).st_ino
    assert machine.disk.read_bytes() == disk

    machine.write("x")
    assert machine.task(check_mode=True)["changed"]
    later = machine.task()
    assert later["origin"] != made["origin"]
    assert later["changed"] and later["image"]["volume"] != made["image"]["volume"]
    assert sorted(later["diff"]["after"]["volumes"]) == sorted([made["image"]["volume"], later["image"]["volume"]])


def test_how_far_the_copy_is_and_what_takes_the_identity_out(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large disk, each takes minutes."""
    told: list[tuple[str, bool]] = []
    monkeypatch.setattr(images.ProgressMeter, "at", lambda _m, phase, _done, total: told.append((phase, bool(total))))
    program = tmp_path / "bin" / "virt-sysprep"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    made = machine.task(keep_identity=False)
    assert made["changed"], made
    assert list(dict.fromkeys(told)) == [("copy", True), ("virt-sysprep", False), ("checksum", True)]


def test_a_device_does_not_tell_when_it_was_written_to(machine: Machine, node: t.Any, tmp_path: Path) -> None:
    """QEMU writes to a node of its own in libvirt's mount namespace, and another hypervisor to one of its own: neither
    times nor sizes of the hypervisor's /dev say that a logical volume has changed. What is on it does."""
    device = tmp_path / "device.raw"
    device.write_bytes(b"a" * MIB)
    before = os.stat(device)
    machine.disks = f"<disk type='block'><driver type='raw'/><source dev='{device}'/><target dev='vda'/></disk>"
    first = machine.task()
    assert first["changed"], first
    again = machine.task()
    assert not again["changed"] and again["image"] == first["image"]
    with device.open("r+b") as file:
        file.write(b"b")
    os.utime(device, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert machine.task(check_mode=True)["changed"]
    second = machine.task()
    assert second["changed"] and second["image"]["volume"] != first["image"]["volume"]
    assert len(node.names()) == 2


def test_others_of_the_hypervisor_cannot_read_it(
    machine: Machine, node: t.Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has published what is in there. Where QEMU may get at it as anybody else only, it is as all images are."""
    settings = tmp_path / "qemu.conf"
    monkeypatch.setattr(image_store, "_QEMU_SETTINGS", str(settings))
    monkeypatch.setattr(image_store, "shared_because", lambda _pool: None)

    def mode() -> int:
        made = machine.task()
        assert made["changed"], made
        found = os.stat(made["image"]["path"]).st_mode & 0o7777
        os.unlink(made["image"]["path"])
        return found

    assert mode() == 0o400
    settings.write_text("dynamic_ownership = 0\n")
    assert mode() == 0o444
    settings.write_text("dynamic_ownership = 1\n")
    assert mode() == 0o400
    monkeypatch.setattr(image_store, "shared_because", lambda _pool: "it is on a share")
    assert mode() == 0o444


def test_two_runs_at_once_store_one_image(machine: Machine, node: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the two has looked before the other one had stored it, and no two copies of virt-sysprep's are alike."""
    made = machine.task()
    monkeypatch.setattr(images, "search", lambda _find, _name, source: (None, source.origins))

    def write_another(*_what: t.Any, **_settings: t.Any) -> None:
        raise AssertionError("it is there already")

    monkeypatch.setattr(machine_image, "_write", write_another)
    again = machine.task()
    assert not again["changed"], again
    assert again["image"] == made["image"]
    assert node.names() == [made["image"]["volume"]]


def test_the_disk_that_it_boots_from(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "first.raw").write_bytes(bytes(MIB))
    (tmp_path / "seed.raw").write_bytes(bytes(MIB))
    machine.disks = (
        DISK.format(format="raw", path=tmp_path / "seed.raw", target="vdc", more="<readonly/>")
        + DISK.format(format="raw", path=tmp_path / "first.raw", target="vda", more="")
        + DISK.format(format="qcow2", path=machine.disk, target="vdb", more="<boot order='1'/>")
    )
    assert machine.task()["image"]["virtual_size_bytes"] == 2 * MIB
    machine.disks = machine.disks.replace("<boot order='1'/>", "")
    assert machine.task()["image"]["virtual_size_bytes"] == MIB


@pytest.fixture
def two_disks(machine: Machine, tmp_path: Path) -> Machine:
    """The machine with a data disk, in the words of our metadata, and with its seed."""
    for name in ("data", "seed"):
        (tmp_path / f"{name}.raw").write_bytes(name.encode().ljust(MIB, b"\2"))
    machine.disks = (
        DISK.format(format="raw", path=tmp_path / "data.raw", target="vdb", more="")
        + DISK.format(format="raw", path=tmp_path / "seed.raw", target="vdc", more="<readonly/>")
        + DISK.format(format="qcow2", path=machine.disk, target="vda", more="<boot order='1'/>")
    )
    disks = (DiskNote("system", "vda"), DiskNote("data", "vdb"))
    machine.metadata = (
        f"<metadata>{etree.tostring(notes_to_element(MachineNotes(disks=disks)), encoding='unicode')}</metadata>"
    )
    return machine


def test_a_disk_by_its_name_or_its_target(two_disks: Machine, tmp_path: Path) -> None:
    """Each disk is an image of its own, and the system disk the same one whether it is named or not."""
    whole = two_disks.task()
    assert whole["changed"], whole
    for word in ("system", "vda"):
        assert two_disks.task(disk=word)["image"] == whole["image"]
    ahead = two_disks.task(disk="data", name="web-data", check_mode=True)
    assert ahead["diff"]["after"]["volumes"] == ["web-data of disk data of machine golden"]
    data = two_disks.task(disk="data", name="web-data")
    assert data["changed"] and data["image"]["virtual_size_bytes"] == MIB
    same = ["qemu-img", "compare", "-q", "-f", "qcow2", "-F", "raw", data["image"]["path"], str(tmp_path / "data.raw")]
    assert subprocess.run(same, check=False).returncode == 0
    for word in ("data", "vdb"):
        assert not two_disks.task(disk=word, name="web-data")["changed"]


def test_only_the_system_disk_loses_an_identity(
    two_disks: Machine, node: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = node.directory.parent / "bin"
    programs.mkdir()
    said = node.directory.parent / "said"
    (programs / "virt-sysprep").write_text(f"#!/bin/sh\necho run >>{said}\n")
    (programs / "virt-sysprep").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    data = two_disks.task(disk="data", name="web-data", keep_identity=False)
    assert data["changed"] and not said.exists()
    assert not two_disks.task(disk="data", name="web-data", keep_identity=True)["changed"]
    assert two_disks.task(disk="system", keep_identity=False)["changed"]
    assert said.read_text() == "run\n"
    assert not two_disks.task(keep_identity=False)["changed"]


def test_disks_that_are_not_there(two_disks: Machine) -> None:
    assert two_disks.refusal(disk="dat") == (
        "disk: machine golden has no disk 'dat' that an image could be made of. Did you mean data?"
    )
    # The machine's seed, which it only reads.
    assert "no disk 'vdc' that an image" in two_disks.refusal(disk="vdc")
    others = {"machine": None, "keep_identity": False}
    for given in ({"path": str(two_disks.disk)}, {"name": None, "state": "pruned"}):
        assert two_disks.refusal(disk="data", **{**others, **given}).startswith("disk: does not apply")
    two_disks.metadata = ""
    assert two_disks.refusal(disk="root").endswith("Known: vda, vdb")


def test_what_no_image_is_made_of(machine: Machine, tmp_path: Path) -> None:
    machine.state = RUNNING
    assert machine.refusal() == (
        "machine: machine golden is running, and what is on its disk now may be half-written."
        " Shut it down first: virt_power with state: stopped"
    )
    machine.state = OFF
    assert "nowhere" in machine.refusal(machine="nowhere")
    encryption = "<encryption format='luks'><secret type='passphrase' usage='x'/></encryption>"
    machine.disks = DISK.format(format="qcow2", path=machine.disk, target="vda", more=encryption)
    assert "disk vda of machine golden is encrypted" in machine.refusal()
    whole = DISK.format(format="raw", path=machine.disk, target="vda", more="")
    part = "<slices><slice type='storage' offset='512' size='1024'/></slices>"
    machine.disks = whole.replace(f"'{machine.disk}'/>", f"'{machine.disk}'>{part}</source>")
    assert part in machine.disks
    assert "disk vda of machine golden is only a part of its file" in machine.refusal()
    machine.disks = (
        "<disk type='network' device='disk'><source protocol='rbd' name='p/i'><host name='h'/></source>"
        "<target dev='vda'/></disk>"
    )
    assert "disk vda of machine golden is on a network" in machine.refusal()
    machine.disks = DISK.format(format="qcow2", path=machine.disk, target="vda", more="<readonly/>")
    assert "has no disk that an image could be made of" in machine.refusal()
    machine.disks = DISK.format(format="qcow2", path=tmp_path / "gone", target="vda", more="")
    assert f"cannot inspect disk {tmp_path}/gone of machine golden" in machine.refusal()


def test_what_a_guest_wrote_into_a_disk_is_no_header(machine: Machine, tmp_path: Path) -> None:
    """The overlay says of the raw disk below it only where it is, and the guest has written a header there."""
    (tmp_path / "secret").write_text("of the hypervisor".ljust(MIB))
    plain, top = tmp_path / "plain.raw", tmp_path / "top.qcow2"
    create = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b"]
    subprocess.run([*create, str(tmp_path / "secret"), str(plain)], check=True)
    subprocess.run([*create, plain.name, str(top), "2M"], check=True)
    subprocess.run([*create, str(top), str(machine.disk)], check=True)
    # The extensions of the header that name the formats are those of somebody else now.
    for path, backing in ((top, "plain.raw"), (machine.disk, str(top))):
        subprocess.run(["qemu-img", "rebase", "-u", "-f", "qcow2", "-F", "qcow2", "-b", backing, str(path)], check=True)
    top.write_bytes(top.read_bytes().replace(bytes.fromhex("e2792aca"), bytes.fromhex("12345678"), 1))
    assert machine.refusal() == (
        f"machine: {top} does not record the format of plain.raw, which it is backed by. If you know it:"
        f" qemu-img rebase -u -f qcow2 -F FORMAT -b plain.raw {top}"
    )


@pytest.mark.parametrize("option", ["checksum", "content_checksum"])
def test_options_that_fit_other_sources(machine: Machine, option: str) -> None:
    assert machine.refusal(**{option: f"sha256:{'0' * 64}"}).startswith(f"{option}: it cannot be known beforehand")


def test_a_disk_that_changes_while_it_is_copied(machine: Machine, node: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = machine_image.run_qemu_img

    def write_meanwhile(command: str, *words: str, **options: t.Any) -> t.Any:
        answer = run(command, *words, **options)
        if command == "convert":
            machine.write("y")
        return answer

    monkeypatch.setattr(machine_image, "run_qemu_img", write_meanwhile)
    assert "the disk of machine golden has changed while it was copied" in machine.refusal()
    assert node.names() == []


def test_a_machine_that_ran_while_its_disk_was_copied(
    machine: Machine, node: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a device neither times nor locks tell it, but libvirt's log does."""
    starts: list[str] = []
    run = machine_image.run_qemu_img

    def run_meanwhile(command: str, *words: str, **options: t.Any) -> t.Any:
        if command == "convert":
            starts.append("2026-11-27 10:00:00.000+0000")
        return run(command, *words, **options)

    monkeypatch.setattr(machine_image, "last_start", lambda _name: starts[-1] if starts else "")
    monkeypatch.setattr(machine_image, "run_qemu_img", run_meanwhile)
    assert "the disk of machine golden has changed while it was copied" in machine.refusal()
    assert node.names() == []


def test_without_virt_sysprep_it_says_so(machine: Machine, node: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = node.directory.parent / "bin"
    bare.mkdir()
    (bare / "qemu-img").symlink_to(str(shutil.which("qemu-img")))
    monkeypatch.setenv("PATH", str(bare))

    def copy(*_words: str, **_options: t.Any) -> t.Any:
        raise AssertionError("the disk is copied for nothing")

    monkeypatch.setattr(machine_image, "run_qemu_img", copy)
    for check_mode in (True, False):
        assert "has no virt-sysprep" in machine.refusal(keep_identity=False, check_mode=check_mode)


def test_virt_sysprep_gets_the_copy(machine: Machine, node: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in its place: libguestfs takes half a minute at least."""
    programs = node.directory.parent / "bin"
    programs.mkdir()
    said = node.directory.parent / "said"
    (programs / "virt-sysprep").write_text(f'#!/bin/sh\necho "$LIBGUESTFS_BACKEND $@" >{said}\n')
    (programs / "virt-sysprep").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert machine.task(keep_identity=False)["changed"]
    words = said.read_text().split()
    assert words[:3] == ["direct", "--quiet", "--format=qcow2"] and "--hostname" in words
    assert words[words.index("-a") + 1].startswith(f"{node.directory}/.brine-part-")
    assert not machine.task(keep_identity=False)["changed"]
    # With its identity it is another image.
    assert machine.task(keep_identity=True, check_mode=True)["changed"]
    (programs / "virt-sysprep").write_text(
        "#!/bin/sh\necho 'virt-sysprep: no operating system was found on this disk' >&2\nexit 1\n"
    )
    machine.write("z")
    result = machine.task(keep_identity=False)
    assert result["msg"] == (
        "virt-sysprep cannot prepare the disk of machine golden: libguestfs finds no operating system on it."
        " keep_identity: true takes the disk as it is"
    )
