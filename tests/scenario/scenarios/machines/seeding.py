# SPDX-License-Identifier: GPL-3.0-or-later
"""What machines find at their first boot: Debian 12 and 13 seeded for cloud-init, and one without it seeded offline.

The older one has ifupdown and the newer one netplan, so cloud-init writes the network in both ways.
"""

from __future__ import annotations

import json
import typing as t

from ...cloud import Cloud, must
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
CLOUD, NEWER, PLAIN, COPY = "seeded1", "newer1", "plain1", "copy1"
NEWER_IMAGE, COPY_IMAGE = "debian13", "golden"
# `openssl passwd -6` of a word that nobody knows any more.
HASH = "$6$abcdefgh$yVfUwsw5T.JApa8POvClA1pQ5peiq97DUNSZYCsKY0WZF6NmiBqqM8sYbMFNM0ZhPfIOJUJlwJ4G0d0WVBQ3Q/"
SECRET = "nobody's business 7f3a"  # noqa: S105
# Of several that boot at once.
BOOT_SECONDS = 450
# What tells a machine from others, and what it has in common with one that is made from its image.
IDENTITY = {"identity": "cat /etc/machine-id", "keys": "cat /etc/ssh/ssh_host_*_key.pub", "names": "hostname -f"}
MOTD = {"motd": "cat /etc/brine/motd"}
# What the first machine says of these, and the sums of its host keys.
_first: dict[str, str] = {}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step("hv1 gets guestfish, once", lambda: _guestfish(cloud), vital=True)
    scenario.step(
        "an image without cloud-init is made and stored", lambda: _image_without_cloud_init(cloud), vital=True
    )
    # One boots while the next one is made.
    scenario.step("a machine seeded for cloud-init: check, run, check, run", lambda: _quartet(cloud, _seeded(cloud)))
    scenario.step("a Debian 13 seeded for cloud-init: check, run, check, run", lambda: _quartet(cloud, _newer(cloud)))
    scenario.step("a machine seeded by guestfs: check, run, check, run", lambda: _quartet(cloud, _plain(cloud)))
    scenario.step(f"{CLOUD} comes up, its host key verified", lambda: _up(cloud, CLOUD))
    scenario.step("cloud-init found nothing wrong", lambda: _cloud_init(cloud, CLOUD))
    scenario.step(
        "its names, disks, users, files and commands are as asked for",
        lambda: _contents(cloud, CLOUD, "www.example.org"),
    )
    scenario.step(
        "one nic has its static address and routes, the other one by DHCP", lambda: _network(cloud, CLOUD, 40)
    )
    scenario.step("a changed seed is reported, and nothing more", lambda: _outdated(cloud))
    scenario.step("the seed is refreshed, and the machine starts with it", lambda: _refreshed(cloud))
    scenario.step(f"{NEWER} comes up, its host key verified", lambda: _up(cloud, NEWER))
    scenario.step("cloud-init found nothing wrong", lambda: _cloud_init(cloud, NEWER))
    scenario.step(
        "its names, disks, users, files and commands are as asked for",
        lambda: _contents(cloud, NEWER, "newer.example.org"),
    )
    scenario.step(
        "one nic has its static address and routes, the other one by DHCP", lambda: _network(cloud, NEWER, 42)
    )
    scenario.step(f"{PLAIN} comes up, its host key verified", lambda: _up(cloud, PLAIN))
    scenario.step("its names, users, files and time zone are as asked for", lambda: _plain_contents(cloud))
    scenario.step(
        "one nic has its static address and routes, the other one by DHCP", lambda: _network(cloud, PLAIN, 41)
    )
    scenario.step(f"{CLOUD} has the changes, and the host keys that it had", lambda: _has_the_news(cloud))
    scenario.step("no secret in the output, not even with -vvv", lambda: _silent(cloud))
    scenario.step("an image of a machine: refused, check, run, check, run", lambda: _machine_image(cloud))
    scenario.step("a machine that is created from it comes up", lambda: _up_from_image(cloud))
    scenario.step("it is another machine, with the files of the first one", lambda: _is_another(cloud))
    scenario.step("the images are what they were, and nothing is left on hv1", lambda: _clean(cloud))
    scenario.step("what guestfs cannot do is refused before anything happens", lambda: _refused(cloud))
    scenario.step(
        "a disk without an operating system is reported, and the machine rolled back", lambda: _no_system(cloud)
    )
    scenario.step("the machines and their images go", lambda: _away(cloud, CLOUD, NEWER, PLAIN, COPY))


