# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters of the playbook brine.virt.power: which machines are meant, and what became of them."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter.power import FilterModule
from ansible_collections.brine.virt.plugins.modules import virt_power
from ansible_collections.brine.virt.plugins.plugin_utils import _power_targets
from ansible_collections.brine.virt.plugins.plugin_utils._reports.results import power_report

FILTERS = FilterModule().filters()


def record(name: str, *tags: str, **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "state": "running", "tags": list(tags), "claimed": False, **more}


CLOUD: dict[str, t.Any] = {
    "hv1": {"machines": [record("web1", "web"), record("db1"), record("twin")]},
    "hv2": {"machines": [record("web2", "web", "front"), record("twin"), record("db1", claimed=True)]},
}
DEAD = {"hv3": {"failed": True, "msg": "no answer within 45 s"}}


def targets(results: dict[str, t.Any] | None = None, **given: t.Any) -> dict[str, t.Any]:
    found: dict[str, t.Any] = FILTERS["power_targets"](CLOUD if results is None else results, **given)
    return found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"vm": "web1, web2,web1"}, {"hv1": ["web1"], "hv2": ["web2"]}),
        ({"vm": ["db1"]}, {"hv1": ["db1"]}),
        ({"vm": "twin", "on": "hv2"}, {"hv2": ["twin"]}),
        ({"on": "hv1"}, {"hv1": ["web1", "db1", "twin"]}),
        ({"all": "true"}, {"hv1": ["web1", "db1", "twin"], "hv2": ["web2", "twin", "db1"]}),
        # The module, which gets the names and the tag, looks at the tags.
        ({"tag": "front", "on": ["hv2"]}, {"hv2": ["web2", "twin", "db1"]}),
        ({"in_state": "running,paused", "on": "hv2"}, {"hv2": ["web2", "twin", "db1"]}),
    ],
)
def test_who_is_meant(given: dict[str, t.Any], expected: dict[str, list[str]]) -> None:
    assert targets(state="stopped", **given) == {"targets": expected, "earlier": [], "errors": [], "left_out": {}}


def test_a_machine_is_found_by_its_uuid_whatever_its_name_reads_like() -> None:
    uuid = "00000000-0000-4000-8000-00000000000a"
    cloud = {"hv1": {"machines": [record("['']", uuid=uuid), record("web1")]}, "hv2": {"machines": [record("web2")]}}
    given = {"vm": f"web2,{uuid},{uuid}", "state": "running"}
    assert targets(cloud, **given)["targets"] == {"hv1": ["['']"], "hv2": ["web2"]}
    # One that is on none of them is as a name that is on none.
    (error,) = targets(cloud, vm=uuid, on="hv2", state="running")["errors"]
    assert error.startswith(f"vm: there is no machine '{uuid}' on hv2")


ORDERED: dict[str, t.Any] = {
    "hv1": {"machines": [record("db1", "db", order=1), record("web1", "web", order=20), record("any1")]},
    "hv2": {"machines": [record("db2", "db", order=1), record("web2", "web", order=10)]},
    "hv3": {"machines": [record("any3")]},
}
IN_ORDER = [
    {"hv1": ["db1"], "hv2": ["db2"]},
    {"hv2": ["web2"]},
    {"hv1": ["web1"]},
    {"hv1": ["any1"], "hv3": ["any3"]},
]


def sorted_names(groups: list[dict[str, list[str]]]) -> list[dict[str, list[str]]]:
    return [{host: sorted(names) for host, names in group.items()} for group in groups]


@pytest.mark.parametrize(
    ("given", "groups"),
    [
        ({"state": "running", "all": True}, IN_ORDER),
        ({"state": "stopped", "all": True}, IN_ORDER[::-1]),
        ({"state": "saved", "all": True}, IN_ORDER[::-1]),
        ({"state": "cycled", "all": True}, None),
        # The module keeps to the order of its own hypervisor.
        ({"state": "running", "on": "hv1"}, None),
        ({"state": "running", "vm": "any3,any1"}, None),
        ({"state": "running", "vm": "web1,db2"}, [{"hv2": ["db2"]}, {"hv1": ["web1"]}]),
        # Those with another tag are nobody's business.
        ({"state": "running", "tag": "db"}, None),
        (
            {"state": "stopped", "tag": "web"},
            [{"hv1": ["web1"]}, {"hv1": ["db1", "any1"], "hv2": ["db2", "web2"], "hv3": ["any3"]}],
        ),
    ],
)
def test_machines_of_several_hypervisors_have_their_turn(
    given: dict[str, t.Any], groups: list[dict[str, list[str]]] | None
) -> None:
    found = targets(ORDERED, **given)
    assert found["errors"] == []
    if groups is None:
        assert found["earlier"] == []
    else:
        assert sorted_names([*found["earlier"], found["targets"]]) == sorted_names(groups)


