# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No secret stands in what Ansible prints or logs, however talkative it is.

The modules run as tasks, each as a process of its own, on libvirt's test driver, by the ansible-core that runs these
tests. What they log goes to a journal of the test (fixtures/journal).
"""

from __future__ import annotations

import base64
import functools
import html
import json
import os
import re
import subprocess
import sys
import typing as t
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

import pytest

# Each starts whole runs of Ansible.
pytestmark = pytest.mark.slow
SLICE = 12
PLAYBOOK = "import sys; from ansible.cli.playbook import main; main(['ansible-playbook', *sys.argv[1:]])"
PRIVATE_KEY = "\n".join(
    [
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        *(f"b3BlbnNzaCanary{n}Line" + "Qx/+7" * 9 for n in range(3)),
        "AAAAcanaryEnd=",
    ]
    + ["-----END OPENSSH PRIVATE KEY-----"]
)
CANARIES = {
    "a console's password": "c\"4\\<y'&",
    "a hash": "$6$canarysalt$" + "hAsh/." * 14 + "hA",
    "a private key": PRIVATE_KEY,
    "a secret file": 'first "quoted" canary line\n\tsecond \\ back\\slash canary\nthird <canary> & Ünïcödé line\n',
    "a file in base64": base64.b64encode(b"binary canary of a file\nwith a second canary line\n").decode(),
    "a password in user_data": "plain text canary päss",
    "a password in a text": "scripted-canary-password",
    "a password of chpasswd": "chpasswd:canary:pässword",
    "a wifi key": "wireless canary 'psk'",
    "a password in xml": "x<canary",
    "a password in a URL": "url-canary-p%40ss",
    "a token": "query-canary-token-9876543210",
    "a passphrase": "a canary phrase of nightingales",
    "a misplaced secret": "misplaced canary secret",
}
SEED = {
    "method": "nocloud",
    "password_hash": CANARIES["a hash"],
    "users": [{"name": "ops", "password_hash": CANARIES["a hash"]}],
    "files": [
        {"path": "/etc/secret", "content": CANARIES["a secret file"], "secret": True},
        {"path": "/etc/base64", "content": CANARIES["a file in base64"], "encoding": "base64", "secret": True},
        {"path": "/etc/key", "content": f"# mine\n{PRIVATE_KEY}\n"},
    ],
    "network": {"version": 2, "wifis": {"w0": {"access-points": {"a": {"password": CANARIES["a wifi key"]}}}}},
}
USER_DATA = {
    "password": CANARIES["a password in user_data"],
    "chpasswd": {"list": f"root:{CANARIES['a password of chpasswd']}\nops:random\n"},
    "ssh_keys": {"rsa_private": PRIVATE_KEY},
}
SCRIPT = f"#!/bin/sh\nmysql -p{CANARIES['a password in a text']}\ncat <<E\n{PRIVATE_KEY}\nE\n"
MACHINE = {"vcpus": 1, "memory": 128, "disk_profile": "none", "nic_profile": "none", "start": False}
CONSOLE = {"type": "vnc", "password": CANARIES["a console's password"]}
XML = f"<devices><graphics type='vnc' passwd=\"{html.escape(CANARIES['a password in xml'])}\"/></devices>"
URL = f"http://me:{CANARIES['a password in a URL']}@127.0.0.1:1/image.qcow2?name=x&token={CANARIES['a token']}"
CDROM = {"device": "cdrom", "source": URL}


def spellings(secret: str) -> set[str]:
    """What a secret may look like in a text. Not by the collection's own means, which are what is tested."""
    whole = {secret, urllib.parse.unquote(secret)}
    if re.fullmatch(r"[A-Za-z0-9+/]{24,}={0,2}", secret):
        whole.add(base64.b64decode(secret).decode())
    return whole | {
        spelling
        for text in whole
        for spelling in (
            json.dumps(text)[1:-1],
            json.dumps(text, ensure_ascii=False)[1:-1],
            json.dumps(json.dumps(text))[1:-1],
            repr(text)[1:-1],
            html.escape(text),
            html.escape(text, quote=False),
            urllib.parse.quote(text),
            base64.b64encode(text.encode()).decode().rstrip("="),
        )
    }


@functools.cache
def pieces(secret: str) -> set[str]:
    """What of a secret must not be found: all of a short one, any twelve characters of a long one."""
    found = set()
    for text in spellings(secret):
        for line in re.split(r"\n|\\n", text):
            if "PRIVATE KEY" in line or len(line.strip()) < min(SLICE, len(secret)):
                continue
            length = min(SLICE, len(line))
            found |= {line[start : start + length] for start in range(len(line) - length + 1)}
    return {piece for piece in found if len(piece.strip()) > 3}