def _subnet(cloud: Cloud) -> str:
    """The first three numbers of the lab's addresses; guests get .100 and up by DHCP, hosts have .11 to .30."""
    return str(cloud.listed()["_meta"]["hostvars"]["hv1"]["ansible_host"]).rpartition(".")[0]


def _key(cloud: Cloud) -> str:
    return (cloud.lab_files / "id_ed25519.pub").read_text(encoding="utf-8").strip()


def _nics(cloud: Cloud, number: int) -> list[dict[str, t.Any]]:
    net = _subnet(cloud)
    static = {
        "addresses": [f"{net}.{number}/24"],
        "nameservers": [f"{net}.1"],
        "search": ["lab.example.org"],
        "routes": [{"to": "198.51.100.0/24", "via": f"{net}.1", "metric": 50}],
        "mtu": 1400,
    }
    return [{"name": "eth0", "bridge": "br0"}, {"name": "eth1", "bridge": "br0", **static}]


def _seeded(cloud: Cloud) -> dict[str, t.Any]:
    files = [
        {"path": "/etc/brine/motd", "content": "'\"$(reboot)\né\n"},
        {"path": "/home/ops/.netrc", "content": SECRET, "owner": "ops:operators", "mode": "0600", "secret": True},
        {"path": "/etc/brine/bytes", "content": "AAEC", "encoding": "base64"},
    ]
    return {
        "name": CLOUD,
        "vcpus": 1,
        "memory": 512,
        "image": "debian",
        "disks": [{"name": "system", "size": "3GiB"}, {"name": "data", "size": 512}],
        "nics": _nics(cloud, 40),
        "seed": {
            "fqdn": "www.example.org",
            "authorized_keys": [_key(cloud)],
            "password_hash": HASH,
            "timezone": "Europe/Vienna",
            "users": [{"name": "ops", "sudo": True, "groups": ["adm", "operators"], "authorized_keys": [_key(cloud)]}],
            "files": files,
            "run_commands": ["echo first >>/ran", ["sh", "-c", "echo second >>/ran"]],
            "user_data": {"runcmd": ["echo third >>/ran"], "write_files": [{"path": "/merged", "content": "yes"}]},
        },
    }


def _newer(cloud: Cloud) -> dict[str, t.Any]:
    _store(cloud, name=NEWER_IMAGE, src=cloud.build_images(NEWER_IMAGE)[NEWER_IMAGE])
    spec = _seeded(cloud)
    seed = {**spec["seed"], "fqdn": "newer.example.org"}
    return {**spec, "name": NEWER, "image": NEWER_IMAGE, "nics": _nics(cloud, 42), "seed": seed}


def _plain(cloud: Cloud) -> dict[str, t.Any]:
    spec = _seeded(cloud)
    seed = {key: value for key, value in spec["seed"].items() if key not in ("run_commands", "user_data")}
    return {
        **spec,
        "name": PLAIN,
        "image": "plain",
        "nics": _nics(cloud, 41),
        "seed": {**seed, "method": "guestfs", "fqdn": "plain.example.org"},
    }


def _guestfish(cloud: Cloud) -> None:
    words = ("-e", "virt_hypervisor_guestfs=true", "--limit", "hv1")
    cloud.play_well("hypervisors", *words, live=False)
    answer = cloud.play_well("hypervisors", *words, live=False)
    must(answer.recap("changed") == 0, answer.text)
    cloud.on("hv1", "guestfish --version")


def _store(cloud: Cloud, **options: t.Any) -> str:
    """Where the store of hv1 has an image."""
    answer = cloud.ansible("hv1", "brine.virt.virt_image", json.dumps(options))
    must(answer.status == 0, answer.text)
    return cloud.on("hv1", f"ls /var/lib/libvirt/virt-images/{options['name']}-*.qcow2").split()[-1]


def _image_without_cloud_init(cloud: Cloud) -> None:
    debian = _store(cloud, name="debian", src=cloud.images["debian"])
    words = "dpkg --purge cloud-init >/dev/null 2>&1; rm -rf /etc/cloud /var/lib/cloud; ! command -v cloud-init"
    cloud.on(
        "hv1",
        f"cd /var/tmp && qemu-img convert -O qcow2 {debian} plain.qcow2 &&"
        f" LIBGUESTFS_BACKEND=direct guestfish --format=qcow2 -a plain.qcow2 -i sh '{words}'",
    )
    _store(cloud, name="plain", path="/var/tmp/plain.qcow2")
    cloud.on("hv1", "rm /var/tmp/plain.qcow2")


