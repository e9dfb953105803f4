# SPDX-License-Identifier: GPL-3.0-or-later
"""The role virt_bridge with every network manager: it makes a bridge, changes it, and where that goes wrong the host
has its old network back. Each step is done on all hosts at once, and fails with the name of the one that did not."""

from __future__ import annotations

import contextlib
import json
import re
import time
import typing as t

from ...cloud import Answer, Cloud, Failure, must
from ...managed_hosts import (
    BRIDGE,
    HOSTS,
    LONG_SECONDS,
    RELEASES,
    SHORT_SECONDS,
    UPLINK,
    Host,
    address,
    boot_again,
    gateway,
    network,
    on_each,
    role,
    role_killed,
    start,
    wait_for_state,
)
from ...needs import TINY, store_tiny
from ...runner import ScenarioRun

NEEDS = ()
# How a host is reached while its network changes is another thing without it, and most have it so.
PIPELINING = False
# An interface with a carrier, at whose other end nobody is.
SPARE = "spare0"
# Of the documentation (RFC 5737), and of no network here.
ELSEWHERE = "192.0.2"
ELSEWHERE6 = "2001:db8:1:"
# Another MTU than that of the lab's network, and enough for IPv6.
MTU = 1300
# A bridge for the machines of a host alone, with the host's addresses in it (RFC 5737, RFC 3849).
INSIDE = "inside"
INSIDE_ADDRESSES = ["198.51.100.1/24", "2001:db8:2::1/64"]
# Its files, as the role's README has them, by the manager that has made it.
_INSIDE_FILES = {
    "networkd": f"/etc/systemd/network/05-brine-{INSIDE}.netdev /etc/systemd/network/05-brine-{INSIDE}.network",
    "networkmanager": f"/etc/NetworkManager/system-connections/brine-{INSIDE}.nmconnection",
    "ifupdown": f"/etc/network/interfaces.d/brine-{INSIDE}",
    "netplan": f"/etc/netplan/95-brine-{INSIDE}.yaml",
}
# A guest on a host of each manager and release, but of netplan on one: what a guest needs takes minutes to install.
GUESTS = (*HOSTS[:4], *(host for host in HOSTS[5:] if host.manager in ("networkd", "ifupdown", "networkmanager")))
MACHINE = "bridged"
_GUEST_SECONDS = 240
# NetworkManager tries four times for 45 s each, unless a profile says otherwise. Here those that say nothing are given
# less, so that the silence is over sooner, and is longer than all four all the same.
_TRIES, _TRY_SECONDS = 4, 10
_SILENT_SECONDS = _TRIES * _TRY_SECONDS + 40
_IMPATIENT = "/etc/NetworkManager/conf.d/scenario.conf"
_ADDRESS_SECONDS = 60
_FORGET_MTU = f"""
[ -e /etc/dhcpcd.conf ] || exit 0
sed -i '/^option interface_mtu/d' /etc/dhcpcd.conf && dhcpcd -n {BRIDGE}
for i in $(seq {_ADDRESS_SECONDS}); do sleep 1; ip route show default | grep -v mtu && exit; done
exit 1
"""
_ASK_AGAIN = {
    "networkmanager": f"nmcli connection up brine-{BRIDGE}",
    **dict.fromkeys(("networkd", "netplan"), f"networkctl reconfigure {BRIDGE}"),
}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    if cloud.lab_hosts():
        scenario.step("the lab goes, for hosts that are bare", lambda: cloud.lab_well("down"), vital=True)
    if not cloud.installed:
        scenario.step("the collection is built and installed from its tarball", cloud.install, vital=True)
    scenario.step("hosts with each network manager come up", lambda: start(cloud), vital=True)
    unchanged = _remembered(cloud)
    scenario.step("check mode shows the files, and changes nothing", lambda: _check(cloud, unchanged))
    scenario.step("the host's own address on another uplink: nothing is begun", lambda: _wrong_uplink(cloud, unchanged))
    scenario.step("an address of another network: every host goes back", lambda: _wrong_address(cloud, unchanged))
    scenario.step("the playbook is killed before it confirms: they go back", lambda: _killed(cloud, unchanged))
    scenario.step("they are rebooted before it confirms", lambda: _rebooted(cloud, unchanged, "systemctl reboot"))
    scenario.step("they lose their power before it confirms", lambda: _rebooted(cloud, unchanged, "reboot -ff"))
    scenario.step("the bridge is made, with the address of its uplink", lambda: _made(cloud), vital=True)
    scenario.step("again, and in check mode: nothing to change", lambda: _both_again(cloud))
    scenario.step("its spanning tree protocol is switched on", lambda: _stp(cloud))
    scenario.step("an address of another network for one host alone: no other goes back", lambda: _one_wrong(cloud))
    scenario.step("an address of another network for a bridge: it goes back", lambda: _wrong_change(cloud))
    scenario.step("a DHCP server that is silent for minutes ends no bridge", lambda: _silent_dhcp(cloud))
    scenario.step("a bridge without an uplink, with addresses of both families", lambda: _inside(cloud))
    change = _change(cloud)
    scenario.step(
        "a change of a bridge is killed before it is confirmed: it goes back",
        lambda: _killed(cloud, _remembered(cloud), **change),
    )
    # An uplink's MTU of the time when it was the one that asked for an address ends with the boot.
    scenario.step("they boot with the bridge", lambda: boot_again(cloud, "systemctl reboot"))
    scenario.step(
        "they are rebooted before it is confirmed",
        lambda: _rebooted(cloud, _remembered(cloud), "systemctl reboot", **change),
    )
    scenario.step("another MTU, and named addresses of both families", lambda: _changed(cloud, change))
    scenario.step("a guest gets an address by way of the bridge", lambda: _guest(cloud))
    scenario.step("the whole play again: nothing to change", lambda: _whole_again(cloud))
    scenario.step("after a reboot the bridge is there, and the guest on it", lambda: _after_reboot(cloud))


