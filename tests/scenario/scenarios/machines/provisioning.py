# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine from a cloud image: created, reached, listed, queried; and a second run, which changes nothing."""

from __future__ import annotations

import json
import re
import shlex
import socket

from ...cloud import Cloud, must
from ...driving.looks import document
from ...needs import WEB, web_file
from ...runner import ScenarioRun

# web1 is what it makes, so it begins without.
NEEDS = ("hypervisors", "alone")
NAME = WEB
# The layout that the seed documents of the project show.
QUERY = re.compile(
    r"^web1\n"
    r"  CPU: 1\n"
    r"  Memory: 524288\n"
    r"  State: running\n"
    r"  Graphics: vnc - (?P<host>hv[12]):\d+\n"
    r"  Disk - vda:\n"
    r"    Size: 3\.0G\n"
    r"    File: /var/lib/libvirt/images/web1-system\.qcow2\n"
    r"    File Format: qcow2\n"
    r"(?:  Disk - vdb:\n"
    r"    Size: 1\.0G\n"
    r"    File: /var/lib/libvirt/images/web1-data\.qcow2\n"
    r"    File Format: qcow2\n)"
    r"(?:  Disk - vdz:\n(?:    .*\n)+)?"
    r"  Nic - 52:54:00:[0-9a-f:]{8}:\n"
    r"    Source: br0\n"
    r"    Type: bridge$",
    re.MULTILINE,
)


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    vms = web_file(cloud)
    # It is to come with the machine.
    cloud.ansible("hypervisors", "brine.virt.virt_image", json.dumps({"name": "debian", "state": "absent"}))
    scenario.step("provision, check mode first: says what it would do, does nothing", lambda: _check_first(cloud, vms))
    scenario.step(
        "provision: the machine answers a ping", lambda: cloud.play_well("provision", "-e", f"@{vms}"), vital=True
    )
    scenario.step("provision again: nothing to change", lambda: _nothing(cloud, vms))
    scenario.step("provision in check mode: nothing to change", lambda: _nothing(cloud, vms, "--check"))
    scenario.step("without a live inventory too", lambda: _nothing(cloud, vms, live=False, known_hosts=True))
    scenario.step("the live inventory has the machine, its groups and its variables", lambda: _listed(cloud))
    scenario.step("ansible reaches it with the host key verified", lambda: _reached(cloud))
    scenario.step("a wrong host key is refused", lambda: _wrong_key(cloud))
    scenario.step("behind a jump host of the group's variables it is reached through that one", lambda: _jump(cloud))
    scenario.step("the guest has its hostname, its disk and its data disk", lambda: _guest(cloud))
    scenario.step("cloud-init finds nothing wrong with the seed or itself", lambda: _cloud_init(cloud))
    scenario.step("virt-xml-validate accepts every machine", lambda: validate_all(cloud))
    scenario.step("query prints the seed's layout", lambda: _query(cloud))
    scenario.step("list and host_info are tables, and data on request", lambda: _overview(cloud))
    scenario.step("query knows uptime, backing chain and consoles", lambda: _details(cloud))


def _check_first(cloud: Cloud, vms: str) -> None:
    before = cloud.state_of_all()
    answer = cloud.play_well("provision", "-e", f"@{vms}", "--check")
    must(answer.recap("changed") >= 2, f"the image and the machine are to be changes:\n{answer.text}")
    must(cloud.state_of_all() == before, "check mode has changed something")


def _nothing(cloud: Cloud, vms: str, *words: str, live: bool = True, known_hosts: bool = False) -> None:
    if known_hosts:
        words = (*words, "-e", f"virt_known_hosts={cloud.build}/scenario-known-hosts/cloud")
        # The first time, the host keys are news.
        cloud.play_well("provision", "-e", f"@{vms}", *words, live=live)
    answer = cloud.play_well("provision", "-e", f"@{vms}", *words, live=live)
    must(answer.recap("changed") == 0, answer.text)
    must(re.search(rf"^{NAME} +: ok=[12]", answer.text, re.MULTILINE) is not None, f"no ping:\n{answer.text}")