def leaks(text: str) -> list[str]:
    """Which secrets stand in a text, with what gives them away."""
    return [
        f"{name}: {text[max(0, place - 60) : place + 40]!r}"
        for name, secret in CANARIES.items()
        for place in [next((text.find(piece) for piece in pieces(secret) if piece in text), -1)]
        if place >= 0
    ]


@dataclass(frozen=True)
class Run:
    """What a playbook printed, and what its modules logged."""

    output: str
    journal: str


@pytest.fixture
def run(tmp_path: Path, fixtures: Path, other_process: dict[str, str]) -> t.Callable[..., Run]:
    """Run tasks on this host, as talkative as can be; each may fail."""
    (tmp_path / "store").mkdir()
    node = (fixtures / "node.xml").read_text().replace("/var/lib/libvirt/brine", str(tmp_path / "store"))
    (tmp_path / "node.xml").write_text(node)

    def run(tasks: list[dict[str, t.Any]], *options: str, **variables: t.Any) -> Run:
        play = {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "module_defaults": {"group/brine.virt.virt": {"uri": f"test://{tmp_path}/node.xml"}},
            "vars": {"ansible_python_interpreter": sys.executable, **variables},
            "tasks": [{**task, "ignore_errors": True} for task in tasks],
        }
        (tmp_path / "play.yml").write_text(json.dumps([play]))
        environment = {
            **other_process,
            "PYTHONPATH": f"{fixtures / 'journal'}{os.pathsep}{other_process['PYTHONPATH']}",
            "ANSIBLE_COLLECTIONS_PATH": other_process["PYTHONPATH"].split(os.pathsep)[0],
            "ANSIBLE_HOME": str(tmp_path / "ansible"),
            "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local"),
            "ANSIBLE_REMOTE_TMP": str(tmp_path / "remote"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_DISPLAY_TRACEBACK": "always",
            "ANSIBLE_INJECT_INVOCATION": "1",
            "ANSIBLE_PIPELINING": "1",
            "BRINE_JOURNAL": str(tmp_path / "journal"),
        }
        (tmp_path / "journal").write_text("")
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                PLAYBOOK,
                "-i",
                "localhost,",
                "-vvvvv",
                "--diff",
                *options,
                str(tmp_path / "play.yml"),
            ],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        output = done.stdout + done.stderr
        assert "PLAY RECAP" in output, output
        return Run(output, (tmp_path / "journal").read_text())

    return run


def init(**options: t.Any) -> dict[str, t.Any]:
    """A task."""
    return {"name": f"Task {json.dumps(sorted(options))}", "brine.virt.virt_init": {**MACHINE, **options}}


def profile(**options: t.Any) -> dict[str, t.Any]:
    """A task."""
    return {"brine.virt.virt_profile_info": {"name": "web1", "nic_profile": "none", **options}}


def image(**options: t.Any) -> dict[str, t.Any]:
    """A task."""
    return {"brine.virt.virt_image": {"name": "fresh", **options}}


# What goes well in check mode, and comes to its end or to an error of the test driver in the real run.
GOOD = [
    init(name="console", graphics=CONSOLE, seed={"method": "none"}),
    init(name="fragment", xml=XML, seed={"method": "none"}),
    init(
        name="data",
        seed={**SEED, "user_data": USER_DATA, "run_commands": [f"echo {CANARIES['a password in user_data']} | wc"]},
    ),
    {
        "brine.virt.virt_init": {
            "machines": [{"name": "text", **MACHINE, "graphics": CONSOLE, "seed": {"user_data": SCRIPT}}],
            "seed": SEED,
        }
    },
    image(url=URL, checksum=f"sha256:{'0' * 64}"),
    profile(image=URL, disk_profiles={"default": [{"system": {"size": 8192}}, {"iso": CDROM}]}),
]
BAD = [
    init(name="unsupported", graphics=CONSOLE, seed=SEED, no_such_option=1),
    init(name="typo", seed={**SEED, "no_such_key": 1}, graphics=CONSOLE),
    init(name="console", graphics={"type": "vnc", "password": {"here": CANARIES["a misplaced secret"]}}),
    init(name="console", graphics={"type": "vnc", "password": CANARIES["a misplaced secret"]}),
    init(name="key", seed={"authorized_keys": [PRIVATE_KEY]}),
    init(name="json", graphics=json.dumps({"type": "vcn", "password": CANARIES["a misplaced secret"]})),
    init(name="yaml", seed=f"{{user: bob, password_hash: {CANARIES['a hash']}}}"),
    init(name="stray", password=CANARIES["a misplaced secret"]),
    image(url=URL.replace("=x&", "= &"), checksum=f"sha256:{'0' * 64}"),
    image(url=URL, checksum=URL.replace("image.qcow2", "SHA256SUMS")),
    image(url=URL.replace("http:", "ftp:"), checksum=URL.replace("http:", "ftp:")),
    image(url=URL, checksum=f"sha256:{'0' * 64}", no_such_option=1),
    profile(disks=[{**CDROM, "name": "iso", "no_such_key": 1}]),
    profile(disk_profiles={"default": [{"iso": URL}]}),
    profile(image=URL, password=CANARIES["a misplaced secret"]),
]


