# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypervisors with firewalls that let in SSH alone: opened to each other and to nobody else, and closed again.

The same is done with each firewall: with the first one by the playbook hypervisors, with the others by what the role
does with firewalls, as the rest of the playbook does not know which one there is.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import re
import shlex
import subprocess
import time
import typing as t

from ...cloud import FLEET, Answer, Cloud, must
from ...moving import home
from ...needs import TINY
from ...runner import ScenarioAborted, ScenarioRun
from ...trouble import cut
from .walls import WALLS, Wall

NEEDS = ("hypervisors", "alone", "tiny")
# By default the role leaves firewalls as they are.
OPENED = ("-e", "virt_hypervisor_firewall=auto")
TLS, MIGRATION, CONSOLE = 16514, 49152, 5900
MACHINE = {**TINY, "name": "walled"}
# The last number of an address that nobody has in the lab's network.
STRANGER = 253
# How long a change waits for its confirmation, and is surely over.
CONFIRM_SECONDS, OVER_SECONDS = 5, 60
# The same where the controller is cut off: it has to find that out before it asks what became of the change.
CUT_CONFIRM_SECONDS, CUT_SECONDS = 10, 28
_BEGUN = """
for i in $(seq 600); do
    case $(cat /run/brine-virt/firewall/state 2>/dev/null) in armed | applied) exit ;; esac
    sleep 0.1
done
exit 1
"""
# What the role virt_hypervisor does with firewalls, in order.
LOOK: dict[str, t.Any] = {
    "name": "Look for a firewall, and for the addresses that others have to let in",
    "brine.virt.virt_firewall_switch": {"phase": "look"},
    "register": "__virt_hypervisor_firewall_seen",
}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    for wall in WALLS:
        # One that cannot be had keeps no other from being tried.
        with contextlib.suppress(ScenarioAborted):
            try:
                _one(scenario, cloud, wall)
            finally:
                _tear_down(cloud, wall)


def _one(scenario: ScenarioRun, cloud: Cloud, wall: Wall) -> None:
    def step(title: str, proof: t.Callable[[Cloud, Wall], None], *, vital: bool = False) -> None:
        scenario.step(f"{wall.name}: {title}", lambda: proof(cloud, wall), vital=vital)

    step("it lets in SSH alone, and no hypervisor reaches another", _build, vital=True)
    before = _rules(cloud, wall)
    whole = "hypervisors" if wall is WALLS[0] else "the role's part"
    if wall is WALLS[0]:
        step("hypervisors, which leaves it by default: says whom it keeps out", _left)
    step(f"{whole}, check mode: shows the rules, and changes none", _check)
    step("a change that nobody confirms is undone", _unconfirmed)
    step("the controller is cut off before it confirms, and the change is undone", _cut_off)
    step(f"{whole} opens them to each other, and to nobody else", _open, vital=True)
    step(f"{whole} again: nothing to change", _again)
    step("the rules are there after the firewall is loaded again", _loaded_again)
    step("a machine moves there and back", _move)
    step("an operator's address is let in at libvirt's port, and another one is not", _operator)
    step("the rules go", _close)
    scenario.step(f"{wall.name}: nothing of them is left", lambda: _is_as_before(cloud, wall, before))


def _rules(cloud: Cloud, wall: Wall) -> str:
    return "\n".join(cloud.on(host, wall.rules) for host in FLEET)


def _is_as_before(cloud: Cloud, wall: Wall, before: str) -> None:
    now = _rules(cloud, wall)
    changes = difflib.unified_diff(before.splitlines(), now.splitlines(), "before", "now", lineterm="", n=1)
    must(now == before, "the rules are not as before:\n" + "\n".join(changes))


def _build(cloud: Cloud, wall: Wall) -> None:
    for host in FLEET:
        cloud.on(host, wall.build)
    must(not _reaches(cloud, FLEET[0], FLEET[1], TLS), "the firewall lets in everybody")


def _reaches(cloud: Cloud, host: str, other: str, port: int) -> bool:
    """Whether a packet from one host gets to the other's port."""
    return _got_through(cloud.on(host, f"{_probe(other, port)}; true"))


def _reached_from_here(cloud: Cloud, host: str, port: int) -> bool:
    """The same from this machine, which is no hypervisor."""
    return _got_through(cloud.run("sh", "-c", _probe(_address(cloud, host), port)).text)


