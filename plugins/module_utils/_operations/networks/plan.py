# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a spec of a network and what is there to the steps between the two.

A network that runs is changed by virNetworkUpdate where libvirt can. Everything else goes into its definition, and the
network is started again where no machine that runs has a nic on it; otherwise the plan says what is pending.
"""

from __future__ import annotations

import copy
import typing as t
from collections.abc import Mapping

from ..._base.errors import InputError
from ..._base.xml import etree
from ..._host.networks.existing import ExistingNetwork
from ..._model.spec.fields.given import GivenOptions
from ..._model.spec.fields.table import Values
from ..._model.spec.resources.network.rows import in_order, said, same
from ..._model.spec.resources.network.spec import NetworkSpec, read_network
from ..._model.spec.resources.network.table import OWN_BRIDGE, read_xml, write_xml
from ..networks import steps
from ..plan import Step
from ..resources import ResourcePlan
from .collisions import check_collisions
from .live import Update, live_updates
from .view import NetworkView, missing_bridges


def read_spec(view: NetworkView, given: GivenOptions) -> NetworkSpec:
    """The spec of one network of a task. Raises VirtError, also for a name that the task has twice."""
    # First: the rest may be wrong because it is meant for another network.
    if given.values.get("name") in (*view.planned, *view.going):
        raise InputError("another network in the list has this name", where=given.at("name"))
    spec = read_network(given, view.values)
    if spec.state == "absent":
        view.going.add(spec.name)
    else:
        view.planned[spec.name] = spec.whole
    return spec


def plan_network(view: NetworkView, spec: NetworkSpec) -> ResourcePlan:
    """What to do for a spec that read_spec has read. Raises VirtError for what stands in its way."""
    network = view.networks.get(spec.name)
    where = spec.given.at("name")
    if spec.state == "absent":
        return _plan_absent(view, spec, network)
    if network is None:
        check_collisions(view, spec)
        return ResourcePlan(
            spec.name, None, _after(spec, {}), _steps_of_new(view, spec), _missing_on_host(view, spec), where
        )
    return _Change(view, spec, network).plan()


def look(view: NetworkView, name: str) -> dict[str, t.Any] | None:
    """A network as it is now, with what libvirt has chosen itself, such as its bridge; None where there is none."""
    network = steps.look_again(view, name)
    return None if network is None else shown(network)


def current(view: NetworkView, name: str) -> dict[str, t.Any]:
    """The same; empty where there is none."""
    return look(view, name) or {}


def shown(network: ExistingNetwork) -> dict[str, t.Any]:
    """A network as it is defined, in the words of the options."""
    state = "inactive" if network.live is None else "active"
    return {"state": state, "autostart": network.autostart, **_plain(read_xml(network.xml))}


def _plain(value: t.Any) -> t.Any:
    """As YAML has it."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _after(spec: NetworkSpec, values: Values) -> dict[str, t.Any]:
    """A network as it is to be. values: what its XML says then; of a new one, what the spec says."""
    options = values or said({key: in_order(value, key) for key, value in spec.whole.items()})
    return {"state": spec.state, "autostart": spec.autostart, **_plain(options)}


def _plan_absent(view: NetworkView, spec: NetworkSpec, network: ExistingNetwork | None) -> ResourcePlan:
    where = spec.given.at("name")
    if network is None:
        return ResourcePlan(spec.name, None, None, where=where)
    steps.require_unused(view, network, "is not removed", defined_too=True, where=where)
    found = [
        *([steps.stop(view, network)] if network.live is not None else []),
        *([steps.undefine(view, network)] if network.persistent else []),
    ]
    return ResourcePlan(spec.name, shown(network), None, tuple(found), where=where)


def _steps_of_new(view: NetworkView, spec: NetworkSpec) -> tuple[Step, ...]:
    xml = etree.Element("network")
    etree.SubElement(xml, "name").text = spec.name
    write_xml(xml, spec.options)
    return (
        steps.define_new(view.conn, spec.name, xml),
        *([steps.start(view.conn, spec.name)] if spec.state == "active" else []),
        *([steps.set_autostart(view.conn, spec.name, True)] if spec.autostart else []),
    )


def _missing_on_host(view: NetworkView, spec: NetworkSpec) -> tuple[str, ...]:
    """What the host is to have by the time that machines need it: libvirt does not ask for it."""
    if view.has_interface is None:
        return ()
    names = list(spec.options.get("device", ()))
    if spec.whole["mode"] not in OWN_BRIDGE and "bridge" in spec.options:
        names.append(spec.options["bridge"])
    missing = [name for name in names if not view.has_interface(name)]
    if not missing:
        return ()
    return (f"the host has no interface {', '.join(missing)}: nothing passes there until it has",)


def _why_again(late: list[str], gone: list[str]) -> str:
    """What a network is started again for: options that what runs does not have, and bridges that are not there."""
    words = [f"{', '.join(late)} {'is' if len(late) == 1 else 'are'} in effect"] if late else []
    return " and ".join([*words, *(f"its bridge {name}, which is gone, comes back" for name in gone)])