def test_mistakes_leave_no_earlier_ones() -> None:
    found = targets(ORDERED, state="running", vm="db1,web2,wbe")
    assert (found["targets"], found["earlier"], len(found["errors"])) == ({}, [], 1)


def test_who_is_off_although_it_starts_with_its_hypervisor() -> None:
    off = {"state": "shutoff", "autostart": True}
    results = {
        "hv1": {"machines": [record("db1", order=1, **off), record("web1", **off), record("up", autostart=True)]},
        "hv2": {
            "machines": [record("web2", **off), record("half", building=True, **off), record("man", state="shutoff")]
        },
        "hv4": {"machines": [record("web4", **off)]},
        **DEAD,
    }
    assert FILTERS["autostart_targets"](results, ["hv1", "hv2", "hv3"]) == {
        "earlier": [{"hv1": ["db1"]}],
        "targets": {"hv1": ["web1"], "hv2": ["web2"]},
        "left_out": {"hv3": "did not answer: no answer within 45 s"},
    }
    # One task keeps to the order of one hypervisor by itself; they are named in it all the same.
    results["hv4"] = {"machines": [record("web4", **off), record("db4", order=1, **off)]}
    alone = {"earlier": [], "targets": {"hv4": ["db4", "web4"]}, "left_out": {}}
    assert FILTERS["autostart_targets"](results, ["hv4"]) == alone
    with pytest.raises(AnsibleFilterError, match=r"^brine\.virt\.autostart_targets: the input is not a mapping"):
        FILTERS["autostart_targets"]([], [])


def test_who_runs_elsewhere_is_not_started_after_a_maintenance() -> None:
    off = {"state": "shutoff", "autostart": True}
    here = [record("db1", uuid="one", **off), record("web1", uuid="two", **off)]
    results = {"hv1": {"machines": here}, "hv2": {"machines": [record("db1", uuid="one")]}}
    found = FILTERS["autostart_targets"](results, ["hv1"])
    assert (found["targets"], list(found["left_out"])) == ({"hv1": ["web1"]}, ["db1 on hv1 and hv2"])
    assert found["left_out"]["db1 on hv1 and hv2"].startswith(
        "it is the same machine (UUID), so nothing was done to it."
    )


def test_who_may_run_elsewhere_is_not_started_after_a_maintenance() -> None:
    off = {"state": "shutoff", "autostart": True}
    results = {"hv1": {"machines": [record("db1", **off), record("web1", **off)]}}
    found = FILTERS["autostart_targets"](results, ["hv1"], last_seen={"db1": ["hv2"]}, cloud=["hv1", "hv2"])
    assert (found["targets"], list(found["left_out"])) == ({"hv1": ["web1"]}, ["db1 on hv1"])
    assert found["left_out"]["db1 on hv1"].endswith(
        "If it is the right one there: brine.virt.power -e vm=db1 -e on=hv1 -e state=running"
    )


