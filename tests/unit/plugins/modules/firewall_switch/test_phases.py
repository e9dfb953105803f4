# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All phases of virt_firewall_switch with real rules of nftables, in a network of their own.

Two programs stand in for systemd: one that says which file is loaded at boot, and one that starts the switch.
"""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.firewall.own_network import (
    own_network,
    require_nft,
)

pytestmark = pytest.mark.medium

RULES = """\
#!/usr/sbin/nft -f
flush ruleset
table inet f {
    chain in {
        type filter hook input priority 0; policy drop;
        ct state established,related accept
        tcp dport 22 accept
    }
}
"""
OURS = """
# BEGIN brine.virt
add table inet f
add chain inet f in
add chain inet f brine_virt_in
flush chain inet f brine_virt_in
add rule inet f brine_virt_in ip saddr 192.0.2.12 tcp dport { 16514, 49152-49215 } accept
insert rule inet f in jump brine_virt_in comment "brine.virt"
# END brine.virt
"""
SYSTEMCTL = """#!/bin/sh
case "$*" in
    *ActiveState*) kill -0 "$(cat {here}/pid 2>/dev/null)" 2>/dev/null && echo active || echo inactive ;;
    *ExecStart*) printf '%s\\n' UnitFileState=enabled \\
        'ExecStart={{ path=/usr/sbin/nft ; argv[]=/usr/sbin/nft -f {here}/nftables.conf ; ignore_errors=no }}' ;;
