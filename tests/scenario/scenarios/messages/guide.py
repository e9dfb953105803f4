# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages of the guide: every command of theirs for the cloud, and every play, as it stands there and in its order.

The page has machines web1 and db1 with a disk for data, on hosts hv1 and hv2; so have they here. What a command needs
besides, and what the page leaves to the reader, stands in _BEFORE; the files of a page that are written, in _FILES. The
tutorial has a scenario of its own.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import typing as t
from pathlib import Path

import yaml

from ....gate.docsite.blocks import Block, code_blocks
from ...cloud import FLEET, Cloud, must
from ...driving import ceph
from ...moving import home
from ...needs import TINY
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "alone", "tiny")
PAGES = ("moving", "snapshots", "images", "backup", "ceph")
HERE, THERE = FLEET
MACHINES = {"web1": HERE, "db1": THERE}
POOLS = {"fast": "/srv/scenario-guide-fast", "backups": "/srv/scenario-guide-backups"}
PLACE = "/srv/backup"
# What is not for this cloud.
_LEFT_OUT = {
    "-e from=hv3": "there is no third host here; the scenario retiring has one",
    "https://": "images from the internet; the scenario images has a server of its own",
    "brine.virt.clone": "it takes the identity out of a real system, with guestfs-tools; so does the scenario clones",
}
# The files of a page that are written beside hosts.yml, by their first line, each with what the lab has in place of its
# words. The monitor's address is known once the cluster runs.
_FILES: dict[str, dict[str, dict[str, str]]] = {
    "ceph": {
        "# group_vars/hypervisors.yml": {"mon1.example.org, mon2.example.org": "{host}"},
        "# vms.yml": {
            "vcpus: 2": "vcpus: 1",
            "memory: 2GiB": "memory: 128",
            "image: debian": "image: tiny",
            "size: 20GiB": "size: 256",
            "size: 100GiB": "size: 64",
        },
    }
}
_PLAYBOOK, _TASK = "ansible-playbook ", "brine.virt."


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    followed: list[str] = []
    try:
        scenario.step("machines as the pages have them", lambda: _begin(cloud), vital=True)
        for page in PAGES:
            for words in _of_page(cloud.root / f"docs/docsite/rst/{page}.rst"):
                head = words.partition("\n")[0]
                if head in _FILES.get(page, {}):
                    title, proof = head, functools.partial(_write, cloud, words, _FILES[page][head])
                else:
                    title = words if words.startswith(_PLAYBOOK) else _first_task(words)
                    proof = functools.partial(_follow, cloud, words)
                scenario.step(f"{page}: {title}", proof)
                followed.append(words)
        # A page whose blocks are not found any more would prove nothing.
        scenario.step("the pages have been followed to their ends", lambda: must(len(followed) >= 33, f"{followed}"))
    finally:
        _end(cloud)


def _of_page(page: Path) -> t.Iterator[str]:
    """What a reader does: the commands of a page, and the text of plays, of tasks and of files."""
    for block in code_blocks(page):
        is_file = block.text.partition("\n")[0] in _FILES.get(page.stem, {})
        found = _commands(block) if block.language == "console" else [block.text] if is_file or _is_work(block) else []
        yield from (words for words in found if not any(mark in words for mark in _LEFT_OUT))


def _commands(block: Block) -> list[str]:
    """The command lines for the cloud, those that go on after a backslash as one."""
    text = block.text.replace("\\\n", "")
    return [line.removeprefix("$ ") for line in text.splitlines() if line.startswith(f"$ {_PLAYBOOK}")]


def _is_work(block: Block) -> bool:
    return block.language == "yaml" and isinstance(yaml.safe_load(block.text), list) and _TASK in block.text


def _first_task(text: str) -> str:
    return ", ".join(dict.fromkeys(re.findall(rf"{re.escape(_TASK)}(\w+):", text)))


def _groups(cloud: Cloud) -> Path:
    return cloud.inventory / "group_vars"


def _begin(cloud: Cloud) -> None:
    for host in FLEET:
        for name, path in POOLS.items():
            cloud.on(
                host,
                f"mkdir -p -m 0711 {path} && virsh -q pool-define-as {name} dir --target {path}"
                f" && virsh -q pool-start {name}",
            )
        cloud.on(host, f"mkdir -p -m 0711 {PLACE}")
    _make(cloud, *MACHINES)


def _make(cloud: Cloud, *names: str) -> None:
    data = {"name": "data", "size": 64}
    machines = [
        {**TINY, "name": name, "hypervisor": MACHINES[name], "disks": [*TINY["disks"], data], "tags": ["web"]}
        for name in names
    ]
    variables = {
        "virt_vms": machines,
        "virt_images": {"tiny": {"src": cloud.images["tiny"]}},
        "virt_provision_wait": False,
    }
    cloud.play_well("provision", "-e", json.dumps(variables), live=False)


