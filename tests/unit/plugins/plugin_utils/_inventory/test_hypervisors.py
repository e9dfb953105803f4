# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hypervisors are asked, by which way, and that none of them hides the others."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.hypervisors import (
    HypervisorEntry,
    InventoryHypervisor,
    SshSettings,
    ask_hypervisors,
    read_entries,
    warn_of,
    wrapper_script,
)

pytestmark = pytest.mark.medium


@pytest.mark.parametrize(
    ("value", "entries"),
    [
        ([], []),
        (["hv1"], [HypervisorEntry("hv1")]),
        (
            ["qemu+tls://hv2.example.org/system"],
            [HypervisorEntry("hv2.example.org", "qemu+tls://hv2.example.org/system")],
        ),
        (["qemu:///system"], [HypervisorEntry("localhost", "qemu:///system")]),
        ([{"name": "hv3", "uri": "test:///default"}], [HypervisorEntry("hv3", "test:///default")]),
        ([{"name": "hv4", "transport": "tls"}], [HypervisorEntry("hv4", None, "tls")]),
    ],
)
def test_entries(value: t.Any, entries: list[HypervisorEntry]) -> None:
    assert read_entries(value) == entries


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("hv1", "hypervisors: 'hv1' is not a list. Give names, or mappings of name and uri"),
        ([{"uri": "test:///default"}], "hypervisors[0]: name is missing. Add the hypervisor's name"),
        ([{"name": "hv1", "url": "x"}], "hypervisors[0]: unknown option 'url'. Did you mean uri?"),
        (
            ["hv1", {"name": "hv2", "transport": "tcp"}],
            "hypervisors[1].transport: 'tcp' is not a choice. Choose one of ssh, tls, local",
        ),
        (["hv1", "hv1"], "hypervisors[1]: hv1 is given twice. Give each hypervisor its own name"),
        ([None], "hypervisors[0]: None is not a mapping of options. Known: name, uri, transport"),
    ],
)
def test_wrong_entries_are_one_sentence_with_a_place(value: t.Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_entries(value)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("settings", "arguments"),
    [
        ({}, ["-o", "BatchMode=yes", "-o", "ControlMaster=no", "-o", "ConnectTimeout=7"]),
        (
            {
                "arguments": ("-o", "ProxyCommand=ssh -W '%h:%p' gate", "-C"),
                "private_key_file": "/my keys/id",
                "host_key_checking": False,
            },
            [
                "-o",
                "BatchMode=yes",
                "-o",
                "ControlMaster=no",
                "-o",
                "StrictHostKeyChecking=no",
                "-o",
                "IdentityFile=/my keys/id",
                "-o",
                "ProxyCommand=ssh -W '%h:%p' gate",
                "-C",
                "-o",
                "ConnectTimeout=7",
            ],
        ),
    ],
)
def test_the_wrapper_passes_on_what_ansible_would_say(
    tmp_path: Path, settings: dict[str, t.Any], arguments: list[str]
) -> None:
    """Run for real, with a program in ssh's place that says what it was called with."""
    told = tmp_path / "told"
    program = tmp_path / "an ssh"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {told}\n')
    program.chmod(0o700)
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(wrapper_script(SshSettings(executable=str(program), **settings), 7.9))
    subprocess.run(["sh", str(wrapper), "-p", "22", "--", "hv1", "sh -c 'nc -U x'"], check=True)
    assert told.read_text().splitlines() == [*arguments, "-p", "22", "--", "hv1", "sh -c 'nc -U x'"]