NOBODY = (
    "No machine is named. Give its name with -e vm=NAME, or -e tag=TAG, -e on=HYPERVISOR, -e in_state=STATE, "
    "or -e all=true"
)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"vm": "wbe1"}, "vm: there is no machine 'wbe1' on the hypervisors that answered. Did you mean web1?"),
        ({"vm": "web2", "on": "hv1"}, "vm: there is no machine 'web2' on hv1. It is on hv2"),
        ({"vm": "wbe2", "on": "hv1,hv2"}, "vm: there is no machine 'wbe2' on hv1 and hv2. Did you mean web2?"),
        # Nothing is known of who is on a hypervisor that there is not.
        ({"vm": "web2", "on": "hv9"}, "on: there is no hypervisor 'hv9'. Did you mean hv2?"),
        ({"tag": "wbe", "on": "hv9"}, "on: there is no hypervisor 'hv9'. Did you mean hv2?"),
        ({"tag": "front", "on": "hv1"}, "tag: no machine has the tag 'front' on hv1. Known: web"),
        (
            {"vm": "twin"},
            "vm: there is a machine 'twin' on each of hv1, hv2. Say which one: -e on=hv1; or wait, if it is being "
            "moved",
        ),
        ({"tag": "wbe"}, "tag: no machine has the tag 'wbe' on the hypervisors that answered. Did you mean web?"),
        ({"on": "hv9"}, "on: there is no hypervisor 'hv9'. Did you mean hv2?"),
        ({}, NOBODY),
        *(({"vm": empty, "on": "hv1"}, "vm: it is empty") for empty in ("", [], [""], "\t", " , ", ["", " "])),
        ({"on": [""], "all": True}, "on: it is empty"),
        ({"tag": "", "on": "hv1"}, "tag: it is empty"),
        ({"all": "false"}, NOBODY),
        ({"all": "maybe"}, "all: 'maybe' is neither true nor false"),
        ({"vm": "web1", "force": "yess"}, "force: 'yess' is neither true nor false"),
        ({"vm": "web1", "timeout": "1m"}, "timeout: '1m' is not a number of seconds"),
        ({"vm": "web1", "state": "stoped"}, "state: there is no 'stoped'. Did you mean stopped?"),
        (
            {"vm": "web1", "state": "present"},
            "state: there is no 'present'. Known: running, stopped, paused, rebooted, reset, saved, cycled. The state "
            "present belongs to the playbook provision",
        ),
        (
            {"vm": "web1", "state": "absent"},
            "state: there is no 'absent'. Known: running, stopped, paused, rebooted, reset, saved, cycled. The "
            "playbook purge removes machines",
        ),
        ({"vm": "web1", "state": None}, "Say what is to be done with -e state=STATE. Known: running, stopped, paused"),
        ({"in_state": "of"}, "in_state: there is no 'of'. Known: "),
        ({"vm": "web1", "only_pending": True}, "only_pending: only -e state=cycled makes pending changes take effect"),
    ],
)
def test_mistakes(given: dict[str, t.Any], sentence: str) -> None:
    found = targets(**{"state": "stopped", **given})
    (error,) = found["errors"]
    assert error.startswith(sentence)
    assert found["targets"] == {}


def test_a_hypervisor_that_was_not_asked_is_not_said_to_be_missing() -> None:
    found = targets(state="stopped", on="hv9", hypervisors=["hv1", "hv2", "hv9"])
    assert found["errors"] == [
        "on: hv9 does not take part in this run (--limit, virt_hypervisors). Name it there as well"
    ]
    # Nor who may be on it.
    words = "hv8, hv9: not asked (--limit, virt_hypervisors)"
    cloud = ["hv1", "hv9", "hv8"]
    answers = [
        targets(state="stopped", hypervisors=cloud, vm="db7"),
        targets(state="stopped", hypervisors=cloud, tag="x"),
    ]
    assert all(one["errors"][0].endswith(words) for one in answers), answers
    assert words not in targets(state="stopped", hypervisors=cloud, vm="db7", on="hv1")["errors"][0]


def test_all_mistakes_are_said_at_once() -> None:
    assert len(targets(vm="a,b", state="off", timeout="x")["errors"]) == 4


def test_a_hypervisor_that_did_not_answer_matters_unless_all_are_found() -> None:
    cloud = {**CLOUD, **DEAD}
    assert targets(cloud, vm="web1", state="stopped")["left_out"] == {}
    assert targets(cloud, tag="web", state="stopped")["left_out"] == {"hv3": "did not answer: no answer within 45 s"}
    assert targets(cloud, on="hv1", state="stopped")["left_out"] == {}
    (error,) = targets(cloud, vm="web7", state="stopped")["errors"]
    assert error.endswith("Did you mean web2? hv3: did not answer: no answer within 45 s")
    (error,) = targets(cloud, vm="web7", on="hv1,hv3", state="stopped")["errors"]
    assert error.startswith(
        "vm: there is no machine 'web7' on the hypervisors that answered. Did you mean web1? hv3: did"
    )
    empty = {**CLOUD, "hv4": {"machines": []}}
    (error,) = targets(empty, vm="web7", on="hv4", state="stopped")["errors"]
    assert error == "vm: there is no machine 'web7' on hv4. There are none at all"


def test_a_machine_that_is_defined_twice_is_left_out() -> None:
    """To start both would have two of them write to one disk."""
    cloud = {
        "hv1": {"machines": [record("old", "web", uuid="1"), record("web1", "web", uuid="2"), record("mv", uuid="3")]},
        "hv2": {"machines": [record("old", "web", uuid="1"), record("mv", uuid="3", moving={"target": "hv2"})]},
    }
    found = targets(cloud, tag="web", on="hv1", state="running")
    assert found["targets"] == {"hv1": ["web1", "mv"]}
    assert list(found["left_out"]) == ["old on hv1 and hv2"]
    assert targets(cloud, vm="old", on="hv1", state="running")["targets"] == {"hv1": ["old"]}


