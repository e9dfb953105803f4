# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines of which hypervisor are removed, and the text of it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.refusal import ACTIVE, FOREIGN, OBSTACLES
from ansible_collections.brine.virt.plugins.plugin_utils._reports.purges import HINTS, choose_purges

VOLUMES = [
    {"pool": "default", "volume": "web1-system.qcow2", "action": "delete", "reason": "it belongs to this machine"},
    {"pool": None, "volume": "/iso/a\x1b.iso", "action": "keep", "reason": "it is in no active storage pool"},
]


def machine(name: str, **more: t.Any) -> dict[str, t.Any]:
    shown: dict[str, t.Any] = {"state": "shutoff", "power": None, "volumes": []}
    return {"name": name, "present": True, "failed": False, **shown, **more}


def refused(obstacle: str) -> dict[str, t.Any]:
    """By a hypervisor, in words of the module."""
    why = {"msg": "web1 is so. Set force: true", "reason": "web1 is so", "obstacle": obstacle}
    return {"hv1": answered(machine("web1", failed=True, **why))}


def answered(*machines: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"failed": any(one["failed"] for one in machines), "machines": list(machines)}


def absent(name: str) -> dict[str, t.Any]:
    return machine(name, present=False, state=None)


SILENT = {"unreachable": True, "msg": "no\nroute"}


