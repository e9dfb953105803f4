# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The known_hosts file: only our own lines change, and only for reasons."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.plugin_utils._inventory.known_hosts import (
    add_arriving,
    add_keys,
    add_lines,
    known_hosts_lines,
    last_seen,
    merge_lines,
    moved_away,
    update_known_hosts,
    without_hypervisors,
    without_machines,
)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2p"


def _uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def _record(number: int, **change: t.Any) -> dict[str, t.Any]:
    return {
        "name": f"m{number}",
        "uuid": _uuid(number),
        "vcpus": 1,
        "state": "running",
        "addresses": [f"192.0.2.{number}"],
        "host_keys": [KEY],
        **change,
    }


def _answer(hypervisor: str, *records: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"hypervisor": hypervisor, "machines": list(records)}


def _silent(hypervisor: str) -> dict[str, t.Any]:
    return {"hypervisor": hypervisor, "machines": None}


def _line(number: int, hypervisor: str = "hv1") -> str:
    return f"virt-{_uuid(number)} {KEY} brine.virt:{hypervisor} m{number}"


def _nameless(number: int, hypervisor: str) -> str:
    """Of a machine that another one said it has, while this hypervisor said nothing: no place, but a key."""
    return _line(number, hypervisor).removesuffix(f" m{number}")


def _comment(number: int, hypervisor: str = "hv1") -> str:
    """Of a machine without host keys."""
    return f"# virt-{_uuid(number)} brine.virt:{hypervisor} m{number}"


def _old_line(number: int, hypervisor: str = "hv1") -> str:
    """As an earlier version wrote it: with name and addresses."""
    return f"virt-{_uuid(number)},m{number},192.0.2.{number} {KEY} brine.virt:{hypervisor}"


@pytest.mark.parametrize(
    ("record", "lines"),
    [
        (_record(1), [_line(1)]),
        (_record(1, host_keys=[]), []),
        (_record(1, host_keys=[f"{KEY} root@web1"]), [_line(1)]),
        (_record(1, name="no name\n*"), [f"virt-{_uuid(1)} {KEY} brine.virt:hv1"]),
        (_record(1, name="m1\n"), [f"virt-{_uuid(1)} {KEY} brine.virt:hv1"]),
        (_record(1, uuid=f"{_uuid(1)}\n"), []),
        (_record(1, name="*"), [f"virt-{_uuid(1)} {KEY} brine.virt:hv1"]),
        # A guest can claim any address: its key is good for none.
        (_record(1, addresses=["x,*", "2001:db8::1"]), [_line(1)]),
        (_record(1, uuid="*"), []),
        (_record(1, host_keys=["nonsense"]), []),
        (_record(1, host_keys=[f"{KEY}\n* {KEY}"]), []),
        (_record(1, host_keys=[f"@cert-authority * {KEY}"]), []),
    ],
)
def test_only_proper_names_and_keys_are_written(record: dict[str, t.Any], lines: list[str]) -> None:
    assert known_hosts_lines(record, "hv1") == lines


FOREIGN = ["# mine", "github.com ssh-ed25519 AAAA", "", "virt-not-ours ssh-ed25519 AAAA brine.virt:hv1"]