def _write(cloud: Cloud, text: str, instead: dict[str, str]) -> None:
    """A file of the page for Ceph, with what the lab has."""
    reached = ceph.start(cloud)
    for there, here in instead.items():
        must(there in text, f"the page does not have {there!r} any more")
        text = text.replace(there, here.format(**reached))
    if "virt_vms" in text:
        # The small guest has no SSH to be waited for.
        more = {"virt_images": {"tiny": {"src": cloud.images["tiny"]}}, "virt_provision_wait": False}
        text += yaml.safe_dump(more)
    _groups(cloud).mkdir(exist_ok=True)
    # In the place of the reader's vault.
    (_groups(cloud) / "all.yml").write_text(yaml.safe_dump({"vault_ceph_key": reached["key"]}), encoding="utf-8")
    name = text.partition("\n")[0].removeprefix("# ")
    (cloud.inventory / name).write_text(text, encoding="utf-8")


def _off(cloud: Cloud) -> None:
    cloud.play_well("power", "-e", "vm=web1", "-e", "state=stopped", "-e", "force=true", "-e", "timeout=5", live=False)


def _gone(cloud: Cloud) -> None:
    cloud.play_well("purge", "-e", "vm=web1", "-e", "force=true", live=False)


def _anew(cloud: Cloud) -> None:
    """Where its backups are to be, and without the snapshots of another page, with which it would not move there."""
    _gone(cloud)
    _make(cloud, "web1")


# By a part of the command: what the reader has done before.
_BEFORE: dict[str, t.Callable[[Cloud], None]] = {
    # The guest of these machines does not react to ACPI.
    "brine.virt.power -e vm=web1 -e state=stopped": _off,
    "brine.virt.backup -e vm=web1,db1": _anew,
    # It is restored because it is gone.
    "brine.virt.restore -e vm=web1 -e src_pool=backups": _gone,
    "brine.virt.restore -e vm=web1 -e src=/srv/backup -e started=true": _gone,
    "-e replace=true": _off,
    # On Ceph from now on.
    "brine.virt.provision -e @vms.yml": _gone,
}


def _follow(cloud: Cloud, words: str) -> None:
    """Run one command as it stands, or a play that the reader has written into a file."""
    for part, prepare in _BEFORE.items():
        if part in " ".join(words.split()):
            prepare(cloud)
    if words.startswith(_PLAYBOOK):
        command = words
    else:
        tasks = yaml.safe_load(words)
        play = tasks if "hosts" in tasks[0] else [{"hosts": "hypervisors", "become": True, "tasks": tasks}]
        (cloud.inventory / "play.yml").write_text(yaml.safe_dump(play, sort_keys=False), encoding="utf-8")
        command = f"{_PLAYBOOK}-i hosts.yml -i cloud.virt.yml play.yml"
    answer = cloud.run("sh", "-c", f"cd '{cloud.inventory}' && {command}")
    must(answer.status == 0, answer.text)
    must(answer.recap("failed") == 0 and answer.recap("unreachable") == 0, answer.text)
    if "--check" not in words:
        _prove(cloud, words)


def _prove(cloud: Cloud, words: str) -> None:
    """That it is so now, for the commands that make or move machines."""
    named = re.search(r"-e new_name=(\S+)", words) or re.search(r"brine\.virt\.restore -e vm=(\S+)", words)
    if named is not None:
        home(cloud, named[1])
    moved = re.search(r"brine\.virt\.migrate -e vm=(\w+) -e to=(\w+)", words)
    if moved is not None:
        must(home(cloud, moved[1]) == moved[2], f"{moved[1]} is on {home(cloud, moved[1])}")
    if "brine.virt.provision" in words:
        must("parent" in ceph.listed(cloud)["web1-system"], f"{home(cloud, 'web1')} has it, and not as a clone in Ceph")
    emptied = re.search(r"brine\.virt\.evacuate -e from=(\w+)", words)
    if emptied is not None:
        must(not cloud.on(emptied[1], "virsh list --all --name").split(), f"{emptied[1]} still has machines")


def _end(cloud: Cloud) -> None:
    for host in FLEET:
        cloud.play("maintenance", "-e", f"end={host}", live=False)
    cloud.play("purge", "-e", json.dumps({"vm": [*MACHINES, "web1-old"]}), "-e", "force=true", live=False)
    if _groups(cloud).exists():
        # Every play would take them for its own.
        shutil.rmtree(_groups(cloud))
        ceph.clear(cloud)
    for host in FLEET:
        cloud.lab(
            "ssh",
            host,
            f"for pool in {' '.join(POOLS)}; do virsh pool-destroy $pool; virsh pool-undefine $pool; done;"
            f" rm -rf {' '.join(POOLS.values())} {PLACE}",
        )