def _remembered(cloud: Cloud) -> t.Callable[[], None]:
    """What fails unless the network of all hosts is as it is now."""
    before = on_each(lambda host: network(cloud, host))

    def unchanged() -> None:
        for host, old, new in zip(HOSTS, before, on_each(lambda host: network(cloud, host)), strict=True):
            must(new == old, f"the network of {host} is not as it was:\n{old}\nnow\n{new}")

    return unchanged


def _check(cloud: Cloud, unchanged: t.Callable[[], None]) -> None:
    answer = role(cloud, "--check", "--diff")
    must(answer.status == 0 and answer.recap("changed") == len(HOSTS), answer.text)
    must(answer.text.count(f"brine-{BRIDGE}") >= len(HOSTS), answer.text)
    unchanged()


def _goes_back(cloud: Cloud, unchanged: t.Callable[[], None], **options: t.Any) -> None:
    """Run the role, which has to fail on every host, and say so when the host is back."""
    answer = role(cloud, confirm_seconds=SHORT_SECONDS, **options)
    must(answer.recap("failed") == len(HOSTS) and answer.recap("unreachable") == 0, answer.text)
    must(answer.one_line.count("the change was rolled back, and everything is as before") >= len(HOSTS), answer.text)
    on_each(lambda host: _all_as_before(cloud, host))
    unchanged()


def _all_as_before(cloud: Cloud, host: Host) -> str:
    """Wait until the host is back. Returns what its switch says."""
    log = wait_for_state(cloud, host, "rolled_back")
    must("everything is as before" in log and "not everything" not in log, f"{host}: {log}")
    return log


def _wrong_uplink(cloud: Cloud, unchanged: t.Callable[[], None]) -> None:
    far = f"{SPARE}far"
    on_each(
        lambda host: cloud.on(
            host.name,
            f"ip link add {SPARE} type veth peer name {far} && ip link set {SPARE} up && ip link set {far} up",
        )
    )
    try:
        answer = role(
            cloud,
            uplink=SPARE,
            addresses=lambda host: [f"{address(cloud, host)}/24"],
            gateway=lambda host: gateway(cloud, host),
        )
        must(answer.recap("failed") == len(HOSTS) and answer.recap("changed") == 0, answer.text)
        for host in HOSTS:
            words = f"the address {address(cloud, host)} of {BRIDGE} is the one of {UPLINK}, which does not become part"
            must(words in answer.one_line, f"{host}: {answer.text}")
    finally:
        on_each(lambda host: cloud.on(host.name, f"ip link delete {SPARE}"))
    unchanged()


def _wrong_address(cloud: Cloud, unchanged: t.Callable[[], None]) -> None:
    _goes_back(
        cloud,
        unchanged,
        addresses=lambda host: [f"{ELSEWHERE}.{host.name.removeprefix('hv')}/24"],
        gateway=f"{ELSEWHERE}.254",
    )


