# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role sets on a hypervisor besides libvirt: its kernel, and the exporter of metrics; on two releases.

A container has its own network settings; KSM and huge pages are this machine's, which gets back what it had. They are
read-only in a container until somebody has mounted /sys/kernel anew. What needs a kernel of its own is in `kernel`.
"""

from __future__ import annotations

import contextlib
import re
import typing as t

from ...cloud import FLEET, SUDO_HOST, Cloud, must
from ...driving.consoles import wait_until_up
from ...driving.tasks import have, module, refused, role_well
from ...needs import NEWER, TINY, store_tiny
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "alone", "newer")
HOST = FLEET[0]
HOSTS = (HOST, NEWER)
KEY, VALUE = "net.ipv4.tcp_keepalive_time", "613"
BRIDGE_KEYS = [f"net.bridge.bridge-nf-call-{what}" for what in ("arptables", "ip6tables", "iptables")]
PAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB"
KSM = "/sys/kernel/mm/ksm/run"
FILES = (
    "/etc/sysctl.d/99-zz-brine-virt.conf",
    "/etc/udev/rules.d/99-brine-virt-bridge.rules",
    "/etc/tmpfiles.d/brine-virt-hugepages.conf",
    "/etc/modprobe.d/zz-brine-virt.conf",
    "/etc/systemd/system/brine-virt-ksm.service",
)
# As many as the guest's memory takes, and some that are left.
GUEST_PAGES, SPARE = 64, 8
GUEST: dict[str, t.Any] = {**TINY, "name": "settings1", "memory": {"current": 128, "hugepages": True}}
OF_NETWORK: dict[str, t.Any] = {"sysctl": {KEY: VALUE}, "bridge_netfilter": False}
EXPORTER = "prometheus-libvirt-exporter.service"
DROP_IN = f"/etc/systemd/system/{EXPORTER}.d/brine-virt.conf"
PORT, OTHER_PORT = 9177, 9188


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    store_tiny(cloud, HOST)
    had = {host: _network_values(cloud, host) for host in HOSTS}
    machine = _values(cloud, HOST, KSM, f"{PAGES}/nr_hugepages")
    own = int(machine[1])
    pages = own + GUEST_PAGES + SPARE
    try:
        scenario.step("what the kernel refuses is an error, and all is taken back", lambda: _refused(cloud, pages))
        scenario.step("check mode shows it, and sets nothing", lambda: _check(cloud, pages))
        scenario.step(
            "the role sets sysctl, bridges, KSM, huge pages, nested; again: no change", lambda: _set(cloud, pages)
        )
        scenario.step("what a boot runs sets them again", lambda: _booted(cloud, pages))
        scenario.step("a guest runs on the huge pages, which are kept for it", lambda: _guest(cloud, pages))
        scenario.step("without the options the files go, once, and values stay", lambda: _unset(cloud, pages))
        scenario.step("KSM off and the pages back, at once", lambda: _off(cloud, own))
        scenario.step(
            "two releases get sysctl, bridges and the exporter, which answers the host alone; again: no change",
            lambda: _both(cloud),
        )
        scenario.step("it is all there after each has lost its power", lambda: _power(cloud))
        scenario.step("another address, which others reach, and no sysctl; again: no change", lambda: _reached(cloud))
        scenario.step("the exporter goes, once, but its package", lambda: _stopped(cloud))
    finally:
        _clear(cloud, had, machine)


def _values(cloud: Cloud, host: str, *paths: str) -> list[str]:
    return cloud.on(host, f"cat {' '.join(paths)}").split()


def _network_values(cloud: Cloud, host: str) -> list[str]:
    return _values(cloud, host, *(f"/proc/sys/{key.replace('.', '/')}" for key in (KEY, *BRIDGE_KEYS)))


def _files(cloud: Cloud, host: str) -> set[str]:
    return set(cloud.on(host, f"ls {' '.join(FILES)} 2>/dev/null || true").split())


@contextlib.contextmanager
def _writable(cloud: Cloud, host: str) -> t.Iterator[None]:
    cloud.on(host, "mount -o remount,rw /sys/kernel")
    try:
        yield
    finally:
        cloud.on(host, "mount -o remount,ro /sys/kernel")


def _whole(pages: int) -> dict[str, t.Any]:
    return {**OF_NETWORK, "ksm": True, "hugepages": {"2M": pages}, "nested": True}


def _of_role(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {f"virt_hypervisor_{name}": value for name, value in options.items()}


def _refused(cloud: Cloud, pages: int) -> None:
    before = _network_values(cloud, HOST)
    answer, result = module(cloud, HOST, "virt_kernel", **_whole(pages))
    words = "hugepages.2M: the kernel refuses " + str(pages)
    must(answer.status != 0 and words in result["msg"] and "Read-only file system" in result["msg"], answer.text)
    must(_network_values(cloud, HOST) == before and not _files(cloud, HOST), "something of it was done")
    refused(cloud, HOST, "virt_kernel", "the kernel has no such setting", sysctl={"net.ipv4.scenario": 1})
    refused(cloud, HOST, "virt_kernel", "the kernel has no pages of this size", hugepages={"16M": 1})
    refused(cloud, HOST, "virt_kernel", "can be had", hugepages={"2M": 10**7})


def _check(cloud: Cloud, pages: int) -> None:
    before = _network_values(cloud, HOST), _values(cloud, HOST, KSM, f"{PAGES}/nr_hugepages")
    answer, result = module(cloud, HOST, "virt_kernel", "--check", "--diff", **_whole(pages))
    must(answer.status == 0 and result["changed"], answer.text)
    must(f"+{KEY} = {VALUE}" in answer.text and f"+hugepages.2M = {pages}" in answer.text, answer.text)
    after = _network_values(cloud, HOST), _values(cloud, HOST, KSM, f"{PAGES}/nr_hugepages")
    must(after == before and not _files(cloud, HOST), "check mode has set something")


def _set(cloud: Cloud, pages: int) -> None:
    with _writable(cloud, HOST):
        for changes in (True, False):
            role_well(cloud, "virt_hypervisor", HOST, changes=changes, **_of_role(_whole(pages)))
    must(_network_values(cloud, HOST) == [VALUE, "0", "0", "0"], str(_network_values(cloud, HOST)))
    now = _values(cloud, HOST, KSM, f"{PAGES}/nr_hugepages")
    must(now == ["1", str(pages)], str(now))
    must(_files(cloud, HOST) == set(FILES), str(_files(cloud, HOST)))
    shown = cloud.on(HOST, "modprobe --showconfig | grep nested; systemctl is-enabled brine-virt-ksm")
    for name in ("kvm_intel", "kvm_amd"):
        must(f"options {name} nested=1" in shown, shown)


def _booted(cloud: Cloud, pages: int) -> None:
    zero = " && ".join(f"sysctl --quiet --write {key}=1" for key in (KEY, *BRIDGE_KEYS))
    with _writable(cloud, HOST):
        cloud.on(HOST, f"{zero} && echo 0 > {KSM} && echo {pages - SPARE} > {PAGES}/nr_hugepages")
        cloud.on(
            HOST,
            "systemctl restart systemd-sysctl brine-virt-ksm && systemd-tmpfiles --create brine-virt-hugepages.conf",
        )
    now = [*_network_values(cloud, HOST), *_values(cloud, HOST, KSM, f"{PAGES}/nr_hugepages")]
    must(now == [VALUE, "0", "0", "0", "1", str(pages)], str(now))


def _guest(cloud: Cloud, pages: int) -> None:
    free = int(_values(cloud, HOST, f"{PAGES}/free_hugepages")[0])
    answer, _result = cloud.init(HOST, **GUEST)
    must(answer.status == 0, answer.text)
    wait_until_up(cloud, HOST, "settings1")
    left = int(_values(cloud, HOST, f"{PAGES}/free_hugepages")[0])
    must(free - left >= GUEST_PAGES // 2, f"{free} pages were free, and {left} are with the guest")
    words = "that machines use now"
    refused(cloud, HOST, "virt_kernel", words, hugepages={"2M": pages - SPARE - GUEST_PAGES})
    cloud.on(HOST, "virsh destroy settings1 && virsh undefine settings1")


def _unset(cloud: Cloud, pages: int) -> None:
    have(cloud, HOST, "virt_kernel")
    must(not _files(cloud, HOST), str(_files(cloud, HOST)))
    now = [*_network_values(cloud, HOST), *_values(cloud, HOST, KSM, f"{PAGES}/nr_hugepages")]
    must(now == [VALUE, "0", "0", "0", "1", str(pages)], str(now))
    left = cloud.on(HOST, "systemctl list-unit-files 'brine-virt-ksm*'; modprobe --showconfig | grep nested; true")
    must("brine-virt-ksm.service" not in left and "nested=" not in left, left)


def _off(cloud: Cloud, own: int) -> None:
    with _writable(cloud, HOST):
        have(cloud, HOST, "virt_kernel", ksm=False, hugepages={"2M": own})
    now = _values(cloud, HOST, KSM, f"{PAGES}/nr_hugepages")
    must(now == ["0", str(own)], str(now))
    have(cloud, HOST, "virt_kernel")


def _both(cloud: Cloud) -> None:
    for changes in (True, False):
        options = {**_of_role(OF_NETWORK), "virt_hypervisor_metrics": True}
        role_well(cloud, "virt_hypervisor", ",".join(HOSTS), changes=changes, **options)
    _have_network_values(cloud)
    _have_exporter(cloud)


def _have_network_values(cloud: Cloud) -> None:
    for host in HOSTS:
        now = _network_values(cloud, host)
        must(now == [VALUE, "0", "0", "0"], f"{host}: {now}")


def _power(cloud: Cloud) -> None:
    for host in HOSTS:
        cloud.lab_well("unplug", host)
    cloud.lab_well("up", "--hosts", str(len(cloud.lab_hosts())))
    _have_network_values(cloud)
    _have_exporter(cloud)


def _metrics(cloud: Cloud, host: str, address: str, port: int) -> str:
    """What Prometheus would read, or why it could not."""
    script = (
        f'import urllib.request as r; print(r.urlopen("http://{address}:{port}/metrics", timeout=20).read().decode())'
    )
    return cloud.lab("ssh", host, f"python3 -c '{script}' 2>&1").text


def _listening(cloud: Cloud, host: str) -> str:
    return cloud.on(host, f"ss --no-header --listening --numeric --tcp '( sport = {PORT} or sport = {OTHER_PORT} )'")


def _have_exporter(cloud: Cloud) -> None:
    for host in HOSTS:
        # It is up before libvirt is, after a boot.
        wait = f"for i in $(seq 60); do (</dev/tcp/127.0.0.1/{PORT}) 2>/dev/null && exit; sleep 1; done; exit 1"
        cloud.on(host, wait)
        text = _metrics(cloud, host, "127.0.0.1", PORT)
        must(re.search(r"^libvirt_up 1$", text, re.MULTILINE) is not None, f"{host}: {text}")
        listening = _listening(cloud, host).split()
        must(f"127.0.0.1:{PORT}" in listening and "*" not in " ".join(listening[:4]), str(listening))
        cloud.on(host, f"systemctl is-enabled {EXPORTER} && systemctl is-active {EXPORTER}")


def _reached(cloud: Cloud) -> None:
    for changes in (True, False):
        options = {"virt_hypervisor_metrics": True, "virt_hypervisor_metrics_address": f"0.0.0.0:{OTHER_PORT}"}
        role_well(cloud, "virt_hypervisor", ",".join(HOSTS), changes=changes, **options)
    for host in HOSTS:
        must("libvirt_up 1" in _metrics(cloud, SUDO_HOST, host, OTHER_PORT), f"{host} is not reached")
        must(f":{PORT} " not in _listening(cloud, host), "it listens on the old port still")
        must(not _files(cloud, host), str(_files(cloud, host)))
    # As long as the hosts run.
    _have_network_values(cloud)


def _stopped(cloud: Cloud) -> None:
    for changes in (True, False):
        role_well(cloud, "virt_hypervisor", ",".join(HOSTS), changes=changes)
    for host in HOSTS:
        must(not _listening(cloud, host).strip(), f"{host} still listens")
        words = cloud.on(host, f"systemctl is-enabled {EXPORTER}; systemctl is-active {EXPORTER}; true").split()
        must(words == ["disabled", "inactive"], f"{host}: {words}")
        cloud.on(host, f"test ! -e {DROP_IN} && dpkg -s prometheus-libvirt-exporter")


def _clear(cloud: Cloud, had: dict[str, list[str]], machine: list[str]) -> None:
    cloud.lab("ssh", HOST, "virsh destroy settings1; virsh undefine settings1")
    for host in HOSTS:
        back = "; ".join(
            f"sysctl --quiet --write {key}={value}" for key, value in zip((KEY, *BRIDGE_KEYS), had[host], strict=True)
        )
        cloud.lab(
            "ssh", host, f"systemctl disable --now brine-virt-ksm {EXPORTER}; rm -f {' '.join(FILES)} {DROP_IN}; {back}"
        )
    with _writable(cloud, HOST):
        cloud.on(HOST, f"echo {machine[0]} > {KSM}; echo {machine[1]} > {PAGES}/nr_hugepages")