def errors(*arguments: t.Any, **options: t.Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        choose_purges(*arguments, **options)
    return str(caught.value).splitlines()


def test_what_goes_and_what_stays() -> None:
    results = {
        "hv1": answered(machine("web1", volumes=VOLUMES), absent("web2"), absent("web3")),
        "hv2": answered(absent("web1"), machine("web2"), absent("web3")),
    }
    assert choose_purges(results, ["web1", "web2", "web3", "web1"]) == {
        "by_hypervisor": {"hv1": ["web1"], "hv2": ["web2"]},
        "shared": {},
        "machines": [
            {"name": "web1", "state": "shutoff", "power": None, "volumes": VOLUMES, "hypervisor": "hv1"},
            {"name": "web2", "state": "shutoff", "power": None, "volumes": [], "hypervisor": "hv2"},
        ],
        "absent": ["web3"],
        "silent": {},
        "text": "web1 on hv1 (shutoff):\n"
        "  delete default/web1-system.qcow2: it belongs to this machine\n"
        "  keep /iso/a .iso: it is in no active storage pool\n"
        "  delete the machine itself\n"
        "web2 on hv2 (shutoff):\n"
        "  delete the machine itself\n"
        "web3: there is no such machine on hv1, hv2",
    }


@pytest.mark.parametrize(
    ("snapshots", "words"), [([], ""), (["a"], ", with snapshot a"), (["a", "b"], ", with snapshots a, b")]
)
def test_snapshots_that_go_with_it_are_named(snapshots: list[str], words: str) -> None:
    text = choose_purges({"hv1": answered({**machine("web1"), "snapshots": snapshots})}, ["web1"])["text"]
    assert text == f"web1 on hv1 (shutoff):\n  delete the machine itself{words}"


def test_all_that_may_not_be_removed_is_named_at_once() -> None:
    results = {
        "hv1": answered(machine("web1", failed=True, msg="web1 is running"), machine("web2"), absent("web3")),
        "hv2": answered(absent("web1"), machine("web2"), absent("web3")),
        "hv3": SILENT,
    }
    assert errors(results, ["web1", "web2", "web3"]) == [
        "hv1: web1 is running",
        "vm: there is a machine 'web2' on each of hv1, hv2. Say which one: -e on=hv1; or wait, if it is being moved",
        "machine 'web3' was not found on the hypervisors that answered (hv1, hv2). hv3: did not answer: no route",
    ]


def test_one_that_is_found_goes_though_another_hypervisor_is_silent() -> None:
    plan = choose_purges({"hv1": answered(machine("web1")), "hv2": SILENT}, ["web1"])
    assert plan["by_hypervisor"] == {"hv1": ["web1"]}
    assert plan["text"].endswith("hv2: did not answer: no route")


def test_one_without_libvirt_is_told_what_to_do() -> None:
    bare = {"failed": True, "msg": "libvirt-python is not installed", "missing_library": "libvirt-python"}
    plan = choose_purges({"hv1": answered(machine("web1")), "hv2": bare, "hv3": {}}, ["web1"])
    assert plan["text"].splitlines()[2:] == [
        "hv2: libvirt-python is not installed",
        "hv3: did not answer: no reason given",
    ]


def test_the_hypervisor_that_is_named() -> None:
    results = {"hv1": answered(machine("web1")), "hv2": answered(machine("web1")), "hv3": SILENT}
    assert choose_purges(results, ["web1"], "hv2")["by_hypervisor"] == {"hv2": ["web1"]}
    assert errors(results, ["web1"], "hv9") == ["on: there is no hypervisor 'hv9'. Known: hv1, hv2, hv3"]
    assert errors(results, ["web1"], "hv3") == ["machine 'web1' was not found. hv3: did not answer: no route"]
    with pytest.raises(InputError) as caught:
        choose_purges(results, ["web1"], "hv4", unasked=["hv4", "hv5"])
    left_out = "on: hv4 does not take part in this run (--limit, virt_hypervisors). Name it there as well"
    assert str(caught.value) == left_out


def test_wrong_input() -> None:
    assert len(errors([], ["web1"])) == 1


def test_what_others_may_use_is_for_them_to_say() -> None:
    volumes = [{"pool": "nfs", "volume": f"web{number}-system.qcow2"} for number in (1, 2, 3)]
    results = {
        "hv1": answered(machine("web1", shared=volumes[:1]), machine("web2", shared=volumes[1:2])),
        "hv2": answered(machine("web3", shared=volumes[2:]), machine("web4", shared=[])),
    }
    assert choose_purges(results, ["web1", "web2", "web3", "web4"])["shared"] == {
        "hv1": volumes[:2],
        "hv2": volumes[2:],
    }
    # Of one that is not to be removed, nobody is asked.
    assert choose_purges(results, ["web4"])["shared"] == {}


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_only_who_calls_the_module_is_told_its_options(obstacle: str) -> None:
    assert errors(refused(obstacle), ["web1"]) == ["hv1: web1 is so. Set force: true"]
    for hints in HINTS[1:]:
        (sentence,) = errors(refused(obstacle), ["web1"], hints=hints)
        assert sentence.startswith("hv1: web1 is so. ") and "-e " in sentence and ": true" not in sentence


def test_the_playbook_provision_has_no_option_for_what_others_created() -> None:
    ways = {hints: errors(refused(FOREIGN), ["web1"], hints=hints) for hints in HINTS[1:]}
    assert ways == {
        "purge": [
            "hv1: web1 is so. With -e adopt=true it is. Its disks are kept, except those that -e disks=DISK names"
        ],
        "provision": [
            "hv1: web1 is so. Remove it with the playbook purge (-e vm=web1 -e adopt=true), or adopt it first with the "
            "playbook adopt (-e vm=web1)"
        ],
    }


def test_what_has_no_option_is_said_as_it_is() -> None:
    results = {"hv1": answered(machine("web1", failed=True, msg="web1 is being moved. Wait: true"))}
    assert errors(results, ["web1"], hints="purge") == ["hv1: web1 is being moved. Wait: true"]
    assert errors(refused(ACTIVE), ["web1"], hints="provisoin") == [
        "hints: there is no 'provisoin'. Did you mean provision?"
    ]


def test_one_that_runs_is_switched_off_first() -> None:
    found = machine("web1", state="running", power="shut down within 60 s", volumes=VOLUMES[:1])
    plan = choose_purges({"hv1": answered(found)}, ["web1"])
    assert plan["machines"][0]["power"] == "shut down within 60 s"
    assert plan["text"].splitlines()[:3] == [
        "web1 on hv1 (running):",
        "  shut down within 60 s",
        "  delete default/web1-system.qcow2: it belongs to this machine",
    ]


def test_one_that_was_elsewhere_when_the_inventory_was_read() -> None:
    results = {"hv1": answered(machine("web1")), "hv2": SILENT}
    sentence = (
        "vm: machine 'web1' is on hv1, but was on hv2 when the inventory was read, which did not answer: there may be "
        "two of this name. Add -e on=hv1 if that one is to go"
    )
    assert errors(results, ["web1"], homes={"web1": "hv2"}) == [sentence]
    # It is said which one is meant; it has been moved; the one that is silent is another one.
    for found, on, homes in (
        (results, "hv1", {"web1": "hv2"}),
        ({**results, "hv2": answered(absent("web1"))}, None, {"web1": "hv2"}),
        (results, None, {"web1": "hv1", "web2": "hv2"}),
    ):
        assert choose_purges(found, ["web1"], on, homes=homes)["by_hypervisor"] == {"hv1": ["web1"]}


def test_one_that_is_known_on_a_hypervisor_that_is_silent() -> None:
    results = {"hv1": answered(machine("web1")), "hv2": SILENT, "hv3": answered(absent("web1"))}
    sentence = (
        "vm: machine 'web1' is on hv1, but was seen on hv2 before, which did not answer: there may be two of this "
        "name. Add -e on=hv1 if that one is to go"
    )
    assert errors(results, ["web1"], last_seen={"web1": ["hv1", "hv2", "hv3"]}) == [sentence]
    # The inventory that was read then has it on the one that answers: that does not tell how many there are.
    assert errors(results, ["web1"], homes={"web1": "hv1"}, last_seen={"web1": ["hv2"]}) == [sentence]
    # It is said which one is meant; it was seen on those that answer; on one that has left, and all others answer.
    heard = {**results, "hv2": answered(absent("web1"))}
    for found, on, seen in ((results, "hv1", ["hv2"]), (results, None, ["hv1", "hv3"]), (heard, None, ["hv9"])):
        plan = choose_purges(found, ["web1"], on, last_seen={"web1": seen})
        assert plan["by_hypervisor"] == {"hv1": ["web1"]}


def test_one_that_is_known_on_a_hypervisor_that_is_not_asked() -> None:
    """--limit is the first thing to try where one is silent."""
    results = {"hv1": answered(machine("web1"))}
    sentence = (
        "vm: machine 'web1' is on hv1, but was seen on hv2 before, which was not asked (--limit, virt_hypervisors): "
        "there may be two of this name. Add -e on=hv1 if that one is to go"
    )
    seen = {"web1": ["hv1", "hv2"]}
    assert errors(results, ["web1"], last_seen=seen, unasked=["hv2"]) == [sentence]
    (at_reading,) = errors(results, ["web1"], homes={"web1": "hv2"}, unasked=["hv2"])
    assert "is on hv1, but was on hv2 when the inventory was read, which was not asked (--limit, " in at_reading
    for on, unasked in (("hv1", ["hv2"]), (None, ["hv3"])):
        plan = choose_purges(
            results, ["web1"], on, last_seen={"web1": ["hv1", "hv3"][: 1 if on is None else 2]}, unasked=unasked
        )
        assert plan["by_hypervisor"] == {"hv1": ["web1"]}


def test_one_that_is_known_on_a_hypervisor_that_has_another_name_now() -> None:
    results = {"hv1": answered(machine("web1")), "hv2b": SILENT}
    (sentence,) = errors(results, ["web1"], last_seen={"web1": ["hv1", "hv2"]})
    assert sentence == (
        "vm: machine 'web1' is on hv1, but was seen on hv2 before, which is not among the hypervisors now, and hv2b, "
        "which did not answer, may be the same one: there may be two of this name. Add -e on=hv1 if that one is to go"
    )


def misspelled(similar: list[str], more: str | None = None, **options: t.Any) -> str:
    results = {"hv1": answered({**absent("wbe1"), "similar": similar}), "hv2": answered(absent("wbe1"))}
    return str(choose_purges(results, ["wbe1"], **options)["text"])


def test_who_has_misspelled_a_name_is_told_the_nearest_one() -> None:
    assert misspelled(["web2x", "web1"]) == "wbe1: there is no such machine on hv1, hv2. Did you mean web1?"
    assert misspelled([]) == "wbe1: there is no such machine on hv1, hv2"


def test_hypervisors_that_limit_leaves_out_are_named_for_what_was_not_found() -> None:
    assert misspelled(["web1"], unasked=["hv3", "hv4"]) == (
        "wbe1: there is no such machine on hv1, hv2. Did you mean web1? hv3, hv4 were not asked (--limit, "
        "virt_hypervisors)"
    )
    assert misspelled([], unasked=["hv3"]) == (
        "wbe1: there is no such machine on hv1, hv2. hv3 was not asked (--limit, virt_hypervisors)"
    )
    assert choose_purges({"hv1": answered(machine("web1"))}, ["web1"], unasked=["hv3"])["text"] == (
        "web1 on hv1 (shutoff):\n  delete the machine itself"
    )


def test_a_machine_that_nobody_has_may_be_on_a_hypervisor_that_has_left() -> None:
    results = {"hv1": answered(machine("web2")), "hv2": answered()}
    seen = {"web1": ["hv1", "hv8", "hv9"], "web2": ["hv1"], "web3": ["hv2", "hv3"]}
    plan = choose_purges(results, ["web1", "web2", "web3"], unasked=["hv3"], last_seen=seen)
    assert plan["absent"] == ["web1", "web3"]
    said = [line for line in plan["text"].splitlines() if "was seen" in line]
    assert said == [
        "web1 was seen on hv8 and hv9, which are not among the hypervisors now, and may be there still",
        "web3 was seen on hv3, which was not asked, and may be there still",
    ]