@pytest.mark.parametrize(
    ("old", "answers", "drop_gone", "new"),
    [
        ([], [], True, []),
        ([], [_answer("hv1", _record(2), _record(1))], True, [_line(1), _line(2)]),
        # A machine that is gone goes; one on a hypervisor that did not answer stays.
        ([_line(1), _line(2), _line(3, "hv2")], [_answer("hv1", _record(2))], True, [_line(2), _line(3, "hv2")]),
        ([_line(1)], [{"hypervisor": "hv1", "machines": None}], True, [_line(1)]),
        ([_line(1)], [_answer("hv1")], True, []),
        # One that was listed but not read is not gone.
        ([_line(1)], [_answer("hv1", _record(1, vcpus=None, host_keys=[]))], True, [_line(1)]),
        # One that was read and has no keys any more has none; where it is stays known.
        ([_line(1)], [_answer("hv1", _record(1, host_keys=[]))], True, [_comment(1)]),
        ([_comment(1)], [_answer("hv1", _record(1))], True, [_line(1)]),
        ([_comment(1)], [_answer("hv1", _record(2))], True, [_line(2)]),
        ([_comment(1)], [_answer("hv1", _record(2))], False, [_comment(1), _line(2)]),
        ([_comment(1)], [_answer("hv1", _record(1, vcpus=None, host_keys=[]))], True, [_comment(1)]),
        ([], [_answer("hv1", _record(1, vcpus=None, host_keys=[]))], True, []),
        ([_comment(1, "hv9")], [_answer("hv1", _record(2, host_keys=[]))], True, [_comment(1, "hv9"), _comment(2)]),
        ([_comment(1, "hv9")], [_answer("hv1", _record(1, host_keys=[]))], True, [_comment(1)]),
        ([], [_answer("hv1", _record(1, host_keys=[], name="no name"), _record(2, host_keys=[], uuid="x"))], True, []),
        # From an answer that is not complete, nothing is known to be gone, but what is known is written.
        ([_line(1)], [_answer("hv1", _record(2))], False, [_line(1), _line(2)]),
        (
            [_line(1)],
            [_answer("hv1", _record(1, host_keys=["ssh-rsa BBBB"]))],
            False,
            [_line(1).replace(KEY, "ssh-rsa BBBB")],
        ),
        (FOREIGN, [_answer("hv1", _record(1))], True, [*FOREIGN, _line(1)]),
        # Migrated.
        ([_line(1)], [_answer("hv1"), _answer("hv2", _record(1))], True, [_line(1, "hv2")]),
        # Migrated away from one that does not answer any more, or is not asked.
        ([_line(1, "hv9")], [_answer("hv1", _record(1))], True, [_nameless(1, "hv9"), _line(1)]),
        ([_nameless(1, "hv9"), _line(1)], [_answer("hv1", _record(1)), _answer("hv9")], True, [_line(1)]),
        ([_nameless(1, "hv9")], [_answer("hv9", _record(1))], True, [_line(1, "hv9")]),
        # What does not run here may run there: an old definition, or a copy that was never started.
        *(
            ([_line(1, "hv9")], [_answer("hv1", _record(1, state=state))], True, [_line(1, "hv9"), _line(1)])
            for state in ("shutoff", "crashed", "paused", "nostate", "pmsuspended", None)
        ),
        # Who is not where it was may have been moved to one that does not answer; when that one does, or it is anywhere
        # else, nobody has to remember it.
        ([_line(1), _comment(2)], [_answer("hv1"), _silent("hv2")], True, [_line(1), _comment(2)]),
        ([_line(1), _comment(2)], [_answer("hv1"), _answer("hv2")], True, []),
        ([_line(1)], [_answer("hv1"), _answer("hv2", _record(1)), _silent("hv3")], True, [_line(1, "hv2")]),
        # On its way from one to the other, and then there, or not.
        ([_line(1), _comment(1, "hv2")], [_answer("hv1"), _silent("hv2")], True, [_line(1), _comment(1, "hv2")]),
        ([_line(1), _comment(1, "hv2")], [_answer("hv1"), _answer("hv2", _record(1))], True, [_line(1, "hv2")]),
        ([_line(1), _comment(1, "hv2")], [_answer("hv1", _record(1)), _answer("hv2")], True, [_line(1)]),
        ([_line(1, "hv9")], [_answer("hv1", _record(1, host_keys=[]))], True, [_line(1, "hv9"), _comment(1)]),
        # Old lines lose their names and addresses, those that stay too.
        ([_old_line(1)], [_answer("hv1", _record(1))], True, [_line(1)]),
        ([_old_line(1, "hv9")], [_answer("hv1")], True, [_line(1, "hv9")]),
        ([_old_line(1).replace(",m1,", ",")], [{"hypervisor": "hv1", "machines": None}], True, [_line(1)[:-3]]),
    ],
)
def test_which_lines_stay(old: list[str], answers: list[dict[str, t.Any]], drop_gone: bool, new: list[str]) -> None:
    assert merge_lines(old, answers, drop_gone=drop_gone) == new