def _quartet(cloud: Cloud, spec: dict[str, t.Any]) -> None:
    for check, changed in ((True, True), (False, True), (True, False), (False, False)):
        before = cloud.state("hv1")
        answer, result = cloud.init("hv1", check=check, **spec)
        must(answer.status == 0 and result["changed"] is changed, f"check {check}: {answer.text}")
        must((cloud.state("hv1") == before) is not (changed and not check), f"check {check}: the state says otherwise")


def _up(cloud: Cloud, name: str) -> None:
    answer = cloud.ansible(name, "ansible.builtin.wait_for_connection", f"timeout={BOOT_SECONDS}")
    must(answer.status == 0, answer.text)
    must("StrictHostKeyChecking=yes" in str(cloud.listed()["_meta"]["hostvars"][name]), "host keys are not checked")
    cloud.ansible(name, "ansible.builtin.command", "sh -c 'cloud-init status --wait || true'", "--become")


def _guest(cloud: Cloud, name: str, command: str) -> str:
    """A shell command in a machine; it has to end well."""
    answer = cloud.ansible(name, "ansible.builtin.shell", json.dumps({"cmd": command}), "--become")
    must(answer.status == 0, answer.text)
    return answer.text.partition(">>\n")[2]


def _ask(cloud: Cloud, name: str, **commands: str) -> dict[str, str]:
    """What several shell commands in a machine say, by their names: one connection instead of many."""
    script = "; ".join(f"echo; echo '== {key}'; {command}" for key, command in commands.items())
    parts = _guest(cloud, name, script).split("\n== ")[1:]
    return {key: text.rstrip("\n") for key, _newline, text in (part.partition("\n") for part in parts)}


def _cloud_init(cloud: Cloud, name: str) -> None:
    said = _ask(cloud, name, status="cloud-init status --long", schema="cloud-init schema --system")
    must("status: done" in said["status"] and "Valid" in said["schema"], str(said))


def _common_contents(cloud: Cloud, name: str, fqdn: str, locked: str) -> None:
    """locked: what cloud-init, or guestfs, writes where an account has no password."""
    said = _ask(
        cloud,
        name,
        names="hostname; hostname -f",
        motd="cat /etc/brine/motd",
        bytes="od -An -tx1 /etc/brine/bytes",
        netrc="stat -c '%U:%G %a' /home/ops/.netrc; cat /home/ops/.netrc",
        groups="id -nG ops",
        sudo="sudo -l -U ops",
        password="getent shadow ansible | cut -d: -f2",  # noqa: S106
        locked="getent shadow ops | cut -d: -f2",
        sshd="sshd -T",
        zone="readlink /etc/localtime",
        keys="cat /home/ops/.ssh/authorized_keys",
        host_keys="cat /etc/ssh/ssh_host_*_key.pub",
    )
    expected = {
        "names": f"{fqdn.split('.')[0]}\n{fqdn}",
        "motd": "'\"$(reboot)\né",
        "bytes": " 00 01 02",
        "netrc": f"ops:operators 600\n{SECRET}",
        "groups": "ops adm operators",
        "password": HASH,
        "locked": locked,
        "keys": _key(cloud),
    }
    for key, words in expected.items():
        must(said[key] == words, f"{key}: {said[key]!r} is not {words!r}")
    must("(ALL) NOPASSWD: ALL" in said["sudo"], said["sudo"])
    must("passwordauthentication no" in said["sshd"], "a password would do for SSH")
    must(said["zone"].endswith("Europe/Vienna"), said["zone"])
    keys = {" ".join(line.split()[:2]) for line in said["host_keys"].splitlines()}
    noted = cloud.on("hv1", f"virsh metadata {name} urn:brine:virt:1")
    must(len(keys) == 2 and all(f">{key}<" in noted for key in keys), f"{keys} are not those of {noted}")


def _contents(cloud: Cloud, name: str, fqdn: str) -> None:
    _common_contents(cloud, name, fqdn, locked="!")
    said = _ask(cloud, name, ran="cat /ran /merged", disks="lsblk --bytes --noheadings --output SERIAL,SIZE")
    must(said["ran"].split() == ["first", "second", "third", "yes"], f"a command is missing: {said['ran']}")
    for serial, mib in (("system", 3072), ("data", 512)):
        must(f"{serial} {mib << 20}" in " ".join(said["disks"].split()), said["disks"])


