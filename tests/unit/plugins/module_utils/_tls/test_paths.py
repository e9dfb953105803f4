# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where keys go, and whose they are."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._tls.files import KEY_MODE, is_guarded, write_file
from ansible_collections.brine.virt.plugins.module_utils._tls.paths import ROOT, Owner, find_places, find_qemu_user

NOBODY = pwd.getpwnam("nobody")


@pytest.mark.parametrize(
    "setting",
    ['user = "nobody"', "  user='nobody'", f'user = "+{NOBODY.pw_uid}"', '#user = "root"\nuser = "nobody" # x'],
)
def test_the_setting_of_qemu_conf_counts(tmp_path: Path, setting: str) -> None:
    path = tmp_path / "qemu.conf"
    path.write_text(f'# a comment\nsomething = 1\n{setting}\ngroup = "kvm"\n')
    assert find_qemu_user(None, str(path)).uid == NOBODY.pw_uid
    assert find_qemu_user("root", str(path)).uid == 0


def test_a_comment_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "qemu.conf"
    path.write_text('#user = "nobody"\n')
    assert find_qemu_user(None, str(path)) == find_qemu_user(None, str(tmp_path / "missing"))
    assert find_qemu_user(None, str(path)).name != "nobody"


def test_an_account_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "qemu.conf"
    path.write_text('user = "no-such-user"\n')
    with pytest.raises(NotFoundError, match="no account no-such-user"):
        find_qemu_user(None, str(path))


def test_places_are_those_of_libvirt_and_qemu() -> None:
    places = find_places(["libvirt", "qemu", "client"])
    assert {key_pair.name: (key_pair.certificate, key_pair.key) for key_pair in places.key_pairs[:4]} == {
        "libvirt_server": ("/etc/pki/libvirt/servercert.pem", "/etc/pki/libvirt/private/serverkey.pem"),
        "libvirt_client": ("/etc/pki/libvirt/clientcert.pem", "/etc/pki/libvirt/private/clientkey.pem"),
        "qemu_server": ("/etc/pki/qemu/server-cert.pem", "/etc/pki/qemu/server-key.pem"),
        "qemu_client": ("/etc/pki/qemu/client-cert.pem", "/etc/pki/qemu/client-key.pem"),
    }
    # With "libvirt" among the kinds the host is a hypervisor, whose files are not a client's.
    home = pwd.getpwuid(os.geteuid()).pw_dir
    assert places.key_pairs[4].key == f"{home}/.pki/libvirt/clientkey.pem"
    assert [trust.ca_file for trust in places.trusts] == [
        "/etc/pki/CA/cacert.pem",
        "/etc/pki/qemu/ca-cert.pem",
        f"{home}/.pki/libvirt/cacert.pem",
    ]


def _account(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    account = pwd.struct_passwd(("anybody", "x", uid, uid, "", "/home/anybody", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: account)


def test_a_client_certificate_goes_where_virsh_of_that_account_looks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _account(monkeypatch, 0)
    places = find_places(["client"], root=str(tmp_path))
    pki = tmp_path / "etc" / "pki"
    assert (places.key_pairs[0].certificate, places.key_pairs[0].key, places.trusts[0].ca_file, places.note) == (
        f"{pki}/libvirt/clientcert.pem",
        f"{pki}/libvirt/private/clientkey.pem",
        f"{pki}/CA/cacert.pem",
        "",
    )
    assert find_places(["client"], root=str(tmp_path), folder="/srv/keys").key_pairs[0].key == "/srv/keys/clientkey.pem"
    _account(monkeypatch, 1000)
    assert find_places(["client"], root=str(tmp_path)).key_pairs[0].key == "/home/anybody/.pki/libvirt/clientkey.pem"


def test_a_folder_from_where_the_task_runs_can_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    place = find_places(["client"], folder="keys/alice").key_pairs[0]
    write_file(place.key, b"secret", ROOT, KEY_MODE)
    assert place.key == f"{tmp_path}/keys/alice/clientkey.pem"
    assert (tmp_path / "keys/alice/clientkey.pem").exists()


def test_a_hypervisor_keeps_its_own_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _account(monkeypatch, 0)
    (tmp_path / "etc/pki/libvirt").mkdir(parents=True)
    (tmp_path / "etc/pki/libvirt/servercert.pem").touch()
    places = find_places(["client"], root=str(tmp_path))
    assert places.key_pairs[0].certificate == "/home/anybody/.pki/libvirt/clientcert.pem"
    assert places.trusts[0].ca_file == "/home/anybody/.pki/libvirt/cacert.pem"
    assert "?pkipath=/home/anybody/.pki/libvirt" in places.note


def test_a_key_is_never_open_to_others(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        write_file(str(tmp_path / "private" / "key.pem"), b"secret", ROOT, KEY_MODE)
    finally:
        os.umask(previous)
    assert is_guarded(str(tmp_path / "private" / "key.pem"), ROOT)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o755
    alice = Owner("alice", os.geteuid(), os.getegid(), str(tmp_path))
    write_file(str(tmp_path / ".pki" / "libvirt" / "key.pem"), b"secret", alice, KEY_MODE)
    assert (tmp_path / ".pki").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in (tmp_path / "private").iterdir()] == ["key.pem"]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="cannot be written"):
        write_file(str(tmp_path / "file" / "key.pem"), b"secret", ROOT, KEY_MODE)