def _killed(cloud: Cloud, unchanged: t.Callable[[], None], **options: t.Any) -> None:
    role_killed(cloud, SHORT_SECONDS, **options)
    logs = on_each(lambda host: _all_as_before(cloud, host))
    must(all("not confirmed within" in log for log in logs), str(logs))
    unchanged()


def _rebooted(cloud: Cloud, unchanged: t.Callable[[], None], how: str, **options: t.Any) -> None:
    role_killed(cloud, LONG_SECONDS, **options)
    on_each(lambda host: wait_for_state(cloud, host, "applied"))
    boot_again(cloud, how)
    on_each(lambda host: wait_for_state(cloud, host, ""))
    unchanged()


def _made(cloud: Cloud) -> None:
    answer = role(cloud)
    must(answer.status == 0 and answer.recap("changed") >= len(HOSTS), answer.text)
    on_each(lambda host: _judge(cloud, host))


def _judge(cloud: Cloud, host: Host, more: t.Sequence[str] = ()) -> None:
    """By iproute2 alone: the uplink is in the bridge, which has the address, more of IPv4, and the default route."""
    (port,) = json.loads(cloud.on(host.name, f"ip -json link show {UPLINK}"))
    must(port.get("master") == BRIDGE, f"{host}: {port}")
    links = json.loads(cloud.on(host.name, "ip -json -4 address show"))
    where = {
        link["ifname"]: sorted(entry["local"] for entry in link["addr_info"])
        for link in links
        if link["ifname"] not in ("lo", INSIDE)
    }
    must(where == {BRIDGE: sorted([address(cloud, host), *more])}, f"{host}: {where}")
    routes = json.loads(cloud.on(host.name, "ip -json -4 route show default"))
    ways = [(route["dev"], route.get("gateway")) for route in routes]
    must(ways == [(BRIDGE, gateway(cloud, host))], f"{host}: {ways}")
    # Name servers too are the uplink's.
    cloud.on(host.name, "getent ahostsv4 hv1.virt.internal")


def _again(cloud: Cloud, *words: str, **options: t.Any) -> None:
    answer = role(cloud, *words, **options)
    must(answer.status == 0 and answer.recap("changed") == 0, answer.text)


def _both_again(cloud: Cloud) -> None:
    _again(cloud)
    _again(cloud, "--check")


def _stp(cloud: Cloud) -> None:
    answer = role(cloud, stp=True)
    must(answer.status == 0 and answer.recap("changed") >= len(HOSTS), answer.text)
    on_each(lambda host: _has_stp(cloud, host))
    _again(cloud, stp=True)


def _has_stp(cloud: Cloud, host: Host, more: t.Sequence[str] = ()) -> None:
    _judge(cloud, host, more)
    (bridge,) = json.loads(cloud.on(host.name, f"ip -json -details link show {BRIDGE}"))
    must(bridge["linkinfo"]["info_data"]["stp_state"] == 1, f"{host}: {bridge}")


def _one_wrong(cloud: Cloud) -> None:
    """Most of the others wait for a fork, half of which it takes up, and have to be confirmed all the same."""
    wrong, *others = HOSTS
    answer = role(
        cloud,
        *("--forks", "2"),
        stp=False,
        addresses=lambda host: [f"{ELSEWHERE}.7/24"] if host is wrong else None,
        gateway=lambda host: f"{ELSEWHERE}.254" if host is wrong else None,
    )
    must((answer.recap("failed"), answer.recap("unreachable")) == (1, 0), answer.text)
    must(answer.recap("changed") >= len(others), answer.text)
    _all_as_before(cloud, wrong)
    _again(cloud, "--limit", ",".join(host.name for host in others), stp=False)
    answer = role(cloud, stp=True)
    must(answer.status == 0, answer.text)


def _wrong_change(cloud: Cloud) -> None:
    able = [host for host in HOSTS if host.manager != "ifupdown"]
    unchanged = _remembered(cloud)
    answer = role(cloud, confirm_seconds=SHORT_SECONDS, addresses=[f"{ELSEWHERE}.7/24"], gateway=f"{ELSEWHERE}.254")
    must(answer.recap("failed") == len(HOSTS) and answer.recap("unreachable") == 0, answer.text)
    refused = answer.one_line.count('"msg": "ifupdown cannot change the addresses')
    must(refused == len(HOSTS) - len(able), answer.text)
    on_each(lambda host: _all_as_before(cloud, host), able)
    unchanged()


