# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's networks of all modes, on two releases: made, changed while a guest is on them, judged by it, and removed.

What leaves them is judged by another hypervisor, on which a web server writes down who has asked.
"""

from __future__ import annotations

import difflib
import re
import typing as t

from ...cloud import FLEET, SUDO_HOST, Cloud, must
from ...driving.consoles import tell_all, wait_until_up
from ...driving.tasks import module, refused
from ...needs import NEWER, TINY, store_tiny
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "alone", "newer")
HOSTS = (FLEET[0], NEWER)
# Beside the two.
SERVER, PORT = SUDO_HOST, 8899
UNIT = "scenario-web.service"
FIRST, SECOND = "networks1", "networks2"
MACS = {FIRST: "52:54:00:5c:00:01", SECOND: "52:54:00:5c:00:02"}
LEASES: list[dict[str, str]] = [
    {"mac": MACS[FIRST], "name": "first", "address": "192.0.2.10"},
    {"mac": MACS[SECOND], "name": "second", "address": "192.0.2.20"},
]
DOMAIN = "nat.example.org"
NAMED: dict[str, t.Any] = {"address": "192.0.2.66", "names": [f"named.{DOMAIN}"]}
LATER: dict[str, t.Any] = {"address": "192.0.2.77", "names": [f"later.{DOMAIN}"]}
RANGE, MORE = ({"start": f"192.0.2.{first}", "end": f"192.0.2.{first + 19}"} for first in (100, 200))
NAT: dict[str, t.Any] = {
    **{"name": "scenario-nat", "mode": "nat", "bridge": "scenat0", "domain": {"name": DOMAIN, "local_only": True}},
    **{"addresses": ["192.0.2.1/24", "2001:db8:a::1/64"], "dns": {"hosts": [NAMED]}},
    "dhcp": {"ranges": [RANGE], "leases": LEASES[:1]},
}
# The host's bridge that libvirt makes nothing of.
OWN_BRIDGE = "scebr0"
OTHERS: list[dict[str, t.Any]] = [
    {
        **{"name": "scenario-route", "mode": "route", "bridge": "sceroute0", "addresses": ["198.51.100.1/25"]},
        "dhcp": {"ranges": [{"start": "198.51.100.10", "end": "198.51.100.19"}]},
    },
    {
        **{"name": "scenario-open", "mode": "open", "bridge": "sceopen0", "addresses": ["198.51.100.129/25"]},
        "dhcp": {"ranges": [{"start": "198.51.100.140", "end": "198.51.100.149"}]},
    },
    {
        **{"name": "scenario-isolated", "mode": "isolated", "bridge": "sceiso0", "addresses": ["203.0.113.1/24"]},
        "dhcp": {"ranges": [{"start": "203.0.113.10", "end": "203.0.113.19"}]},
    },
    {"name": "scenario-bridge", "mode": "bridge", "bridge": OWN_BRIDGE},
]
ALL = [NAT, *OTHERS]
ROUTED, HIDDEN = "198.51.100.0/24", "192.0.2.0/24"
# As iptables and nft say it, whichever of them libvirt has used.
RULES = "{ iptables-save; ip6tables-save; nft list ruleset; true; } 2>/dev/null"
# Packets are counted.
STATE = (
    "for n in $(virsh net-list --all --name | sort); do virsh net-info $n; virsh net-dumpxml --inactive $n;"
    " virsh net-dumpxml $n; done; ls /sys/class/net; grep . /run/libvirt/network/*.pid /dev/null;"
    f" {RULES} | grep -v '^#' | sed 's/counter packets.*bytes [0-9]*//; s/\\[[0-9:]*\\]//'; "
    # The kernel notices some seconds later that a bridge has lost its last port.
    "ip route | sed 's/ linkdown//'"
)


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("a web server outside", lambda: _server(cloud), vital=True)
        for host in HOSTS:
            _one(scenario, cloud, host)
    finally:
        for host in HOSTS:
            _clear(cloud, host)
        cloud.lab("ssh", SERVER, f"systemctl stop {UNIT}; ip route del {ROUTED}; ip route del {HIDDEN}")


def _one(scenario: ScenarioRun, cloud: Cloud, host: str) -> None:
    def step(title: str, proof: t.Callable[[Cloud, str], None], *, vital: bool = False) -> None:
        scenario.step(f"{host}: {title}", lambda: proof(cloud, host), vital=vital)

    store_tiny(cloud, host)
    cloud.on(host, f"ip link add {OWN_BRIDGE} type bridge && ip link set {OWN_BRIDGE} up")
    step("networks of all modes: check mode changes nothing, run, run again", _make, vital=True)
    step("virsh, the kernel and the firewall have them", _made)
    step("an address range and a bridge that are taken are refused", _taken)
    step("a guest gets the address of its lease, the others by their ranges", _guest, vital=True)
    step("it asks the network's DNS, and has an address of IPv6", _names)
    step("nat hides it, route and open do not, isolated leads nowhere", _ways)
    step("from outside it is reached by route and open, and not behind nat", _from_outside)
    step("a lease is added live, and another guest gets it", _lease)
    step("a DNS name and a range are added live", _names_and_range)
    step("what cannot be done live is said, and waits", _late, vital=True)
    step("it is kept while machines use it", _used)
    step("without machines the network is started again, and has it", _restarted)
    step("stopped, and started again", _stopped)
    step("its bridge deleted by hand comes back", _deleted)
    step("removed: nothing of them is left, the host's bridge is", _remove)


def _server(cloud: Cloud) -> None:
    script = f"systemd-run --unit {UNIT} --collect python3 -u -m http.server {PORT} --directory /srv"
    cloud.on(SERVER, f"systemctl stop {UNIT} 2>/dev/null; {script}")
    cloud.on(SERVER, f"for i in $(seq 20); do (</dev/tcp/127.0.0.1/{PORT}) && exit; sleep 1; done; exit 1")


def _address(cloud: Cloud, host: str) -> str:
    """Of a host in the lab's network."""
    text = (cloud.inventory / "hosts.yml").read_text(encoding="utf-8")
    found = re.search(rf"^    {host}:\n      ansible_host: (\S+)", text, re.MULTILINE)
    must(found is not None, text)
    return found[1] if found else ""