def _network(cloud: Cloud, name: str, number: int) -> None:
    net = _subnet(cloud)
    said = _ask(
        cloud,
        name,
        links="ip -json -4 address",
        macs="cat /sys/class/net/eth0/address /sys/class/net/eth1/address",
        route="ip route show 198.51.100.0/24",
        resolver="cat /run/systemd/resolve/resolv.conf 2>/dev/null || cat /etc/resolv.conf",
    )
    links = {link["ifname"]: link for link in json.loads(said["links"])}
    addresses = {link: [info["local"] for info in links[link]["addr_info"]] for link in ("eth0", "eth1")}
    must(addresses["eth1"] == [f"{net}.{number}"] and links["eth1"]["mtu"] == 1400, said["links"])
    must(len(addresses["eth0"]) == 1 and int(addresses["eth0"][0].rpartition(".")[2]) >= 100, said["links"])
    notes = cloud.on("hv1", f"virsh metadata {name} urn:brine:virt:1")
    for link, mac in zip(("eth0", "eth1"), said["macs"].split(), strict=True):
        must(f'name="{link}" mac="{mac}"' in notes.replace("'", '"'), f"{link} has the MAC address {mac}: {notes}")
    must(f"via {net}.1" in said["route"] and "metric 50" in said["route"], f"no route: {said['route']}")
    must(f"nameserver {net}.1" in said["resolver"], f"no name server: {said['resolver']}")


def _news(cloud: Cloud) -> dict[str, t.Any]:
    """The spec with a file and a user more."""
    spec = _seeded(cloud)
    seed = spec["seed"]
    return {
        **spec,
        "seed": {
            **seed,
            "users": [*seed["users"], {"name": "later"}],
            "files": [*seed["files"], {"path": "/etc/brine/later", "content": "here"}],
        },
    }


def _outdated(cloud: Cloud) -> None:
    before = cloud.state("hv1")
    answer, result = cloud.init("hv1", **_news(cloud))
    must(answer.status == 0 and result["changed"] is False, answer.text)
    must(result["machines"][0]["outdated"] == ["seed"] and cloud.state("hv1") == before, answer.text)


def _refreshed(cloud: Cloud) -> None:
    _first["sums"] = _guest(cloud, CLOUD, "sha256sum /etc/ssh/ssh_host_*").rstrip("\n")
    answer, result = cloud.init("hv1", seed_policy="refresh", **_news(cloud))
    must(answer.status == 0 and result["changed"] is True, answer.text)
    answer, result = cloud.init("hv1", seed_policy="refresh", **_news(cloud))
    must(answer.status == 0 and result["changed"] is False, answer.text)
    must(result["machines"][0]["outdated"] == [], answer.text)
    # The seed is read when the machine starts.
    off = f"virsh domstate {CLOUD} | grep -q 'shut off'"
    cloud.on(
        "hv1", f"virsh shutdown {CLOUD}; for i in $(seq 120); do {off} && break; sleep 1; done; virsh start {CLOUD}"
    )


def _has_the_news(cloud: Cloud) -> None:
    _up(cloud, CLOUD)
    said = _ask(cloud, CLOUD, file="cat /etc/brine/later", user="id -un later", keys="sha256sum /etc/ssh/ssh_host_*")
    must((said["file"], said["user"]) == ("here", "later"), f"the news are missing: {said}")
    must(said["keys"] == _first["sums"], "the host keys are other ones")


def _silent(cloud: Cloud) -> None:
    answer = cloud.ansible("hv1", "brine.virt.virt_init", json.dumps(_news(cloud)), "-vvv", "--check")
    must(answer.status == 0 and '"invocation"' in answer.text, answer.text)
    for secret in (SECRET, HASH):
        must(secret not in answer.text, f"{secret} is in the output")


def _plain_contents(cloud: Cloud) -> None:
    _common_contents(cloud, PLAIN, "plain.example.org", locked="*")
    said = _ask(
        cloud,
        PLAIN,
        state="systemctl is-system-running --wait || true",
        identity="cat /etc/machine-id",
        left="ls -A / | grep brine || true",
    )
    must(said["state"] == "running", f"something failed: {said['state']}")
    must(len(said["identity"]) == 32, f"no machine-id: {said['identity']}")
    must(said["left"] == "", f"the seed's folder is still there: {said['left']}")


