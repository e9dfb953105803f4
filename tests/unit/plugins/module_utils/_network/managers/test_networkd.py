# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._network.managers import networkd
from ansible_collections.brine.virt.plugins.module_utils._network.managers.networkd_text import NetworkdSource
from ansible_collections.brine.virt.plugins.module_utils._network.observe import Route
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.managers.hosts import (
    SPECS,
    VLAN_SPECS,
    wanted,
)

FILE = NetworkdSource((("/etc/systemd/network/eth0.network", "[Match]\nName=eth0\n"),))


@pytest.mark.parametrize("words", [{}, {"addresses": ["192.0.2.10/24"]}])
@pytest.mark.parametrize(("source", "foreign"), [(FILE, ("192.0.2.10/24",)), (None, ())])
def test_an_address_that_nothing_would_bring_back_is_not_lost(
    words: dict[str, t.Any],
    source: NetworkdSource | None,
    foreign: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(networkd, "observe_networkd", lambda _link: networkd.Networkd(source, foreign, None, None))
    with pytest.raises(ConflictError, match=r"^192\.0\.2\.10/24 on eth0 is in no configuration of systemd-networkd"):
        networkd.NetworkdManager().make(wanted(**words))


def test_a_route_by_hand_is_not_lost_in_whatever_table_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networkd, "observe_networkd", lambda _link: networkd.Networkd(FILE, (), None, None))
    route = Route("eth0", "192.0.2.7", protocol="boot", table="100")
    asked = wanted()
    with pytest.raises(ConflictError, match=r"the route to default via 192\.0\.2\.7 in table 100 on eth0 is in no"):
        networkd.NetworkdManager().make(
            dataclasses.replace(asked, network=dataclasses.replace(asked.network, tables=(route,)))
        )


VLAN: dict[str, t.Any] = {"uplink": {"vlan": 20, "link": "eth0"}, "addresses": ["198.51.100.5/24"]}


def test_an_interface_keeps_what_it_has_when_it_gets_a_vlan(monkeypatch: pytest.MonkeyPatch) -> None:
    """As networkctl reconfigure of systemd 257 takes it away."""
    monkeypatch.setattr(networkd, "network_file", lambda _link: None)
    foreign: tuple[str, ...] = ("192.0.2.77/24",)
    monkeypatch.setattr(networkd, "observe_networkd", lambda _link: networkd.Networkd(FILE, foreign, None, None))
    with pytest.raises(ConflictError, match=r"^192\.0\.2\.77/24 on eth0 is in no configuration of systemd-networkd"):
        networkd.NetworkdManager().make(wanted(**VLAN))
    foreign = ()
    asked = wanted(**VLAN)
    route = Route("eth0", "192.0.2.9", to="203.0.113.0/24", protocol="boot")
    asked = dataclasses.replace(asked, network=dataclasses.replace(asked.network, routes=(route,)))
    with pytest.raises(ConflictError, match=r"the route to 203\.0\.113\.0/24 via 192\.0\.2\.9 on eth0 is in no"):
        networkd.NetworkdManager().make(asked)


def test_a_vlan_is_on_no_other_interface_that_has_the_same_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networkd, "observe_networkd", lambda _link: networkd.Networkd(FILE, (), None, None))
    monkeypatch.setattr(networkd, "network_file", lambda link: FILE.path if link == "eth2" else None)
    with pytest.raises(ConflictError, match=r"eth0\.network is for eth2 as well as for eth0, so the VLAN could be on"):
        networkd.NetworkdManager().make(wanted(**VLAN))


