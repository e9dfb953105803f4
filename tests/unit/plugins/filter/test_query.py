# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of queries, lists and capacities."""

from __future__ import annotations

import re
import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter.query import FilterModule
from ansible_collections.brine.virt.plugins.plugin_utils._reports.text import tree_text

FILTERS = FilterModule().filters()
GIB = 1024**3

CENTOS: dict[str, t.Any] = {
    "name": "centos",
    "vcpus": 2,
    "memory_mib": 512,
    "state": "running",
    "graphics": [{"type": "vnc", "listen": "127.0.0.1", "port": 5900, "tls_port": None}],
    "disks": [
        {
            "target": "vda",
            "size_bytes": 2 * GIB,
            "source": "/srv/salt-images/ubuntu2/system.qcow2",
            "format": "qcow2",
        }
    ],
    "nics": [{"mac": "ac:de:48:98:08:77", "source": "br0", "type": "bridge"}],
    "errors": [],
}
STOPPED: dict[str, t.Any] = {
    "name": "old",
    "vcpus": 1,
    "memory_mib": 1024,
    "state": "shutoff",
    "graphics": [{"type": "vnc", "listen": None, "port": None, "tls_port": None}],
    "disks": [{"target": "sda", "size_bytes": None, "source": None, "format": None}],
    "nics": [{"mac": "52:54:00:00:00:01", "source": None, "type": "user"}],
    "errors": ["disk sda: nobody knows"],
}
SEED_LAYOUT = """\
centos
  CPU: 2
  Memory: 524288
  State: running
  Graphics: vnc - hyper6:5900
  Disk - vda:
    Size: 2.0G
    File: /srv/salt-images/ubuntu2/system.qcow2
    File Format: qcow2
  Nic - ac:de:48:98:08:77:
    Source: br0
    Type: bridge"""
FORWARD = "-o ExitOnForwardFailure=yes -L 127.0.0.1:5900:127.0.0.1:5900"
VIEWER = f"ssh -f {FORWARD} hyper6 sleep 30 && remote-viewer vnc://127.0.0.1:5900"
MORE_OF_IT: dict[str, t.Any] = {
    **CENTOS,
    "disks": [{**CENTOS["disks"][0], "guest_path": "/dev/disk/by-id/virtio-system"}, {"target": "sdb"}],
    "addresses": ["192.0.2.17", "2001:db8::17"],
    "tags": ["web", "front end"],
    "image": {"name": "centos", "volume": "centos-0123456789abcdef.qcow2", "pool": "images"},
    "pending": ["memory", "disks.data"],
}


def test_the_layout_is_that_of_the_seed() -> None:
    assert FILTERS["query"]({"hyper6": [CENTOS]}) == f"{SEED_LAYOUT}\n  Hypervisor: hyper6\n  Viewer: {VIEWER}"


def test_what_the_seed_did_not_say_stands_after_its_lines() -> None:
    text = FILTERS["query"]({"hyper6": [MORE_OF_IT]})
    assert text.startswith(SEED_LAYOUT.partition("  Nic")[0])
    assert text.partition("    Type: bridge\n")[2].splitlines() == [
        "  Hypervisor: hyper6",
        "  Addresses: 192.0.2.17, 2001:db8::17",
        "  Tags: web, front end",
        "  Image: centos (centos-0123456789abcdef.qcow2)",
        "  In the guest - vda: /dev/disk/by-id/virtio-system",
        f"  Viewer: {VIEWER}",
        "  Pending until power off and on (a reboot in the guest is not enough): memory, disks.data",
    ]


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        ({"order": 0, "delay_seconds": 0}, ["  Start order: 0"]),
        ({"order": 10, "delay_seconds": 30}, ["  Start order: 10, 30 s before the next ones"]),
        ({"order": None, "delay_seconds": 30}, []),
    ],
)
def test_the_start_order_is_said_where_there_is_one(turn: dict[str, t.Any], words: list[str]) -> None:
    text = FILTERS["query"]({"hyper6": [{**CENTOS, **turn}]})
    assert [line for line in text.splitlines() if "Start order" in line] == words


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"firmware": "bios", "secure_boot": False, "tpm": None}, []),
        ({"firmware": "efi", "secure_boot": False}, ["  Firmware: UEFI"]),
        (
            {"firmware": "efi", "secure_boot": True, "tpm": {"model": "tpm-crb", "version": "2.0"}},
            ["  Firmware: UEFI with secure boot", "  TPM: tpm-crb 2.0"],
        ),
        ({"tpm": {"model": "tpm-tis", "version": None}}, ["  TPM: tpm-tis"]),
    ],
)
def test_uefi_and_tpm_are_said_where_there_are_any(more: dict[str, t.Any], words: list[str]) -> None:
    text = FILTERS["query"]({"hyper6": [{**CENTOS, **more}]})
    assert [line for line in text.splitlines() if "Firmware" in line or "TPM" in line] == words


