# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One resource or a list: read with their places, planned before anything is changed, and each with its own end."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields import validators
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.given import GivenOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step
from ansible_collections.brine.virt.plugins.module_utils._operations.resources import (
    GivenResources,
    ResourcePlan,
    carry_out,
    diff_of,
    plan_all,
)

OWN = ("name", "path")


def read(given: GivenOptions) -> dict[str, t.Any]:
    return given.read({"name": validators.name, "path": validators.text})


def specs(**params: t.Any) -> list[dict[str, t.Any]]:
    return GivenResources.of({"pools": None, "name": None, "path": None, **params}, "pools", OWN).read(read)


def test_one_of_them_is_named_by_the_options_themselves() -> None:
    assert specs(name="a", path="/a") == [{"name": "a", "path": "/a"}]


def test_several_are_named_in_a_list() -> None:
    assert specs(pools=[{"name": "a"}, {"name": "b"}]) == [{"name": "a"}, {"name": "b"}]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"path": "/a"}, "name: is missing. Give the name of one, or several in pools"),
        ({"pools": [], "path": "/a"}, "pools and path are given together"),
        ({"pools": ["a"]}, "pools[0]: 'a' is not a mapping"),
        ({"pools": [{"name": "a"}, {"nane": "b"}]}, "pools[1]: unknown option 'nane'. Did you mean name?"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(params: dict[str, t.Any], words: str) -> None:
    with pytest.raises(VirtError) as caught:
        specs(**params)
    assert str(caught.value).startswith(words)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    def refuse(spec: str) -> ResourcePlan:
        raise ConflictError(f"{spec} is elsewhere")

    with pytest.raises(VirtError) as caught:
        plan_all(["a", "b"], refuse)
    assert str(caught.value) == "a is elsewhere\nb is elsewhere"


def fail() -> None:
    raise HostError("the disk is full")


def test_one_that_fails_does_not_keep_the_others() -> None:
    done: list[str] = []
    plans = {
        "a": ResourcePlan(
            "a", None, {"path": "/a"}, (Step("create a", lambda: done.append("a"), lambda: None), Step("fill a", fail))
        ),
        "b": ResourcePlan("b", None, {"path": "/b"}, (Step("create b", lambda: done.append("b")),), ("at boot",)),
    }
    results = plan_all(list(plans), plans.__getitem__)
    carry_out(results, check_mode=False)
    assert done == ["a", "b"]
    assert [result.as_result() for result in results] == [
        {
            "name": "a",
            "present": False,
            "changed": False,
            "failed": True,
            "actions": [],
            "pending": [],
            "msg": "the disk is full",
        },
        {
            "path": "/b",
            "name": "b",
            "present": True,
            "changed": True,
            "failed": False,
            "actions": ["create b"],
            "pending": ["at boot"],
        },
    ]
    assert [diff["before_header"] for diff in diff_of(results)] == ["b"]


def test_what_is_there_after_a_failure_is_looked_at() -> None:
    there: dict[str, t.Any] = {"path": "/a"}
    steps = (Step("delete a", there.clear), Step("fill a", fail))
    results = plan_all(
        ["a"], lambda name: ResourcePlan(name, dict(there), {"path": "/b"}, steps), lambda _: there or None
    )
    carry_out(results, check_mode=False)
    result = results[0].as_result()
    assert (result["present"], result["changed"], "path" in result) == (False, True, False)


def test_what_could_not_be_rolled_back_counts_as_changed() -> None:
    def refuse() -> None:
        raise ConflictError("it is in use")

    steps = (Step("create a", lambda: None, refuse), Step("fill a", fail, lambda: None))
    results = plan_all(["a"], lambda name: ResourcePlan(name, None, {"path": "/a"}, steps), lambda _: {"path": "/a"})
    carry_out(results, check_mode=False)
    result = results[0].as_result()
    assert (result["present"], result["changed"], result["actions"]) == (True, True, ["create a"])
    assert result["msg"].endswith("In addition, this could not be rolled back: create a (it is in use)")


def test_where_that_cannot_be_seen_it_is_said() -> None:
    def look(_spec: str) -> None:
        raise HostError("the daemon is gone")

    plan = ResourcePlan("a", {"path": "/a"}, None, (Step("delete a", fail),))
    results = plan_all(["a"], lambda _: plan, look)
    carry_out(results, check_mode=False)
    result = results[0].as_result()
    assert (result["present"], result["path"]) == (True, "/a")
    assert result["msg"] == "the disk is full. What is there now could not be seen: the daemon is gone"


def test_check_mode_takes_no_step_and_says_the_same() -> None:
    results = plan_all(["a"], lambda name: ResourcePlan(name, None, {"path": "/a"}, (Step("create a", fail),)))
    carry_out(results, check_mode=True)
    assert results[0].as_result()["actions"] == ["create a"]
    assert diff_of(results)[0]["after"] == "path: /a\n"


def test_what_cannot_be_rolled_back_counts_as_changed() -> None:
    steps = (Step("make room", lambda: None, lambda: None), Step("delete a", lambda: None), Step("fill a", fail))
    results = plan_all(["a"], lambda name: ResourcePlan(name, {"path": "/a"}, {"path": "/b"}, steps))
    carry_out(results, check_mode=False)
    result = results[0].as_result()
    assert (result["changed"], result["failed"], result["actions"]) == (True, True, ["delete a"])
    assert result["msg"] == "the disk is full. Done before that, and not rolled back: delete a"
    assert diff_of(results) == []
