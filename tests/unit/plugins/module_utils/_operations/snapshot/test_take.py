# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An external snapshot of a guest whose file systems are frozen meanwhile."""

from __future__ import annotations

import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import EXTERNAL
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot import held, take
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.machines import SnapshotResult
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.method import Method

NOTED = "note the files of web1"
SILENT = "Guest agent is not responding"
TAKES = '<snapshotting snapshot="s2" work="take"/>'


class Guest:
    """A running machine. fails: the calls that do not succeed, with what error; thaws: so often it is asked until it
    thaws."""

    def __init__(self, *fails: str, thaws: int = 1, error: Exception | None = None) -> None:
        self.calls: list[str] = []
        self.note: str | None = None
        self.permanent_note: str | None = None
        self.file_systems = 1
        self._fails, self._thaws, self._error = fails, thaws, error or libvirt.libvirtError(SILENT)

    def _does(self, call: str) -> None:
        self.calls.append(call)
        if call in self._fails:
            raise self._error

    def name(self) -> str:
        return "web1"

    def isActive(self) -> bool:  # noqa: N802 - libvirt's name
        return True

    def agentSetResponseTimeout(self, _seconds: int) -> None:  # noqa: N802 - libvirt's name
        """Any limit will do."""

    def setMetadata(self, _type: int, text: str | None, *more: t.Any) -> None:  # noqa: N802 - libvirt's name
        if "gone" in self.calls:
            raise libvirt.libvirtError("client socket is closed")
        if more[-1] & libvirt.VIR_DOMAIN_AFFECT_LIVE:
            self.note = text
        if more[-1] & libvirt.VIR_DOMAIN_AFFECT_CONFIG:
            self.permanent_note = text

    def fsFreeze(self) -> int:  # noqa: N802 - libvirt's name
        assert self.note is not None and 'frozen="yes"' in self.note, "nobody would know of it after a kill"
        self._does("freeze")
        return self.file_systems

    def snapshotCreateXML(self, _xml: str, flags: int) -> None:  # noqa: N802 - libvirt's name
        assert not flags & libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_QUIESCE, "libvirt may forget it"
        assert self.permanent_note == TAKES, "nobody would know of it where the daemon is killed"
        self._does("take")

    def fsThaw(self) -> int:  # noqa: N802 - libvirt's name
        self._does("thaw")
        if self.calls.count("thaw") < self._thaws:
            raise libvirt.libvirtError(SILENT)
        return 1


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "FREEZE_SECONDS", 1)
    monkeypatch.setattr(held, "_THAW_AGAIN_SECONDS", 0.01)


def take_of(
    guest: Guest,
    monkeypatch: pytest.MonkeyPatch,
    *,
    quiesce: bool = True,
    must: bool = False,
    file: str = "/p/web1-vda.s2.qcow2",
) -> Method:
    monkeypatch.setattr(take, "view", lambda _conn, name, _where: name)
    monkeypatch.setattr(take, "note_files", lambda name, _pools: guest.calls.append(f"note the files of {name}"))
    pools = types.SimpleNamespace(all=lambda: guest.calls.append("look at the pools"))
    monkeypatch.setattr(take, "Pools", lambda _conn: pools)
    power = types.SimpleNamespace(handle=guest, state="running")
    machine: t.Any = types.SimpleNamespace(name="web1", active=True, power=power, snapshots=[])
    method = Method(
        EXTERNAL,
        memory=False,
        quiesce=quiesce,
        disks=("vda",),
        left_out=("sda",),
        files={"vda": file},
        must_quiesce=must,
    )
    take._take(None, machine, "s2", method, "before the upgrade")
    return method


def test_it_is_taken_while_the_guest_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest()
    take_of(guest, monkeypatch)
    assert (guest.calls, guest.note) == (["look at the pools", "freeze", "take", NOTED, "thaw"], None)


def test_a_guest_of_which_nothing_could_be_frozen_is_not_said_to_be_quiesced(monkeypatch: pytest.MonkeyPatch) -> None:
    plan: t.Any = types.SimpleNamespace(remarks=(), snapshot="s2", state_before="running", state="running", going=())
    for count, quiesced in ((1, True), (0, False)):
        guest = Guest()
        guest.file_systems = count
        plan.method = take_of(guest, monkeypatch)
        assert guest.calls == ["look at the pools", "freeze", "take", NOTED, "thaw"]
        result = SnapshotResult("web1", plan=plan).as_result()
        assert result["quiesced"] is quiesced
        assert result["warnings"] == ([] if quiesced else ["the guest agent has no file system that can be frozen"])
    guest = Guest()
    guest.file_systems = 0
    with pytest.raises(HostError, match="no file system that can be frozen. Set quiesce: auto"):
        take_of(guest, monkeypatch, must=True)
    assert "take" not in guest.calls and guest.note is None