def test_what_was_only_announced_is_not_said_to_be_done() -> None:
    """An image that cannot be stored keeps the machines of its hypervisor from being made; they were checked before."""
    new = {"name": "web1", "changed": True, "created": True, "failed": False, "actions": [], "machine": None}
    quiet = {**new, "name": "db1", "changed": False, "created": False}
    made = {"hv1": {"checked": True, "machines": [new, quiet]}, "hv2": {"failed": True, "msg": "no"}, "hv3": {}}
    plan = {"by_host": {"hv1": ["web1", "db1"], "hv2": ["web2"], "hv3": []}}
    lines = [" ".join(line.split()) for line in FILTERS["changes"](made, plan).splitlines()[1:]]
    assert lines == [
        "web1 hv1 not done - - an earlier task has failed there, see above",
        "web2 hv2 not done - - an earlier task has failed there, see above",
        "1 other machine is already up to date.",
    ]
    checked = FILTERS["changes"]({"hv1": made["hv1"]}, plan, check=True)
    assert "to be created" in checked and "not done" not in checked


def test_changes_are_said_with_what_waits_for_power_off_and_on() -> None:
    quiet = {"name": "old", "changed": False, "created": False, "actions": [], "pending": [], "outdated": ["image"]}
    new = {**quiet, "name": "web1", "changed": True, "created": True, "actions": ["define machine web1"]}
    changed = {
        **quiet,
        "name": "web2",
        "changed": True,
        "actions": ["change the definition of web2: memory", "write the metadata of web2"],
        "pending": ["memory"],
        "outdated": ["image", "seed"],
    }
    waits = {**quiet, "name": "web3", "pending": ["vcpus"], "outdated": []}
    pending = "pending until power off and on (a reboot in the guest is not enough)"
    text = FILTERS["changes"]({"hv1": {"machines": [quiet, {**new, "outdated": [], "seconds": 2.06}, changed, waits]}})
    assert text.splitlines() == [
        "MACHINE  ON   RESULT     ADDRESS  SECONDS  WHAT",
        "web1     hv1  created    -            2.1  -",
        f"web2     hv1  changed    -              -  change the definition of web2: memory; {pending}: memory;"
        " stays as it was created: image, seed (seed_policy: refresh gives it the new one)",
        f"web3     hv1  unchanged  -              -  {pending}: vcpus",
        "1 other machine is already up to date.",
        "Still as created, not as asked for now: old (image).",
    ]


def test_machines_that_stay_as_they_were_created_are_named_though_nothing_changes() -> None:
    # As after a new version of an image, or a misspelt one: nothing else would say that the entry has no effect.
    quiet = {"name": "web", "changed": False, "created": False, "actions": [], "pending": [], "outdated": ["image"]}
    text = FILTERS["changes"]({"hv1": {"machines": [quiet, {**quiet, "name": "db", "outdated": []}]}})
    assert text.splitlines() == [
        "2 machines are already up to date.",
        "Still as created, not as asked for now: web (image).",
    ]
    many = [{**quiet, "name": f"web{number}", "outdated": ["image", "seed"]} for number in range(12)]
    *_count, line = FILTERS["changes"]({"hv1": {"machines": many}, "hv2": {"skipped": True}}).splitlines()
    assert line.startswith("Still as created, not as asked for now: web0 (image, seed), web1 (image, seed), ")
    assert line.endswith("web9 (image, seed), 2 more.")


def test_a_change_of_notes_alone_is_said() -> None:
    machine = {"name": "web1", "changed": True, "actions": ["write the metadata of web1"]}
    assert FILTERS["changes"]({"hv1": {"machines": [machine]}}).endswith("  write the metadata of web1")


