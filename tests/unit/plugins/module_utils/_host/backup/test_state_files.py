# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""UEFI variables and the state of a TPM, into a backup and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.backup import state_files

DOMAIN = parse_xml("<domain><devices><tpm model='tpm-crb'><backend type='emulator'/></tpm></devices></domain>")


@pytest.fixture
def swtpm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(state_files, "_SWTPM", str(tmp_path / "swtpm"))
    return tmp_path / "swtpm"


def test_where_a_definition_has_them() -> None:
    assert state_files.nvram_path(parse_xml("<domain><os/></domain>")) is None
    assert state_files.nvram_path(parse_xml("<domain><os><nvram> /n.fd </nvram></os></domain>")) == "/n.fd"
    # libvirt 9.0 says it only while the machine runs.
    auto = "<domain><name>web1</name><os firmware='efi'/></domain>"
    assert state_files.nvram_path(parse_xml(auto)) == "/var/lib/libvirt/qemu/nvram/web1_VARS.fd"
    firmware = "<loader type='pflash'>/usr/share/x.fd</loader><nvram template='/t'/>"
    loader = f"<domain><name>web1</name><os>{firmware}</os></domain>"
    assert state_files.nvram_path(parse_xml(loader)) == "/var/lib/libvirt/qemu/nvram/web1_VARS.fd"
    source = "<domain><os><nvram><source file='/s.fd'/></nvram></os></domain>"
    assert state_files.nvram_path(parse_xml(source)) == "/s.fd"
    tpm = "<domain><devices><tpm><backend type='{}'/></tpm></devices></domain>"
    assert state_files.has_tpm(parse_xml(tpm.format("emulator")))
    assert not state_files.has_tpm(parse_xml(tpm.format("passthrough")))


def test_uefi_variables_come_back_and_go_over_nothing(tmp_path: Path) -> None:
    backup, place = tmp_path / "backup", tmp_path / "nvram" / "web1_VARS.fd"
    backup.mkdir()
    (tmp_path / "old.fd").write_bytes(b"variables")
    state_files.copy_in(str(tmp_path / "old.fd"), str(backup / "nvram.fd"))
    state_files.write_nvram(str(backup), "nvram.fd", str(place), replace=False)
    assert place.read_bytes() == b"variables"
    place.write_bytes(b"of another machine")
    with pytest.raises(ConflictError, match="is there already"):
        state_files.write_nvram(str(backup), "nvram.fd", str(place), replace=False)
    assert place.read_bytes() == b"of another machine"
    before = state_files.read_nvram(str(place))
    state_files.write_nvram(str(backup), "nvram.fd", str(place), replace=True)
    assert place.read_bytes() == b"variables"
    state_files.take_back(str(place), before)
    assert place.read_bytes() == b"of another machine"
    state_files.take_back(str(tmp_path / "new"), None)
    assert state_files.read_nvram(str(tmp_path / "new")) is None
    assert [one.name for one in place.parent.iterdir()] == ["web1_VARS.fd"]


def test_a_link_that_qemu_has_put_there_leads_nowhere(tmp_path: Path) -> None:
    secret, link = tmp_path / "shadow", tmp_path / "web1_VARS.fd"
    secret.write_bytes(b"of root")
    link.symlink_to(secret)
    with pytest.raises(HostError, match="cannot copy"):
        state_files.copy_in(str(link), str(tmp_path / "nvram.fd"))
    with pytest.raises(HostError, match="cannot read"):
        state_files.read_nvram(str(link))
    state_files.take_back(str(link), b"variables")
    assert (secret.read_bytes(), link.read_bytes(), link.is_symlink()) == (b"of root", b"variables", False)


def test_the_state_of_a_tpm_comes_back(tmp_path: Path, swtpm: Path) -> None:
    (swtpm / "u1" / "tpm2").mkdir(parents=True)
    assert state_files.tpm_state(DOMAIN, "u1") is None
    for name, content in (("tpm2-00.permall", b"state"), (".lock", b"")):
        (swtpm / "u1" / "tpm2" / name).write_bytes(content)
    assert state_files.tpm_state(DOMAIN, "u1") == (f"{swtpm}/u1/tpm2", "tpm2", ["tpm2-00.permall"])
    name = state_files.tpm_name("tpm2-00.permall")
    state_files.copy_in(f"{swtpm}/u1/tpm2/tpm2-00.permall", str(tmp_path / name))
    state_files.write_tpm(str(tmp_path), [name], "u2", "tpm2", replace=False)
    assert (swtpm / "u2/tpm2/tpm2-00.permall").read_bytes() == b"state"
    (swtpm / "u2/tpm2/tpm2-00.permall").write_bytes(b"newer")
    with pytest.raises(ConflictError, match="holds the state of a TPM already"):
        state_files.write_tpm(str(tmp_path), [name], "u2", "tpm2", replace=False)
    state_files.remove_tpm("u2")
    state_files.remove_tpm("u2")
    assert state_files.tpm_state(DOMAIN, "u2") is None