def _address(cloud: Cloud, host: str) -> str:
    """What the inventory says."""
    found = re.search(
        rf"^    {host}:\n      ansible_host: (\S+)", (cloud.inventory / "hosts.yml").read_text(), re.MULTILINE
    )
    must(found is not None, f"{host} is not in the inventory")
    return found.group(1) if found else ""


def _reached_by(cloud: Cloud, source: str, host: str, other: str, port: int) -> bool:
    """The same from one host to the other, by an address that the first one has for so long."""
    where = f"('{_address(cloud, other)}', {port}), 3, ('{source}', 0)"
    program = f'import socket; socket.create_connection({where}); print("open")'
    cloud.on(host, f"ip address add {source}/24 dev br0")
    try:
        return _got_through(cloud.on(host, f"LC_ALL=C python3 -c {shlex.quote(program)} 2>&1; true"))
    finally:
        cloud.on(host, f"ip address delete {source}/24 dev br0")


def _probe(address: str, port: int) -> str:
    return f"LC_ALL=C timeout 3 bash -c '</dev/tcp/{address}/{port}' 2>&1 && echo open"


def _got_through(said: str) -> bool:
    """That nobody listens there is an answer of the host; a firewall drops the packet, or says that there is no way."""
    return "open" in said.split() or "Connection refused" in said


def _rules_are(state: str) -> dict[str, t.Any]:
    return {
        "name": "Change the rules",
        "ansible.builtin.include_role": {"name": "brine.virt.virt_hypervisor", "tasks_from": "firewall.yml"},
        "vars": {"__virt_hypervisor_firewall_state": state},
    }


def _play(cloud: Cloud, name: str, *tasks: dict[str, t.Any]) -> list[str]:
    """The command that runs these tasks on both."""
    path = cloud.build / f"{name}.json"
    play = {"hosts": "hypervisors", "gather_facts": False, "become": True, "tasks": tasks}
    path.write_text(json.dumps([play]), encoding="utf-8")
    return [str(cloud.bin / "ansible-playbook"), *cloud.sources(live=False), str(path)]


def _command(cloud: Cloud, wall: Wall) -> list[str]:
    """The command that opens it."""
    if wall is not WALLS[0]:
        return _play(cloud, "open-firewall", LOOK, _rules_are("present"))
    return [str(cloud.bin / "ansible-playbook"), *cloud.sources(live=False), "brine.virt.hypervisors", *OPENED]


def _run(cloud: Cloud, wall: Wall, *words: str) -> Answer:
    answer = cloud.run(*_command(cloud, wall), *words)
    must(answer.status == 0, answer.text)
    return answer


def _left(cloud: Cloud, wall: Wall) -> None:
    before = _rules(cloud, wall)
    answer = cloud.play_well("hypervisors", "--check", live=False)
    for host, other in (FLEET, FLEET[::-1]):
        words = f"the firewall of {host} ({wall.name}) keeps {other} out of port 16514 or of the migration ports"
        must(words in answer.one_line, answer.text)
    must(_rules(cloud, wall) == before, "the rules have changed")


def _check(cloud: Cloud, wall: Wall) -> None:
    before = _rules(cloud, wall)
    answer = _run(cloud, wall, "--check", "--diff")
    must(str(TLS) in answer.text and answer.recap("changed") >= len(FLEET), answer.text)
    must(_rules(cloud, wall) == before, "check mode has changed the rules")


def _switch(cloud: Cloud, host: str, **options: object) -> Answer:
    return cloud.ansible(host, "brine.virt.virt_firewall_switch", json.dumps(options))


def _report(cloud: Cloud, host: str) -> Answer:
    return cloud.ansible(host, "brine.virt.virt_switch", json.dumps({"change": "firewall"}))


def _unconfirmed(cloud: Cloud, wall: Wall) -> None:
    before = _rules(cloud, wall)
    answer = _switch(cloud, FLEET[0], hypervisors=[FLEET[1]], confirm_seconds=CONFIRM_SECONDS)
    must(answer.status == 0 and "armed" in answer.text, answer.text)
    until = time.monotonic() + OVER_SECONDS
    opened = False
    while time.monotonic() < until:
        opened = opened or _reaches(cloud, FLEET[1], FLEET[0], TLS)
        if opened:
            break
    must("rolled_back" in _report(cloud, FLEET[0]).text, "it is not over")
    must(opened, "it was never tried")
    _is_as_before(cloud, wall, before)