OFF = {"hv1": {"machines": [record("web1", "web", state="shutoff"), record("web3", "web", state="shutoff")]}}
SEEN = {"web1": ["hv1", "hv3"], "web3": ["hv1", "hv0"]}


@pytest.mark.parametrize("silent", [DEAD, {}])
def test_what_may_run_on_a_hypervisor_that_says_nothing_is_not_started(silent: dict[str, t.Any]) -> None:
    """Neither while that one is silent, nor while it is not asked, which may be hv0 under another name."""
    cloud, known = {**OFF, **silent}, {"last_seen": SEEN, "hypervisors": ["hv1", "hv2", "hv3"]}
    found = targets(cloud, vm="web1,web3", state="running", **known)
    assert (found["targets"], found["errors"]) == (
        {},
        [
            "vm: machine 'web1' is off on hv1, and may run on hv3, where it was seen before, and which did not answer "
            "or was not asked (--limit). Bring that hypervisor back, or add -e on=hv1 if it is not there any more",
            "vm: machine 'web3' is off on hv1, and may run on hv0, where it was seen before. No hypervisor has that "
            "name now, and hv2 and hv3, which may be the same one, did not answer or was not asked (--limit). Bring "
            "that hypervisor back, or add -e on=hv1 if it is not there any more",
        ],
    )
    for given in ({"all": True}, {"tag": "web"}, {"in_state": "shutoff"}):
        found = targets(cloud, state="running", **given, **known)
        assert found["targets"] == {}
        assert found["left_out"]["web1 on hv1"].startswith("it was not started, as it may run on hv3, where")
        assert found["left_out"]["web3 on hv1"].startswith("it was not started, as it may run on hv0, where")
        # Whoever means a snapshot is not told to start it.
        other = targets(cloud, state="reset", unless_elsewhere=True, **given, **known)["left_out"]["web1 on hv1"]
        assert other.startswith("it was left as it is, as it may run on hv3") and other.endswith("-e vm=web1 -e on=hv1")
    # Who has all of a hypervisor backed up has said nothing of this one.
    nightly = targets(cloud, state="reset", unless_elsewhere=True, on="hv1", **known)
    assert (nightly["targets"], set(nightly["left_out"])) == ({}, {"web1 on hv1", "web3 on hv1"})
    # The user knows where it is; what runs, runs there; and what is stopped runs nowhere.
    assert targets(cloud, vm="web1", on="hv1", state="running", **known)["targets"] == {"hv1": ["web1"]}
    assert targets(cloud, vm="web1", state="stopped", **known)["targets"] == {"hv1": ["web1"]}
    assert targets(CLOUD, vm="web1", state="running", **known)["targets"] == {"hv1": ["web1"]}
    answered = {**OFF, "hv2": {"machines": []}, "hv3": {"machines": []}}
    assert targets(answered, vm="web1,web3", state="running", **known)["targets"] == {"hv1": ["web1", "web3"]}


def test_neither_is_one_that_was_saved_here() -> None:
    """It is off, too, and what is in its saved state is older."""
    saved = {"hv1": {"machines": [record("web1", state="shutoff", saved=True), record("web2", state="paused")]}}
    known = {"last_seen": {"web1": ["hv3"], "web2": ["hv3"]}, "hypervisors": ["hv1", "hv3"]}
    for given in ({"vm": "web1"}, {"vm": "web1", "in_state": "saved"}, {"vm": "web1", "in_state": ["saved", "paused"]}):
        (error,) = targets(saved, state="running", **given, **known)["errors"]
        assert "web1' is off on hv1, and may run on hv3" in error
    # A return to a snapshot may start it, too.
    (error,) = targets(saved, state="reset", unless_elsewhere=True, vm="web1", **known)["errors"]
    assert "web1' is off on hv1, and may run on hv3" in error
    assert not targets(saved, state="reset", vm="web1", **known)["errors"]
    assert not targets(saved, state="reset", unless_elsewhere=True, vm="web1", on="hv1", **known)["errors"]
    # Who is not meant is not in the way.
    for given in ({"vm": "web1", "in_state": "paused"}, {"vm": "web2"}):
        assert not targets(saved, state="running", **given, **known)["errors"]