@pytest.mark.parametrize("options", [(), ("--check",)], ids=["real", "check"])
def test_no_secret_is_printed_or_logged(run: t.Callable[..., Run], options: tuple[str, ...]) -> None:
    done = run(GOOD, *options)
    assert leaks(done.output) == []
    assert leaks(done.journal) == []
    # It is really there, where it should be: the words around the secrets are.
    assert "define machine console" in done.output
    assert "'name': 'ops'" in done.journal
    assert "http://me:********@127.0.0.1:1/image.qcow2?name=********&token=********" in done.output
    assert "module_args" in done.output
    assert '"source": "http://me:********@127.0.0.1:1/image.qcow2?name=********&token=********"' in done.output
    assert len(done.journal.splitlines()) == len(GOOD)


def test_no_secret_stands_in_an_error(run: t.Callable[..., Run]) -> None:
    done = run(BAD)
    assert leaks(done.output) == []
    assert leaks(done.journal) == []
    for words in (
        "Unsupported parameters for (brine.virt.virt_init) module: no_such_option",
        "seed: unknown option 'no_such_key'",
        "seed: a text that begins with { is not a mapping of options",
        "graphics.password: a mapping is not a string",
        "graphics.password: the password is too long",
        "seed.authorized_keys[0]: this is a private key",
        "'ftp://me:********@127.0.0.1:1/image.qcow2?name=********&token=********' is not an address to download from",
        "cannot download http://me:********@127.0.0.1:1/SHA256SUMS?name=********&token=********",
    ):
        assert words in done.output.replace('\\"', '"').replace("\\n", "\n"), words


def test_the_role_prints_no_secret(run: t.Callable[..., Run]) -> None:
    machines = [{"name": "placed", **MACHINE, "graphics": CONSOLE, "seed": {"user_data": USER_DATA}}]
    role = {"ansible.builtin.include_role": {"name": "brine.virt.virt_provision"}}
    settings = {"virt_hypervisors": "all", "virt_seed": SEED, "virt_provision_wait": False}
    done = run([role], virt_vms=machines, **settings)
    assert leaks(done.output) == []
    assert leaks(done.journal) == []
    assert "placed goes to localhost" in done.output
    assert "cannot" in done.output or "upload" in done.output
    # What is wrong with a machine is found out on the controller.
    wrong = [{**machines[0], "graphics": {"type": "vnc", "password": [CANARIES["a misplaced secret"]]}}]
    done = run([role], virt_vms=wrong, **settings)
    assert leaks(done.output) == []
    assert "virt_vms[0].graphics.password: a list is not a string" in done.output
    # A URL on the command line names the image; the token does not belong to the name.
    one = {"vm": "one", "vcpus": 1, "memory": 128, "image": URL, "checksum": f"sha256:{'0' * 64}"}
    done = run([role], **one, **settings)
    assert leaks(done.output) == []
    assert leaks(done.journal) == []
    assert "cannot download http://me:********@127.0.0.1:1/image.qcow2" in done.output


def test_the_passphrase_of_the_authority_stays_where_it_is(run: t.Callable[..., Run], tmp_path: Path) -> None:
    keys = {
        "kinds": ["client"],
        "name": "me",
        "folder": str(tmp_path / "keys"),
        "authority": str(tmp_path / "authority"),
        "authority_passphrase": CANARIES["a passphrase"],
    }
    wrong = {**keys, "authority_passphrase": "canary phrase of nobody"}
    tasks = [{"brine.virt.virt_keys": args} for args in (keys, wrong, {**keys, "no_such_option": 1})]
    done = run(tasks)
    assert leaks(done.output) == []
    assert leaks(done.journal) == []
    assert "failed=0" in done.output and "passphrase" in done.output
