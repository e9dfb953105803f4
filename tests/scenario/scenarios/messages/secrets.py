# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing secret stands in a hypervisor's journal, its process list, or what Ansible prints; and passwords for SSH and
sudo go well with progress that is read meanwhile."""

from __future__ import annotations

import email
import json
import os
import re
import tempfile
import typing as t
from functools import partial
from pathlib import Path

from ...cloud import SUDO_HOST, Answer, Cloud, must
from ...needs import TINY
from ...runner import ScenarioRun
from ...trouble import slow

NEEDS = ("hypervisors", "tiny")
NAME = "secretive"
KEY_LINE = "b3BlbnNzaC1rZXktCANARYv1AAAAB3NzaC1yc2EAAAADAQ"
CANARIES = (
    "CAN'RY\"1",
    "$6$canarysalt$" + "hAshCanary/" * 8,
    KEY_LINE,
    "first line of a secret canary file",
    'second "quoted" \\ line of the canary',
    "canary-of-a-script",
    "canary-in-a-url",
    "canary-token-of-a-query",
)
SEED = {
    "password_hash": CANARIES[1],
    "files": [
        {
            "path": "/etc/key",
            "content": f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINE}\n-----END RSA PRIVATE KEY-----\n",
        },
        {"path": "/etc/app", "content": f"{CANARIES[3]}\n{CANARIES[4]}\n", "secret": True},
    ],
    "user_data": f"#!/bin/sh\nlogin --password {CANARIES[5]}\n",
}
MACHINE = {**TINY, "name": NAME, "start": False, "graphics": {"type": "vnc", "password": CANARIES[0]}, "seed": SEED}
URL = f"http://me:{CANARIES[6]}@127.0.0.1:1/tiny.qcow2?token={CANARIES[7]}"

USER, PASSWORD = "operator1", "pass word'of the operator"
# What is sent takes about 13 seconds.
SIZE_MIB, MBIT = 24, 16


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("provision -vvvvv prints no secret", lambda: _provision(cloud), vital=True)
        scenario.step("nor does the run that changes nothing, nor its check", lambda: _again(cloud))
        scenario.step("the secrets have arrived where they belong", lambda: _delivered(cloud))
        scenario.step("a password and a token in an image's address stay there", lambda: _address(cloud))
        scenario.step("no journal, process or file of a hypervisor has one", lambda: _hosts(cloud))
        scenario.step("the live inventory and query have none", lambda: _live(cloud))
    finally:
        for host in cloud.hosts:
            cloud.on(host, f"virsh undefine --nvram --remove-all-storage {NAME} >/dev/null 2>&1 || true")
            cloud.on(host, "pkill -F /run/brine-virt-watch.pid; rm -f /run/brine-virt-watch*")
    try:
        scenario.step("an operator with a password for SSH and for sudo", lambda: _operator(cloud))
        for words in ("ControlPersist", "no shared connection"):
            scenario.step(f"sees progress, and the work is done ({words})", partial(_progress, cloud, words))
        scenario.step("with the wrong password for sudo nothing is done, and that is reported", lambda: _wrong(cloud))
    finally:
        _no_operator(cloud)


def _no_canary(text: str, where: str) -> None:
    """No secret is in a text, in its own or an escaped spelling."""
    for canary in CANARIES:
        for spelling in (canary, json.dumps(canary)[1:-1], repr(canary)[1:-1]):
            place = text.find(spelling)
            must(place < 0, f"{where} has {canary}: {text[max(0, place - 200) : place + 100]}")


def _play(cloud: Cloud, *words: str, **variables: t.Any) -> Answer:
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        file.write(json.dumps({"virt_provision_wait": False, **variables}))
        file.flush()
        return cloud.play("provision", "-e", f"@{file.name}", "--diff", *words)


def _machines(cloud: Cloud) -> dict[str, t.Any]:
    return {"virt_vms": [MACHINE], "virt_images": {"tiny": {"src": cloud.images["tiny"]}}}


def _provision(cloud: Cloud) -> None:
    for host in cloud.hosts:
        # Whoever may log in can read what a process was started with.
        watch = "while sleep 0.1; do ps -eww -o args; done >/run/brine-virt-watch"
        cloud.on(host, f"setsid sh -c '{watch}' </dev/null >/dev/null 2>&1 & echo $! >/run/brine-virt-watch.pid")
    answer = _play(cloud, "-vvvvv", **_machines(cloud))
    must(answer.status == 0 and f"define machine {NAME}" in answer.text, answer.text[-4000:])
    _no_canary(answer.text, "the output")


def _again(cloud: Cloud) -> None:
    for words in (["--check"], []):
        answer = _play(cloud, "-vvv", *words, **_machines(cloud))
        must(answer.status == 0 and answer.recap("changed") == 0, answer.text[-4000:])
        _no_canary(answer.text, "the output")


def _home(cloud: Cloud) -> str:
    return next(host for host in cloud.hosts if NAME in cloud.on(host, "virsh list --all --name").split())


def _delivered(cloud: Cloud) -> None:
    host = _home(cloud)
    must("passwd='CAN" in cloud.on(host, f"virsh dumpxml --security-info {NAME}"), "the console has no password")
    text = cloud.on(host, f"bsdtar -xOf /var/lib/libvirt/images/{NAME}-seed.iso user-data")
    parts = [part.get_payload(decode=True) for part in email.message_from_string(text).walk()]
    seed = b"\n".join(part for part in parts if isinstance(part, bytes)).decode()
    must(CANARIES[5] in seed and CANARIES[1] in seed, "the seed does not have what it is to have")


def _address(cloud: Cloud) -> None:
    images = {"private": {"url": URL, "checksum": f"sha256:{'0' * 64}"}}
    answer = _play(cloud, "-vvvvv", virt_vms=[{**MACHINE, "name": f"{NAME}2", "image": "private"}], virt_images=images)
    must(answer.status != 0 and "cannot download http://me:********@127.0.0.1:1/tiny.qcow2" in answer.text, answer.text)
    _no_canary(answer.text, "the output")


def _hosts(cloud: Cloud) -> None:
    for host in cloud.hosts:
        journal = cloud.on(host, "journalctl --no-pager --all --output json")
        _no_canary(journal, f"the journal of {host}")
        _no_canary(journal.replace('\\"', '"').replace("\\\\", "\\"), f"the journal of {host}")
        _no_canary(cloud.on(host, "cat /run/brine-virt-watch"), f"the processes of {host}")
        found = cloud.on(host, "grep -raslF CANARY /tmp /var/tmp /root/.ansible /run/lock || true")
        must(found.strip() == "", f"{host} has it in {found}")
    host = _home(cloud)
    journal = cloud.on(host, "journalctl --no-pager --all")
    must("virt_init" in journal and NAME in journal, "the journal does not have the run itself")
    must("ps -eww" in cloud.on(host, "cat /run/brine-virt-watch"), "nobody has watched the processes")


def _live(cloud: Cloud) -> None:
    listed = json.dumps(cloud.listed())
    must(NAME in listed, "the inventory does not have the machine")
    _no_canary(listed, "the inventory")
    answer = cloud.play_well("query", "-e", f"vm={NAME}", "-v")
    _no_canary(answer.text, "query")


def _operator(cloud: Cloud) -> None:
    cloud.on(SUDO_HOST, f"useradd --create-home --shell /bin/bash {USER}")
    cloud.on(SUDO_HOST, f"cat <<'E' | chpasswd\n{USER}:{PASSWORD}\nE")
    cloud.on(SUDO_HOST, f"echo '{USER} ALL=(ALL) ALL' >/etc/sudoers.d/{USER}")
    cloud.on(
        SUDO_HOST,
        "echo 'PasswordAuthentication yes' >/etc/ssh/sshd_config.d/00-operator.conf; systemctl reload ssh; sleep 1",
    )
    _file(cloud).write_bytes(os.urandom(SIZE_MIB * 1024 * 1024))


def _file(cloud: Cloud) -> Path:
    return cloud.build / "scenario-chance.raw"


def _as_operator(cloud: Cloud, arguments: dict[str, t.Any], *, args: str | None = None, sudo: str = PASSWORD) -> Answer:
    variables = {
        "ansible_user": USER,
        "ansible_password": PASSWORD,
        "ansible_become": True,
        "ansible_become_password": sudo,
        "ansible_ssh_private_key_file": "/dev/null",
        **({} if args is None else {"ansible_ssh_args": args}),
    }
    return cloud.ansible(SUDO_HOST, "brine.virt.virt_image", json.dumps(arguments), "-v", "-e", json.dumps(variables))


def _progress(cloud: Cloud, words: str) -> None:
    args = None if words == "ControlPersist" else "-o ControlMaster=no -o ControlPath=none"
    try:
        with slow(cloud, SUDO_HOST, MBIT):
            answer = _as_operator(cloud, {"name": "chance", "src": str(_file(cloud))}, args=args)
        must(answer.status == 0 and '"changed": true' in answer.text, answer.text)
        lines = re.findall(rf"^ *{SUDO_HOST}: chance: .*", answer.text, re.MULTILINE)
        must(len(lines) >= 2, f"only {lines} of: {answer.text}")
        must("progress is shown" not in answer.text and PASSWORD not in answer.text, answer.text)
    finally:
        answer = _as_operator(cloud, {"name": "chance", "state": "absent"})
    must(answer.status == 0, answer.text)


def _wrong(cloud: Cloud) -> None:
    answer = _as_operator(cloud, {"name": "chance", "src": str(_file(cloud))}, sudo="wrong")
    must(answer.status != 0 and "ncorrect sudo password" in answer.text, answer.text)
    must("chance-" not in cloud.on(SUDO_HOST, "virsh vol-list images"), "it has been done all the same")


def _no_operator(cloud: Cloud) -> None:
    cloud.on(SUDO_HOST, f"pkill -u {USER}; userdel --remove {USER} 2>/dev/null; rm -f /etc/sudoers.d/{USER}; true")
    # For a moment nobody listens.
    cloud.on(SUDO_HOST, "rm -f /etc/ssh/sshd_config.d/00-operator.conf; systemctl reload ssh; sleep 1")
    _file(cloud).unlink(missing_ok=True)