@pytest.mark.parametrize(
    ("drop_in", "left"),
    [("", []), ("[Address]\nAddress=192.0.2.11/24\n", []), ("[Network]\nAddress=\n", ["192.0.2.10/24"])],
)
def test_an_address_of_the_file_is_not_foreign_whoever_has_given_it_to_the_link(
    drop_in: str, left: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As networkctl of systemd 252 has it after `ip address add` of an address before networkd itself has added it."""
    file, more = tmp_path / "eth0.network", tmp_path / "more.conf"
    file.write_text("[Match]\nName=eth0\n[Network]\nAddress=192.0.2.10/24\n", encoding="utf-8")
    more.write_text(drop_in, encoding="utf-8")
    entry = {"PrefixLength": 24, "ConfigSource": "foreign", "ScopeString": "global", "FlagsString": "permanent"}
    status = {
        "AdministrativeState": "configured",
        "NetworkFile": str(file),
        "NetworkFileDropins": [str(more)],
        "Addresses": [{**entry, "Address": [192, 0, 2, 10]}, {**entry, "Address": [198, 51, 100, 1]}],
    }
    monkeypatch.setattr(networkd, "run", lambda *words: json.dumps(status) if "--json=short" in words else "")
    found = networkd.observe_networkd("eth0")
    assert found is not None
    assert list(found.foreign_addresses) == [*left, "198.51.100.1/24"]


@pytest.mark.parametrize("trial", ["05-brine-br0.network", "05-brine--br0.network"])
def test_a_bridge_that_was_just_confirmed_has_the_file_that_its_trial_has_become(
    trial: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Until it is told to reload, networkd names the files that it has read, which are gone when a change is kept.

    So a role that made a second bridge in the same run ended here, on systemd 257 and a host with cards of its own.
    """
    lasting, run = tmp_path / "etc", tmp_path / "run"
    lasting.mkdir()
    run.mkdir()
    monkeypatch.setattr(networkd, "LASTING", str(lasting))
    monkeypatch.setattr(networkd, "TRIAL", str(run))
    text = "[Match]\nName=br0\n[Network]\nAddress=192.0.2.10/24\n"
    (lasting / "05-brine-br0.network").write_text(text, encoding="utf-8")
    more = lasting / "05-brine-br0.network.d" / "brine-more.conf"
    more.parent.mkdir()
    more.write_text("[Network]\nDNS=192.0.2.1\n", encoding="utf-8")
    status = {
        "AdministrativeState": "configured",
        "NetworkFile": str(run / trial),
        "NetworkFileDropins": [str(run / f"{trial}.d" / "brine-more.conf")],
    }
    monkeypatch.setattr(networkd, "run", lambda *words: json.dumps(status) if "--json=short" in words else "")
    found = networkd.observe_networkd("br0")
    assert found is not None
    assert found.source == NetworkdSource(
        ((str(lasting / "05-brine-br0.network"), text), (str(more), "[Network]\nDNS=192.0.2.1\n"))
    )


def test_a_file_of_somebody_else_that_has_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    status = {"AdministrativeState": "configured", "NetworkFile": "/run/systemd/network/10-gone.network"}
    monkeypatch.setattr(networkd, "run", lambda *words: json.dumps(status) if "--json=short" in words else "")
    with pytest.raises(HostError, match=r"10-gone\.network, which systemd-networkd uses, cannot be read"):
        networkd.observe_networkd("eth0")


@pytest.mark.parametrize("words", [*SPECS.values(), *VLAN_SPECS.values()], ids=[*SPECS, *VLAN_SPECS])
def test_a_second_run_leaves_all_files(
    words: dict[str, t.Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(networkd, "LASTING", str(tmp_path))
    monkeypatch.setattr(networkd, "FOLDERS", (str(tmp_path),))
    monkeypatch.setattr(networkd, "observe_networkd", lambda _link: networkd.Networkd(FILE, (), None, None))
    monkeypatch.setattr(networkd, "network_file", lambda _link: None)
    manager = networkd.NetworkdManager()
    for file in manager.make(wanted(**words)).files:
        Path(file.lasting).parent.mkdir(exist_ok=True)
        Path(file.lasting).write_text(str(file.text), encoding="utf-8")
    assert manager.made("br0")
    assert manager.change(wanted(existing=True, **words)).files == ()
