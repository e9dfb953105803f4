# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that lead into machines."""

from __future__ import annotations

import shlex
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.plugin_utils._reports.access import access_lines
from ansible_collections.brine.virt.plugins.plugin_utils._reports.text import query_text

VNC = {"type": "vnc", "listen": "127.0.0.1", "port": 5900, "tls_port": None}
FORWARD = "-o ExitOnForwardFailure=yes -L 127.0.0.1:5900:127.0.0.1:5900"
VIEWER = "sleep 30 && remote-viewer vnc://127.0.0.1:5900"


def lines(variables: dict[str, t.Any] | None = None, **more: t.Any) -> dict[str, str]:
    record = {"name": "web1", "state": "running", "graphics": [VNC], "serial_console": "pty", **more}
    return dict(access_lines(record, "hv1", variables or {}))


@pytest.mark.parametrize(
    ("variables", "viewer", "console"),
    [
        (
            {},
            f"ssh -f {FORWARD} hv1 {VIEWER}",
            "ssh -t hv1 virsh -c qemu:///system console web1",
        ),
        (
            {"ansible_host": "192.0.2.11", "ansible_user": "ops", "ansible_port": 2222},
            f"ssh -f -p 2222 {FORWARD} ops@192.0.2.11 {VIEWER}",
            "ssh -t -p 2222 ops@192.0.2.11 sudo virsh console web1",
        ),
        ({"ansible_user": "root", "ansible_port": 22}, None, "ssh -t root@hv1 virsh console web1"),
        (
            {"ansible_connection": "local", "ansible_user": "root"},
            "remote-viewer vnc://127.0.0.1:5900",
            "virsh console web1",
        ),
    ],
)
def test_commands_log_in_as_ansible_does(variables: dict[str, t.Any], viewer: str | None, console: str) -> None:
    found = lines(variables)
    assert found["Console"] == console
    assert viewer is None or found["Viewer"] == viewer


@pytest.mark.parametrize(
    ("variables", "options"),
    [
        (
            {"ansible_ssh_private_key_file": "~/key", "ansible_ssh_common_args": "-J ops@jump -o 'User=a b'"},
            ["-i", "~/key", "-J", "ops@jump", "-o", "User=a b"],
        ),
        ({"ansible_private_key_file": "/k", "ansible_port": "22"}, ["-i", "/k"]),
        ({"ansible_ssh_extra_args": "-4", "ansible_ssh_common_args": None}, ["-4"]),
        # It may hold a password, and what is shown may be kept.
        ({"ansible_ssh_common_args": "-o ProxyCommand='sshpass -p hidden ssh jump'", "ansible_port": 7}, ["-p", "7"]),
        # The rest leads there all the same.
        (
            {
                "ansible_ssh_common_args": "-4 -oProxyCommand='sshpass -p hidden' -vo proxycommand=x -J a@command -C",
                "ansible_ssh_extra_args": "-o LocalCommand=id -o ControlPath=none",
            },
            ["-4", "-J", "a@command", "-C", "-o", "ControlPath=none"],
        ),
        ({"ansible_ssh_common_args": "-o 'unfinished"}, []),
    ],
)
def test_commands_have_what_ssh_needs_to_get_there(variables: dict[str, t.Any], options: list[str]) -> None:
    found = lines(variables)
    assert shlex.split(found["Console"])[: 3 + len(options)] == ["ssh", "-t", *options, "hv1"]
    assert shlex.split(found["Viewer"])[: 2 + len(options)] == ["ssh", "-f", *options]


@pytest.mark.parametrize(
    ("graphics", "viewer"),
    [
        ({**VNC, "listen": "0.0.0.0"}, "127.0.0.1:5900 hv1"),
        ({**VNC, "listen": "::1"}, "-L '127.0.0.1:5900:[::1]:5900' hv1"),
        ({"type": "spice", "listen": None, "port": None, "tls_port": 5901}, "spice://127.0.0.1?tls-port=5901"),
        ({**VNC, "port": None}, None),
        ({"type": "egl-headless"}, None),
    ],
)
def test_viewers(graphics: dict[str, t.Any], viewer: str | None) -> None:
    found = lines(graphics=[graphics])
    assert ("Viewer" in found) is (viewer is not None)
    assert viewer is None or viewer in found["Viewer"] or f"'{viewer}'" in found["Viewer"]


def test_a_name_is_a_name_for_both_shells() -> None:
    name = "a'b; $(reboot) c"
    words = shlex.split(lines({"ansible_user": "root"}, name=name)["Console"])
    assert words[:3] == ["ssh", "-t", "root@hv1"]
    # ssh joins its words with blanks, for the shell on the other side.
    assert shlex.split(" ".join(words[3:])) == ["virsh", "console", name]


def test_one_that_is_off_has_only_its_log() -> None:
    found = lines(state="shutoff", serial_log="/var/log/web1.log")
    assert found == {"Serial log": "hv1:/var/log/web1.log"}
    assert "Console" not in lines(serial_console=None)


KEYS = ["ssh-ed25519 AAAA"]
SEEN: dict[str, t.Any] = {"uuid": "u1", "host_keys": KEYS, "user": "ansible", "address": "192.0.2.17"}
CHECKED = "-o StrictHostKeyChecking=yes"


def test_a_login_whose_host_key_is_checked() -> None:
    known = "-o HostKeyAlias=virt-u1 -o 'UserKnownHostsFile=~/.ssh/known_hosts.d/brine-virt'"
    assert lines(**SEEN)["SSH"] == f"ssh {known} {CHECKED} ansible@192.0.2.17"
    assert lines({"virt_known_hosts": "/k"}, **{**SEEN, "user": None})["SSH"] == (
        f"ssh -o HostKeyAlias=virt-u1 -o UserKnownHostsFile=/k {CHECKED} 192.0.2.17"
    )
    assert lines(**{**SEEN, "user": "-oX"})["SSH"].endswith(f"{CHECKED} 192.0.2.17")


def test_a_login_as_ansible_does_it_where_the_live_inventory_lists_the_machine() -> None:
    checked = "-o HostKeyAlias=virt-u1 -o UserKnownHostsFile=/k -o StrictHostKeyChecking=yes"
    own = {
        "virt_uuid": "u1",
        "virt_hypervisor": "hv1",
        "ansible_host": "192.0.2.18",
        "ansible_user": "ops",
        "ansible_port": 2222,
        "ansible_ssh_private_key_file": "~/a key",
        # What the live inventory has put there is not said twice.
        "ansible_ssh_common_args": f"{checked} -J ops@jump -oStrictHostKeyChecking=no",
    }
    record = {"name": "web1", "state": "running", "graphics": [], "nics": [], "disks": [], **SEEN}
    settings = {"hv1": {"virt_known_hosts": "/k", "ansible_user": "root"}, "web1_hv1": own}
    last = query_text({"hv1": [record]}, settings).splitlines()[-1]
    assert last == f"  SSH: ssh {checked} -i '~/a key' -p 2222 -J ops@jump ops@192.0.2.18"
    other = query_text({"hv1": [{**record, "uuid": "u2"}]}, settings)
    assert other.endswith(f"-o HostKeyAlias=virt-u2 -o UserKnownHostsFile=/k {CHECKED} ansible@192.0.2.17")


@pytest.mark.parametrize(
    "other",
    [{"state": "shutoff"}, {"host_keys": []}, {"address": None}, {"building": True}, {"address": "fe80::1%$(id)"}],
)
def test_there_is_none_where_nobody_would_answer_or_be_known(other: dict[str, t.Any]) -> None:
    assert "SSH" not in lines(**{**SEEN, **other})