def _cut_off(cloud: Cloud, wall: Wall) -> None:
    before = _rules(cloud, wall)
    words = ("-e", f"virt_hypervisor_firewall_confirm_seconds={CUT_CONFIRM_SECONDS}")
    command = [*_command(cloud, wall), *words]
    process = subprocess.Popen(
        command,
        cwd=cloud.root,
        # How a host is reached meanwhile is another thing without it, and most have it so.
        env={**cloud.environment, "ANSIBLE_PIPELINING": "False"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = ""
    try:
        for line in t.cast(t.IO[str], process.stdout):
            said += line
            # The error has the name, too.
            if line.startswith("TASK") and "Compare the firewall's rules" in line:
                # It confirms the change six seconds after it has begun it.
                for host in FLEET:
                    cloud.on(host, _BEGUN)
                with cut(cloud, FLEET[0]), cut(cloud, FLEET[1]):
                    time.sleep(CUT_SECONDS)
    finally:
        process.kill()
        process.wait()
    must(" ".join(said.split()).count("the change was rolled back, and everything is as before") >= len(FLEET), said)
    _is_as_before(cloud, wall, before)


def _open(cloud: Cloud, wall: Wall) -> None:
    _run(cloud, wall)
    for host, other in (FLEET, FLEET[::-1]):
        for port in (TLS, MIGRATION):
            must(_reaches(cloud, host, other, port), f"{host} does not reach {other}:{port}")
        must(not _reaches(cloud, host, other, CONSOLE), f"{host} reaches {other}:{CONSOLE}")
    for host in FLEET:
        for port in (TLS, MIGRATION, CONSOLE):
            must(not _reached_from_here(cloud, host, port), f"this machine reaches {host}:{port}")
        must(_reached_from_here(cloud, host, 22), f"{host} is cut off")


def _again(cloud: Cloud, wall: Wall) -> None:
    for words in ((), ("--check",)):
        answer = _run(cloud, wall, *words)
        must(answer.recap("changed") == 0, answer.text)


def _loaded_again(cloud: Cloud, wall: Wall) -> None:
    before = _rules(cloud, wall)
    for host in FLEET:
        cloud.on(host, wall.load)
    _is_as_before(cloud, wall, before)


def _move(cloud: Cloud, wall: Wall) -> None:
    answer, _result = cloud.init(FLEET[0], **MACHINE)
    must(answer.status == 0, answer.text)
    for host in FLEET[::-1]:
        cloud.play_well("migrate", "-e", f"vm={MACHINE['name']}", "-e", f"to={host}")
        must(home(cloud, MACHINE["name"]) == host, f"it is not on {host}")


def _operator(cloud: Cloud, wall: Wall) -> None:
    """This machine is one. A second address of a hypervisor, which no hypervisor has said, is a stranger's."""
    here = cloud.on(FLEET[0], 'echo "${SSH_CONNECTION%% *}"').strip()
    stranger = re.sub(r"\d+$", str(STRANGER), here)
    must(not _reached_from_here(cloud, FLEET[0], TLS), f"{here} is let in already")
    command = _play(cloud, "operators-firewall", LOOK, _rules_are("present"))
    answer = cloud.run(*command, "-e", json.dumps({"virt_hypervisor_firewall_operators": [here]}))
    must(answer.status == 0 and answer.recap("changed") >= len(FLEET), answer.text)
    for host, other in (FLEET, FLEET[::-1]):
        must(_reached_from_here(cloud, host, TLS), f"{here} does not reach {host}:{TLS}")
        for port in (MIGRATION, CONSOLE):
            must(not _reached_from_here(cloud, host, port), f"{here} reaches {host}:{port}")
        must(_reaches(cloud, host, other, MIGRATION), f"{host} does not reach {other}:{MIGRATION} any more")
    host, other = FLEET
    must(_reached_by(cloud, stranger, other, host, 22), f"{stranger} does not even reach SSH of {host}")
    must(not _reached_by(cloud, stranger, other, host, TLS), f"{stranger} reaches {host}:{TLS}")


def _close(cloud: Cloud, wall: Wall) -> None:
    command = _play(cloud, "close-firewall", _rules_are("absent"))
    answer = cloud.run(*command)
    must(answer.status == 0, answer.text)
    must(not _reaches(cloud, FLEET[0], FLEET[1], TLS), "it is still open")


def _tear_down(cloud: Cloud, wall: Wall) -> None:
    for host in FLEET:
        cloud.on(host, wall.remove)
    if MACHINE["name"] in cloud.listed()["_meta"]["hostvars"]:
        cloud.play_well("purge", "-e", f"vm={MACHINE['name']}", "-e", "force=true")