def _changed(cloud: Cloud, host: str, changed: bool, **options: t.Any) -> list[dict[str, t.Any]]:
    """Check mode says what the run does, and does nothing of it; the next run has nothing to do."""
    before = cloud.on(host, STATE)
    shown, would = module(cloud, host, "virt_network", "--check", "--diff", **options)
    must(shown.status == 0 and would["changed"] is changed, shown.text)
    _is_as(before, cloud.on(host, STATE), "check mode has changed something")
    answer, result = module(cloud, host, "virt_network", "--diff", **options)
    must(answer.status == 0 and result["changed"] is changed, answer.text)
    for mine, theirs in zip(would["networks"], result["networks"], strict=True):
        must(mine["actions"] == theirs["actions"] and mine["pending"] == theirs["pending"], shown.text + answer.text)
    diffs = [each.text.partition(f"{host} |")[0] for each in (shown, answer)]
    must(bool(diffs[0]) is changed and diffs[0] == diffs[1], shown.text + answer.text)
    after = cloud.on(host, STATE)
    again, same = module(cloud, host, "virt_network", **options)
    must(again.status == 0 and same["changed"] is False, again.text)
    _is_as(after, cloud.on(host, STATE), "a second run has changed something")
    return list(result["networks"])


def _is_as(before: str, now: str, words: str) -> None:
    changes = difflib.unified_diff(before.splitlines(), now.splitlines(), "before", "now", lineterm="", n=1)
    must(now == before, f"{words}:\n" + "\n".join(changes))


def _make(cloud: Cloud, host: str) -> None:
    _changed(cloud, host, True, networks=ALL)


