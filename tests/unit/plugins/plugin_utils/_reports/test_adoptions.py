# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines are adopted where, and the text of it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.filter import purges
from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.plugin_utils._reports.purges import choose_adoptions

DISK = {"name": "vda", "target": "vda", "pool": "default", "volume": "a.qcow2", "own": False, "reason": "it is\nused"}
THERE = {"name": "a", "present": True, "failed": False, "changed": True, "state": "running", "disks": [DISK],
         "nics": [{"name": "eth0", "mac": "52:54:00:00:00:01"}], "remarks": ["a has snapshots"]}  # fmt: skip
GONE = {"name": "a", "present": False, "failed": True, "msg": "there is no machine"}
LATE = "Task failed: Timed out after 45 second(s)."
SILENT = {"unreachable": True, "msg": "no route"}


def test_one_that_is_there() -> None:
    found = choose_adoptions({"hv1": {"machines": [THERE]}, "hv2": {"failed": True, "machines": [GONE]}}, ["a", "a"])
    assert found["by_hypervisor"] == {"hv1": ["a"]}
    assert found["text"].splitlines() == [
        "a on hv1 (running) is adopted:",
        "  disk vda, default/a.qcow2: not its own, as it is used",
        "  nic eth0, 52:54:00:00:00:01",
        "  a has snapshots",
    ]


def test_one_of_ours() -> None:
    found = choose_adoptions({"hv1": {"machines": [{**THERE, "changed": False}]}}, ["a"])
    assert found["by_hypervisor"] == {}
    assert found["text"].startswith("a on hv1 (running) belongs to this collection already:")


@pytest.mark.parametrize(
    ("results", "on", "sentence"),
    [
        ({"hv1": {"failed": True, "machines": [GONE]}}, None, "vm: there is no machine 'a' on hv1"),
        ({"hv1": {"failed": True, "machines": [GONE]}, "hv2": SILENT}, None, "hv2: did not answer: no route"),
        (
            {"hv1": {"failed": True, "machines": [GONE]}, "hv2": {**SILENT, "msg": LATE}},
            None,
            "hv2: did not answer within 45 s",
        ),
        ({"hv1": {"machines": [THERE]}, "hv2": {"machines": [THERE]}}, None, "on each of hv1, hv2. Say which one"),
        ({"hv1": {"machines": [{**THERE, "failed": True, "msg": "it is saved"}]}}, None, "hv1: it is saved"),
        ({"hv1": {"machines": [THERE]}}, "hv9", "on: there is no hypervisor 'hv9'. Known: hv1"),
    ],
)
def test_mistakes(results: dict[str, t.Any], on: str | None, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        choose_adoptions(results, ["a"], on)
    assert sentence in str(caught.value)


def test_hypervisors_that_the_limit_leaves_out() -> None:
    results = {"hv1": {"failed": True, "machines": [GONE]}}
    for on, sentence in (
        ("hv2", "on: hv2 does not take part in this run (--limit, virt_hypervisors). Name it there as well"),
        (None, "vm: there is no machine 'a' on hv1. hv2 was not asked (--limit, virt_hypervisors)"),
    ):
        with pytest.raises(InputError) as caught:
            choose_adoptions(results, ["a"], on, unasked=["hv2"])
        assert str(caught.value) == sentence


def test_the_filter() -> None:
    adoptions = purges.FilterModule().filters()["adoptions"]
    assert adoptions({"hv1": {"machines": [THERE]}}, ["a"])["errors"] == []
    assert adoptions({"hv1": {"machines": [THERE]}}, "a", errors="return")["errors"] == [
        "names: 'a' is not a list of names"
    ]