@pytest.mark.parametrize(("version", "place"), [("2.0", "tpm2"), ("1.2", "tpm1.2")])
def test_the_state_of_a_tpm_in_a_directory_of_its_own_is_found(tmp_path: Path, version: str, place: str) -> None:
    """libvirt 10.10 and newer; it is restored to the usual place."""
    (tmp_path / "tpm2-00.permall").write_bytes(b"state")
    backend = f"<backend type='emulator' version='{version}'><source type='{{}}' path='{tmp_path}'/></backend>"
    text = f"<domain><devices><tpm model='tpm-crb'>{backend}</tpm></devices></domain>"
    found = state_files.tpm_state(parse_xml(text.format("dir")), "u1")
    assert found == (str(tmp_path), place, ["tpm2-00.permall"])
    with pytest.raises(HostError, match="which is no directory: not backed up"):
        state_files.tpm_state(parse_xml(text.format("file")), "u1")


def test_what_a_killed_restore_has_left_is_no_conflict(
    tmp_path: Path, swtpm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run finishes it: what is in its place already is the backup's, and what is not is a draft."""
    nvram, state = tmp_path / "nvram" / "web1_VARS.fd", swtpm / "u1" / "tpm2"
    names = ["tpm-tpm2-00.permall", "tpm-tpm2-00.volatilestate"]
    for name in (*names, "nvram.fd"):
        (tmp_path / name).write_bytes(name.encode())

    def kill(*_paths: str) -> None:
        raise KeyboardInterrupt

    for _again in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(state_files.os, "replace", kill)
            patch.setattr(state_files.os, "rename", kill)
            with pytest.raises(KeyboardInterrupt):
                state_files.write_nvram(str(tmp_path), "nvram.fd", str(nvram), replace=False)
            with pytest.raises(KeyboardInterrupt):
                state_files.write_tpm(str(tmp_path), names, "u1", "tpm2", replace=False)
        assert not nvram.exists()
        assert not state.exists()
    assert state_files.write_nvram(str(tmp_path), "nvram.fd", str(nvram), replace=False)
    state_files.write_tpm(str(tmp_path), names, "u1", "tpm2", replace=False)
    # Killed after that, before the machine is marked as ready.
    assert not state_files.write_nvram(str(tmp_path), "nvram.fd", str(nvram), replace=False)
    called: list[bool] = []
    state_files.write_tpm(str(tmp_path), names, "u1", "tpm2", replace=False, began=lambda: called.append(True))
    assert not called
    assert sorted(one.name for one in state.iterdir()) == ["tpm2-00.permall", "tpm2-00.volatilestate"]
    assert [one.name for one in (*state.parent.iterdir(), *nvram.parent.iterdir())] == ["tpm2", "web1_VARS.fd"]
    (state / "tpm2-00.permall.restored").touch()
    (tmp_path / names[0]).write_bytes(b"other")
    state_files.write_tpm(str(tmp_path), names, "u1", "tpm2", replace=True)
    assert (state / "tpm2-00.permall").read_bytes() == b"other"
    assert sorted(one.name for one in state.iterdir()) == ["tpm2-00.permall", "tpm2-00.volatilestate"]


def test_a_link_in_a_backup_is_not_followed(tmp_path: Path, swtpm: Path) -> None:
    (tmp_path / "tpm-x").symlink_to("/etc/passwd")
    with pytest.raises(HostError, match="cannot write"):
        state_files.write_tpm(str(tmp_path), ["tpm-x"], "u1", "tpm2", replace=False)
    assert not (swtpm / "u1" / "tpm2" / "x").exists()


def test_a_file_that_no_backup_could_hold_is_named(swtpm: Path) -> None:
    (swtpm / "u1" / "tpm2").mkdir(parents=True)
    (swtpm / "u1" / "tpm2" / "a b").touch()
    with pytest.raises(HostError, match="'a b' in it, which cannot be backed up"):
        state_files.tpm_state(DOMAIN, "u1")