def _silent_dhcp(cloud: Cloud) -> None:
    """Each asks again while nothing reaches it: as after a power cut, where a host boots before its router does."""
    asking = [host for host in HOSTS if host.release == RELEASES[1] and host.manager in _ASK_AGAIN]
    impatient = [host for host in asking if host.manager == "networkmanager"]
    for host in impatient:
        _reload(
            cloud,
            host,
            f"printf '%s\\n' '[connection-scenario]' 'ipv4.dhcp-timeout={_TRY_SECONDS}' > {_IMPATIENT}",
        )
    for host in asking:
        cloud.on(host.name, f"systemd-run --on-active=5 --timer-property=AccuracySec=1s {_ASK_AGAIN[host.manager]}")
        cloud.lab_well("cut", host.name)
    try:
        time.sleep(_SILENT_SECONDS)
    finally:
        cloud.lab_well("heal")
    on_each(lambda host: _is_back(cloud, host), asking)
    for host in impatient:
        _reload(cloud, host, f"rm {_IMPATIENT}")


def _reload(cloud: Cloud, host: Host, change: str) -> None:
    """Change NetworkManager's configuration, and have it read."""
    cloud.on(host.name, f"{change} && nmcli general reload conf")


def _is_back(cloud: Cloud, host: Host) -> None:
    # Whatever became of its last change: it can be asked again.
    wait_for_state(cloud, host, "", "rolled_back", "confirmed")
    end = time.monotonic() + _ADDRESS_SECONDS
    while True:
        try:
            return _judge(cloud, host)
        except Failure:
            if time.monotonic() > end:
                raise
            time.sleep(2)


def _inside(cloud: Cloud) -> None:
    words: dict[str, t.Any] = {"name": INSIDE, "uplink": False, "addresses": INSIDE_ADDRESSES}
    answer = role(cloud, **words)
    must(answer.status == 0 and answer.recap("changed") >= len(HOSTS), answer.text)
    on_each(lambda host: _judge_inside(cloud, host))
    _again(cloud, **words)


def _judge_inside(cloud: Cloud, host: Host) -> None:
    _judge(cloud, host)
    (link,) = json.loads(cloud.on(host.name, f"ip -json address show dev {INSIDE} scope global"))
    # ip has an empty entry for each address of another scope.
    have = [f"{entry['local']}/{entry['prefixlen']}" for entry in link["addr_info"] if "local" in entry]
    must(have == INSIDE_ADDRESSES, f"{host}: {have}")
    ports = cloud.on(host.name, f"ip -brief link show master {INSIDE}")
    must(not ports, f"{host}: {ports}")


def _number(host: Host) -> str:
    return host.name.removeprefix("hv")


def _more(host: Host) -> list[str]:
    """The addresses that a host is given beside its own; none where its manager cannot change those of a bridge."""
    return [] if host.manager == "ifupdown" else [f"{ELSEWHERE}.{_number(host)}", f"{ELSEWHERE6}:{_number(host)}"]


def _change(cloud: Cloud) -> dict[str, t.Any]:
    """The options of a bridge that has another MTU, and static addresses of both families, its own one among them."""

    def addresses(host: Host) -> list[str] | None:
        more = _more(host)
        return [f"{address(cloud, host)}/24", f"{more[0]}/24", f"{more[1]}/64"] if more else None

    def gateways(host: Host) -> list[str] | None:
        return [gateway(cloud, host), f"{ELSEWHERE6}:ff"] if _more(host) else None

    def servers(host: Host) -> list[str] | None:
        return [gateway(cloud, host)] if _more(host) else None

    return {"mtu": MTU, "addresses": addresses, "gateway": gateways, "nameservers": servers}


def _changed(cloud: Cloud, change: dict[str, t.Any]) -> None:
    # As the role's README says: else the routes keep the MTU that the lab's DHCP server gives.
    on_each(lambda host: cloud.on(host.name, _FORGET_MTU))
    answer = role(cloud, **change)
    must(answer.status == 0 and answer.recap("changed") >= len(HOSTS), answer.text)
    on_each(lambda host: _has_changed(cloud, host))
    on_each(lambda host: _answers(cloud, host))
    _again(cloud, **change)


