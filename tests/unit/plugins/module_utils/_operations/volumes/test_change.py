# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several volumes of one task: nothing is deleted that another one needs, nor before its new content is there."""

from __future__ import annotations

import shutil
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import MIB
from ansible_collections.brine.virt.plugins.module_utils._operations.volumes import creation
from ansible_collections.brine.virt.plugins.plugin_utils._volumes.files import have_volumes
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.volumes.volume_host import VolumeHost

CONTENTS = {"a": b"content!" * MIB, "b": b"CONTENT!" * MIB, "c": b"somebody" * MIB}


def fill(host: VolumeHost, *names: str) -> None:
    for name in names:
        (host.controller / name).write_bytes(CONTENTS[name])
        host.run(name=name, src=name)


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
def test_what_another_one_gets_its_content_from_is_not_deleted(
    host: VolumeHost, reverse: bool, check_mode: bool
) -> None:
    fill(host, "a")
    (host.outside / "link").symlink_to(host.pool / "a")
    for path in (host.pool / "a", host.outside / "link"):
        given: list[dict[str, t.Any]] = [{"name": "a", "state": "absent"}, {"name": "new", "path": str(path)}]
        place = 0 if reverse else 1
        with pytest.raises(VirtError) as caught:
            host.run(check_mode, volumes=given[::-1] if reverse else given)
        assert f"volumes[{place}].path: {path} is volume a, which this task deletes or replaces" in str(caught.value)
        assert host.volumes() == {"a"}


def test_a_file_that_is_missing_hides_no_other_mistake(host: VolumeHost) -> None:
    given: list[dict[str, t.Any]] = [
        {"name": "one", "path": "/nowhere/x"},
        {"name": "two", "pool": "missing", "size": "1MiB"},
        {"name": "three", "pool": "gone", "path": "/nowhere/y"},
    ]
    with pytest.raises(VirtError) as caught:
        host.run(True, volumes=given)
    places = [line.partition(": ")[0] for line in str(caught.value).splitlines()]
    assert sorted(places) == ["volumes[0].path", "volumes[1].pool", "volumes[2].path", "volumes[2].pool"]


def test_two_are_not_swapped(host: VolumeHost) -> None:
    fill(host, "a", "b")
    swapped = [
        {"name": name, "path": str(host.pool / other), "replace": True} for name, other in (("a", "b"), ("b", "a"))
    ]
    with pytest.raises(VirtError) as caught:
        host.run(volumes=swapped)
    assert "volumes[0].path: " in str(caught.value)
    assert "volumes[1].path: " in str(caught.value)
    assert {name: (host.pool / name).read_bytes() for name in ("a", "b")} == {name: CONTENTS[name] for name in "ab"}


def test_what_stays_may_be_the_content_of_another_one(host: VolumeHost) -> None:
    fill(host, "a", "b")
    given = [{"name": "b", "state": "absent"}, {"name": "new", "path": str(host.pool / "a")}]
    assert host.run(volumes=given)["changed"] is True
    assert (host.pool / "new").read_bytes() == CONTENTS["a"]


def test_after_a_failure_it_says_what_is_there(host: VolumeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old content is gone, and the new one could not be written."""
    fill(host, "a")
    (host.controller / "b").write_bytes(CONTENTS["b"])

    def fail(*_args: t.Any, **_settings: t.Any) -> None:
        raise HostError("the disk is full")

    monkeypatch.setattr(creation.FilledVolume, "send", fail)
    answer = host.run(name="a", src="b", replace=True)
    assert (answer["failed"], answer["changed"]) == (True, True)
    [result] = answer["volumes"]
    assert (result["present"], result["path"], result["format"], result["size_bytes"]) == (False, None, None, None)
    assert "Done before that, and not rolled back: delete volume a" in result["msg"]
    assert host.volumes() == set()


@pytest.mark.parametrize("gone", [True, False])
def test_what_has_changed_while_another_file_was_sent_stays(host: VolumeHost, gone: bool) -> None:
    fill(host, "b")
    (host.controller / "a").write_bytes(CONTENTS["a"])

    def send(path: str, _subject: str, name: str) -> str:
        (host.pool / "b").write_bytes(CONTENTS["c"])
        if gone:
            host.purge.handle.storageVolLookupByName("b").delete()
        return str(shutil.copy(path, host.remote / name))

    answer = have_volumes(
        {"volumes": [{"name": name, "src": name, "replace": True} for name in ("a", "b")]},
        find=lambda src, _where: str(host.controller / src),
        ask=lambda args: host.module(**args),
        send=send,
    )
    assert (answer["failed"], answer["changed"]) == (True, False)
    a, b = answer["volumes"]
    assert a["msg"] == "nothing was done to it, as b cannot be done"
    assert b["msg"].startswith("volumes[1].src: volume b of pool default has changed since this run looked")
    assert (a["present"], b["present"]) == (False, not gone)
    assert host.volumes() == (set() if gone else {"b"})
    if not gone:
        assert (host.pool / "b").read_bytes() == CONTENTS["c"]