def test_ssh_is_called_through_the_wrapper_and_the_wrapper_goes(tmp_path: Path) -> None:
    program = tmp_path / "ssh"
    # It reads before it ends: otherwise libvirt may find the pipe broken before it reads what was said.
    program.write_text("#!/bin/sh\necho no such luck >&2\nhead -c 1 > /dev/null\nexit 255\n")
    program.chmod(0o700)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    hypervisor = InventoryHypervisor("hv1", "qemu+ssh://me@hv1:2222/system", SshSettings(executable=str(program)))
    (answer,) = ask_hypervisors([hypervisor], concurrency=1, timeout_seconds=600, tmpdir=str(scratch))
    assert answer["machines"] is None
    assert answer["uri"] == "qemu+ssh://me@hv1:2222/system"
    assert answer["error"].startswith("cannot connect to qemu+ssh://me@hv1:2222/system: ")
    assert "no such luck" in answer["error"]
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("has", "sentence"),
    [
        ({}, "no libvirt is installed there yet. Run brine.virt.hypervisors first"),
        (
            {"nc": "echo nc: unix connect failed: No such file or directory >&2; exit 1"},
            "no libvirt runs there, or none is installed. Run brine.virt.hypervisors",
        ),
        (
            {"virt-ssh-helper": "echo \"cannot connect to '/x/libvirt-sock': No such file or directory\" >&2; exit 1"},
            "no libvirt runs there, or none is installed. Run brine.virt.hypervisors",
        ),
    ],
)
def test_a_host_without_libvirt_is_named_as_one(tmp_path: Path, has: dict[str, str], sentence: str) -> None:
    """What libvirt has run there for real, with the programs that such a host has."""
    there = tmp_path / "bin"
    there.mkdir()
    for name, text in {"which": 'command -v "$1"', **has}.items():
        (there / name).write_text(f"#!/bin/sh\n{text}\n")
        (there / name).chmod(0o700)
    program = tmp_path / "ssh"
    shell = shutil.which("sh")
    (there / "sh").symlink_to(str(shell))
    # It reads before it ends, as above.
    words = f'for last; do :; done\nPATH={there} {shell} -c "$last"\n{shutil.which("head")} -c 1 > /dev/null\nexit 1\n'
    program.write_text(f"#!{shell}\n{words}")
    program.chmod(0o700)
    hypervisor = InventoryHypervisor("hv1", "qemu+ssh://hv1/system", SshSettings(executable=str(program)))
    (answer,) = ask_hypervisors([hypervisor], concurrency=1, timeout_seconds=600, tmpdir=str(tmp_path))
    assert warn_of(answer) == f"Hypervisor hv1 did not answer, its machines are missing: {sentence}"


def test_dead_and_silent_hypervisors_do_not_hide_the_others(node_uri: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never says a word
        started = time.monotonic()
        answers = ask_hypervisors(
            [
                InventoryHypervisor("dead", "qemu+unix:///system?socket=/nonexistent/socket"),
                InventoryHypervisor("silent", f"test+tcp://127.0.0.1:{silent.getsockname()[1]}/default"),
                InventoryHypervisor("strange", "nonsense:///"),
                InventoryHypervisor("hv1", node_uri),
            ],
            concurrency=2,
            timeout_seconds=15,
        )
        assert time.monotonic() - started < 300
    assert [answer["hypervisor"] for answer in answers] == ["dead", "silent", "strange", "hv1"]
    assert [answer["error"] is None for answer in answers] == [False, False, False, True]
    assert [record["name"] for record in answers[3]["machines"]] == ["db1", "half", "web1"]
    # Either side may be the first to time out.
    silence = answers[1]["error"]
    assert silence.endswith(("no answer within 15 s", "did not answer within 15 s"))
    warnings = [warn_of(answer) for answer in answers[:3]]
    assert all("\n" not in warning for warning in warnings)
    assert warnings[1] == f"Hypervisor silent did not answer, its machines are missing: {silence}"


def test_no_hypervisors_no_answers() -> None:
    assert ask_hypervisors([], concurrency=4, timeout_seconds=1) == []


def test_what_no_fact_needs_is_not_asked(node_uri: str) -> None:
    one = [InventoryHypervisor("hv1", node_uri)]
    (all_of_it,) = ask_hypervisors(one, concurrency=1, timeout_seconds=600)
    (little,) = ask_hypervisors(one, concurrency=1, timeout_seconds=600, facts=["tags"])
    by_name = [{record["name"]: record for record in answer["machines"]} for answer in (all_of_it, little)]
    assert by_name[0]["web1"]["address"] == "192.168.122.129"
    assert by_name[0]["web1"]["errors"] == ["disk vda: its size is unknown for now: the machine is busy"]
    # Without the question for sizes there is no error about them.
    assert by_name[1]["web1"]["errors"] == []
    assert not {"address", "disks", "nics"} & set(by_name[1]["web1"])
    assert "front end" in by_name[1]["web1"]["tags"]
    assert by_name[0].keys() == by_name[1].keys()
    assert little["at"] >= all_of_it["at"]