def test_what_is_no_answer() -> None:
    with pytest.raises(AnsibleFilterError, match=r"brine\.virt\.power_targets: the input is not a mapping"):
        FILTERS["power_targets"]([], state="stopped")
    with pytest.raises(AnsibleFilterError, match=r"brine\.virt\.power_report: the input is not a mapping"):
        FILTERS["power_report"]([])


def machine(name: str, **more: t.Any) -> dict[str, t.Any]:
    return {
        "name": name,
        "before": "running",
        "state": "running",
        "actions": [],
        "seconds": 0.0,
        "failed": "msg" in more,
        **more,
    }


def test_a_row_for_each_machine() -> None:
    results = {
        "hv1": {
            "machines": [
                machine("web1", state="shutoff", actions=["shut down"], seconds=7.4),
                machine("web2"),
                machine("web3", state="shutoff", actions=["shut down"], msg="it could not start: no\x1b memory"),
                machine("web4", msg="it is off"),
                machine("web5", actions=["shut down", "start"]),
            ]
        },
        "hv2": [{"skipped": True}, {"machines": [machine("web6")]}],
        "hv3": {"unreachable": True, "msg": "no route"},
        "hv4": {},
    }
    report = FILTERS["power_report"](results, {"hv5": "did not answer: no"})
    assert report["text"].splitlines() == [
        "MACHINE  ON   STATE    SECONDS  DONE",
        "web1     hv1  shutoff      7.4  shut down (was running)",
        "web2     hv1  running        -  running already",
        "web3     hv1  shutoff        -  shut down, then failed: it could not start: no  memory",
        "web4     hv1  running        -  failed: it is off",
        "web5     hv1  running        -  shut down, start",
        "web6     hv2  running        -  running already",
        "hv3: no route",
        "hv5: did not answer: no",
    ]
    assert report["failed"] == [
        "web3 on hv1: shut down, then failed: it could not start: no  memory",
        "web4 on hv1: failed: it is off",
        "hv3: no route",
        "hv5: did not answer: no",
    ]
    assert [(one["name"], one["hypervisor"]) for one in report["data"]["machines"]][:2] == [
        ("web1", "hv1"),
        ("web2", "hv1"),
    ]
    assert report["data"]["left_out"] == {"hv3": "no route", "hv5": "did not answer: no"}
    empty = {"text": "No machine is selected.", "data": {"machines": [], "left_out": {}}, "failed": []}
    assert power_report({}, {}) == empty


def test_the_words_are_those_of_the_module() -> None:
    options = yaml.safe_load(virt_power.DOCUMENTATION)["options"]
    assert options["state"]["choices"] == list(_power_targets.REQUESTS)
    assert options["in_state"]["choices"] == list(_power_targets.STATES)


def test_results_of_several_groups_are_one_report() -> None:
    def done(name: str) -> dict[str, t.Any]:
        machine = {"name": name, "before": "shutoff", "state": "running", "actions": ["start"], "failed": False}
        return {"machines": [{**machine, "changed": True, "seconds": 1.0}]}

    silent = {"failed": True, "msg": "did not answer"}
    results = {"hv1": [done("db1"), {"skipped": True}, done("web1")], "hv2": [silent, silent, silent]}
    report = FILTERS["power_report"](results)
    assert report["text"].splitlines() == [
        "MACHINE  ON   STATE    SECONDS  DONE",
        "db1      hv1  running        1  start (was shutoff)",
        "web1     hv1  running        1  start (was shutoff)",
        "hv2: did not answer",
    ]
    assert report["failed"] == ["hv2: did not answer"]


def test_how_far_a_late_guest_is_stands_below_the_table() -> None:
    machine = {"name": "web1", "before": "running", "state": "running", "actions": [], "failed": True, "seconds": 8.0}
    report = FILTERS["power_report"](
        {
            "hv1": {
                "machines": [{**machine, "msg": "it did not shut down within 8 s"}],
                "report": "What was seen of web1:\n  boot  -  not ended\n    | a\x1b[2J",
            },
            "hv2": {"failed": True, "msg": "did not answer"},
        }
    )
    assert report["text"].splitlines()[2:] == [
        "What was seen of web1:",
        "  boot  -  not ended",
        "    | a [2J",
        "hv2: did not answer",
    ]
    assert report["failed"] == ["web1 on hv1: failed: it did not shut down within 8 s", "hv2: did not answer"]