def test_a_whole_run_is_one_table() -> None:
    same = {"name": "old", "changed": False, "created": False, "actions": []}
    made = {
        "hv1": {
            "machines": [
                {**same, "seconds": 0.1},
                {**same, "name": "web1", "changed": True, "created": True, "seconds": 1.5},
                {**same, "name": "late", "changed": True, "actions": ["start late"], "seconds": 1.0},
                {**same, "name": "bad", "failed": True, "msg": "there is no pool 'x'"},
            ]
        }
    }
    waited = {
        "hv1": {
            "machines": [
                {"name": "old", "ready": True, "waited_seconds": 0.2},
                {"name": "web1", "ready": True, "waited_seconds": 40.25, "address": "192.0.2.17"},
                {"name": "late", "ready": False, "waited_seconds": 600.0, "seen": "no address"},
            ]
        },
        "hv2": {"skipped": True},
    }
    removed = {
        "hv2": {
            "machines": [
                {"name": "gone", "changed": True, "failed": False},
                {"name": "kept", "changed": False, "failed": True, "msg": "it is running"},
            ]
        }
    }
    plan = {"refused_machines": [{"name": "away", "hypervisor": None, "why": "it may be on hv3"}]}
    assert FILTERS["changes"](made, plan, waited, removed).splitlines() == [
        "MACHINE  ON   RESULT         ADDRESS     SECONDS  WHAT",
        "gone     hv2  removed        -                 -  -",
        "kept     hv2  not removed    -                 -  it is running",
        "web1     hv1  created        192.0.2.17     41.8  -",
        "late     hv1  not reachable  -             601.0  start late; no address",
        "bad      hv1  failed         -                 -  there is no pool 'x'",
        "away     -    left out       -                 -  it may be on hv3",
        "1 other machine is already up to date.",
    ]
    announced = FILTERS["changes"](made, removed=removed, check=True)
    for row in (
        r"gone +hv2 +to be removed",
        r"web1 +hv1 +to be created",
        r"late +hv1 +to be changed",
        r"bad +hv1 +failed",
    ):
        assert re.search(f"^{row} ", announced, re.MULTILINE), announced


@pytest.mark.parametrize(
    ("machine", "waited", "address"),
    [
        ({"state": "running", "address": "192.0.2.1"}, None, "192.0.2.1"),
        # The wait has looked later.
        ({"state": "running", "address": "192.0.2.1"}, {"ready": True, "address": "192.0.2.2"}, "192.0.2.2"),
        ({"state": "running", "address": "192.0.2.1"}, {"ready": True, "address": None}, "192.0.2.1"),
        ({"state": "running", "address": None}, None, "-"),
        # Its seed gave it an address, at which nobody answers now.
        ({"state": "shutoff", "address": "192.0.2.1"}, None, "-"),
        # In check mode there is no record of a new machine, and nobody was waited for.
        (None, None, "-"),
    ],
)
def test_the_address_is_the_last_that_was_seen(
    machine: dict[str, t.Any] | None, waited: dict[str, t.Any] | None, address: str
) -> None:
    one = {"name": "web1", "changed": True, "actions": ["start web1"], **({"machine": machine} if machine else {})}
    late = {"hv1": {"machines": [{"name": "web1", **waited}]}} if waited else None
    for check in (False, True):
        heading, row = FILTERS["changes"]({"hv1": {"machines": [one]}}, waited=late, check=check).splitlines()
        assert row[heading.index("ADDRESS") :].split()[0] == address


def test_a_machine_that_does_not_answer_is_not_as_it_is_to_be() -> None:
    made = {"hv1": {"machines": [{"name": "web1", "seconds": 0.1}, {"name": "web2", "seconds": 0.1}]}}
    lines = FILTERS["changes"](made, silent={"hv1": {"web1": "Permission denied"}}).splitlines()
    assert lines[1].split() == ["web1", "hv1", "not", "reachable", "-", "0.1", "unchanged;", "Permission", "denied"]
    assert lines[2:] == ["1 other machine is already up to date."]
    with pytest.raises(AnsibleFilterError, match="the silent is not a mapping"):
        FILTERS["changes"](made, silent=["web1"])


def test_what_is_not_known_is_left_out() -> None:
    assert FILTERS["query"]({"hyper6": [STOPPED]}) == (
        "old\n  CPU: 1\n  Memory: 1048576\n  State: shutoff\n  Disk - sda:\n"
        "  Nic - 52:54:00:00:00:01:\n    Type: user\n  Hypervisor: hyper6\n  Error: disk sda: nobody knows"
    )