def test_where_machines_were_seen_last() -> None:
    lines = [*FOREIGN, _line(1), _line(2, "hv2"), _line(2, "hv2"), _line(1, "hv3"), _old_line(4), _line(5)[:-3]]
    lines += [_comment(6), _comment(7).replace("brine.virt:", "")]
    assert last_seen(lines) == {"m1": ["hv1", "hv3"], "m2": ["hv2"], "m4": ["hv1"], "m6": ["hv1"]}


def test_machines_are_noted_where_they_are_now_and_no_other_one_is_gone() -> None:
    old = [*FOREIGN, _line(1, "hv2"), _comment(2), _line(3), _line(4, "hv3")]
    here = [_answer("hv1", _record(1), _record(2), _record(4, vcpus=None, host_keys=[])), _answer("hv2")]
    assert add_lines(old, here) == [*FOREIGN, _nameless(1, "hv2"), _line(3), _line(4, "hv3"), _line(1), _line(2)]
    assert add_lines(add_lines(old, here), here) == add_lines(old, here)
    assert add_lines(old[4:5], [_answer("hv1", _record(1, host_keys=[]))]) == [_nameless(1, "hv2"), _comment(1)]


@pytest.mark.parametrize("state", ["shutoff", "paused"])
def test_one_that_does_not_run_here_may_run_where_it_was_seen(state: str) -> None:
    """What is moved may be an old definition, and the hypervisor with the machine be silent."""
    old = [_line(1, "hv1"), _line(1, "hv2")]
    moved = [_answer("hv3", _record(1, state=state))]
    left = without_machines(old, {"hv2": {"m1"}}, keep_keys=True)
    assert add_lines(left, moved) == [_line(1, "hv1"), _nameless(1, "hv2"), _line(1, "hv3")]


def test_a_cache_says_nothing_of_where_a_machine_is_now() -> None:
    cached = [_answer("hv1", _record(1)), _answer("hv2", _record(2, host_keys=[]))]
    listed = merge_lines([], cached, drop_gone=True)
    moved = add_lines(listed, [_answer("hv2", _record(1))])
    assert add_keys(moved, cached) == moved
    assert last_seen(moved) == {"m1": ["hv2"], "m2": ["hv2"]}
    # Nor where its hypervisor is lost; the keys are there, as where somebody has deleted the file.
    for left in (without_hypervisors(listed, ["hv1", "hv2"]), []):
        assert add_keys(left, cached) == [_nameless(1, "hv1")]
    assert add_keys(FOREIGN, [_answer("hv1", _record(1)), _silent("hv2")]) == [*FOREIGN, _nameless(1, "hv1")]
    # Keys that the file has are newer.
    renewed = [_line(1).replace(KEY, "ssh-rsa BBBB")]
    assert add_keys(renewed, cached) == renewed
    # Of two that contradict each other, none is believed.
    assert add_keys([], [*cached, _answer("hv3", _record(1, host_keys=["ssh-rsa BBBB"]))]) == []


def test_which_machines_have_moved_away() -> None:
    moved = add_lines([_line(1, "hv1"), _line(2, "hv1")], [_answer("hv2", _record(1))])
    assert moved_away(moved) == {("hv1", _uuid(1))}
    # Back again, or nowhere else, or perhaps on its way.
    assert moved_away([*moved, _comment(1, "hv1")]) == set()
    assert moved_away([_nameless(1, "hv1")]) == set()
    assert moved_away([_nameless(1, "hv1"), _comment(1, "hv2")]) == set()


def test_a_file_takes_what_is_of_now_and_keys_from_the_cache(tmp_path: Path) -> None:
    path = tmp_path / "cloud"
    cached = [_answer("hv1", _record(1), _record(3))]
    new = [_silent("hv1"), _answer("hv2", _record(1), _record(2))]
    assert update_known_hosts(str(path), new, cached=cached)
    assert path.read_text().splitlines() == [_line(1, "hv2"), _line(2, "hv2"), _nameless(3, "hv1")]
    assert not update_known_hosts(str(path), new, cached=cached)