def test_without_a_freeze_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest()
    take_of(guest, monkeypatch, quiesce=False)
    assert guest.calls == ["take"]
    assert (guest.note, guest.permanent_note) == (None, None)


@pytest.mark.parametrize("quiesce", [True, False])
def test_one_that_ends_when_there_is_a_new_file_stays_noted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quiesce: bool
) -> None:
    """Whatever libvirt says, QEMU may write to it."""
    guest, file = Guest("take"), tmp_path / "web1-vda.s2.qcow2"
    file.write_bytes(b"")
    with pytest.raises(HostError, match="cannot take snapshot s2"):
        take_of(guest, monkeypatch, quiesce=quiesce, file=str(file))
    assert (guest.note, guest.permanent_note) == (None, TAKES)
    file.unlink()
    with pytest.raises(HostError, match="cannot take snapshot s2"):
        take_of(guest, monkeypatch, quiesce=quiesce, file=str(file))
    assert (guest.note, guest.permanent_note) == (None, None)


def test_one_whose_daemon_is_gone_stays_noted_and_says_what_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Guest):
        def snapshotCreateXML(self, xml: str, flags: int) -> None:  # noqa: N802 - libvirt's name
            self.calls.append("gone")
            super().snapshotCreateXML(xml, flags)

    guest = Gone("take", error=libvirt.libvirtError("End of file while reading data"))
    with pytest.raises(HostError, match="cannot take snapshot s2 of machine web1: End of file while reading data"):
        take_of(guest, monkeypatch, quiesce=False)
    assert guest.permanent_note == TAKES


def test_one_that_freezes_too_late_goes_on_when_it_has_frozen_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest("freeze", thaws=3)
    with pytest.raises(
        HostError, match=rf"^cannot hold machine web1 still: {SILENT}\. With quiesce=false the snapshot is"
    ):
        take_of(guest, monkeypatch)
    assert guest.calls == ["look at the pools", "freeze", "thaw", "thaw", "thaw"] and guest.note is None


def test_one_of_which_no_snapshot_can_be_taken_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest("take")
    with pytest.raises(HostError, match=f"^cannot take snapshot s2 of machine web1: {SILENT}$"):
        take_of(guest, monkeypatch)
    assert guest.calls == ["look at the pools", "freeze", "take", "thaw"] and guest.note is None


@pytest.mark.parametrize("fails", [["thaw"], ["take", "thaw"], ["freeze", "thaw"]])
def test_one_that_does_not_thaw_is_named_with_the_command_and_noted(
    fails: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot that was taken before stays libvirt's, its files are the machine's, and the next run thaws."""
    guest = Guest(*fails)
    with pytest.raises(
        HostError, match="file systems of machine web1 were frozen .*cannot be thawed.*virsh domfsthaw web1"
    ) as error:
        take_of(guest, monkeypatch)
    assert (NOTED in guest.calls) is (fails == ["thaw"])
    assert guest.note is not None and "unexpected" not in str(error.value)


@pytest.mark.parametrize("code", ["VIR_ERR_INTERNAL_ERROR", "VIR_ERR_OPERATION_INVALID"])
@pytest.mark.parametrize("thaw", [[], ["thaw"]])
def test_one_that_refuses_to_freeze_is_not_frozen(thaw: list[str], code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the agent's configuration forbids both, or the guest was paused: nobody waits, and no later run asks."""

    class Refusal(libvirt.libvirtError):
        def get_error_code(self) -> int:
            return int(getattr(libvirt, code))

        def get_error_domain(self) -> int:
            return int(libvirt.VIR_FROM_QEMU)

    guest = Guest("freeze", *thaw, error=Refusal("Command guest-fsfreeze-freeze has been disabled"))
    with pytest.raises(
        VirtError, match="^cannot hold machine web1 still: Command guest-fsfreeze-freeze has been"
    ) as error:
        take_of(guest, monkeypatch)
    assert guest.calls == ["look at the pools", "freeze", "thaw"] and guest.note is None
    assert error.value.hint == "With quiesce=false the snapshot is taken without that, like the disks after a power cut"
