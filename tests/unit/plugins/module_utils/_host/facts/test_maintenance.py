# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that says that a hypervisor is in maintenance, and the module that writes it."""

from __future__ import annotations

import functools
import json
import os
import threading
import time
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.facts import maintenance
from ansible_collections.brine.virt.plugins.module_utils._host.facts.maintenance import (
    Maintenance,
    read_maintenance,
    write_maintenance,
)
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.modules import virt_maintenance

Call = t.Callable[..., dict[str, t.Any]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "brine-virt" / "maintenance.json"


@pytest.fixture
def call(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The module on a file of this test."""
    monkeypatch.setattr(virt_maintenance, "read_maintenance", functools.partial(read_maintenance, str(path)))
    monkeypatch.setattr(virt_maintenance, "write_maintenance", functools.partial(write_maintenance, path=str(path)))
    locked = functools.partial(hypervisor_lock, lock_dir=str(path.parent.parent / "locks"))
    monkeypatch.setattr(virt_maintenance, "hypervisor_lock", locked, raising=False)
    # The tests need not be run by root.
    monkeypatch.setattr(virt_maintenance, "require_root", lambda *_words: None)
    # Its libvirt has no secrets, and so cannot show anything to others.
    monkeypatch.setattr(virt_maintenance, "DEFAULT_URI", "test:///default")
    # Nobody moves anything here.
    monkeypatch.setattr(virt_maintenance, "SETTLE_SECONDS", 0.0)

    def run(**arguments: t.Any) -> dict[str, t.Any]:
        with patch_module_args(arguments), pytest.raises(SystemExit):
            virt_maintenance.main()
        result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        return result

    return run


def test_it_comes_back_as_it_was_written(path: Path) -> None:
    assert read_maintenance(str(path)) is None
    wanted = Maintenance("2026-11-21T10:00:00Z", "neue Lüfter")
    write_maintenance(wanted, str(path))
    assert read_maintenance(str(path)) == wanted
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(path.parent) == ["maintenance.json"]
    write_maintenance(None, str(path))
    write_maintenance(None, str(path))
    assert read_maintenance(str(path)) is None


def test_it_outlives_the_power_cut_that_it_is_about(path: Path, unsynced: set[str]) -> None:
    write_maintenance(Maintenance("2026-11-21T10:00:00Z", None), str(path))
    assert unsynced == set()
    write_maintenance(None, str(path))
    assert unsynced == set()


@pytest.mark.parametrize("text", ["", "{nonsense", "[1]", '"a"'])
def test_a_file_that_makes_no_sense_is_a_maintenance_all_the_same(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    found = read_maintenance(str(path))
    assert found is not None
    assert found.reason == f"{path} cannot be parsed"


def test_what_is_not_known_is_null(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"since": 7, "more": 1}')
    assert read_maintenance(str(path)) == Maintenance(None, None)


def test_a_place_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="cannot write .*file/maintenance.json"):
        write_maintenance(Maintenance(None, None), str(tmp_path / "file" / "maintenance.json"))
    with pytest.raises(HostError, match="file/maintenance.json cannot be read"):
        read_maintenance(str(tmp_path / "file" / "maintenance.json"))


def test_it_has_begun_when_no_run_makes_machines_any_more_that_has_not_seen_it(call: Call, path: Path) -> None:
    """A run that has looked before goes on to make its machines, which who empties the hypervisor would miss."""
    began, seen = threading.Event(), []

    def build() -> None:
        with hypervisor_lock("init", wait_seconds=0, lock_dir=str(path.parent.parent / "locks")):
            began.set()
            time.sleep(0.5)
            seen.append(path.exists())

    run = threading.Thread(target=build)
    run.start()
    began.wait()
    assert call(reason="fan")["changed"] is True
    # Waited for, and a new run would have seen it from the first moment.
    assert seen == [True]
    run.join()


def test_a_run_that_does_not_end_is_said_and_the_maintenance_stays(call: Call, path: Path) -> None:
    with hypervisor_lock("init", wait_seconds=0, lock_dir=str(path.parent.parent / "locks")):
        for arguments in ({"reason": "fan"}, {}):
            refused = call(lock_timeout=0, **arguments)
            assert refused["msg"].startswith(
                "this hypervisor is in maintenance now, but a run that began earlier is still at work here, and may be "
                "creating machines, or changing or snapshotting those that are here: another run has been at work on "
                "this hypervisor for more than 0 s. Wait for it to end; fuser "
            )
        assert path.exists()
        # Nothing is waited for where nothing begins.
        assert call(lock_timeout=0, _ansible_check_mode=True)["changed"] is False
        assert call(lock_timeout=0, state="absent")["changed"] is True


def test_it_begins_once_and_keeps_its_beginning(call: Call, path: Path) -> None:
    ahead = call(reason="fan", _ansible_check_mode=True)
    assert (ahead["changed"], path.exists()) == (True, False)
    first = call(reason="fan")
    assert first["changed"] is True
    assert first["maintenance"]["reason"] == ahead["maintenance"]["reason"] == "fan"
    since = first["maintenance"]["since"]
    for arguments in ({}, {"reason": "fan"}):
        again = call(**arguments)
        assert (again["changed"], again["maintenance"]) == (False, first["maintenance"])
    other = call(reason="disk")
    assert (other["changed"], other["maintenance"]) == (True, {"since": since, "reason": "disk"})
    assert other["diff"]["before"]["maintenance"]["reason"] == "fan"


def test_what_others_cannot_see_is_a_warning(call: Call, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # In a process that has imported Ansible's own part, as other tests do, warnings are not in the result.
    warnings: list[str] = []
    monkeypatch.setattr(virt_maintenance.AnsibleModule, "warn", lambda _module, text: warnings.append(text))
    call(reason="fan")
    assert path.exists()
    assert "Moves from other hypervisors do not see this change" in warnings[0]


def test_machines_that_do_not_arrive_in_time_are_named(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A move that is already under way is not stopped: it may be nearly done."""
    warnings: list[str] = []
    waited: list[bool] = []
    monkeypatch.setattr(virt_maintenance.AnsibleModule, "warn", lambda _module, text: warnings.append(text))
    # libvirt's test driver moves nothing.
    monkeypatch.setattr(virt_maintenance, "arriving_machines", lambda _conn: ["a1", "a2"])

    def wait(_conn: t.Any, *, wait_seconds: float, settle_seconds: float) -> dict[str, bool]:
        waited.append(settle_seconds > 0)
        assert 0 < wait_seconds <= 7
        return {"a1": True, "a2": False}

    monkeypatch.setattr(virt_maintenance, "wait_for_arriving", wait)
    monkeypatch.setattr(virt_maintenance, "SETTLE_SECONDS", 1.0)
    assert call(lock_timeout=7, _ansible_check_mode=True)["arriving"] == ["a1", "a2"]
    assert waited == []
    for changed in (True, False):
        result = call(lock_timeout=7)
        assert (result["arriving"], result["changed"]) == (["a1", "a2"], changed)
        assert warnings[-2:] == [
            "a1 is still being moved here, and will run here when its move ends.",
            "a2 is still being moved here, and will run here when its move ends. Nothing of it has come for 30 s: "
            "check at its source what it does.",
        ]
    # Only a new mark can have been missed by a move that is not seen here yet.
    assert waited == [True, False]
    assert call(state="absent")["arriving"] == []
    assert len(waited) == 2


def test_without_libvirt_nobody_knows_what_arrives(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(virt_maintenance.AnsibleModule, "warn", lambda _module, text: warnings.append(text))
    monkeypatch.setattr(virt_maintenance, "DEFAULT_URI", "test:///nowhere.xml")
    result = call()
    assert (result["changed"], result["arriving"]) == (True, None)
    assert warnings[-1].startswith("Machines that are being moved here cannot be seen: ")


def test_what_libvirt_shows_is_read_as_it_was_written() -> None:
    for wanted in (Maintenance("2026-11-21T10:00:00Z", "neue Lüfter <&>"), Maintenance(None, None)):
        text = parse_xml(maintenance._to_xml(wanted)).findtext("description")
        assert maintenance._from_description(text or "") == wanted
    # Whatever else stands there, somebody has put it there to say so.
    assert maintenance._from_description("by hand") == Maintenance(None, None)


def test_it_ends_once(call: Call, path: Path) -> None:
    call()
    assert call(state="absent", _ansible_check_mode=True)["changed"] is True
    assert path.exists()
    ended = call(state="absent")
    assert (ended["changed"], ended["maintenance"], path.exists()) == (True, None, False)
    assert call(state="absent")["changed"] is False


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"state": "absent", "reason": "x"}, "reason: the end of a maintenance has no reason. Leave it out"),
        ({"reason": "a\nb"}, "reason: the text has more than one line"),
    ],
)
def test_wrong_words_are_refused(call: Call, path: Path, arguments: dict[str, t.Any], text: str) -> None:
    assert call(**arguments)["msg"] == text
    assert not path.exists()