def _machine_image(cloud: Cloud) -> None:
    options = json.dumps({"name": COPY_IMAGE, "machine": CLOUD})
    refused = cloud.ansible("hv1", "brine.virt.virt_image", options)
    must(refused.status != 0 and f"machine {CLOUD} is running" in refused.text, refused.text)
    _first.update(_ask(cloud, CLOUD, **IDENTITY, **MOTD))
    cloud.play_well("power", "-e", f"vm={CLOUD}", "-e", "state=stopped", live=False)
    disks = f"sha256sum /var/lib/libvirt/images/{CLOUD}-*"
    before = cloud.on("hv1", disks)
    for check, changed in ((True, True), (False, True), (True, False), (False, False)):
        answer = cloud.ansible("hv1", "brine.virt.virt_image", options, *(["--check"] if check else []))
        must(answer.status == 0 and ("CHANGED" in answer.text) is changed, f"check {check}: {answer.text}")
    must(cloud.on("hv1", disks) == before, f"the disks of {CLOUD} have changed")


def _up_from_image(cloud: Cloud) -> None:
    spec = _seeded(cloud)
    seed = {"fqdn": "copy.example.org", "authorized_keys": [_key(cloud)]}
    disks = [{"name": "system", "size": "3GiB"}]
    _quartet(cloud, {**spec, "name": COPY, "image": COPY_IMAGE, "disks": disks, "nics": _nics(cloud, 43), "seed": seed})
    _up(cloud, COPY)


def _is_another(cloud: Cloud) -> None:
    copy = _ask(cloud, COPY, **IDENTITY, **MOTD)
    first = _first
    must(copy["motd"] == first["motd"], f"the files are missing: {copy}")
    must(copy["names"] == "copy.example.org" and len(copy["identity"]) == len(first["identity"]), str(copy))
    for key in IDENTITY:
        must(copy[key] != first[key], f"{key} is that of {CLOUD}: {copy[key]}")


def _clean(cloud: Cloud) -> None:
    for name in ("debian", "plain", COPY_IMAGE):
        volume, digest = cloud.on("hv1", f"cd /var/lib/libvirt/virt-images; sha256sum {name}-*.qcow2").split()[::-1]
        must(volume == f"{name}-{digest[:16]}.qcow2", f"{volume} has the sha256 {digest}")
    # The first two lines are the same in all keys.
    line = _guest(cloud, PLAIN, "sed -n 3p /etc/ssh/ssh_host_ed25519_key").strip()
    must(len(line) > 60, "the host key is not as expected")
    left = cloud.on(
        "hv1", f"pgrep -a guestfish; grep -rlsF -e {line} -e 'business 7f3a' /tmp /var/tmp /run /root /etc; true"
    )
    must(left.strip() == "", left)


def _refused(cloud: Cloud) -> None:
    before = cloud.state("hv1")
    spec = _plain(cloud)
    for key, value in (("packages", ["vim"]), ("run_commands", ["true"]), ("user_data", {"a": 1})):
        answer, _result = cloud.init("hv1", **{**spec, "name": "plain2", "seed": {**spec["seed"], key: value}})
        must(answer.status != 0 and f"seed.{key}: {key} needs cloud-init" in answer.text, answer.text)
    must(cloud.state("hv1") == before, "something was done")


def _no_system(cloud: Cloud) -> None:
    cloud.on("hv1", "qemu-img create -q -f qcow2 /var/tmp/blank.qcow2 64M")
    _store(cloud, name="blank", path="/var/tmp/blank.qcow2")
    cloud.on("hv1", "rm /var/tmp/blank.qcow2")
    before = cloud.state("hv1")
    spec = {**_plain(cloud), "name": "plain2", "disks": [{"name": "system", "size": 64}], "image": "blank"}
    answer, _result = cloud.init("hv1", **spec)
    must(answer.status != 0 and "libguestfs finds no operating system on it" in answer.text, answer.text)
    must(cloud.state("hv1") == before, "something is left of it")


def _away(cloud: Cloud, *names: str) -> None:
    for name in names:
        cloud.on("hv1", f"virsh destroy {name}; virsh undefine {name} && rm -f /var/lib/libvirt/images/{name}-*")
    images = " ".join(f"/var/lib/libvirt/virt-images/{name}-*" for name in ("plain", "blank", NEWER_IMAGE, COPY_IMAGE))
    cloud.on("hv1", f"rm -f {images}")
