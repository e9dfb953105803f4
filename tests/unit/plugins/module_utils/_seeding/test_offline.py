# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a disk is seeded with offline: the files, the script that puts them in place, and its calls."""

from __future__ import annotations

import base64
import io
import shutil
import subprocess
import tarfile
import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import Machine
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._seeding.guestfs import SCRIPT
from ansible_collections.brine.virt.plugins.module_utils._seeding.host_keys import make_host_keys
from ansible_collections.brine.virt.plugins.module_utils._seeding.nocloud import seed_digest
from ansible_collections.brine.virt.plugins.module_utils._seeding.offline import seed_archive, seed_files

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKey operator@example"
HASH = "$6$abcdefgh$" + "x" * 86
FUNCTIONS: tuple[str, ...] = (
    "identity",
    "host_name",
    "time_zone",
    "put",
    "account",
    "join",
    "password",
    "sudoer",
    "keys",
)
FUNCTIONS = (*FUNCTIONS, "password_logins", "network", "labels")
# What rules.text lets through, and in particular what means something to a shell.
CHARACTERS = st.one_of(
    st.sampled_from("'\"$`\\;&|<>(){}*?~#! \t\n"), st.characters(exclude_categories=("Cs", "Cc"), max_codepoint=0xFFFD)
)


def machine(seed: dict[str, t.Any] | None = None, **spec: t.Any) -> Machine:
    return read_machine(
        {"name": "web1", "vcpus": 1, "memory": 512, "seed": {"method": "guestfs", **(seed or {})}, **spec}
    )


def calls(spec: Machine) -> list[list[str]]:
    """The calls at the end of the script, as a real shell reads them: each function only prints its words."""
    tail = seed_files(spec, make_host_keys())[SCRIPT].decode().rpartition("\n}\n\n")[2]
    printers = "".join(f"{name}() {{ printf '%s\\0' {name} \"$@\"; printf '\\n\\0'; }}\n" for name in FUNCTIONS)
    printed = subprocess.run(["sh", "-eu"], input=(printers + tail).encode(), capture_output=True, check=True)
    assert not printed.stderr
    found: list[list[str]] = [[]]
    for word in printed.stdout.decode().split("\0")[:-1]:
        if word == "\n" and found[-1]:
            found.append([])
        else:
            found[-1].append(word)
    return found[:-1]


def test_everything_that_can_be_said() -> None:
    files = [
        {"path": "/etc/motd", "content": "hello\n"},
        {"path": "/srv/x", "content": "aGkA", "encoding": "base64", "owner": "ops:adm", "mode": "600"},
    ]
    spec = machine(
        {
            "fqdn": "www.example.org",
            "authorized_keys": [KEY],
            "password_hash": HASH,
            "timezone": "Europe/Vienna",
            "users": [{"name": "ops", "groups": ["adm", "wheel"], "gecos": "Ops", "shell": "/bin/sh"}],
            "files": files,
        }
    )
    found = calls(spec)
    assert found[:3] == [["identity"], ["host_name", "www", "www.example.org"], ["time_zone", "Europe/Vienna"]]
    assert [
        call for call in found if call[0] not in ("identity", "host_name", "time_zone") and "/etc/ssh" not in str(call)
    ] == [
        ["password_logins", "no"],
        ["account", "ansible", "/bin/bash", ""],
        ["password", "passwords/0"],
        ["sudoer", "ansible"],
        ["keys", "ansible", "keys/0"],
        ["account", "ops", "/bin/sh", "Ops"],
        ["join", "ops", "adm", "wheel"],
        ["network"],
        ["put", "files/0", "/etc/motd", "0644", "root:root"],
        ["put", "files/1", "/srv/x", "0600", "ops:adm"],
        ["labels"],
    ]
    contents = seed_files(spec, ())
    assert contents["files/0"] == b"hello\n"
    assert contents["files/1"] == b"hi\0"
    assert contents["passwords/0"] == f"ansible:{HASH}\n".encode()
    assert contents["keys/0"] == f"{KEY}\n".encode()


