# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change that nobody confirms goes back: the script itself, run by a shell in a folder.

What it asks of the host are programs that note what they were called with.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
import typing as t
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._network.switch import connection, control, script
from ansible_collections.brine.virt.plugins.module_utils._network.switch.guarded import (
    Check,
    GuardedChange,
    GuardedFile,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.switch.unit_host import UnitHost

pytestmark = pytest.mark.medium

NAME = "bridge-br0"
OLD, NEW = "the old text\n", "it's $new\n"


class Host(UnitHost):
    """With a change to apply."""

    def change(self, **settings: t.Any) -> GuardedChange:
        """Three files (a new one, one that replaces another, one that goes), and a command for each occasion."""
        usual: dict[str, t.Any] = {
            "name": NAME,
            "description": "adding eth0 to br0",
            "files": (
                GuardedFile(self.path("lasting/new"), NEW, self.path("trial/new"), 0o600),
                GuardedFile(self.path("lasting/changed"), "changed\n", self.path("trial/it's changed"), before=OLD),
                GuardedFile(self.path("lasting/gone"), None, before=OLD),
            ),
            **{word: (("tool", word, "it's $HOME"),) for word in ("apply", "keep", "leave", "restore", "last_resort")},
            "back": (Check(("tool", "back"), "eth0 has no address"),),
            "subject": {"bridge": "br0", "addresses": ["192.0.2.10/24"]},
        }
        return GuardedChange(**{**usual, **settings})


BEFORE = {"changed": OLD, "gone": OLD, "other": OLD}
AFTER = {"new": NEW, "changed": "changed\n", "other": OLD}
TRIAL = {"new": NEW, "it's changed": "changed\n"}
UNDONE = ["leave it's $HOME", "restore it's $HOME", "back"]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    (tmp_path / "lasting").mkdir()
    for name in BEFORE:
        (tmp_path / "lasting" / name).write_text(OLD)
        (tmp_path / "lasting" / name).chmod(0o640)
    host = Host(tmp_path)
    host.programs("tool", "restorecon")
    monkeypatch.setattr(control, "_STATE_ROOT", str(tmp_path / "state"))
    monkeypatch.setattr(control, "_DELAY_SECONDS", 0)
    monkeypatch.setattr(control, "run", host.run)
    yield host
    host.end()


def token() -> str:
    """As `arm` returned it."""
    return control.read(NAME).token


def check_undone(host: Host, *told: str) -> None:
    assert control.state(NAME) == control.ROLLED_BACK
    assert (host.texts("trial"), host.texts("lasting")) == ({}, BEFORE)
    assert (host.directory / "lasting/changed").stat().st_mode & 0o777 == 0o640
    assert host.told() == [*told, *UNDONE]
    assert control.log(NAME)[-1].endswith("everything is as before")


def test_what_is_confirmed_lasts(host: Host) -> None:
    control.arm(host.change(), 30)
    control.wait_until_applied(NAME, token())
    # Until then a boot would bring what was.
    assert (host.texts("trial"), host.texts("lasting")) == (TRIAL, BEFORE)
    found = control.pending(NAME)
    assert found is not None
    assert found.subject == {"bridge": "br0", "addresses": ["192.0.2.10/24"]}
    assert found.files[0] == (host.path("lasting/new"), NEW)
    control.confirm(NAME, token())
    assert control.state(NAME) == control.CONFIRMED
    # Tidied up before `confirm` returned: the next change may begin.
    assert (host.texts("trial"), host.texts("lasting")) == ({}, AFTER)
    modes = [(host.directory / "lasting" / name).stat().st_mode & 0o777 for name in ("new", "changed")]
    assert modes == [0o600, 0o644]
    assert host.told() == [
        "apply it's $HOME", "keep it's $HOME"
    ]  # fmt: skip
    assert control.pending(NAME) is None


def test_what_nobody_confirms_goes_back(host: Host) -> None:
    control.arm(host.change(), 1)
    host.wait()
    check_undone(host, "apply it's $HOME")
    assert any(line.endswith("not confirmed within 1 s") for line in control.log(NAME))
    assert control.pending(NAME) is None


def test_it_goes_back_when_told_to(host: Host) -> None:
    control.arm(host.change(), 30)
    control.wait_until_applied(NAME, token())
    control.abort(NAME, token(), "the gateway does not answer")
    check_undone(host, "apply it's $HOME")
    assert any(line.endswith("told to roll back: the gateway does not answer") for line in control.log(NAME))


def test_a_switch_that_is_killed_goes_back_all_the_same(host: Host) -> None:
    control.arm(host.change(), 30)
    control.wait_until_applied(NAME, token())
    host.kill()
    host.wait()
    check_undone(host, "apply it's $HOME")


def test_a_host_that_shuts_down_is_not_kept_waiting(host: Host) -> None:
    """What it would ask of a network manager that has ended mostly hangs. It boots with the files."""
    control.arm(host.change(return_seconds=20), 30)
    control.wait_until_applied(NAME, token())
    for word in ("leave", "restore", "back"):
        (host.directory / f"broken-{word}").touch()
    host.shut_down()
    host.kill(signal.SIGTERM)
    host.wait(15)
    assert control.state(NAME) == control.ROLLED_BACK
    assert (host.texts("trial"), host.texts("lasting")) == ({}, BEFORE)
    assert host.told() == ["apply it's $HOME"]
    assert control.missing(NAME) == ["the host shuts down, and what runs is as before when it boots"]


def test_a_host_that_shuts_down_while_it_goes_back_is_not_kept_waiting(host: Host) -> None:
    (host.directory / "broken-back").touch()
    control.arm(host.change(return_seconds=200), 0)
    deadline = time.monotonic() + 60
    while not (host.directory / "told").exists() or "back" not in host.told():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    host.shut_down()
    host.wait(60)
    assert control.state(NAME) == control.ROLLED_BACK
    assert "last_resort it's $HOME" not in host.told()


def test_a_soft_reboot_keeps_the_kernel_so_that_all_goes_back(host: Host) -> None:
    control.arm(host.change(), 30)
    control.wait_until_applied(NAME, token())
    host.shut_down("soft-reboot.target")
    host.kill(signal.SIGTERM)
    host.wait()
    check_undone(host, "apply it's $HOME")


def test_a_command_that_fails_undoes_all_and_is_named(host: Host) -> None:
    (host.directory / "broken-apply").touch()
    control.arm(host.change(apply=(("tool", "apply"), ("tool", "never"))), 30)
    host.wait()
    check_undone(host, "apply")
    assert any(line.endswith("failed: tool apply") for line in control.log(NAME))


def test_a_trial_file_that_cannot_be_written_undoes_all(host: Host) -> None:
    (host.directory / "blocked").touch()
    files = (*host.change().files, GuardedFile(host.path("lasting/x"), "", host.path("blocked/x")))
    control.arm(host.change(files=files), 30)
    host.wait()
    check_undone(host)


def test_a_lasting_file_that_cannot_be_written_undoes_all(host: Host) -> None:
    """The files before it are in place already: what they replaced comes back."""
    files = (*host.change().files, GuardedFile(host.path("nowhere/x"), "text"))
    control.arm(host.change(files=files), 30)
    control.wait_until_applied(NAME, token())
    (host.directory / "nowhere").symlink_to("missing")
    control.confirm(NAME, token())
    host.wait()
    check_undone(host, "apply it's $HOME")


@pytest.mark.parametrize("kept", ["lasting/new", "trial/new"])
def test_a_file_that_cannot_be_taken_back_is_named(host: Host, kept: str) -> None:
    """The rest goes back all the same."""
    files = (*host.change().files, GuardedFile(host.path("nowhere/x"), "text"))
    (host.directory / "bin/rm").write_text(
        f'#!/bin/sh\ncase "$*" in "-f {host.path(kept)}") exit 1 ;; esac\nPATH={os.environ["PATH"]} exec rm "$@"\n'
    )
    (host.directory / "bin/rm").chmod(0o700)
    control.arm(host.change(files=files), 30)
    control.wait_until_applied(NAME, token())
    (host.directory / "nowhere").symlink_to("missing")
    control.confirm(NAME, token())
    host.wait()
    assert host.texts(kept.split("/")[0]).pop("new") == NEW
    lasting = host.texts("lasting")
    lasting.pop("new", None)
    assert (lasting, control.state(NAME)) == (BEFORE, control.ROLLED_BACK)
    assert any(line.endswith(f"{kept} is not as it was before the change") for line in control.log(NAME))
    assert control.log(NAME)[-1].endswith("not everything is as before: see the lines above")


@pytest.mark.parametrize("shuts_down", [False, True])
@pytest.mark.parametrize("kept", [0, 1, 2])
def test_killed_between_two_lasting_files_it_goes_back(host: Host, kept: int, shuts_down: bool) -> None:
    """Each lasting file is put there by a `sync` that kills the switch in between."""
    change = host.change()
    placed = f"{host.path('state')}/{NAME}/placed/{kept}"
    # Only once: what undoes it syncs as well.
    killer = f"""#!/bin/sh
if [ "$1" = {host.path("lasting")} ] && [ -e {placed} ] && mkdir {host.path("killed")} 2>/dev/null; then
    {f"echo reboot.target > {host.path('jobs')}" if shuts_down else ":"}
    kill -9 $(cat {host.path("pid")})
fi
"""
    (host.directory / "bin/sync").write_text(killer)
    (host.directory / "bin/sync").chmod(0o700)
    control.arm(change, 30)
    control.wait_until_applied(NAME, token())
    control.confirm(NAME, token())
    assert (host.directory / "killed").exists()
    if shuts_down:
        assert (host.texts("trial"), host.texts("lasting")) == ({}, BEFORE)
    else:
        check_undone(host, "apply it's $HOME")


def test_a_file_that_somebody_changed_meanwhile_is_kept(host: Host) -> None:
    control.arm(host.change(), 30)
    control.wait_until_applied(NAME, token())
    (host.directory / "lasting/gone").write_text("by hand\n")
    control.confirm(NAME, token())
    host.wait()
    assert control.state(NAME) == control.ROLLED_BACK
    assert host.texts("lasting") == {**BEFORE, "gone": "by hand\n"}
    assert any("lasting/gone was changed by somebody else" in line for line in control.log(NAME))


def test_a_return_that_fails_runs_all_of_it_and_the_last_resort(host: Host) -> None:
    for word in ("leave", "restore", "back"):
        (host.directory / f"broken-{word}").touch()
    restore = (("tool", "restore", "1"), ("tool", "restore", "2"))
    control.arm(host.change(restore=restore, mend=(("tool", "mend"),), return_seconds=1), 0)
    host.wait()
    assert control.state(NAME) == control.ROLLED_BACK
    assert host.texts("lasting") == BEFORE
    told = host.told()
    assert told[:4] == ["apply it's $HOME", "leave it's $HOME", "restore 1", "restore 2"]
    # Looked at and mended until the time is up, and once more after the last resort; then the complaints.
    rest = told[4:]
    middle = rest.index("last_resort it's $HOME")
    for part in (rest[:middle], rest[middle + 1 : -1]):
        assert part[::2] == ["back"] * len(part[::2])
        assert part[1::2] == ["mend"] * len(part[1::2])
        assert len(part) % 2 == 1
    assert rest[-1] == "back"
    assert control.missing(NAME) == ["eth0 has no address"]
    assert control.how_it_ended(NAME) == "Not everything is as before: eth0 has no address"
    assert any(line.endswith("eth0 has no address") for line in control.log(NAME))
    assert control.log(NAME)[-1].endswith("not everything is as before: see the lines above")


def test_what_no_manager_brings_back_is_mended(host: Host) -> None:
    """A route that somebody has added by hand can be there again when the address is."""
    (host.directory / "broken-back").touch()
    mend = (("rm", "-f", host.path("broken-back")), ("false",))
    control.arm(host.change(mend=mend, return_seconds=2), 0)
    host.wait()
    assert control.missing(NAME) == []
    assert control.how_it_ended(NAME) == "Everything is as before"
    assert control.log(NAME)[-1].endswith("everything is as before")


def test_a_switch_whose_folder_is_removed_ends(host: Host) -> None:
    control.arm(host.change(), 1)
    deadline = time.monotonic() + 20
    while control.state(NAME) != control.APPLIED:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    # It may be writing there at this very moment.
    while os.path.exists(control._folder(NAME)):
        assert time.monotonic() < deadline
        shutil.rmtree(control._folder(NAME), ignore_errors=True)
    host.wait()


def test_what_a_manager_brings_back_in_time_is_not_mended(host: Host) -> None:
    """An address that ip(8) has given a link first is no longer the manager's, who would refuse it at the next run."""
    (host.directory / "broken-back").touch()
    later = f"(sleep 2; rm -f {shlex.quote(host.path('broken-back'))}) >/dev/null 2>&1 &"
    control.arm(host.change(restore=(("sh", "-c", later),), mend=(("tool", "mend"),), return_seconds=30), 0)
    host.wait()
    assert control.how_it_ended(NAME) == "Everything is as before"
    assert "mend" not in host.told()


def test_a_command_that_hangs_is_killed_and_undoes_all(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "APPLY_SECONDS", 0)
    monkeypatch.setattr(script, "LEAST_SECONDS", 1)
    control.arm(host.change(apply=(("tool", "apply"), ("sleep", "120"), ("tool", "never"))), 1)
    host.wait(600)
    check_undone(host, "apply")
    assert any(line.endswith("killed, as it took longer than 1 s: sleep 120") for line in control.log(NAME))


def test_a_return_that_hangs_comes_to_its_last_resort(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a command is deaf to SIGTERM."""
    for word in ("_ONE_SECONDS", "_TEST_SECONDS", "LEAST_SECONDS"):
        monkeypatch.setattr(script, word, 1)
    hangs = ("sh", "-c", "trap '' TERM; sleep 120; sleep 120")
    change = host.change(
        leave=(hangs,),
        restore=(hangs, ("tool", "restore")),
        back=(Check(("sleep", "120"), "eth0 has no address"),),
        return_seconds=1,
    )
    control.arm(change, 0)
    host.wait(600)
    assert host.texts("lasting") == BEFORE
    assert host.told() == ["apply it's $HOME", "restore", "last_resort it's $HOME"]
    assert control.log(NAME)[-1].endswith("not everything is as before: see the lines above")


def test_systemd_does_not_cut_off_the_last_resort(host: Host) -> None:
    change = host.change(
        leave=(("x",),) * 2, restore=(("x",),) * 20, back=(Check(("x",), "y"),) * 3, mend=(("x",),) * 4
    )
    control.arm(change, 0)
    (limit,) = (int(word.split("=")[-1]) for word in host.asked if word.startswith("--property=TimeoutStopSec="))
    # All that hangs, one after the other: beyond what they have together, 5 s for each and 2 s until it is killed, and
    # 5 s for the question before it, which is asked thrice more.
    assert limit > (30 + 90 + 20 + 60 + 20) + (2 + 20 + 1) * (5 + 7) + (3 * 3 + 2 * 4) * 7 + 3 * 5


def test_it_is_not_confirmed_by_a_call_that_may_be_older_than_the_change(host: Host) -> None:
    control.arm(host.change(), 30)
    with pytest.raises(HostError, match="has not been seen as applied"):
        control.confirm(NAME, token())


def test_another_runs_token_is_refused(host: Host) -> None:
    """Of two operators, neither confirms or ends what the other one has begun."""
    control.arm(host.change(), 30)
    for act in (
        lambda: control.wait_until_applied(NAME, "f" * 16),
        lambda: control.confirm(NAME, "f" * 16),
        lambda: control.abort(NAME, "", "a mistake"),
    ):
        with pytest.raises(ConflictError, match=f"this run has not begun the change {NAME} that is under way"):
            act()
    control.wait_until_applied(NAME, token())
    # Neither does what somebody else has seen count.
    with pytest.raises(ConflictError, match="another run has"):
        control.confirm(NAME, "f" * 16)
    assert control.state(NAME) == control.APPLIED


def test_two_changes_have_two_tokens(host: Host) -> None:
    first = control.arm(host.change(), 30)
    control.wait_until_applied(NAME, first.token)
    control.abort(NAME, first.token, "once more")
    second = control.arm(host.change(), 30)
    assert first.token != second.token
    with pytest.raises(ConflictError, match="this run has not begun"):
        control.abort(NAME, first.token, "too late")


def test_what_is_taken_over_belongs_to_the_taker_alone(host: Host) -> None:
    first = control.arm(host.change(), 30)
    control.wait_until_applied(NAME, first.token)
    second = control.take_over(NAME)
    with pytest.raises(ConflictError, match="this run has not begun"):
        control.confirm(NAME, first.token)
    # That the first one has seen it proves nothing for the second one's connections.
    with pytest.raises(HostError, match="Call phase=wait first"):
        control.confirm(NAME, second.token)
    control.wait_until_applied(NAME, second.token)
    control.confirm(NAME, second.token)
    assert control.state(NAME) == control.CONFIRMED
    with pytest.raises(ConflictError, match="has been confirmed already"):
        control.take_over(NAME)


def test_an_abort_while_it_is_applied_is_obeyed_between_two_commands(host: Host) -> None:
    gate = host.path("gate")
    change = host.change(apply=(("tool", "apply"), ("sh", "-c", f"until [ -e {gate} ]; do sleep 0.1; done"), ("no",)))
    control.arm(change, 30)
    while not (host.directory / "told").exists() or "apply" not in host.told()[:1]:
        time.sleep(0.01)
    abort = threading.Thread(target=control.abort, args=(NAME, token(), "wrong\n uplink"))
    abort.start()
    while not (host.directory / "state" / NAME / "decision").exists():
        time.sleep(0.01)
    assert control.state(NAME) == control.ARMED
    (host.directory / "gate").touch()
    abort.join()
    # Not 30 s later; and the call has waited for all of it.
    check_undone(host, "apply")
    assert any(line.endswith("told to roll back: wrong uplink") for line in control.log(NAME))
    assert not any("failed" in line for line in control.log(NAME))


def test_who_confirms_after_the_end_of_the_time_is_told(host: Host) -> None:
    (host.directory / "broken-back").touch()
    control.arm(host.change(return_seconds=5), 1)
    control.wait_until_applied(NAME, token())
    while control.state(NAME) == control.APPLIED:
        time.sleep(0.01)
    with pytest.raises(ConflictError, match="was not confirmed in time, or has failed, and goes back"):
        control.confirm(NAME, token())
    (host.directory / "broken-back").unlink()
    host.wait()
    assert (control.state(NAME), host.texts("lasting")) == (control.ROLLED_BACK, BEFORE)


def test_who_looks_after_the_end_of_the_time_is_told_too(host: Host) -> None:
    """Whoever waits for it looks five times a second, and a busy host may look less often."""
    control.arm(host.change(return_seconds=5), 1)
    host.wait()
    control.wait_until_applied(NAME, token())
    with pytest.raises(ConflictError, match="was not confirmed in time, or has failed, and goes back"):
        control.confirm(NAME, token())


def test_of_a_confirmation_and_the_end_of_the_time_one_alone_wins(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time ends between the look of `confirm` and its decision."""
    control.arm(host.change(), 30)
    control.wait_until_applied(NAME, token())
    link = os.link

    def late(source: str, target: str) -> None:
        Path(target).write_text("late\n")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(ConflictError, match="was not confirmed in time"):
        control.confirm(NAME, token())
    host.wait()
    check_undone(host, "apply it's $HOME")


@pytest.mark.parametrize("turn", range(4))
def test_confirmed_at_the_last_moment_it_stays_or_the_caller_learns_that_it_does_not(host: Host, turn: int) -> None:
    control.arm(host.change(), 1)
    control.wait_until_applied(NAME, token())
    time.sleep(0.8 + turn / 10)
    try:
        control.confirm(NAME, token())
        confirmed = True
    except ConflictError:
        confirmed = False
    host.wait()
    expected = (control.CONFIRMED, AFTER) if confirmed else (control.ROLLED_BACK, BEFORE)
    assert (control.state(NAME), host.texts("lasting")) == expected


def test_an_abort_after_the_confirmation_undoes_nothing(host: Host) -> None:
    control.arm(host.change(), 30)
    control.wait_until_applied(NAME, token())
    control.confirm(NAME, token())
    control.abort(NAME, token(), "too late")
    assert (control.state(NAME), host.texts("lasting")) == (control.CONFIRMED, AFTER)
    # Once more is nothing.
    with pytest.raises(ConflictError, match="has been confirmed already"):
        control.confirm(NAME, token())


def test_it_is_not_confirmed_over_a_connection_that_is_older(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    control.arm(host.change(), 30)
    control.wait_until_applied(NAME, token())
    started = time.clock_gettime(time.CLOCK_BOOTTIME)
    for age, peer in ((60, "192.0.2.1"), (0.5, None)):
        found = connection.SshConnection(started - age, peer)
        monkeypatch.setattr(connection, "ssh_connection", lambda found=found: found)
        with pytest.raises(HostError, match="over a connection that is older than the change"):
            control.confirm(NAME, token())
    assert control.state(NAME) == control.APPLIED
    monkeypatch.setattr(connection, "ssh_connection", lambda: connection.SshConnection(started + 0.1, None))
    control.confirm(NAME, token())
    assert control.state(NAME) == control.CONFIRMED


def test_the_limits_are_what_the_switch_needs(host: Host) -> None:
    armed = control.arm(host.change(return_seconds=60), 45)
    assert armed.apply_seconds > 45 + 30
    assert f"--property=TimeoutStopSec={armed.settle_seconds}" in host.asked
    assert control.read(NAME) == armed


def test_one_change_of_a_name_at_a_time(host: Host) -> None:
    control.arm(host.change(), 30)
    with pytest.raises(ConflictError, match="another change of bridge-br0 is under way"):
        control.arm(host.change(), 30)


def test_one_change_of_any_name_at_a_time(host: Host) -> None:
    """Two bridges may be over one uplink."""
    control.arm(host.change(), 30)
    first = host.texts(f"state/{NAME}/before")
    running = {f"brine-virt-{NAME}.service"}
    host.is_unit = running.__contains__
    with pytest.raises(ConflictError, match=f"another change of {NAME} is under way"):
        control.arm(host.change(name="bridge-br1"), 30)
    assert not (host.directory / "state/bridge-br1").exists()
    assert host.texts(f"state/{NAME}/before") == first
    # One that is over is in nobody's way.
    control.wait_until_applied(NAME, token())
    control.abort(NAME, token(), "no answer")
    control.arm(host.change(name="bridge-br1"), 30)


def test_of_two_that_begin_at_once_one_is_refused(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither replaces the other's folder between its look at the units and the start of its own."""
    monkeypatch.setattr(control, "_LOCK_SECONDS", 0)
    refused = []

    def run(*command: str) -> str:
        if command[0] == "systemd-run":
            with pytest.raises(ConflictError, match="another change is just being started") as caught:
                control.arm(host.change(description="of the other one"), 30)
            refused.append(caught.value)
        return host.run(*command)

    monkeypatch.setattr(control, "run", run)
    control.arm(host.change(), 30)
    assert len(refused) == 1
    control.wait_until_applied(NAME, token())
    assert not any("of the other one" in line for line in control.log(NAME))


def test_a_file_in_the_way_of_the_trial_is_kept(host: Host) -> None:
    (host.directory / "trial").mkdir()
    (host.directory / "trial/new").write_text("somebody's")
    with pytest.raises(ConflictError, match="trial/new exists, where the change would be tried"):
        control.arm(host.change(), 30)
    assert host.texts("trial") == {"new": "somebody's"}


@pytest.mark.parametrize("name", ["new", "changed", "gone"])
def test_what_somebody_wrote_since_it_was_planned_is_kept(host: Host, name: str) -> None:
    change = host.change()
    (host.directory / "lasting" / name).write_text("by hand\n")
    with pytest.raises(ConflictError, match=f"lasting/{name} was changed just now by somebody else"):
        control.arm(change, 30)
    assert host.texts("lasting") == {**BEFORE, name: "by hand\n"}
    assert control.state(NAME) is None


def test_what_somebody_removed_since_it_was_planned_is_not_made_anew(host: Host) -> None:
    (host.directory / "lasting/changed").unlink()
    with pytest.raises(ConflictError, match="lasting/changed was changed just now"):
        control.arm(host.change(), 30)


def test_a_symbolic_link_is_not_replaced(host: Host) -> None:
    (host.directory / "lasting/new").symlink_to("/dev/null")
    with pytest.raises(ConflictError, match="lasting/new is a symbolic link"):
        control.arm(host.change(), 30)


def test_what_is_remembered_is_for_root_alone(host: Host) -> None:
    """A file of a change may hold a secret."""
    control.arm(host.change(), 30)
    assert (host.directory / "state" / NAME).stat().st_mode & 0o777 == 0o700


def test_a_change_of_nothing_but_commands(host: Host) -> None:
    control.arm(replace(host.change(), files=(), back=()), 30)
    control.wait_until_applied(NAME, token())
    control.confirm(NAME, token())
    assert control.state(NAME) == control.CONFIRMED


def test_a_host_that_has_had_no_change(host: Host) -> None:
    assert (control.state(NAME), control.log(NAME), control.pending(NAME)) == (None, [], None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have a full disk for a test")
@pytest.mark.parametrize("ballast", [52, 36])
def test_a_full_disk_does_not_keep_the_old_files_from_coming_back(host: Host, ballast: int) -> None:
    """With room for no new file, or for the first alone: what was written of one that fails is in nobody's way."""
    lasting = host.directory / "lasting"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", lasting], check=True)
    try:
        old, one, other = "old\n" * 2000, "new\n" * (9000 if ballast == 52 else 2000), "x\n" * 18000
        (lasting / "one").write_text(old)
        files = (
            GuardedFile(host.path("lasting/one"), one, host.path("trial/one"), before=old),
            GuardedFile(host.path("lasting/other"), other, host.path("trial/other")),
        )
        (lasting / "ballast").write_bytes(b"x" * 1024 * ballast)
        control.arm(host.change(files=files), 30)
        control.wait_until_applied(NAME, token())
        control.confirm(NAME, token())
        host.wait()
        assert control.state(NAME) == control.ROLLED_BACK
        assert any("cannot write" in line for line in control.log(NAME))
        assert (lasting / "one").read_text() == old
        assert sorted(os.listdir(lasting)) == ["ballast", "one"]
        assert control.log(NAME)[-1].endswith(" everything is as before")
    finally:
        subprocess.run(["umount", lasting], check=True)