esac
"""
SYSTEMD_RUN = """#!/bin/sh
for word; do
    case $word in --property=ExecStopPost=*) post=${{word#--property=ExecStopPost=}} ;; esac
    script=$last last=$word
done
sh -c "sh $script apply; $post" >/dev/null 2>&1 </dev/null &
echo $! > {here}/pid
"""
# Runs what it is told step by step, and says after each what the host has.
DRIVER = f"""
import contextlib, io, json, subprocess, sys, time
sys.path[:0] = {sys.path!r}
from ansible.module_utils.testing import patch_module_args
from ansible_collections.brine.virt.plugins.module_utils._network.switch import control
from ansible_collections.brine.virt.plugins.modules import virt_firewall_switch, virt_switch
here, steps = sys.argv[1], json.loads(sys.argv[2])
control._STATE_ROOT, control._DELAY_SECONDS = here + "/state", 0
def token():
    return control.read("firewall").token if control.state("firewall") else ""
for step in steps:
    if isinstance(step, str):
        if step == "over":
            while control._is_running("firewall"):
                time.sleep(0.1)
            answer = {{"state": control.state("firewall"), "log": control.log("firewall")}}
        else:
            answer = {{"status": subprocess.run(["sh", "-c", step], check=False).returncode}}
    else:
        said = io.StringIO()
        module = virt_switch if "phase" in step else virt_firewall_switch
        if module is virt_switch:
            step = {{"change": "firewall", "token": token(), **step}}
        with patch_module_args(step), contextlib.suppress(SystemExit), contextlib.redirect_stdout(said):
            module.main()
        answer = json.loads(said.getvalue())
    rules = subprocess.check_output(["nft", "list", "ruleset"], text=True)
    print(json.dumps({{**answer, "rules": rules, "file": open(here + "/nftables.conf").read()}}))
"""
HV2 = {"hypervisors": ["192.0.2.12"]}
WAIT, CONFIRM, ABORT = {"phase": "wait"}, {"phase": "confirm"}, {"phase": "abort"}


@pytest.fixture
def host(tmp_path: Path) -> t.Callable[..., list[dict[str, t.Any]]]:
    require_nft()
    (tmp_path / "bin").mkdir()
    for name, text in (("systemctl", SYSTEMCTL), ("systemd-run", SYSTEMD_RUN)):
        (tmp_path / "bin" / name).write_text(text.format(here=tmp_path))
        (tmp_path / "bin" / name).chmod(0o700)
    (tmp_path / "nftables.conf").write_text(RULES)
    (tmp_path / "nftables.conf").chmod(0o755)

    def run(*steps: dict[str, t.Any] | str) -> list[dict[str, t.Any]]:
        """What the host says and has after each step: a call of the module, a command, or «over»."""
        script = 'PATH=$0/bin:$PATH && nft --file "$0/nftables.conf" && ip link set lo up && exec "$@"'
        words = [sys.executable, "-c", DRIVER, str(tmp_path), json.dumps(steps)]
        answer = own_network("sh", "-c", script, str(tmp_path), *words)
        assert answer.returncode == 0, answer.stderr
        return [json.loads(line) for line in answer.stdout.splitlines()]

    return run


Host = t.Callable[..., list[dict[str, t.Any]]]


def test_rules_are_tried_confirmed_and_there_after_a_boot(host: Host, tmp_path: Path) -> None:
    boot = f"nft --file {tmp_path}/nftables.conf"
    armed, waited, confirmed, again, booted, settled = host(HV2, WAIT, CONFIRM, HV2, boot, HV2)
    assert (armed["changed"], armed["state"]) == (True, "armed")
    assert waited["state"] == "applied"
    assert "ip saddr 192.0.2.12 tcp dport { 16514, 49152-49215 } accept" in waited["rules"]
    # A boot would still bring the old ones.
    assert waited["file"] == RULES
    assert (confirmed["changed"], confirmed["state"]) == (True, "confirmed")
    assert confirmed["file"] == RULES + OURS
    assert (tmp_path / "nftables.conf").stat().st_mode & 0o777 == 0o755
    assert (again["changed"], again["state"]) == (False, "settled")
    assert booted["rules"] == confirmed["rules"]
    assert (settled["changed"], settled["state"]) == (False, "settled")


def test_what_nobody_confirms_goes_away(host: Host) -> None:
    before, armed, over = host("true", {**HV2, "confirm_seconds": 1}, "over")
    assert armed["state"] == "armed"
    assert over["state"] == "rolled_back"
    assert [line.split(" ", 1)[1] for line in over["log"]] == [
        "changing the firewall's rules for the cloud's hosts",
        "not confirmed within 1 s",
        "undoing it",
        "everything is as before",
    ]
    assert (over["rules"], over["file"]) == (before["rules"], RULES)


def test_rules_that_vanish_before_they_are_confirmed_do_not_last(host: Host) -> None:
    *_steps, refused, over = host(HV2, WAIT, "nft flush chain inet f brine_virt_in", CONFIRM, "over")
    assert refused["failed"] is True
    assert (
        "the change firewall is applied, but the host has not got the rules of nftables, chain inet f brine_virt_in"
        in refused["msg"]
    )
    assert (over["state"], over["file"]) == ("rolled_back", RULES)
    assert "brine_virt" not in over["rules"]


def test_a_change_that_an_earlier_run_left_is_taken_over(host: Host) -> None:
    _armed, taken, _waited, confirmed = host(HV2, HV2, WAIT, CONFIRM)
    assert (taken["changed"], taken["state"], taken["firewalls"]) == (True, "armed", ["nftables"])
    assert confirmed["file"] == RULES + OURS


def test_a_change_of_another_run_for_something_else_is_left_alone(host: Host) -> None:
    other = {"hypervisors": ["192.0.2.13"]}
    _armed, _waited, refused, confirmed = host(HV2, WAIT, other, CONFIRM)
    assert "a change firewall that another run has begun, and that is not what this one asks for" in refused["msg"]
    assert confirmed["file"] == RULES + OURS


def test_a_change_that_is_aborted_goes_away_at_once(host: Host) -> None:
    before, _armed, _waited, aborted, again, over = host("true", HV2, WAIT, ABORT, ABORT, {"phase": "report"})
    assert (aborted["changed"], aborted["state"], aborted["missing"]) == (True, "rolled_back", [])
    assert (aborted["rules"], aborted["file"]) == (before["rules"], RULES)
    assert (again["changed"], again["state"]) == (False, "rolled_back")
    assert over["log"] == aborted["log"]


def test_what_is_confirmed_is_not_aborted_and_confirming_it_again_changes_nothing(host: Host) -> None:
    *_steps, aborted, again = host(HV2, WAIT, CONFIRM, ABORT, CONFIRM)
    assert (aborted["changed"], aborted["state"]) == (False, "confirmed")
    assert (again["changed"], again["state"], again["file"]) == (False, "confirmed", RULES + OURS)


@pytest.mark.parametrize("phase", ["wait", "confirm", "abort"])
def test_another_runs_token_is_refused(host: Host, phase: str) -> None:
    _armed, _waited, refused, confirmed = host(HV2, WAIT, {"phase": phase, "token": "0" * 16}, CONFIRM)
    assert "this run has not begun the change firewall that is under way" in refused["msg"]
    assert confirmed["state"] == "confirmed"


def test_of_two_runs_with_one_wish_the_later_one_confirms(host: Host) -> None:
    """The first one's token is no longer valid: it has not proved anything for the second one."""
    first, _waited, second, _waited, refused, confirmed = host(
        HV2, WAIT, HV2, WAIT, {"phase": "confirm", "token": "0" * 16}, CONFIRM
    )
    assert first["token"] != second["token"]
    assert refused["failed"] is True
    assert confirmed["changed"] is True


def test_what_waits_or_confirms_too_late_is_told_why(host: Host) -> None:
    _armed, _over, late, later = host({**HV2, "confirm_seconds": 1}, "over", WAIT, CONFIRM)
    assert late["msg"] == ("the change firewall was rolled back: not confirmed within 1 s. Everything is as before")
    assert "was rolled back before it was confirmed: not confirmed within 1 s. Everything is as before" in later["msg"]


def test_a_host_that_has_had_no_change(host: Host) -> None:
    report, refused = host(
        {"phase": "report", "change": "bridge-x", "token": ""}, {"phase": "confirm", "change": "x/y", "token": "x"}
    )
    assert (report["state"], report["log"], report["missing"]) == ("absent", [], [])
    assert "change: no change is called 'x/y'" in refused["msg"]


def test_confirming_before_waiting_is_refused(host: Host) -> None:
    _armed, refused = host({**HV2, "confirm_seconds": 5}, CONFIRM)
    assert refused["failed"] is True


def test_taking_all_rules_away_leaves_nothing(host: Host) -> None:
    absent = {"state": "absent"}
    before, *_steps, gone, again = host("true", HV2, WAIT, CONFIRM, absent, WAIT, CONFIRM, absent)
    assert gone["state"] == "confirmed"
    assert (gone["rules"], gone["file"]) == (before["rules"], RULES)
    assert (again["changed"], again["state"]) == (False, "settled")
