# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines that a task asks for, with the parts of their records that it asks for, in as few calls as these need.

Names and states alone are five calls, however many machines there are. A filter by tag reads the XML of every machine
that the other filters leave, and asks for nothing else before it is known which machines are meant.
"""

from __future__ import annotations

import time
import typing as t
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ..._base.errors import InputError
from ..._model.metadata.migration import is_flush_name
from ..connection import VirConnect, libvirt, translate_errors
from ..machines.listing import is_arriving, observe_machines, paused_by
from ..machines.record import PendingOf, state_name
from .details import CHAINS, DETAIL_KEYS, DETAILS, OS, add_details

_MIN_KEYS = frozenset({"name", "uuid", "state", "paused_by", "autostart", "persistent", "saved", "errors"})
# What stands in a record under another word than that of its subset. All that is named nowhere is metadata.
_KEYS = {
    "hardware": (
        *("vcpus", "vcpus_max", "memory_mib", "memory_max_mib", "domain_type", "machine_type", "arch"),
        *("firmware", "secure_boot", "tpm", "cpu_mode", "tied_by"),
    ),
    "disks": ("disks",),
    "nics": ("nics",),
    "addresses": ("address", "addresses"),
    "pending": ("pending",),
    "console": ("graphics", "serial_log", "serial_console"),
}
_METADATA = "metadata"
DEFAULT_SUBSETS = (_METADATA, *_KEYS)
SUBSETS = (*DEFAULT_SUBSETS, *DETAILS)
_DETAIL_KEYS = frozenset(DETAIL_KEYS.values())
_SUBSET_OF = {key: subset for subset, keys in _KEYS.items() for key in keys}
Record = dict[str, t.Any]


@dataclass(frozen=True)
class MachineSelection:
    """Which machines are meant; None is every one. Several filters narrow: all of them have to fit.

    states: as in a record, or ``saved`` for those whose memory is saved on disk, which are ``shutoff`` as well.
    """

    names: tuple[str, ...] | None = None
    uuids: tuple[str, ...] | None = None
    states: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None

    def fits(self, record: Record) -> bool:
        """Whether the state and the tags of a record are among those that are meant."""
        if not self.has_state(record):
            return False
        return self.tags is None or not set(self.tags).isdisjoint(record.get("tags") or ())

    def has_state(self, record: Record) -> bool:
        """Whether the state of a record is among those that are meant."""
        states = self.states
        return states is None or record["state"] in states or bool(record["saved"] and "saved" in states)

    def names_it(self, domain: t.Any) -> bool:
        """Whether name and UUID are among those that are meant."""
        if self.names is not None and domain.name() not in self.names:
            return False
        return self.uuids is None or domain.UUIDString() in self.uuids


@dataclass(frozen=True)
class Found:
    """The records; what names and UUIDs lead to nothing; then also all names that there are, for a hint."""

    records: list[Record]
    missing: list[str]
    known: list[str] | None = None


def read_uuids(texts: Iterable[str] | None) -> tuple[str, ...] | None:
    """UUIDs as libvirt writes them. Raises InputError."""
    if texts is None:
        return None
    found = []
    for text in texts:
        try:
            found.append(str(uuid.UUID(text)))
        except ValueError:
            raise InputError(f"{text!r} is not a UUID", where="uuid") from None
    return tuple(found)


def needs_writing(subsets: Collection[str]) -> bool:
    """Whether libvirt answers only on a read-write connection: guest agents are not asked on any other."""
    return not {"addresses", OS}.isdisjoint(subsets)


def completed(subsets: Iterable[str], left_out: Collection[str] = ()) -> frozenset[str]:
    """Subsets with those that they stand in: a chain is a disk's, and goes with the disks where these are left out.

    left_out: what the user does not want, whatever else is asked for.
    """
    wanted = set(subsets)
    if CHAINS in wanted and "disks" not in left_out:
        return frozenset(wanted | {"disks"})
    return frozenset(wanted - {CHAINS})


def find_machines(
    conn: VirConnect,
    selection: MachineSelection,
    subsets: Collection[str],
    *,
    pending: PendingOf,
    agent_timeout_seconds: int,
    timeout_seconds: float,
) -> Found:
    """The machines of a hypervisor that are meant, sorted by name, with what the subsets hold and nothing else.

    subsets: some of SUBSETS, completed. timeout_seconds: limit for the calls to single machines, together.
    Raises VirtError when the machines cannot be listed.
    """
    deadline = time.monotonic() + timeout_seconds

    def observe(names: Iterable[str] | None, **asked: t.Any) -> list[Record]:
        left = max(0.1, deadline - time.monotonic())
        return observe_machines(
            conn, names=names, agent_timeout_seconds=agent_timeout_seconds, timeout_seconds=left, **asked
        )

    known: list[str] | None = None
    missing: list[str] = []
    names: list[str] | None = None
    records: list[Record] | None = None
    # Only the details are asked of the machines themselves then.
    brief = set(subsets).issubset(DETAIL_KEYS)
    if selection != MachineSelection() or brief:
        domains = _list_domains(conn)
        missing = _missing(selection, domains)
        known = sorted(domain.name() for domain in domains) if missing else None
        domains = [domain for domain in domains if selection.names_it(domain)]
        if brief or selection.states is not None:
            records = _brief_records(conn, domains)
            if selection.states is not None:
                records = [record for record in records if selection.has_state(record)]
        names = [domain.name() for domain in domains] if records is None else [one["name"] for one in records]
    full = {
        "addresses": "addresses" in subsets,
        "sizes": "disks" in subsets,
        "pending": pending if "pending" in subsets else None,
    }
    if selection.tags is not None:
        plain = observe(names, addresses=False, sizes=False)
        records = [record for record in plain if selection.fits(record)]
        names = [record["name"] for record in records]
        if any(full.values()) and names:
            records = observe(names, **full)
    elif not brief:
        records = observe(names, **full) if names is None or names else []
    chosen = [record for record in records or [] if selection.fits(record)]
    left = max(0.1, deadline - time.monotonic())
    add_details(conn, chosen, subsets, agent_timeout_seconds=agent_timeout_seconds, timeout_seconds=left)
    return Found([_part(record, subsets) for record in chosen], missing, known)


def _list_domains(conn: VirConnect) -> list[t.Any]:
    with translate_errors("cannot list the machines"):
        return [domain for domain in conn.listAllDomains() if not is_flush_name(domain.name())]


def _missing(selection: MachineSelection, domains: Sequence[t.Any]) -> list[str]:
    names, uuids = {domain.name() for domain in domains}, {domain.UUIDString() for domain in domains}
    asked = dict.fromkeys(selection.names or ()), dict.fromkeys(selection.uuids or ())
    return [name for name in asked[0] if name not in names] + [one for one in asked[1] if one not in uuids]


def _brief_records(conn: VirConnect, domains: Sequence[t.Any]) -> list[Record]:
    """What is known of machines without their XML. One that goes meanwhile, or is still arriving, is left out."""
    if not domains:
        return []
    with translate_errors("cannot list the machines"):
        flags = (
            libvirt.VIR_CONNECT_LIST_DOMAINS_AUTOSTART,
            libvirt.VIR_CONNECT_LIST_DOMAINS_PERSISTENT,
            libvirt.VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE,
        )
        autostart, persistent, saved = ({one.UUIDString() for one in conn.listAllDomains(flag)} for flag in flags)
        # Without waiting for a machine that is busy.
        stats = conn.domainListGetStats(
            domains, libvirt.VIR_DOMAIN_STATS_STATE, libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
        )
    states = {
        domain.UUIDString(): (state_name(values.get("state.state")), values.get("state.reason"))
        for domain, values in stats
    }
    records = []
    for domain in sorted(domains, key=lambda one: one.name()):
        key = domain.UUIDString()
        if key not in states:
            continue
        state, reason = states[key]
        if state == "paused" and key not in persistent and is_arriving(domain):
            continue
        records.append(
            {
                "name": domain.name(),
                "uuid": key,
                "state": state,
                "paused_by": paused_by(state, reason),
                "autostart": key in autostart,
                "persistent": key in persistent,
                "saved": key in saved,
                "errors": [],
            }
        )
    return records


def _part(record: Record, subsets: Collection[str]) -> Record:
    """A record without what was not asked for."""
    part = {}
    for key, value in record.items():
        subset = _SUBSET_OF.get(key, _METADATA)
        if key in _MIN_KEYS or key in _DETAIL_KEYS or subset in subsets:
            part[key] = value
    if "nics" in part and "addresses" not in subsets:
        part["nics"] = [{key: value for key, value in nic.items() if key != "addresses"} for nic in part["nics"]]
    return part
