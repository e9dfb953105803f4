# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machine is cloned where: what is found, and what is refused."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.filter import purges
from ansible_collections.brine.virt.plugins.plugin_utils._cloning.plan import plan_clone

CLONE_PLAN: t.Callable[..., dict[str, t.Any]] = purges.FilterModule().filters()["clone_plan"]
OFF = {"name": "web1", "state": "shutoff", "saved": False, "building": False}
OTHER = {**OFF, "name": "db1", "state": "running"}
ENTRY = {"name": "web1", "vcpus": 1, "memory": 512, "disks": [{"name": "system", "size": "8MiB"}], "nics": []}
EXPORTS = {"hv1": {"machines": [{"name": "web1", "entry": ENTRY, "not_exported": ["x"]}]}, "hv2": {"machines": []}}
SILENT = {"unreachable": True, "msg": "no route"}


def found(*of_hv1: dict[str, t.Any], hv2: t.Any = ()) -> dict[str, t.Any]:
    return {"hv1": {"machines": list(of_hv1)}, "hv2": hv2 if isinstance(hv2, dict) else {"machines": list(hv2)}}


def test_one_that_is_off() -> None:
    plan = CLONE_PLAN(found(OFF, hv2=[OTHER]), EXPORTS, "web1", "web2", errors="return")
    assert plan == {
        "hypervisor": "hv1",
        "entry": {
            **{"name": "web2", "hypervisor": "hv1", "vcpus": 1, "memory": 512, "nics": []},
            "disks": [{"name": "system", "size": "8MiB", "image": "clone-of-web1-system"}],
        },
        "images": {"clone-of-web1-system": {"machine": "web1", "disk": "system"}},
        "text": "web2 is cloned from web1 on hv1:\n  disk system: image clone-of-web1-system\n  not taken along: x",
        "errors": [],
    }
    assert list(plan["entry"])[:2] == ["name", "hypervisor"]


def test_what_a_hypervisor_says_of_a_machine_is_made_there() -> None:
    entry = {**ENTRY, "hypervisor": "hv2", "name": "web9"}
    exports = {**EXPORTS, "hv1": {"machines": [{"name": "web1", "entry": entry}]}}
    made = plan_clone(found(OFF), exports, "web1", "web2")["entry"]
    assert (made["name"], made["hypervisor"]) == ("web2", "hv1")


def test_a_clone_that_an_interrupted_run_has_begun_is_finished() -> None:
    half = {**OFF, "name": "web2", "building": True}
    assert plan_clone(found(OFF, half), EXPORTS, "web1", "web2")["hypervisor"] == "hv1"
    errors = CLONE_PLAN(found(OFF, hv2=[half]), EXPORTS, "web1", "web2", errors="return")["errors"]
    assert errors[0].startswith("new_name: there is a machine 'web2' on hv2 already.")


@pytest.mark.parametrize(
    ("method", "seed"),
    [
        ("guestfs", {"seed": {"method": "guestfs"}}),
        ("nocloud", {"seed": {"method": "nocloud"}}),
        ("other", {}),
        (None, {}),
    ],
)
def test_a_guest_is_seeded_in_the_way_that_it_was(method: str | None, seed: dict[str, t.Any]) -> None:
    """virt-sysprep takes out the SSH host keys and those of users. Without cloud-init nothing in the guest would read
    other ones, and where virt_seed is false for all but single machines there would be none."""
    record = {**OFF, "seed": None if method is None else {"method": method, "sha256": "0" * 64, "user": "ansible"}}
    entry = plan_clone(found(record), EXPORTS, "web1", "web2")["entry"]
    assert {key: value for key, value in entry.items() if key == "seed"} == seed


@pytest.mark.parametrize(
    ("results", "new_name", "sentence"),
    [
        (found(OTHER), "web2", "vm: there is no machine 'web1' on hv1, hv2. Known: db1"),
        (found({**OFF, "name": "web10"}), "web2", "vm: there is no machine 'web1' on hv1, hv2. Did you mean web10?"),
        (found(OFF, hv2=[OFF]), "web2", "vm: there is a machine 'web1' on each of hv1, hv2. Rename one of them"),
        (
            found({**OFF, "state": "running"}),
            "web2",
            "vm: machine web1 on hv1 is running, and what is on its disks now may be half-written. Shut it down first:"
            " brine.virt.power -e vm=web1 -e state=stopped",
        ),
        (found({**OFF, "state": "paused"}), "web2", "vm: machine web1 on hv1 is paused, "),
        (found({**OFF, "saved": True}), "web2", "vm: the state of machine web1 on hv1 is saved, "),
        (
            found(OFF, hv2=[{**OFF, "name": "web2"}]),
            "web2",
            "new_name: there is a machine 'web2' on hv2 already. Choose another name, or remove that machine with"
            " brine.virt.purge",
        ),
        (found(OFF), "web1", "new_name: there is a machine 'web1' on hv1 already."),
        (found(OFF), "web 2", "new_name: 'web 2' is not a name."),
        (found(OFF), "localhost", "new_name: 'localhost' is the controller itself"),
        (found(OFF, hv2=SILENT), "web2", "hv2 did not answer: no route, and it may have a machine 'web2'"),
    ],
)
def test_mistakes(results: dict[str, t.Any], new_name: str, sentence: str) -> None:
    (error,) = CLONE_PLAN(results, EXPORTS, "web1", new_name, errors="return")["errors"]
    assert error.startswith(sentence)


@pytest.mark.parametrize(
    ("exports", "sentence"),
    [
        ({"hv1": SILENT}, "hv1 did not answer: no route"),
        ({"hv1": {"machines": []}}, "vm: machine web1 is not on hv1 any more. Run it again"),
        (
            {"hv1": {"machines": [{"name": "web1", "entry": None, "msg": "it is being created"}]}},
            "vm: machine web1 cannot be cloned: it is being created",
        ),
    ],
)
def test_no_entry(exports: dict[str, t.Any], sentence: str) -> None:
    assert CLONE_PLAN(found(OFF), exports, "web1", "web2", errors="return") == {"errors": [sentence]}


def test_each_mistake_is_named() -> None:
    results = found({**OFF, "state": "running"}, {**OFF, "name": "web2"}, hv2=SILENT)
    errors = CLONE_PLAN(results, EXPORTS, "web1", "web2", nics="eth0", errors="return")["errors"]
    assert len(errors) == 4 and errors[-1].startswith("nics: 'eth0' is not a mapping.")


def test_what_hinders_the_machine_and_what_its_clone_needs_are_named_at_once() -> None:
    nic = {"name": "eth0", "bridge": "br0", "addresses": ["192.0.2.17/24"]}
    foreign = {"name": "data", "source": "/srv/data.img"}
    entry = {**ENTRY, "nics": [nic], "disks": [{"name": "system", "size": "8MiB"}, foreign]}
    exports = {"hv1": {"machines": [{"name": "web1", "entry": entry, "not_exported": []}]}}
    running = {**OFF, "state": "running"}
    errors = CLONE_PLAN(found(running, hv2=SILENT), exports, "web1", "web 2", errors="return")["errors"]
    assert [error.split(":")[0] for error in errors] == [
        "vm",
        "new_name",
        "hv2 did not answer",
        "disk data of machine web1 is /srv/data.img, which is not its own, and its clone would write to it as well. "
        "Make it its own with brine.virt.adopt -e vm=web1 -e disks=TARGET, or take it out first",
        "nics.eth0",
    ]