def _listed(cloud: Cloud) -> None:
    listed = cloud.listed()
    variables = listed["_meta"]["hostvars"][NAME]
    home = variables["virt_hypervisor"]
    for group in ("virt_machines", "virt_running", "virt_tag_web", f"virt_on_{home}"):
        must(NAME in listed.get(group, {}).get("hosts", []), f"{NAME} is not in group {group}")
    must(variables["virt_autostart"] is True and variables["virt_title"] == "First machine", str(variables))
    must(variables["role"] == "front", "the machine's own variable is missing")
    must(variables["ansible_user"] == "ansible", str(variables))
    must(re.match(r"\d+\.\d+\.\d+\.\d+$", variables["ansible_host"]) is not None, str(variables))


def _reached(cloud: Cloud) -> None:
    answer = cloud.ansible(NAME, "ansible.builtin.ping")
    must(answer.status == 0 and '"pong"' in answer.text, answer.text)


def _wrong_key(cloud: Cloud) -> None:
    """The check is a real one: with another key under the machine's name, ssh does not connect."""
    home = cloud.listed()["_meta"]["hostvars"][NAME]
    path = re.search(r"UserKnownHostsFile=(\S+)", home["ansible_ssh_common_args"])
    must(path is not None, home["ansible_ssh_common_args"])
    other = cloud.build / "scenario-other-key"
    key = (cloud.lab_files / "id_ed25519.pub").read_text(encoding="utf-8").split()
    other.write_text(f"virt-{home['virt_uuid']} {key[0]} {key[1]}\n", encoding="utf-8")
    args = home["ansible_ssh_common_args"].replace(path.group(1) if path else "", str(other))
    answer = cloud.ansible(
        NAME, "ansible.builtin.ping", "", "-e", f'{{"ansible_ssh_common_args": "{args} -o ControlPath=none"}}'
    )
    must("Host key verification failed" in answer.text or "IDENTIFICATION HAS CHANGED" in answer.text, answer.text)


def _jump(cloud: Cloud) -> None:
    """ProxyJump, as the guide has it, and the check of the host key beside it."""
    hosts = cloud.listed()["_meta"]["hostvars"]
    away = next(host for host in cloud.hosts if host != hosts[NAME]["virt_hypervisor"])
    lab = cloud.lab_files
    config = cloud.build / "scenario-ssh-config"
    config.write_text(
        f"Host jump\n  HostName {hosts[away]['ansible_host']}\n  User root\n  IdentityFile {lab}/id_ed25519\n"
        f"  UserKnownHostsFile {lab}/known_hosts\n  StrictHostKeyChecking yes\n",
        encoding="utf-8",
    )
    group = cloud.build / "scenario-jump.yml"
    args = f"-F {config} -o ProxyJump=jump -o ControlPath=none"
    group.write_text(
        json.dumps({"virt_machines": {"vars": {"ansible_ssh_common_args": args}}}),
        encoding="utf-8",
    )
    command = [str(cloud.bin / "ansible"), "-i", str(group), *cloud.sources(), NAME, "-m", "ansible.builtin.shell"]
    answer = cloud.run(*command, "-a", "echo from $SSH_CONNECTION", "-vvv")
    must(answer.status == 0 and f"from {hosts[away]['ansible_host']} " in answer.text, answer.text)
    must("HostKeyAlias=virt-" in answer.text and "StrictHostKeyChecking=yes" in answer.text, answer.text)


def _guest(cloud: Cloud) -> None:
    answer = cloud.ansible(NAME, "ansible.builtin.command", "hostname", "--become")
    must(NAME in answer.text.split(), answer.text)
    answer = cloud.ansible(NAME, "ansible.builtin.command", "lsblk --bytes --output NAME,SIZE,SERIAL,LABEL", "--become")
    for words in (r"vda\s+3221225472\s+system", r"1073741824\s+data", r"cidata"):
        must(re.search(words, answer.text) is not None, answer.text)


def _cloud_init(cloud: Cloud) -> None:
    answer = cloud.ansible(NAME, "ansible.builtin.command", "cloud-init status --wait --long", "--become")
    must(answer.status == 0 and "status: done" in answer.text, answer.text)
    answer = cloud.ansible(NAME, "ansible.builtin.command", "cloud-init schema --system", "--become")
    must(answer.status == 0 and "Valid" in answer.text, answer.text)


def validate_all(cloud: Cloud) -> None:
    """libvirt's own schema judges every machine of every host."""
    for host in cloud.hosts:
        cloud.on(
            host,
            "for m in $(virsh list --all --name); do virsh dumpxml $m | virt-xml-validate - domain || exit 1; done",
        )