def _made(cloud: Cloud, host: str) -> None:
    for network in ALL:
        info = cloud.on(host, f"LC_ALL=C virsh net-info {network['name']}")
        must(re.search(r"Active: +yes\s+Persistent: +yes\s+Autostart: +yes", info) is not None, info)
        must(re.search(rf"Bridge: +{network['bridge']}\s", info) is not None, info)
        addresses = cloud.on(host, f"ip -brief address show {network['bridge']}")
        must(all(address in addresses for address in network.get("addresses", ())), addresses)
    rules = cloud.on(host, RULES)
    must("masquerade" in rules.lower() and "192.0.2.0/24" in rules, rules)
    for network in ALL:
        # libvirt makes no rule for these.
        without = network["mode"] in ("open", "bridge")
        must((network["bridge"] in rules) is not without, f"{network['mode']}: {rules}")


def _taken(cloud: Cloud, host: str) -> None:
    new = {"name": "scenario-new", "mode": "nat"}
    overlap = "192.0.2.129/25 overlaps 192.0.2.1/24 of network scenario-nat"
    refused(cloud, host, "virt_network", overlap, **new, addresses=["192.0.2.129/25"])
    own = _address(cloud, host)
    refused(cloud, host, "virt_network", "which the host has on its interface", **new, addresses=[f"{own}/24"])
    for bridge, words in (
        ("br0", "the host has an interface br0 already"),
        (OWN_BRIDGE, f"the bridge {OWN_BRIDGE} is that of network scenario-bridge"),
    ):
        refused(cloud, host, "virt_network", words, **new, addresses=["192.0.3.1/24"], bridge=bridge)


def _machine(cloud: Cloud, host: str, name: str, networks: t.Sequence[dict[str, t.Any]]) -> None:
    first, *others = (network["name"] for network in networks)
    nics = [
        {"name": "eth0", "network": first, "mac": MACS[name]},
        *({"name": f"eth{index}", "network": other} for index, other in enumerate(others, start=1)),
    ]
    answer, _result = cloud.init(host, **TINY, name=name, nics=nics, seed={"method": "none"})
    must(answer.status == 0, answer.text)


def _leased(cloud: Cloud, host: str, network: str) -> dict[str, str]:
    """The addresses of IPv4 that libvirt knows of, by MAC address."""
    return dict(re.findall(r" ((?:[0-9a-f]{2}:){5}[0-9a-f]{2}) +ipv4 +([0-9.]+)/", _leases(cloud, host, network)))


def _leases(cloud: Cloud, host: str, network: str) -> str:
    return cloud.on(host, f"LC_ALL=C virsh net-dhcp-leases {network}")


def _guest(cloud: Cloud, host: str) -> None:
    _machine(cloud, host, FIRST, [network for network in ALL if network["mode"] != "bridge"])
    for index in range(len(ALL) - 1):
        # In whatever order they come.
        wait_until_up(cloud, host, FIRST, f"on eth{index}")
    got = _leased(cloud, host, NAT["name"])
    must(got == {MACS[FIRST]: LEASES[0]["address"]}, str(got))
    for network in OTHERS[:-1]:
        (address,) = _leased(cloud, host, network["name"]).values()
        (span,) = network["dhcp"]["ranges"]
        first, last, number = (int(each.rpartition(".")[2]) for each in (span["start"], span["end"], address))
        must(first <= number <= last, f"{address} is not in {span}")


def _names(cloud: Cloud, host: str) -> None:
    named, own, unknown, outside = _lookups(
        cloud, host, f"named.{DOMAIN}", f"first.{DOMAIN}", f"nothing.{DOMAIN}", "deb.debian.org"
    )
    must(NAMED["address"] in named, named)
    must(LEASES[0]["address"] in own, own)
    must("NXDOMAIN" in unknown or "can't find" in unknown, unknown)
    must("Address" in outside.partition("deb.debian.org")[2], outside)
    # The guest has thrown its addresses of IPv6 away before it asked for one of IPv4.
    switch, show = "/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "ip -6 address show dev eth0"
    wait = f"for i in $(seq 30); do {show} | grep 2001: && break; sleep 1; done"
    (got, addresses), (pinged, said) = tell_all(
        cloud,
        host,
        FIRST,
        [f"echo 1 > {switch}; echo 0 > {switch}; {wait}", "ping -6 -c 2 -W 5 2001:db8:a::1"],
    )
    must(got == 0 and "inet6 2001:db8:a:" in addresses, addresses)
    must(pinged == 0, said)


