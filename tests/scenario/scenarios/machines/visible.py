# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator sees: what changed, what waits for power off and on, and how far a machine is on its way.

And machines that are hard to look at: one whose guest agent hangs, one that is paused or is just moving, and one with a
title full of what means something to Ansible, to HTML or to XML.
"""

from __future__ import annotations

import html
import json
import re
import shlex
import typing as t

from ...cloud import Cloud, must
from ...driving.looks import document, look
from ...moving import home, life, on_its_way, result_of, rolled_back, ssh
from ...needs import TINY, WEB, store_tiny
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny", "web1")
NAME = "seen1"
TITLE = """"it's" {{ 1/0 }} {{ lookup('pipe', 'id') }} {% raw %} <b>& ]]> &lt;"""
PING = f"""virsh qemu-agent-command --timeout 5 {WEB} '{{"execute": "guest-ping"}}'"""
AGENT_SAYS_NOTHING = "the guest agent did not report its"
PENDING = "until power off and on (a reboot in the guest is not enough): memory"


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    path = str(cloud.build / "scenario-seen.yml")
    scenario.step("provision says what is new, and nothing the second time", lambda: _new(cloud, path), vital=True)
    scenario.step("query has nothing pending for a machine as it was made", lambda: _query(cloud, pending=False))
    scenario.step("provision and query show what waits for power off and on", lambda: _pending(cloud, path))
    scenario.step("the picture is a file with the machine and what is pending", lambda: _picture(cloud))
    scenario.step("start: false on a running machine is reported", lambda: _running(cloud))
    scenario.step("the wait shows the stage, and ends when there is nothing to boot from", lambda: _dead_end(cloud))
    scenario.step(f"{WEB} with a guest agent that hangs is shown in time", lambda: _hung_agent(cloud))
    scenario.step(f"{WEB} paused is shown as that", lambda: _paused(cloud))
    scenario.step(f"{WEB} on its way to the other hypervisor is shown once, as moving", lambda: _moving(cloud))
    scenario.step("a title of quotes, braces and markup is a text everywhere", lambda: _title(cloud))


def _provision(cloud: Cloud, path: str, **changes: object) -> str:
    machine = {**TINY, "name": NAME, "hypervisor": "hv1", "tags": ["front"], **changes}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"virt_vms": [machine], "virt_provision_wait": False}, file)
    return cloud.play_well("provision", "-e", f"@{path}").text


def _new(cloud: Cloud, path: str) -> None:
    text = _provision(cloud, path)
    must(re.search(rf"^{NAME} +hv1 +created ", text, re.MULTILINE) is not None, text)
    text = _provision(cloud, path)
    must("\n1 machine is already up to date.\n" in text, text)


def _query(cloud: Cloud, *, pending: bool) -> None:
    text = cloud.play_well("query", "-e", f"vm={NAME}").text
    for line in ("Hypervisor: hv1", "Tags: front", "In the guest - vda: /dev/disk/by-id/virtio-system"):
        must(f"\n  {line}\n" in text, text)
    must(re.search(r"^  Image: tiny \(tiny-[0-9a-f]{16}\.qcow2\)$", text, re.MULTILINE) is not None, text)
    must((f"\n  Pending {PENDING}\n" in text) is pending and ("Pending" in text) is pending, text)


def _pending(cloud: Cloud, path: str) -> None:
    text = _provision(cloud, path, memory=160)
    must(f"change the definition of {NAME}: memory; pending {PENDING}" in text, text)
    for said in (text, _provision(cloud, path, memory=160)):
        must(re.search(rf"^{NAME} +hv1 .* pending {re.escape(PENDING)}$", said, re.MULTILINE) is not None, said)
    _query(cloud, pending=True)


def _draw(cloud: Cloud, *words: str) -> str:
    """The page that the playbook picture writes; nothing in check mode."""
    file = cloud.build / "scenario-picture.html"
    file.unlink(missing_ok=True)
    answer = cloud.play_well("picture", "-e", f"file={file}", *words)
    must(answer.recap("changed") == 1, answer.text)
    if words:
        must(not file.exists(), f"check mode has written {file}")
        return ""
    must(f"Wrote {file}: hypervisors {len(cloud.hosts)}, machines " in answer.text, answer.text)
    return file.read_text(encoding="utf-8")


def _on_page(page: str, name: str) -> str:
    """What the page has about a machine."""
    return page.partition(f'<b class="name"><bdi>{name}</bdi></b>')[2].partition("</li>")[0]


def _picture(cloud: Cloud) -> None:
    _draw(cloud, "--check")
    page = _draw(cloud)
    entry = _on_page(page, NAME)
    for shown in ('<span class="state">running</span>', "<bdi>front</bdi>", "<bdi>tiny</bdi>", "Pending: memory"):
        must(shown in entry, f"{shown} is not in: {entry}")
    for host in cloud.hosts:
        must(f'data-name="{host}"' in page, f"{host} has no place on the page")
    must(page.count("<script>") == 1 and "certificates: " in page, page[:3000])


def _running(cloud: Cloud) -> None:
    answer, result = cloud.init("hv1", **TINY, name=NAME, start=False)
    must(answer.status == 0, answer.text)
    must(f"{NAME} is running, and start: false does not stop it" in answer.text, f"{result}\n{answer.text}")


def _dead_end(cloud: Cloud) -> None:
    """UEFI says on the serial console that there is nothing to boot from."""
    options: dict[str, t.Any] = {
        "memory": 128,
        "vcpus": 1,
        "firmware": "efi",
        "nic_profile": None,
        "seed": {"method": "none"},
    }
    answer, _result = cloud.init(
        "hv1", name="seen2", disks=[{"name": "empty", "size": 64}], disk_profile=None, **options
    )
    must(answer.status == 0, answer.text)
    answer = cloud.ansible("hv1", "brine.virt.virt_wait", json.dumps({"names": ["seen2"], "timeout": 300}))
    must(re.search(r"^  hv1: \d+ s: booting: seen2$", answer.text, re.MULTILINE) is not None, answer.text)
    must("its serial console shows that there is nothing to boot from" in answer.text, answer.text)


def _hung_agent(cloud: Cloud) -> None:
    """It takes what libvirt asks, and never answers."""
    here = home(cloud, WEB)
    command = ssh(cloud, WEB)

    def signal(name: str) -> None:
        answer = cloud.run(*command, f"sudo systemctl kill --signal={name} qemu-guest-agent.service")
        must(answer.status == 0, answer.text)

    cloud.on(here, PING)
    signal("SIGSTOP")
    try:
        must(cloud.lab("ssh", here, PING).status != 0, "its guest agent answers")
        # Else its address may be known without the agent.
        cloud.on(here, "ip neigh flush all")
        seen = look(cloud, WEB)
    finally:
        signal("SIGCONT")
    must((seen.state, seen.on) == ("running", here), f"{seen.state} on {seen.on}")
    must(seen.address != "-" or f"{WEB} on {here}: {AGENT_SAYS_NOTHING} addresses" in seen.table, seen.table)
    must(
        "\n  State: running\n" in seen.query and f"\n  Error: {AGENT_SAYS_NOTHING} operating" in seen.query, seen.query
    )
    must(seen.variables["virt_state"] == "running", str(seen.variables))
    reasons = [words for words in seen.variables["virt_errors"] if AGENT_SAYS_NOTHING in words]
    must("ansible_host" in seen.variables or bool(reasons), f"nobody says why it has no address: {seen.variables}")
    cloud.on(here, f"for i in $(seq 60); do {PING} && exit; sleep 1; done; exit 1")


def _paused(cloud: Cloud) -> None:
    here = home(cloud, WEB)
    cloud.on(here, f"virsh suspend {WEB}")
    try:
        seen = look(cloud, WEB)
    finally:
        cloud.on(here, f"virsh resume {WEB}")
    must((seen.state, seen.on) == ("paused", here), f"{seen.state} on {seen.on}")
    must("\n  State: paused\n" in seen.query, seen.query)
    must(seen.variables["virt_state"] == "paused" and "virt_paused" in seen.groups, f"{seen.groups} {seen.variables}")


def _moving(cloud: Cloud) -> None:
    """It goes so slowly that it is still on its way afterwards, and is then called back."""
    alive = life(cloud, WEB)
    here = alive.host
    there = next(host for host in cloud.hosts if host != here)
    # Else it would come first, and take minutes at this speed.
    store_tiny(cloud, there, name="debian", src=cloud.images["debian"])
    before = cloud.states(here, there)
    with on_its_way(cloud, WEB, there) as move:
        seen = look(cloud, WEB)
        jobs = cloud.on(here, f"virsh domjobinfo {WEB}")
        move.interrupt()
        answer = move.end()
    must("Outgoing migration" in jobs, f"it was not on its way any more: {jobs}\n{answer.text}")
    must((seen.state, seen.on) == ("running, moving", here), f"{seen.state} on {seen.on}")
    must("\n  State: running, being moved from " in seen.query, seen.query)
    must("\n  Job: migration_out" in seen.query, seen.query)
    must((seen.variables["virt_state"], seen.variables["virt_hypervisor"]) == ("running", here), str(seen.variables))
    must(answer.status != 0, answer.text)
    rolled_back(cloud, here, there, before)
    alive.goes_on(cloud)


def _title(cloud: Cloud) -> None:
    here = home(cloud, WEB)
    before = cloud.on(here, f"virsh desc {WEB} --title").strip()
    cloud.on(here, f"virsh desc {WEB} --live --config --title --new-desc {shlex.quote(TITLE)}")
    try:
        seen = look(cloud, WEB)
        told = {name: document(cloud, name, "-e", f"vm={WEB}")["machines"] for name in ("list", "query")}
        # As a play has it.
        shown = cloud.ansible(WEB, "ansible.builtin.debug", "msg={{ virt_title }}")
        page = _draw(cloud)
    finally:
        cloud.on(here, f"virsh desc {WEB} --live --config --title --new-desc {shlex.quote(before)}")
    must((seen.state, seen.on, seen.variables["virt_title"]) == ("running", here, TITLE), str(seen.variables))
    for name, machines in told.items():
        titles = [machine["title"] for machine in machines]
        must(titles == [TITLE], f"{name} has the title {titles}")
    must(shown.status == 0 and result_of(shown)["msg"] == TITLE, shown.text)
    found = re.search(r'<p class="title"><bdi>(.*?)</bdi></p>', _on_page(page, WEB))
    must(found is not None and html.unescape(found[1]) == TITLE, f"the page has: {_on_page(page, WEB)}")
    must("<b>&" not in page, "the page has markup of the title")