def test_hypervisors_stand_in_their_order_and_the_silent_ones_are_named() -> None:
    text = FILTERS["query"](
        {
            "hv2": {"machines": [STOPPED], "changed": False},
            "hv3": {"unreachable": True, "msg": "Connection timed out\nreally"},
            "hv1": {"machines": [CENTOS], "changed": False},
            "hv4": {"failed": True, "msg": "cannot connect to qemu:///system: no"},
            "hv5": {"failed": True, "msg": "Task failed: Missing sudo password"},
        }
    )
    assert [line for line in text.splitlines() if not line.startswith(" ")] == [
        "old",
        "centos",
        "hv3: did not answer: Connection timed out really",
        "hv4: did not answer: cannot connect to qemu:///system: no",
        "hv5: sudo asks for a password there: add --ask-become-pass (-K), or log in as root",
    ]


def test_machines_of_one_name_are_told_apart() -> None:
    text = FILTERS["query"]({"hv1": [CENTOS], "hv2": [CENTOS]})
    assert [line for line in text.splitlines() if "Hypervisor" in line] == ["  Hypervisor: hv1", "  Hypervisor: hv2"]


def test_text_of_machines_cannot_draw_on_the_terminal() -> None:
    text = FILTERS["query"]({"hv1": [{"name": "x\x1b[2J\ny", "state": "running", "vcpus": 1}]})
    assert text == "x [2J y\n  CPU: 1\n  State: running\n  Hypervisor: hv1"


def test_more_of_a_machine_that_runs() -> None:
    record: dict[str, t.Any] = {
        **CENTOS,
        "disks": [{**CENTOS["disks"][0], "backing_chain": [{"source": "/a", "format": "qcow2"}, {"source": "/b"}]}],
        "os": {"id": "debian", "name": "Debian \x1b[31m12", "version": "12", "kernel": "6.1"},
        "uptime_seconds": 93784,
        "snapshots": [{"name": "one", "current": False}, {"name": "two", "current": True}],
        "jobs": [
            {"type": "backup", "disk": None, "percent": 48, "elapsed_seconds": 12},
            {"type": "copy", "disk": "vda", "percent": None, "elapsed_seconds": None},
        ],
        "serial_console": "pty",
        "serial_log": "/var/log/libvirt/qemu/centos-serial.log",
    }
    text = FILTERS["query"]({"hyper6": [record]}, {"hyper6": {"ansible_host": "192.0.2.6", "ansible_user": "root"}})
    assert text.partition("  Hypervisor: hyper6\n")[2].splitlines() == [
        "  Operating system: Debian  [31m12",
        "  Up: 1 day, 2:03:04",
        "  Backed by - vda: /a, /b",
        "  Snapshots: one, two (current)",
        "  Job: backup, 48%, for 12 s",
        "  Job: copy of vda",
        f"  Viewer: ssh -f {FORWARD} root@192.0.2.6 sleep 30 && remote-viewer vnc://127.0.0.1:5900",
        "  Console: ssh -t root@192.0.2.6 virsh console centos",
        "  Serial log: hyper6:/var/log/libvirt/qemu/centos-serial.log",
    ]


@pytest.mark.parametrize(
    ("state", "move", "words"),
    [
        ("running", {"source": "a", "target": "b"}, "running, being moved from a to b"),
        ("shutoff", {"source": "a", "target": "a"}, "shutoff, having its disks moved"),
        ("running", {"source": "a", "target": "b\x1b[2J"}, "running, being moved from a to b [2J"),
        ("running", None, "running"),
    ],
)
def test_a_machine_on_its_way_is_shown_as_one(state: str, move: dict[str, str] | None, words: str) -> None:
    record = {"name": "db1", "state": state, "moving": move}
    text = FILTERS["query"]({"hv1": [record]})
    assert text.splitlines()[:2] == ["db1", f"  State: {words}"]
    assert [line.split()[1:3] for line in table({"hv1": {"machines": [record]}})[1:]] == [
        [f"{state},", "moving"] if move else [state, "hv1"]
    ]


HALF: dict[str, t.Any] = {"name": "half", "state": "shutoff", "building": True}
CLAIM: dict[str, t.Any] = {**HALF, "name": "web1", "claimed": True}
UNFINISHED = "unfinished: a run is creating it, or was interrupted; run provision again to finish it"


