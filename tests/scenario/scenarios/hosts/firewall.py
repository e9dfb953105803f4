# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypervisors with firewalls that let in SSH alone: opened to each other and to nobody else, and closed again."""

from __future__ import annotations

import json
import re
import time

from ...cloud import FLEET, Answer, Cloud, must
from ...moving import home
from ...needs import TINY
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "alone", "tiny")
CONF = "/etc/nftables.conf"
# By default the role leaves firewalls as they are.
OPENED = ("-e", "virt_hypervisor_firewall=auto")
# As an administrator writes it. Frames that a bridge passes on are not counted among what comes in.
RULES = """#!/usr/sbin/nft -f
flush ruleset
table inet filter {
    chain input {
        type filter hook input priority filter; policy drop;
        ct state established,related accept
        iif lo accept
        icmp type echo-request accept
        icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert, echo-request } accept
        udp dport 68 accept
        tcp dport 22 accept
    }
}
"""
TLS, MIGRATION, CONSOLE = 16514, 49152, 5900
# Of the program timeout.
TIMED_OUT = 124
MACHINE = {**TINY, "name": "walled"}
# How long a change waits for its confirmation, and is surely over.
CONFIRM_SECONDS, OVER_SECONDS = 5, 60


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("firewalls let in SSH alone, and no hypervisor reaches another", lambda: _wall(cloud), vital=True)
        scenario.step("hypervisors, check mode: shows the rules, and changes none", lambda: _check(cloud))
        scenario.step("a change that nobody confirms is undone", lambda: _unconfirmed(cloud))
        scenario.step("hypervisors opens them to each other, and to nobody else", lambda: _open(cloud), vital=True)
        scenario.step("hypervisors again: nothing to change", lambda: _again(cloud))
        scenario.step("the rules are there after the firewall is loaded again", lambda: _reloaded(cloud))
        scenario.step("a machine moves there and back", lambda: _move(cloud))
        scenario.step("the rules go without a trace", lambda: _close(cloud))
    finally:
        _tear_down(cloud)


def _ruleset(cloud: Cloud) -> str:
    return "\n".join(cloud.on(host, f"nft --stateless list ruleset; cat {CONF}") for host in FLEET)


def _wall(cloud: Cloud) -> None:
    for host in FLEET:
        text = RULES.replace("'", "'\\''")
        cloud.on(
            host,
            "command -v nft >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get -qq install -y nftables >/dev/null;"
            f" printf '%s' '{text}' >{CONF} && systemctl enable nftables.service && systemctl restart nftables.service",
        )
    must(not _reaches(cloud, FLEET[0], FLEET[1], TLS), "the firewall lets in everybody")


def _reaches(cloud: Cloud, host: str, other: str, port: int) -> bool:
    """Whether a packet from one host gets to the other's port: an answer that nobody listens is one."""
    probe = f"timeout 3 bash -c '</dev/tcp/{other}/{port}' 2>&1; echo status $?"
    said = cloud.on(host, probe)
    return f"status {TIMED_OUT}" not in said


def _reached_from_here(cloud: Cloud, host: str, port: int) -> bool:
    """The same from this machine, which is no hypervisor."""
    found = re.search(
        rf"^    {host}:\n      ansible_host: (\S+)", (cloud.inventory / "hosts.yml").read_text(), re.MULTILINE
    )
    must(found is not None, f"{host} is not in the inventory")
    probe = f"</dev/tcp/{found.group(1) if found else ''}/{port}"
    return cloud.run("timeout", "3", "bash", "-c", probe).status != TIMED_OUT


def _check(cloud: Cloud) -> None:
    before = _ruleset(cloud)
    answer = cloud.play_well("hypervisors", *OPENED, "--check", "--diff", live=False)
    must(str(TLS) in answer.text and answer.recap("changed") >= len(FLEET), answer.text)
    must(_ruleset(cloud) == before, "check mode has changed the rules")


def _switch(cloud: Cloud, host: str, **options: object) -> Answer:
    return cloud.ansible(host, "brine.virt.virt_firewall_switch", json.dumps(options))


def _report(cloud: Cloud, host: str) -> Answer:
    return cloud.ansible(host, "brine.virt.virt_switch", json.dumps({"change": "firewall"}))


def _unconfirmed(cloud: Cloud) -> None:
    before = _ruleset(cloud)
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
    must(_ruleset(cloud) == before, "the rules are not as before")


def _open(cloud: Cloud) -> None:
    cloud.play_well("hypervisors", *OPENED, live=False)
    for host, other in (FLEET, FLEET[::-1]):
        for port in (TLS, MIGRATION):
            must(_reaches(cloud, host, other, port), f"{host} does not reach {other}:{port}")
        must(not _reaches(cloud, host, other, CONSOLE), f"{host} reaches {other}:{CONSOLE}")
    for host in FLEET:
        for port in (TLS, MIGRATION, CONSOLE):
            must(not _reached_from_here(cloud, host, port), f"this machine reaches {host}:{port}")
        must(_reached_from_here(cloud, host, 22), f"{host} is cut off")


def _again(cloud: Cloud) -> None:
    for words in ((), ("--check",)):
        answer = cloud.play_well("hypervisors", *OPENED, *words, live=False)
        must(answer.recap("changed") == 0, answer.text)


def _reloaded(cloud: Cloud) -> None:
    before = _ruleset(cloud)
    for host in FLEET:
        cloud.on(host, "systemctl restart nftables.service")
    must(_ruleset(cloud) == before, "the rules are not as before")


def _move(cloud: Cloud) -> None:
    answer, _result = cloud.init(FLEET[0], **MACHINE)
    must(answer.status == 0, answer.text)
    for host in FLEET[::-1]:
        cloud.play_well("migrate", "-e", f"vm={MACHINE['name']}", "-e", f"to={host}")
        must(home(cloud, MACHINE["name"]) == host, f"it is not on {host}")


def _close(cloud: Cloud) -> None:
    play = [
        {
            "hosts": "hypervisors",
            "gather_facts": False,
            "become": True,
            "tasks": [
                {
                    "name": "Remove the rules",
                    "ansible.builtin.include_role": {
                        "name": "brine.virt.virt_hypervisor",
                        "tasks_from": "firewall.yml",
                    },
                    "vars": {"__virt_hypervisor_firewall_state": "absent"},
                }
            ],
        }
    ]
    path = cloud.build / "close-firewall.json"
    path.write_text(json.dumps(play), encoding="utf-8")
    answer = cloud.run(str(cloud.bin / "ansible-playbook"), *cloud.sources(live=False), str(path))
    must(answer.status == 0, answer.text)
    for host in FLEET:
        must(cloud.on(host, f"cat {CONF}") == RULES, f"{CONF} of {host} is not as it was")
    must(not _reaches(cloud, FLEET[0], FLEET[1], TLS), "it is still open")


def _tear_down(cloud: Cloud) -> None:
    for host in FLEET:
        cloud.on(host, f"systemctl disable --now nftables.service; nft flush ruleset; rm -f {CONF}")
    if MACHINE["name"] in cloud.listed()["_meta"]["hostvars"]:
        cloud.play_well("purge", "-e", f"vm={MACHINE['name']}", "-e", "force=true")