def _has_changed(cloud: Cloud, host: Host) -> None:
    """What nobody named, its STP, is as it was."""
    _has_stp(cloud, host, _more(host)[:1])
    for link in (BRIDGE, UPLINK):
        mtu = cloud.on(host.name, f"cat /sys/class/net/{link}/mtu").strip()
        must(mtu == str(MTU), f"{host}: {link} {mtu}")
    links = json.loads(cloud.on(host.name, f"ip -json -6 address show dev {BRIDGE} scope global"))
    # Where there is none, it says so by one without words.
    entries = [entry for link in links for entry in link.get("addr_info", []) if entry]
    have = [f"{entry['local']}/{entry['prefixlen']}" for entry in entries]
    routed = cloud.on(host.name, f"ip -4 route show dev {BRIDGE}")
    must(all(word == str(MTU) for word in re.findall(r"\bmtu (\d+)", routed)), f"{host}: {routed}")
    must(have == [f"{one}/64" for one in _more(host)[1:]], f"{host}: {have}")
    routes = json.loads(cloud.on(host.name, "ip -json -6 route show default"))
    ways = [(route["dev"], route.get("gateway")) for route in routes]
    must(ways == ([(BRIDGE, f"{ELSEWHERE6}:ff")] if _more(host) else []), f"{host}: {ways}")


def _answers(cloud: Cloud, host: Host) -> None:
    """Another host reaches the SSH server at each of the new addresses, by way of both bridges."""
    other = HOSTS[0] if host != HOSTS[0] else HOSTS[2]
    for one in _more(host):
        cloud.on(other.name, f"timeout 20 bash -c 'read line < /dev/tcp/{one}/22'")


@contextlib.contextmanager
def _with_guests_alone(cloud: Cloud) -> t.Iterator[None]:
    """The inventory has the hosts with a guest, and no others, during the block."""
    cloud.use(tuple(host.name for host in GUESTS))
    cloud.pipelining = True
    try:
        yield
    finally:
        cloud.use(tuple(host.name for host in HOSTS))


def _whole_play(cloud: Cloud) -> Answer:
    """What makes the hosts hypervisors, from their packages to their bridges; it has to end well."""
    own = {host.name: [{"name": BRIDGE, "manager": host.word}] for host in GUESTS}
    options = {"bridges": own, "virt_bridge_bridges": "{{ bridges[inventory_hostname] }}"}
    return cloud.play_well("hypervisors", "-e", json.dumps(options), live=False)


def _guest(cloud: Cloud) -> None:
    with _with_guests_alone(cloud):
        _whole_play(cloud)
        store_tiny(cloud)
        for host in GUESTS:
            answer, _result = cloud.init(host.name, **TINY, name=f"{MACHINE}-{host.name}", autostart=True)
            must(answer.status == 0, answer.text)
        on_each(lambda host: _guest_answers(cloud, host), GUESTS)


def _whole_again(cloud: Cloud) -> None:
    with _with_guests_alone(cloud):
        answer = _whole_play(cloud)
    must(answer.recap("changed") == 0, answer.text)
    # A recap of no host would have nothing changed either.
    must(answer.recap("ok") >= len(GUESTS) and answer.recap("unreachable") == 0, answer.text)


def _maker(host: Host) -> str:
    """The manager that has the host's bridges: beside netplan's files it is systemd-networkd."""
    return "networkd" if (host.manager, host.word) == ("netplan", "auto") else host.manager


def _guest_answers(cloud: Cloud, host: Host) -> None:
    seen = f"grep -q 'tiny guest has' /var/log/libvirt/qemu/{MACHINE}-{host.name}-serial.log"
    cloud.on(host.name, f"for i in $(seq {_GUEST_SECONDS}); do {seen} && exit; sleep 1; done; exit 1")


def _after_reboot(cloud: Cloud) -> None:
    for host in GUESTS:
        cloud.on(host.name, f": > /var/log/libvirt/qemu/{MACHINE}-{host.name}-serial.log")
    on_each(lambda host: cloud.on(host.name, f"rm {_INSIDE_FILES[_maker(host)]}"))
    boot_again(cloud, "systemctl reboot")
    on_each(lambda host: _has_changed(cloud, host))
    on_each(lambda host: cloud.on(host.name, f"! ip link show dev {INSIDE}"))
    _again(cloud, stp=True, **_change(cloud))
    on_each(lambda host: _guest_answers(cloud, host), GUESTS)