def table(results: dict[str, t.Any]) -> list[str]:
    """The lines of the playbook list."""
    text: str = FILTERS["machines_table"](FILTERS["machines_data"](results))
    return text.splitlines()


def test_an_unfinished_machine_is_shown_as_one() -> None:
    started = {**HALF, "name": "up", "state": "running"}
    results: dict[str, t.Any] = {"hv1": {"machines": [STOPPED, HALF, CLAIM, started]}}
    lines = table(results)
    states = {line.split()[0]: line.split()[1] for line in lines[1:5]}
    assert states == {"half": "unfinished", "old": "shutoff", "up": "unfinished", "web1": "unfinished"}
    assert lines[5:-1] == [
        f"half on hv1 is {UNFINISHED}",
        "up on hv1 is unfinished: a run was interrupted, but it is running now; "
        "run provision again to see how to keep it",
        f"web1 on hv1 is {UNFINISHED}",
    ]
    text = FILTERS["query"](results)
    assert f"half\n  State: shutoff, {UNFINISHED}\n  Hypervisor: hv1" in text
    assert "old\n  CPU: 1\n  Memory: 1048576\n  State: shutoff\n" in text


def test_a_machine_on_two_hypervisors_is_remarked_on() -> None:
    moving = {"name": "db1", "state": "running", "moving": {"source": "a", "target": "b"}}
    results: dict[str, t.Any] = {
        "hv1": {"machines": [CENTOS, CLAIM, moving, STOPPED]},
        "hv2": {"machines": [CENTOS, {**CLAIM, "claimed": False, "building": False}, {**moving, "moving": None}]},
        "hv3": {"failed": True, "msg": "no"},
    }
    assert table(results)[8:-2] == [
        f"web1 on hv1 is {UNFINISHED}",
        "There is a machine centos on each of hv1, hv2: the live inventory lists them as centos_hv1, centos_hv2",
        "There is a machine db1 on each of hv1, hv2: it is being moved, or a move was interrupted; "
        "run migrate again to finish it",
    ]
    assert "There is" not in "".join(table({"hv1": {"machines": [CENTOS]}, "hv2": {"machines": [STOPPED]}}))


def test_no_machines_are_said_as_in_a_list() -> None:
    assert FILTERS["query"]({"hv1": {"machines": []}, "hv2": {"failed": True, "msg": "no"}}) == (
        "hv1: none\nhv2: did not answer: no"
    )
    assert table({"hv1": {"machines": []}, "hv2": {"failed": True, "msg": "no"}}) == [
        "No machines found on hv1.",
        "hv2: did not answer: no",
    ]
    assert FILTERS["query"]({"hv1": [], "hyper6": [CENTOS]}).startswith("centos\n")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, ""),
        ({"hv1": {"running": ["a", "b"]}, "hv2": {}}, "hv1:\n  running:\n    a\n    b\nhv2: none"),
        (["a", 1], "a\n1"),
        ({"dhcp": [{"start": "a", "end": ["b", "c"]}, {}]}, "dhcp:\n  start: a, end: b, c\n  "),
        ("a\nb", "a b"),
    ],
)
def test_trees(value: t.Any, text: str) -> None:
    assert tree_text(value) == text


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("query", [CENTOS], "brine.virt.query: the input is not a mapping. Give the registered results"),
        ("machines_data", {"hv1": "x"}, "brine.virt.machines_data: hv1: this is not a list of machines. Give what"),
        ("machines_table", {"hv1": []}, "brine.virt.machines_table: the input is not a list of machines. Give what"),
        ("hypervisors_data", {"hv1": {"host": {}}}, "brine.virt.hypervisors_data: hv1: these are not the facts of a"),
        (
            "hypervisors_data",
            {"hv1": {"host": {"memory": {"total_mib": 1}, "vcpus": {"total": 1}, "pools": []}}},
            "brine.virt.hypervisors_data: hv1: these are not the facts of a hypervisor. Give what virt_host_info "
            "returned, with machines and pools in its gather_subset",
        ),
        ("hypervisors_table", [], "brine.virt.hypervisors_table: the input is not a list of hypervisors. Give what"),
        ("query", {"hv1": [{"uuid": 1}]}, "brine.virt.query: hv1: this is not a list of machines"),
    ],
)
def test_wrong_input_is_one_sentence(name: str, value: t.Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        FILTERS[name](value)
    assert str(caught.value).startswith(message)