class _Change:
    """A network that is there, on its way to the spec."""

    def __init__(self, view: NetworkView, spec: NetworkSpec, network: ExistingNetwork) -> None:
        self._view, self._spec, self._network = view, spec, network
        self._wanted = copy.deepcopy(network.xml)
        write_xml(self._wanted, spec.options)
        self._running = network.live is not None and spec.state == "active"

    def plan(self) -> ResourcePlan:
        network, spec = self._network, self._spec
        where = spec.given.at("name")
        updates: list[Update] = []
        pending: list[str] = []
        found: list[Step] = []
        gone: list[str] = []
        restarts = False
        differs = self._differing(network.xml)
        self._require_kept_groups()
        if self._running and network.live is not None:
            updates = live_updates(network.live, self._wanted)
            late = self._late(updates)
            gone = missing_bridges(self._view, network)
            if late or gone:
                restarts, words = self._decide(_why_again(late, gone))
                pending += words
        elif network.live is not None:
            steps.require_unused(self._view, network, "is not stopped", defined_too=False, where=where)
        moves = bool({"mode", "bridge", "addresses", "routes"} & set(differs))
        if moves or restarts or (network.live is None and spec.state == "active"):
            check_collisions(self._view, spec, only_starts=not moves)
        stops = restarts or (network.live is not None and not self._running)
        if stops and network.persistent:
            found.append(steps.stop(self._view, network))
        found += self._changes(differs, [] if stops else updates)
        if stops and not network.persistent:
            found.append(steps.stop(self._view, network))
        if restarts or (network.live is None and spec.state == "active"):
            found.append(steps.start(self._view.conn, spec.name))
        if network.autostart != spec.autostart:
            found.append(steps.set_autostart(self._view.conn, spec.name, spec.autostart))
        pending += _missing_on_host(self._view, spec)
        after = _after(spec, read_xml(self._wanted))
        before = {**shown(network), **({"bridge": None} if gone and restarts else {})}
        return ResourcePlan(spec.name, before, after, tuple(found), tuple(pending), where)

    def _differing(self, xml: etree._Element) -> list[str]:
        """The options of which a description has not all that is requested."""
        have = read_xml(xml)
        return [key for key, want in self._spec.options.items() if not same(have.get(key), want, key)]

    def _late(self, updates: list[Update]) -> list[str]:
        """The options of which what runs will not have all, once it is updated."""
        live = copy.deepcopy(self._network.live)
        if live is None:  # nothing runs that could be late
            return []
        for change in updates:
            change.apply_to(live)
        return self._differing(live)

    def _decide(self, why: str) -> tuple[bool, list[str]]:
        """Whether the network is started again, and if not, what is said of that. why: what that is for."""
        name = self._spec.name
        users = self._view.users(self._network)
        words = f"{why} when the network is started again (virsh net-destroy {name}, then virsh net-start {name})"
        if users.running:
            found = sorted(users.running)
            lose = "loses its connection until it is" if len(found) == 1 else "lose their connection until they are"
            return False, [f"{words}; {steps.names_of(found)} {lose} shut down and started again"]
        if users.ports:
            return False, [f"{words}; {steps.ports_words(users.ports)}, and would lose the connection"]
        if users.unknown:
            return False, [f"{words}; whether machines are on it is not known: {'; '.join(users.unknown)}"]
        if self._spec.restart == "never" or not self._network.persistent:
            return False, [f"{words}; no machine that runs is on it"]
        return True, []

    def _changes(self, differs: list[str], updates: list[Update]) -> list[Step]:
        """The definition, and what of the running network changes at once.

        By virNetworkUpdate on both where that is all there is to do, else by a new definition first.
        """
        network = self._network
        of_config = live_updates(network.xml, self._wanted) if updates else []
        by_updates = network.persistent and differs and self._covers(of_config, updates)
        found = []
        if (differs or not network.persistent) and not by_updates:
            found.append(steps.redefine(self._view, network, self._wanted, self._require_kept_groups))
        keys = {change.key for change in of_config} if by_updates else set()
        check = self._require_kept_groups
        found += [
            steps.update(network, change, live=True, config=change.key in keys, check=check) for change in updates
        ]
        return found

    def _require_kept_groups(self) -> None:
        if "portgroups" in self._spec.options:
            kept = {each.get("name", "") for each in self._wanted.iterfind("portgroup")}
            steps.require_kept_groups(self._view, self._network, kept, self._spec.given.at("portgroups"))

    def _covers(self, of_config: list[Update], updates: list[Update]) -> bool:
        """Whether updates of the definition do all that is to be done there, each together with one of what runs."""
        if not {change.key for change in of_config} <= {change.key for change in updates}:
            return False
        xml = copy.deepcopy(self._network.xml)
        for change in of_config:
            change.apply_to(xml)
        return not self._differing(xml)
