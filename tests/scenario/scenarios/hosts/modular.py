# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor with libvirt's modular daemons beside one with libvirtd: all that the roles do there, and moves.

Its packages of libvirt are built for the lab: Debian's have no modular daemons.
"""

from __future__ import annotations

import json
import typing as t

from ...cloud import FLEET, SUDO_HOST, Cloud, must
from ...moving import has_moved, home, volumes
from ...needs import TINY, store_tiny
from ...runner import ScenarioRun
from . import booting

NEEDS = ()
MODULAR, MONOLITHIC = FLEET
DRIVERS = ("network", "nodedev", "nwfilter", "proxy", "qemu", "secret", "storage")
SOCKETS = " ".join(f"virt{name}d.socket" for name in DRIVERS)
SERVICES = " ".join(f"virt{name}d.service" for name in DRIVERS)
MACHINE = {**TINY, "name": "modular1", "disks": [*TINY["disks"], {"name": "data", "size": 64}]}
RESOURCES = {
    "virt_hypervisor_secrets": [{"name": "modular-secret", "usage": "ceph", "value_base64": "bW9kdWxhcg=="}],
    "virt_hypervisor_networks": [{"name": "modular-net", "mode": "isolated", "addresses": ["192.0.2.1/24"]}],
    "virt_hypervisor_volumes": [{"name": "modular.raw", "pool": "default", "size": "8MiB", "format": "raw"}],
}
NAME = "modular.example.org"


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    if cloud.lab_hosts():
        scenario.step("the lab goes, for hosts that are bare", lambda: cloud.lab_well("down"), vital=True)
    if not cloud.installed:
        scenario.step("the collection is built and installed from its tarball", cloud.install, vital=True)
    try:
        scenario.step("hosts come up, one with packages of modular daemons", lambda: _start(cloud), vital=True)
        scenario.step("hypervisors, check mode, on bare hosts", lambda: _check(cloud))
        scenario.step("hypervisors: each host has the daemons of its packages", lambda: _made(cloud), vital=True)
        scenario.step("again, and in check mode: nothing to change", lambda: _both_again(cloud))
        scenario.step("they reach each other over TLS, also when the daemons are idle", lambda: _reached(cloud))
        scenario.step("again with idle daemons: nothing to change", lambda: _again_idle(cloud))
        scenario.step("a machine is made, and the inventory lists it", lambda: _machine(cloud), vital=True)
        scenario.step("it moves live to libvirtd, and back", lambda: _moves(cloud))
        scenario.step(
            "qemu.conf changes, a secret, a network and a volume come: run, run again, and it runs on",
            lambda: _configured(cloud),
        )
        scenario.step(
            "a run that took the last option out of qemu.conf ended there: the next one has both forms read it",
            lambda: _taken_out(cloud),
        )
        scenario.step("one more name: the new certificate is shown, nothing was restarted", lambda: _renewed(cloud))
        scenario.step("the machine goes", lambda: _purged(cloud), vital=True)
        booting.with_a_task(scenario, cloud)
        booting.with_the_host(scenario, cloud)
        scenario.step("it leaves, with the machines moved and TLS closed", lambda: _leaves(cloud))
    finally:
        # Other scenarios take the hosts that they find.
        cloud.lab_well("down")


def _start(cloud: Cloud) -> None:
    cloud.lab_well("up", "--hosts", "2", "--sudo", SUDO_HOST, "--daemons", "modular,monolithic")
    cloud.use()


def _check(cloud: Cloud) -> None:
    answer = cloud.play_well("hypervisors", "--check", live=False)
    must(answer.one_line.count("libvirt-daemon-system") >= len(FLEET), answer.text)
    for host in FLEET:
        cloud.on(host, "test ! -e /usr/bin/virsh")


def _made(cloud: Cloud) -> None:
    cloud.play_well("hypervisors", live=False)
    for host, present, absent, tls in (
        (MODULAR, "virtqemud", "libvirtd", "virtproxyd"),
        (MONOLITHIC, "libvirtd", "virtqemud", "libvirtd"),
    ):
        cloud.on(host, f"test -x /usr/sbin/{present} && test ! -e /usr/sbin/{absent}")
        _all_are(cloud, host, "enabled", f"{present}.service {present}.socket {tls}-tls.socket")
        _all_are(cloud, host, "active", f"{present}.socket {tls}-tls.socket")
        pools = cloud.on(host, "virsh pool-list --name").split()
        must(pools == ["default", "images"], f"{host} has the pools {pools}")
    _all_are(cloud, MODULAR, "active", SOCKETS)


def _all_are(cloud: Cloud, host: str, word: str, units: str) -> None:
    """systemctl by itself is content with one of them."""
    said = cloud.on(host, f"systemctl is-{word} {units} || true").split()
    must(said == [word] * len(units.split()), f"{host}: {units} are not all {word}: {said}")


def _again(cloud: Cloud, *words: str) -> None:
    answer = cloud.play_well("hypervisors", *words, live=False)
    must(answer.recap("changed") == 0, answer.text)


def _both_again(cloud: Cloud) -> None:
    _again(cloud)
    _again(cloud, "--check")


def _idle(cloud: Cloud) -> None:
    """As after two minutes in which nobody asked: the daemons have ended, their sockets are open."""
    cloud.on(MODULAR, f"systemctl stop {SERVICES}")
    _all_are(cloud, MODULAR, "active", f"{SOCKETS} virtproxyd-tls.socket")


def _reached(cloud: Cloud) -> None:
    for host, other in (FLEET, FLEET[::-1]):
        _idle(cloud)
        said = cloud.on(host, f"virsh -c qemu+tls://{other}/system pool-list --name 2>&1").split()
        must(said == ["default", "images"], f"{host} hears of {other}: {said}")


def _again_idle(cloud: Cloud) -> None:
    _idle(cloud)
    _again(cloud)


def _have_resources(cloud: Cloud) -> None:
    for host in FLEET:
        cloud.on(host, "virsh secret-list | grep modular-secret && virsh vol-info modular.raw default")
        cloud.on(host, "virsh net-list --name | grep -x modular-net && ip -brief address | grep 192.0.2.1/24")


def _remove_resources(cloud: Cloud) -> None:
    for host in FLEET:
        secret = "$(virsh secret-list | awk '/modular-secret/ {print $1}')"
        cloud.on(
            host, f"virsh net-destroy modular-net && virsh net-undefine modular-net && virsh secret-undefine {secret}"
        )
        cloud.on(host, "virsh vol-delete modular.raw default")


def _machine(cloud: Cloud) -> None:
    store_tiny(cloud)
    answer, _result = cloud.init(MODULAR, **MACHINE)
    must(answer.status == 0, answer.text)
    again, result = cloud.init(MODULAR, **MACHINE)
    must(again.status == 0 and not result["changed"], again.text)
    known = cloud.listed()["_meta"]["hostvars"][MACHINE["name"]]
    must(known["virt_hypervisor"] == MODULAR, str(known))


def _moves(cloud: Cloud) -> None:
    name = MACHINE["name"]
    had = volumes(cloud, MODULAR, name)
    for source, target in (FLEET, FLEET[::-1]):
        cloud.play_well("migrate", "-e", f"vm={name}", "-e", f"to={target}")
        has_moved(cloud, name, source, target, had)
        state = cloud.on(target, f"virsh domstate {name}").strip()
        must(state == "running", f"{name} is {state}")


def _process(cloud: Cloud) -> str:
    return cloud.on(MODULAR, f"cat /run/libvirt/qemu/{MACHINE['name']}.pid").strip()


def _began(cloud: Cloud, unit: str, host: str = MODULAR) -> str:
    return cloud.on(host, f"systemctl show --value --property ExecMainStartTimestampMonotonic {unit}").strip()


def _configured(cloud: Cloud) -> None:
    before = _process(cloud), _began(cloud, "virtqemud.service")
    options = ("-e", json.dumps({"virt_hypervisor_qemu_conf": {"max_core": 0}, **RESOURCES}))
    cloud.play_well("hypervisors", *options, live=False)
    after = _process(cloud), _began(cloud, "virtqemud.service")
    must(after[0] == before[0], "the machine was restarted")
    must(after[1] != before[1], "virtqemud has not read its configuration again")
    must(home(cloud, MACHINE["name"]) == MODULAR, "the machine is not known any more")
    _have_resources(cloud)
    _again(cloud, *options)
    _remove_resources(cloud)


def _taken_out(cloud: Cloud) -> None:
    """What that run leaves: the file is without the block, and the daemons still have the options of it."""
    units = {MODULAR: "virtqemud.service", MONOLITHIC: "libvirtd.service"}
    for host, unit in units.items():
        block = "/^# BEGIN brine.virt$/,/^# END brine.virt$/d"
        cloud.on(host, f"virsh list && systemctl is-active {unit} && grep '^max_core = 0' /etc/libvirt/qemu.conf")
        cloud.on(host, f"sed -i '{block}' /etc/libvirt/qemu.conf && ! grep '^max_core' /etc/libvirt/qemu.conf")
    before = {host: _began(cloud, unit, host) for host, unit in units.items()}
    process = _process(cloud)
    cloud.play_well("hypervisors", live=False)
    for host, unit in units.items():
        must(_began(cloud, unit, host) != before[host], f"{unit} of {host} still has what was taken out")
    must(_process(cloud) == process, "the machine was restarted")
    _again(cloud)


def _shown(cloud: Cloud) -> str:
    """The names in the certificate that the daemon really shows."""
    return cloud.on(
        MONOLITHIC,
        f"openssl s_client -connect {MODULAR}:16514 </dev/null 2>/dev/null | openssl x509 -noout -ext subjectAltName",
    )


def _renewed(cloud: Cloud) -> None:
    must(NAME not in _shown(cloud), "the name is there already")
    before = _process(cloud), _began(cloud, "virtproxyd.service")
    cloud.play_well("hypervisors", "-e", json.dumps({"virt_tls_names": [NAME]}), live=False)
    must(NAME in _shown(cloud), "the old certificate is still shown")
    must((_process(cloud), _began(cloud, "virtproxyd.service")) == before, "something was restarted")


def _purged(cloud: Cloud) -> None:
    cloud.play_well("purge", "-e", f"vm={MACHINE['name']}", "-e", "force=true")


def _leaves(cloud: Cloud) -> None:
    here: t.Collection[str] = cloud.on(MODULAR, "virsh list --all --name").split()
    must(len(here) > 0, "there is no machine to move")
    cloud.play_well("retire", "-e", f"from={MODULAR}", live=False)
    there = cloud.on(MONOLITHIC, "virsh list --all --name").split()
    must(set(here) <= set(there), f"{MONOLITHIC} has {there}")
    must(not cloud.on(MODULAR, "virsh list --all --name").split(), f"{MODULAR} still has machines")
    cloud.on(MODULAR, "! systemctl is-active virtproxyd-tls.socket && ! systemctl is-enabled virtproxyd-tls.socket")
    cloud.on(MODULAR, "test -z \"$(ss --no-header --listening --tcp 'sport = 16514')\" && virsh pool-list")
