# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of virt_volume, and what its result is, on libvirt's test driver."""

from __future__ import annotations

import contextlib
import types
import typing as t
from collections.abc import Iterator

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.volume import VOLUME_RULES
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step
from ansible_collections.brine.virt.plugins.module_utils._operations.volumes import change, task
from ansible_collections.brine.virt.plugins.modules import virt_volume

MODULE_WIDE = {"volumes", "used_elsewhere", "lock_timeout"}


@pytest.fixture
def conn(node_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Any]:
    """One connection for all calls: the driver forgets all when it is closed."""
    monkeypatch.setattr(task, "hypervisor_lock", lambda _what, **_settings: contextlib.nullcontext())
    with open_connection(node_uri) as connection:
        monkeypatch.setattr(virt_volume, "open_connection", lambda _uri: contextlib.nullcontext(connection))
        yield connection


def call(check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
    beside = {name: params.pop(name, None) for name in virt_volume.BESIDE}
    validated = ArgumentSpecValidator(virt_volume.ARGUMENTS).validate(params)
    assert not validated.error_messages
    failures: list[dict[str, t.Any]] = []
    module = types.SimpleNamespace(
        params={"uri": "", **validated.validated_parameters, **beside},
        check_mode=check_mode,
        fail_json=lambda **result: failures.append(result),
    )
    answer = virt_volume.work(t.cast("t.Any", module))
    return failures[0] if failures else answer


def test_every_option_of_a_volume_is_one_of_the_module() -> None:
    assert set(virt_volume.ARGUMENTS) == MODULE_WIDE | set(VOLUME_RULES)
    # Else it would be given beside every list.
    assert not [name for name in VOLUME_RULES if "default" in virt_volume.ARGUMENTS[name]]
    listed = " ".join(yaml.safe_load(virt_volume.DOCUMENTATION)["options"]["volumes"]["description"])
    assert not [name for name in VOLUME_RULES if f"O({name})" not in listed]


def test_the_result_has_what_is_documented_and_nothing_else(conn: t.Any) -> None:
    documented = yaml.safe_load(virt_volume.RETURN)["volumes"]["contains"]
    always = {name for name, what in documented.items() if what["returned"] == "always"}
    several: list[dict[str, t.Any]] = [{"size": "1MiB"}, {"state": "absent"}, {"state": "absent"}]
    for params in several:
        assert set(call(name="fresh", **params)["volumes"][0]) == always
    assert set(documented) - always == {"msg"}


def test_the_difference_is_the_volume(conn: t.Any) -> None:
    answers = [call(check_mode, name="fresh.raw", size="1MiB") for check_mode in (True, False)]
    assert answers[0] == answers[1]
    (diff,) = answers[0]["diff"]
    assert diff["before"] == ""
    assert "pool: default\n" in diff["after"] and "format: raw\nsize_bytes: 1048576\n" in diff["after"]
    again = call(name="fresh.raw", size="1MiB")
    assert (again["changed"], again["diff"]) == (False, [])
    gone = call(name="fresh.raw", state="absent")
    assert (gone["changed"], gone["diff"][0]["after"]) == (True, "")


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({}, "name: is missing"),
        ({"volumes": [{"name": "a"}], "size": "1"}, "volumes and size are given together"),
        (
            {"volumes": [{"name": "a"}, {"pool": "default", "name": "a"}]},
            "volumes[1]: is the same volume as volumes[0]",
        ),
        ({"volumes": [{"size": "1MiB"}]}, "volumes[0].name: is missing"),
        ({"name": "a", "src": "a"}, "src: the controller has not sent the file. Call the module in a task by its full"),
        ({"name": "a", "path": "/a", "uri": "qemu+tls://hv9/system"}, "path: files of hv9 cannot be read from here"),
        ({"name": "a", "size": "1MiB", "used_elsewhere": {"hv2": 1}}, "used_elsewhere.hv2: 1 is neither a result"),
    ],
)
def test_options_that_do_not_go_together(conn: t.Any, params: dict[str, t.Any], text: str) -> None:
    uri = params.pop("uri", "test:///x")
    beside = {name: None for name in virt_volume.BESIDE}
    given = {**ArgumentSpecValidator(virt_volume.ARGUMENTS).validate(params).validated_parameters, **beside}
    module = types.SimpleNamespace(params={**given, "uri": uri}, check_mode=True)
    with pytest.raises(VirtError) as caught:
        virt_volume.work(t.cast("t.Any", module))
    assert str(caught.value).startswith(text)


def test_all_that_is_wrong_is_said_and_nothing_is_done(conn: t.Any) -> None:
    pool = conn.storagePoolLookupByName("default")
    before = pool.listVolumes()
    with pytest.raises(VirtError) as caught:
        call(volumes=[{"name": "a", "size": "1MiB"}, {"name": "b"}, {"name": "c", "pool": "nowhere", "size": "1MiB"}])
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == ["volumes[1].size", "volumes[2].pool"]
    assert pool.listVolumes() == before


def test_one_that_fails_leaves_the_others(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(plan: t.Any, *args: t.Any) -> t.NoReturn:
        raise RuntimeError("the disk has caught fire")

    real = change.plan_present

    def first_fails(spec: t.Any, *args: t.Any) -> t.Any:
        planned = real(spec, *args)
        if spec.name == "a":
            step = Step("x", lambda: fail(None))
            return types.SimpleNamespace(
                **{**vars(planned), "plan": type(planned.plan)("a", None, {}, (step,))},
                as_result=planned.as_result,
            )
        return planned

    monkeypatch.setattr(change, "plan_present", first_fails)
    answer = call(volumes=[{"name": "a", "size": "1MiB"}, {"name": "b", "size": "1MiB"}])
    assert "the disk has caught fire" in answer["msg"] and answer["msg"].endswith("Succeeded: b")
    assert [each["changed"] for each in answer["volumes"]] == [False, True]