def test_host_keys_have_the_modes_that_sshd_wants() -> None:
    found = [call for call in calls(machine()) if "/etc/ssh" in str(call)]
    assert found == [
        ["put", f"ssh/ssh_host_{kind}_key{suffix}", f"/etc/ssh/ssh_host_{kind}_key{suffix}", mode, "0:0"]
        for kind in ("ed25519", "ecdsa")
        for suffix, mode in (("", "0600"), (".pub", "0644"))
    ]


def test_root_needs_no_sudo() -> None:
    assert not [call for call in calls(machine({"user": "root"})) if call[0] == "sudoer"]


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_nobody_has_a_password_without_a_hash_root_no_more_than_others(shell: str) -> None:
    """With a * in place of a hash, which no password has, sshd takes keys with PAM and without; a ! only with it."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    functions = seed_files(machine(), ())[SCRIPT].decode().rpartition("\n}\n\n")[0] + "\n}\n"
    # In place of the image's programs, which would change this machine.
    image = """
        id() { [ "$2" != new ]; }
        chpasswd() { echo "chpasswd $*: $(cat)"; }
        usermod() { echo "usermod $*"; }
        useradd() { echo useradd; }
    """
    accounts = "".join(f"account {name} /bin/sh ''\n" for name in ("root", "daemon", "new"))
    done = subprocess.run(
        [shell, "-eu", "-s", "/stage"],
        input=f"{functions}{image}{accounts}".encode(),
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().splitlines() == [
        "chpasswd -e: root:*",
        "chpasswd -e: daemon:*",
        "useradd",
        "chpasswd -e: new:*",
    ]


@settings(max_examples=60, deadline=None)
@given(st.text(CHARACTERS, max_size=30), st.text(CHARACTERS, max_size=30))
def test_no_text_breaks_out_of_the_script(name: str, content: str) -> None:
    path = "/srv/" + "".join(c for c in name if c not in "\t\n") + "x"
    gecos = "".join(c for c in name if c not in ":\t\n")
    spec = machine({"files": [{"path": path, "content": content}], "users": [{"name": "ops", "gecos": gecos}]})
    found = calls(spec)
    assert ["put", "files/0", path, "0644", "root:root"] in found
    assert ["account", "ops", "/bin/bash", gecos] in found
    assert [call[0] for call in found] == [
        call[0] for call in calls(machine({"files": [{"path": "/x"}], "users": [{"name": "ops"}]}))
    ]
    assert seed_files(spec, ())["files/0"] == content.encode()


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_every_shell_can_read_the_script(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command = [shell, "sh", "-n"] if shell == "busybox" else [shell, "-n"]
    subprocess.run(command, input=seed_files(machine({"users": [{"name": "ops"}]}), ())[SCRIPT], check=True)


def test_the_archive_is_for_root_alone() -> None:
    spec = machine({"files": [{"path": "/x", "content": base64.b64encode(b"\0\xff").decode(), "encoding": "base64"}]})
    keys = make_host_keys()
    with tarfile.open(fileobj=io.BytesIO(seed_archive(spec, keys))) as tar:
        members = tar.getmembers()
        assert {(member.uid, member.gid, member.mode, member.isfile()) for member in members} == {(0, 0, 0o600, True)}
        assert not [member.name for member in members if member.name.startswith("/") or ".." in member.name.split("/")]
        stored = {member.name: t.cast("t.IO[bytes]", tar.extractfile(member)).read() for member in members}
    assert stored == seed_files(spec, keys)
    assert stored["files/0"] == b"\0\xff"


def test_the_method_is_part_of_the_hash() -> None:
    assert seed_digest(machine()) != seed_digest(machine({"method": "nocloud"}))
    assert seed_digest(machine({"timezone": "UTC"})) != seed_digest(machine())
