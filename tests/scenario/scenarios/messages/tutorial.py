# SPDX-License-Identifier: GPL-3.0-or-later
"""The tutorial of the guide: its files and its commands, in the page's order, from bare hosts to a machine that moved.

Instead of the reader's own: the addresses of the lab's hosts, its SSH keys, its image, and the collection of this
checkout, which is built and installed as the page says by `Cloud.install`. Everything else is as the page has it.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import time
import typing as t
from pathlib import Path

import yaml

from ....gate.docsite.blocks import Block, code_blocks
from ...cloud import Cloud, must
from ...needs import start_lab
from ...runner import ScenarioRun

NEEDS = ()
# As the reader has it.
PIPELINING = False
PAGE = Path("docs/docsite/rst/tutorial.rst")
MACHINE = "web1"
# Which the lab has elsewhere.
OWN_KNOWN_HOSTS = "'UserKnownHostsFile=~/.ssh/known_hosts.d/brine-virt'"
# The options for SSH that the lab's hosts have: the reader's key and known hosts are in ~/.ssh.
_OPTIONS_OF_HOSTS = re.compile(r"(?<=ssh -t )(?:-[io] \S+ )+(?=root@)")
# What differs from run to run: figures with their units, checksums, and UUIDs.
_FIGURE = re.compile(r"\b[0-9a-f]{16}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|[\d.:]+(?:[KMGT]i?B?|B)?\b")
# How far something is: what takes no time is not shown.
_PROGRESS = re.compile(r"^  \S+: .*(?: s: |%, )")


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    blocks = code_blocks(cloud.root / PAGE)
    if cloud.lab_hosts():
        scenario.step("the lab goes, for hosts that are bare", lambda: cloud.lab_well("down"), vital=True)
    scenario.step("the collection is built and installed from its tarball", cloud.install, vital=True)
    scenario.step("two bare hosts come up", lambda: start_lab(cloud), vital=True)
    reader = _Reader(cloud)
    scenario.step("the page's files", lambda: reader.write(blocks), vital=True)
    for command, shown in [one for block in blocks for one in block.dialogue if _is_for_the_cloud(one[0])]:
        # Each one builds on those before it.
        scenario.step(command, functools.partial(reader.follow, command, shown), vital=True)
    scenario.step("the page has been followed to its end", lambda: _end(cloud, reader))


def _is_for_the_cloud(command: str) -> bool:
    """The others fetch the collection, build and install it."""
    return not command.startswith(("git ", "ansible-galaxy "))


class _Reader:
    """Somebody who has a directory, and does in it what the page says."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._folder = cloud.build / "tutorial"
        self._output = self._folder / "output"
        self.followed: list[str] = []
        self.hypervisors: list[str] = []
        self._known_hosts = ""
        # What the commands have taken so far, and by the time that the machine was there.
        self.seconds = 0.0
        self.seconds_to_machine = 0.0

    def write(self, blocks: list[Block]) -> None:
        """The files of the page, those whose first line is a comment with their name; and what replaces ~/.ssh."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._output.mkdir(parents=True)
        for block in blocks:
            first = block.text.partition("\n")[0]
            if first.startswith("# "):
                (self._folder / first.removeprefix("# ")).write_text(block.text, encoding="utf-8")
        lab = yaml.safe_load((self._cloud.lab_inventory / "hosts.yml").read_text(encoding="utf-8"))
        self._change("hosts.yml", lambda hosts: self._use_addresses(hosts, lab["hypervisors"]["hosts"]))
        self._change("vms.yml", self._use_image)
        self._known_hosts = lab["all"]["vars"]["virt_known_hosts"]
        self._change("cloud.virt.yml", lambda cloud: {**cloud, "known_hosts": self._known_hosts})
        groups = self._folder / "group_vars"
        groups.mkdir()
        # The seed's key, which is the reader's own otherwise, is the lab's for all machines.
        for group, words in lab.items():
            (groups / f"{group}.json").write_text(json.dumps(words.get("vars", {})), encoding="utf-8")

    def _change(self, name: str, change: t.Callable[[dict[str, t.Any]], dict[str, t.Any]]) -> None:
        path = self._folder / name
        data = change(yaml.safe_load(path.read_text(encoding="utf-8")))
        path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")

    def _use_addresses(self, hosts: dict[str, t.Any], lab: dict[str, t.Any]) -> dict[str, t.Any]:
        named = hosts["hypervisors"]["hosts"]
        must(set(named) <= set(lab), f"the page has hosts that the lab lacks: {', '.join(named)}")
        for name, words in named.items():
            words["ansible_host"] = lab[name]["ansible_host"]
        return hosts

    def _use_image(self, machines: dict[str, t.Any]) -> dict[str, t.Any]:
        must(set(machines["virt_images"]["debian"]) == {"url", "checksum"}, "the page has another image")
        machines["virt_images"]["debian"] = {"src": self._cloud.images["debian"]}
        # The lab's image has the agent already.
        seed = machines.pop("virt_seed")
        must(seed == {"packages": ["qemu-guest-agent"]}, "the page has another seed")
        return machines

    def follow(self, command: str, shown: list[str]) -> None:
        """Run one command as it stands; what it says is kept in a file beside. shown: what the page has of that."""
        began = time.monotonic()
        answer = self._cloud.run("sh", "-c", f"cd '{self._folder}' && {command}")
        self.seconds += time.monotonic() - began
        self.followed.append(command)
        (self._output / f"{len(self.followed):02}.txt").write_text(f"$ {command}\n{answer.text}", encoding="utf-8")
        must(answer.status == 0, answer.text)
        must(answer.recap("failed") == 0 and answer.recap("unreachable") == 0, answer.text)
        text = answer.text.replace(f"UserKnownHostsFile={self._known_hosts}", OWN_KNOWN_HOSTS)
        text = _OPTIONS_OF_HOSTS.sub("", text)
        said = {_without_figures(line) for line in text.splitlines()}
        unsaid = [line for line in shown if not _PROGRESS.match(line) and _without_figures(line) not in said]
        must(not unsaid, "The page shows what was not said:\n" + "\n".join([*unsaid, "", answer.text]))
        if "--check" not in command and ("brine.virt.provision" in command or "brine.virt.migrate" in command):
            self.hypervisors.append(_where(self._cloud))
            self.seconds_to_machine = self.seconds_to_machine or self.seconds


def _without_figures(line: str) -> str:
    return " ".join(_FIGURE.sub("0", line).split())


def _where(cloud: Cloud) -> str:
    """The hypervisor that the machine runs on; it runs on one alone."""
    found = [host for host in cloud.hosts if MACHINE in cloud.on(host, "virsh list --name").split()]
    must(len(found) == 1, f"{MACHINE} runs on {', '.join(found) or 'no hypervisor'}")
    return found[0]


def _end(cloud: Cloud, reader: _Reader) -> None:
    must(len(reader.followed) >= 18, f"the page has {len(reader.followed)} commands")
    print(f"   a machine after {reader.seconds_to_machine:.0f} s, the end of the page after {reader.seconds:.0f} s")
    places = reader.hypervisors
    must(len(places) >= 3 and len(set(places[:-1])) == 1 and places[-1] != places[0], f"it ran on {places}")
    for host in cloud.hosts:
        must(MACHINE not in cloud.on(host, "virsh list --all --name").split(), f"{MACHINE} is still on {host}")
        left = cloud.on(host, "ls /var/lib/libvirt/images").split()
        must(not left, f"{host} still has {left}")