def _query(cloud: Cloud) -> None:
    answer = cloud.play_well("query", "-e", f"vm={NAME}")
    found = QUERY.search(answer.text)
    must(found is not None, answer.text)
    must(answer.recap("changed") == 0, answer.text)
    home = cloud.listed()["_meta"]["hostvars"][NAME]["virt_hypervisor"]
    must(found is not None and found["host"] == home, answer.text)


def _overview(cloud: Cloud) -> None:
    text = cloud.play_well("list").text
    must(re.search(rf"^{NAME} +running +hv[12] +[0-9a-f.:]+ +1 +512\.0M +4\.0G +web +-$", text, re.M) is not None, text)
    only = document(cloud, "list", "-e", "state=running", "-e", "tag=web")["machines"]
    must(NAME in [machine["name"] for machine in only], f"list has {only}")
    text = cloud.play_well("host_info").text
    for host in cloud.hosts:
        must(re.search(rf"^{host} +debian \d+ +\d+\.\d+\.\d+ +(yes|no) +\d+ +\d+/\d+ ", text, re.M) is not None, text)
    for host, facts in document(cloud, "host_info")["hypervisors"].items():
        (br0,) = [bridge for bridge in facts["bridge_details"] if bridge["name"] == "br0"]
        must(br0["ports"] != [] and br0["addresses"] != [], f"{host} has {facts['bridge_details']}")
        must(facts["uptime_seconds"] > 0 and facts["placement"]["free_mib"] > 0, f"{host} has {facts}")
        must(any(one["kind"] == "libvirt_server" for one in facts["certificates"]), f"{host} has no certificates")


def _details(cloud: Cloud) -> None:
    """What is asked for by query alone."""
    (machine,) = document(cloud, "query", "-e", f"vm={NAME}")["machines"]
    host = machine["hypervisor"]
    process = int(cloud.on(host, f"ps -o etimes= -p $(cat /run/libvirt/qemu/{NAME}.pid)"))
    must(abs(process - machine["uptime_seconds"]) < 60, f"it is up for {machine['uptime_seconds']} s, not {process} s")
    (chain,) = [disk["backing_chain"] for disk in machine["disks"] if disk["target"] == "vda"]
    must(len(chain) == 1 and "/debian-" in chain[0]["source"] and chain[0]["format"] == "qcow2", f"it has {chain}")
    must((machine["snapshots"], machine["jobs"], machine["errors"]) == ([], [], []), f"it has {machine}")
    text = cloud.play_well("query", "-e", f"vm={NAME}").text
    must(re.search(rf"^  Console: ssh -t .*virsh .*console {NAME}$", text, re.M) is not None, text)
    must(f"\n  Serial log: {host}:/" in text, text)
    login = re.search(r"^  SSH: ssh (.+)$", text, re.M)
    must(login is not None, text)
    words = ["-i", str(cloud.lab_files / "id_ed25519"), *shlex.split(login[1] if login else ""), "hostname"]
    answer = cloud.run("ssh", "-F", "none", "-o", "BatchMode=yes", *words)
    must(answer.status == 0 and answer.text.strip().endswith(NAME), answer.text)
    _viewer(cloud, text)


def _viewer(cloud: Cloud, text: str) -> None:
    """The command for the viewer: as it stands it makes a tunnel to the console, and while something else has the port
    here there is no viewer, which would show that."""
    forward = r"-L 127\.0\.0\.1:(\d+):127\.0\.0\.1:\2"
    command = re.search(rf"^  Viewer: (ssh -f .*{forward} .*) && remote-viewer vnc://127", text, re.M)
    must(command is not None, text)
    line, port = (command[1], int(command[2])) if command else ("", 0)
    with socket.create_server(("127.0.0.1", port)):
        taken = cloud.run("sh", "-c", line)
        must(taken.status != 0 and "in use" in taken.text, f"with the port in use here: {taken.status}, {taken.text}")
    answer = cloud.run("sh", "-c", f"{line} >/dev/null 2>&1")
    must(answer.status == 0, f"{line}: {answer.status}")
    with socket.create_connection(("127.0.0.1", port), timeout=20) as console:
        must(console.recv(3) == b"RFB", "it is not the console that answers there")