def _lookups(cloud: Cloud, host: str, *names: str) -> list[str]:
    """What nslookup says in the first guest of each."""
    return [said for _status, said in tell_all(cloud, host, FIRST, [f"nslookup {name} 192.0.2.1" for name in names])]


def _ways(cloud: Cloud, host: str) -> None:
    """The guest goes to the server by each of its networks."""
    server = _address(cloud, SERVER)
    cloud.on(SERVER, f"ip route replace {ROUTED} via {_address(cloud, host)}")
    commands = []
    for network in (NAT, *OTHERS[:-1]):
        gateway = network["addresses"][0].partition("/")[0]
        # The page is not there. The answer that says it has come back all the same.
        ask = rf"printf 'GET /{host}-{network['mode']} HTTP/1.0\r\n\r\n' | nc -w 5 {server} {PORT}"
        commands.append(f"ip route replace {server} via {gateway}; {ask}; ping -c 1 -W 5 {gateway}")
    answers = tell_all(cloud, host, FIRST, commands)
    log = cloud.on(SERVER, f"journalctl --no-pager --unit {UNIT} --output cat")
    asked = dict(re.findall(rf'^(\S+) - - .*"GET /{host}-(\w+)', log, re.MULTILINE))
    who = {mode: address for address, mode in asked.items()}
    route, opened = (next(iter(_leased(cloud, host, network["name"]).values())) for network in OTHERS[:2])
    must(who == {"nat": _address(cloud, host), "route": route, "open": opened}, f"{log}\n{answers}")
    for network, (status, said) in zip((NAT, *OTHERS), answers, strict=False):
        # The last is the ping: the host itself is reached by all of them.
        must(status == 0 and ("404" in said) is (network["mode"] != "isolated"), said)


def _from_outside(cloud: Cloud, host: str) -> None:
    cloud.on(SERVER, f"ip route replace {HIDDEN} via {_address(cloud, host)}")
    for network in (NAT, *OTHERS[:2]):
        (address,) = _leased(cloud, host, network["name"]).values()
        # It answers by the way that it was asked.
        gateway = network["addresses"][0].partition("/")[0]
        tell_all(cloud, host, FIRST, [f"ip route replace {_address(cloud, SERVER)} via {gateway}"])
        answer = cloud.lab("ssh", SERVER, f"ping -c 2 -W 5 {address}")
        must((answer.status == 0) is (network is not NAT), f"{network['mode']}: {answer.text}")


def _identity(cloud: Cloud, host: str) -> tuple[str, ...]:
    """What is another one after a restart: the bridge, dnsmasq and the guest."""
    words = cloud.on(
        host,
        f"cat /sys/class/net/scenat0/ifindex /run/libvirt/network/scenario-nat.pid /run/libvirt/qemu/{FIRST}.pid",
    )
    return tuple(words.split())


def _lease(cloud: Cloud, host: str) -> None:
    before = _identity(cloud, host)
    (result,) = _changed(cloud, host, True, **{**NAT, "dhcp": {"ranges": [RANGE], "leases": LEASES}})
    must(result["actions"] == [f"add the {_lease_words(LEASES[1])} in network scenario-nat"], str(result))
    must(result["pending"] == [], str(result))
    must(_identity(cloud, host) == before, "the network or the guest was restarted")
    _machine(cloud, host, SECOND, [NAT])
    wait_until_up(cloud, host, SECOND, "tiny guest has")
    got = _leased(cloud, host, NAT["name"])
    must(got == {lease["mac"]: lease["address"] for lease in LEASES}, str(got))
    (said,) = _lookups(cloud, host, f"second.{DOMAIN}")
    must(LEASES[1]["address"] in said, said)


def _lease_words(lease: dict[str, str]) -> str:
    return f"DHCP lease {lease['address']} {lease['mac']} {lease['name']}"