def test_lines_that_are_right_stay_where_they_are() -> None:
    """One machine of several is provisioned again: that changes nothing, wherever its lines are."""
    old = [_line(1), _comment(2), *FOREIGN, _line(3)]
    for record in (_record(1), _record(2, host_keys=[]), _record(3)):
        assert add_lines(old, [_answer("hv1", record)]) == old


def test_a_machine_that_was_removed_leaves_no_line() -> None:
    others = [*FOREIGN, _line(1, "hv2"), _line(2), _comment(3, "hv2"), _line(5)[:-3]]
    lines = [_line(1), _old_line(4), *others, _comment(3)]
    assert without_machines(lines, {"hv1": ["m1", "m3", "m4"], "hv9": ["m2"]}) == others


def test_ssh_takes_the_line_of_a_machine_without_keys_for_a_comment(tmp_path: Path) -> None:
    path = tmp_path / "cloud"
    update_known_hosts(str(path), [_answer("hv1", _record(1, host_keys=[]), _record(2))])
    for number, found in ((1, 1), (2, 0)):
        command = ["ssh-keygen", "-F", f"virt-{_uuid(number)}", "-f", str(path)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == found


def test_the_file_and_its_directory_are_private(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts.d" / "cloud"
    assert update_known_hosts(str(path), [_answer("hv1", _record(1))]) is True
    assert path.read_text() == f"{_line(1)}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_link_to_a_file_that_several_people_use_stays_one(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "mine").symlink_to("team/brine-virt")
    assert update_known_hosts(str(tmp_path / "mine"), [{"hypervisor": "hv1", "machines": [_record(1)]}])
    assert (tmp_path / "mine").is_symlink()
    assert KEY in (tmp_path / "team/brine-virt").read_text()
    assert (tmp_path / "team/brine-virt.lock").exists()


def test_a_relative_path_begins_where_the_run_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert update_known_hosts("brine-virt", [{"hypervisor": "hv1", "machines": [_record(1)]}])
    assert KEY in (tmp_path / "brine-virt").read_text()


def test_what_is_right_already_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "cloud"
    update_known_hosts(str(path), [_answer("hv1", _record(1))])
    os.utime(path, (1, 1))
    assert update_known_hosts(str(path), [_answer("hv1", _record(1))]) is False
    assert path.stat().st_mtime == 1


def test_nothing_to_write_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts.d" / "cloud"
    assert update_known_hosts(str(path), [_answer("hv1")]) is False
    assert list(tmp_path.iterdir()) == []


def test_lines_of_others_survive_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "cloud"
    path.write_bytes(b"caf\xe9 ssh-rsa AAAA\n")
    update_known_hosts(str(path), [_answer("hv1", _record(1))])
    assert path.read_bytes() == b"caf\xe9 ssh-rsa AAAA\n" + f"{_line(1)}\n".encode()


def test_lines_of_others_stay_where_they_repeat_or_have_strange_characters(tmp_path: Path) -> None:
    """U+2028, a form feed and a carriage return are part of a line, for ssh too."""
    path = tmp_path / "cloud"
    others = "# jumphosts\n\njump ssh-rsa AAAA Zo\xeb\u2028desk\r\n\n# a\x0cb\n#\n#\n\n".encode()
    path.write_bytes(others)
    update_known_hosts(str(path), [_answer("hv1", _record(1))])
    assert path.read_bytes() == others + f"{_line(1)}\n".encode()
    update_known_hosts(str(path), [_answer("hv1")])
    assert path.read_bytes() == others


def test_a_line_of_ours_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "cloud"
    path.write_bytes(f"{_line(2, 'hv9')}\n{_line(2, 'hv9')}\n{_line(1)}\r\n{_comment(3)}\r\n".encode())
    update_known_hosts(str(path), [_answer("hv1", _record(1))])
    assert path.read_text() == f"{_line(2, 'hv9')}\n{_line(1)}\n"


def test_two_inventories_at_once_lose_nothing(tmp_path: Path, other_process: dict[str, str]) -> None:
    path = tmp_path / "cloud"
    program = (
        "import sys\n"
        "from ansible_collections.brine.virt.plugins.plugin_utils._inventory.known_hosts import update_known_hosts\n"
        "for number in range(30):\n"
        "    uuid = f'00000000-0000-4000-8{sys.argv[2][-1]:0>3}-{number:012}'\n"
        f"    record = {{'name': 'm', 'uuid': uuid, 'vcpus': 1, 'addresses': [], 'host_keys': ['{KEY}']}}\n"
        "    update_known_hosts(sys.argv[1], [], cached=[{'hypervisor': sys.argv[2], 'machines': [record]}])\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(path), name], env=other_process) for name in ("hv1", "hv2")
    ]
    assert [writer.wait(timeout=300) for writer in writers] == [0, 0]
    assert len(path.read_text().splitlines()) == 60


@pytest.mark.skipif(not os.access("/usr/bin/ssh-keygen", os.X_OK), reason="ssh-keygen is not installed")
def test_ssh_finds_the_key_by_the_alias(tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    public = (tmp_path / "key.pub").read_text().strip()
    path = tmp_path / "cloud"
    update_known_hosts(str(path), [_answer("hv1", _record(1, host_keys=[public]))])
    for name, is_known in ((f"virt-{_uuid(1)}", True), ("m1", False), ("192.0.2.1", False)):
        found = subprocess.run(["ssh-keygen", "-F", name, "-f", str(path)], check=False, capture_output=True, text=True)
        assert (public.split()[1] in found.stdout) is is_known


OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5BBBB"


def _other(number: int, hypervisor: str) -> str:
    return _line(number, hypervisor).replace(KEY, OTHER)


@pytest.mark.parametrize("change", ["inventory", "incomplete", "cached", "add"])
@pytest.mark.parametrize("answers", [[_answer("hv1", _record(1))], [{"hypervisor": "hv1", "machines": None}], []])
def test_a_hypervisor_gives_no_keys_to_the_machine_of_another(answers: list[dict[str, t.Any]], change: str) -> None:
    """Neither beside that one nor while it is silent."""
    answers = [*answers, _answer("hv2", _record(1, host_keys=[OTHER]))]
    if change == "add":
        merged = add_lines([_line(1)], [answer for answer in answers if answer["machines"] is not None])
    elif change == "cached":
        merged = add_keys([_line(1)], answers)
    else:
        merged = merge_lines([_line(1)], answers, drop_gone=change == "inventory")
    assert _line(1) in merged
    assert not [line for line in merged if OTHER in line]
    # Nor when it has first said the same as that one.
    both = [_line(1), _line(1, "hv2")]
    later = merge_lines(both, [_answer("hv1", _record(1)), answers[-1]], drop_gone=True)
    assert not [line for line in later if OTHER in line]


@pytest.mark.parametrize("change", ["inventory", "add"])
def test_nor_by_saying_the_same_first_while_that_one_says_nothing(change: str) -> None:
    lines = [_line(1)]
    for key in (KEY, OTHER, OTHER):
        answers = [_answer("hv2", _record(1, state="running", host_keys=[key]))]
        lines = add_lines(lines, answers) if change == "add" else merge_lines(lines, answers, drop_gone=True)
        assert [line for line in lines if KEY in line]
        assert not [line for line in lines if OTHER in line]
    # Nor does it take the keys away that the first one has for it.
    later = merge_lines(lines, [_answer("hv1", _record(1)), *answers], drop_gone=True)
    assert later == [_comment(1, "hv2"), _line(1)] or later == [_line(1), _comment(1, "hv2")]
    # A hypervisor that is gone for good is said to have nothing.
    assert _other(1, "hv2") in merge_lines(lines, [_answer("hv1"), *answers], drop_gone=True)


def test_two_hypervisors_with_different_keys_for_one_machine_are_both_not_believed() -> None:
    merged = merge_lines(
        [], [_answer("hv1", _record(1)), _answer("hv2", _record(1, host_keys=[OTHER]))], drop_gone=True
    )
    assert not [line for line in merged if KEY in line or OTHER in line]
    # A machine that is just moving is on both, with the same keys.
    moving = [_answer("hv1", _record(1)), _answer("hv2", _record(1))]
    assert merge_lines([], moving, drop_gone=True) == [_line(1), _line(1, "hv2")]


def test_a_machine_that_is_gone_from_its_hypervisor_may_have_other_keys_elsewhere() -> None:
    answers = [_answer("hv1"), _answer("hv2", _record(1, host_keys=[OTHER]))]
    assert merge_lines([_line(1)], answers, drop_gone=True) == [_other(1, "hv2")]
    # The hypervisor that has it may give it others.
    assert merge_lines([_line(1)], [_answer("hv1", _record(1, host_keys=[OTHER]))], drop_gone=True) == [
        _other(1, "hv1")
    ]


@pytest.mark.parametrize(("state", "stays"), [("shutoff", True), ("running", False)])
@pytest.mark.parametrize("keys", [[KEY], []])
def test_a_machine_that_is_off_may_run_where_nobody_answers(state: str, stays: bool, keys: list[str]) -> None:
    known = _line(1) if keys else _comment(1)
    answers = [{"hypervisor": "hv1", "machines": None}, _answer("hv2", _record(1, state=state, host_keys=keys))]
    merged = merge_lines([known], answers, drop_gone=True)
    assert (known in merged) is stays
    assert ("hv1" in last_seen(merged)["m1"]) is stays


def test_a_machine_that_is_about_to_move_is_known_in_both_places_until_it_has_arrived() -> None:
    before = [_line(1), "# mine", _comment(2)]
    coming = [_answer("hv2", _record(1), _record(2), _record(2), _record(3, name="no name"))]
    during = add_arriving(before, coming)
    assert during == [*before, _comment(1, "hv2"), _comment(2, "hv2")]
    assert add_arriving(during, coming) == during
    assert last_seen(during) == {"m1": ["hv1", "hv2"], "m2": ["hv1", "hv2"]}
    # As of the answer before the move.
    after = add_lines(during, [_answer("hv2", _record(1), _record(2, host_keys=[]))])
    assert last_seen(after)["m1"] == ["hv2"]
    assert after[0] == _nameless(1, "hv1")
    # What it has left on hv1 does not say that it is there: it may go back.
    back = add_arriving(after, [_answer("hv1", _record(1))])
    assert last_seen(back)["m1"] == ["hv2", "hv1"]
    # Where the file is not brought up to date, all of that goes with a hypervisor that leaves.
    assert without_hypervisors([*back, "# mine"], ["hv2"]) == [
        line for line in [*back, "# mine"] if "brine.virt:hv2" not in line
    ]


def test_a_machine_that_has_its_uuid_and_another_name_has_not_moved() -> None:
    """Whoever lists it could have the file forget where the one of that name is."""
    silent = {"hypervisor": "hv2", "machines": None, "error": "no route"}
    decoy = _record(1, name="zzz", state="running")
    after = merge_lines([_line(1, "hv2")], [_answer("hv1", decoy), silent], drop_gone=True)
    assert last_seen(after)["m1"] == ["hv2"]
    assert last_seen(merge_lines([_line(1, "hv2")], [_answer("hv1", _record(1)), silent], drop_gone=True)) == {
        "m1": ["hv1"]
    }


@pytest.mark.parametrize("end", [" ", "\t", "\r", " \t\r"])
@pytest.mark.parametrize("line", [_line, _comment])
def test_a_line_is_ours_whatever_an_editor_has_put_at_its_end(line: t.Callable[..., str], end: str) -> None:
    edited = f"{line(1)}{end}"
    assert last_seen([edited]) == {"m1": ["hv1"]}
    assert merge_lines([edited], [_answer("hv1")], drop_gone=True) == []
    assert without_machines([edited], {"hv1": ["m1"]}) == []