def _names_and_range(cloud: Cloud, host: str) -> None:
    before = _identity(cloud, host)
    (result,) = _changed(cloud, host, True, **_later())
    must(result["pending"] == [] and len(result["actions"]) == 2, str(result))
    after = _identity(cloud, host)
    # libvirt starts dnsmasq again for a range, and nothing else.
    must((after[0], after[2]) == (before[0], before[2]), "the network or the guest was restarted")
    (said,) = _lookups(cloud, host, f"later.{DOMAIN}")
    must(LATER["address"] in said, said)
    must(len(_leased(cloud, host, NAT["name"])) == len(LEASES), "leases were forgotten")


def _later() -> dict[str, t.Any]:
    return {**NAT, "dhcp": {"ranges": [RANGE, MORE], "leases": LEASES}, "dns": {"hosts": [NAMED, LATER]}}


def _late(cloud: Cloud, host: str) -> None:
    before = _identity(cloud, host)
    (result,) = _changed(cloud, host, True, **_later(), mtu=1400)
    words = (
        "mtu is in effect when the network is started again (virsh net-destroy scenario-nat, then virsh net-start"
        f" scenario-nat); machines {FIRST}, {SECOND} lose their connection until they are shut down and started again"
    )
    must(result["pending"] == [words], str(result))
    must(_identity(cloud, host) == before, "the network or the guest was restarted")
    must(cloud.on(host, "cat /sys/class/net/scenat0/mtu").strip() == "1500", "the MTU has changed")
    must("mtu size='1400'" in cloud.on(host, "virsh net-dumpxml --inactive scenario-nat"), "it is not defined")


def _used(cloud: Cloud, host: str) -> None:
    who = f"machines {FIRST}, {SECOND} have nics on it"
    refused(cloud, host, "virt_network", f"is not removed: {who}", name="scenario-nat", state="absent")
    refused(cloud, host, "virt_network", f"is not stopped: {who}", name="scenario-nat", state="inactive")
    bridge = {"name": "scenario-nat", "mode": "bridge", "bridge": OWN_BRIDGE}
    refused(cloud, host, "virt_network", "is of mode nat, the task asks for bridge", **bridge)


def _restarted(cloud: Cloud, host: str) -> None:
    for name in MACS:
        cloud.on(host, f"virsh destroy {name}")
    (result,) = _changed(cloud, host, True, **_later(), mtu=1400)
    must(result["pending"] == [], str(result))
    must(cloud.on(host, "cat /sys/class/net/scenat0/mtu").strip() == "1400", "the MTU is another one")


def _stopped(cloud: Cloud, host: str) -> None:
    for state, there in (("inactive", False), ("active", True)):
        _changed(cloud, host, True, name="scenario-nat", state=state, autostart=there)
        must(("scenat0" in cloud.on(host, "ls /sys/class/net")) is there, f"the bridge, {state}")


def _deleted(cloud: Cloud, host: str) -> None:
    """libvirt still says that the network is active."""
    cloud.on(host, "ip link del scenat0")
    _changed(cloud, host, True, name="scenario-nat")
    must("192.0.2.1/24" in cloud.on(host, "ip address show scenat0"), "the bridge has no address")
    _changed(cloud, host, False, name="scenario-nat")


def _remove(cloud: Cloud, host: str) -> None:
    for name in MACS:
        cloud.on(host, f"virsh undefine {name}")
    gone = [{"name": network["name"], "state": "absent"} for network in ALL]
    _changed(cloud, host, True, networks=gone)
    names = cloud.on(host, "virsh net-list --all --name")
    must("scenario-" not in names, names)
    text = cloud.on(host, f"ls /sys/class/net; pgrep --list-full dnsmasq; {RULES}; true")
    must(not any(network["bridge"] in text for network in ALL[:-1]) and OWN_BRIDGE in text, text)


def _clear(cloud: Cloud, host: str) -> None:
    machines, networks = " ".join(MACS), " ".join(network["name"] for network in ALL)
    cloud.lab(
        "ssh",
        host,
        f"for m in {machines}; do virsh destroy $m; virsh undefine $m; done;"
        f" for n in {networks}; do virsh net-destroy $n; virsh net-undefine $n; done; ip link del {OWN_BRIDGE}",
    )
