# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU of a machine, its tuning and its NUMA: every option, and where it stands in the domain's XML.

Names and values are those of https://libvirt.org/formatdomain.html#cpu-model-and-topology, and Salt Virt's where it had
a word of its own.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ...._base.errors import InputError, inside
from ...._base.xml import etree
from ..fields import validators
from ..fields.shapes import GroupField, ListField, NamedListField
from ..fields.table import ON_OFF, AttributeField, SizeField, TextField, Values, covers, drop

CPU_MODES = ("host-model", "host-passthrough", "maximum", "custom")
# What the guest sees of these is the host's own.
HOST_MODES = ("host-passthrough", "maximum")
COUNT = validators.whole_number(1, 4096)
INDEX = validators.whole_number(0, 65535)
_PERIOD = validators.whole_number(1000, 1000000)
_NO_LIMIT = -1
_PLAIN_SET = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*")
# Of memory to the CPUs beside it, as ACPI's table of distances (SLIT) counts.
_OWN_DISTANCE = 10
_EMULATED_LEVEL = 3


class _microseconds(validators.whole_number):  # noqa: N801 - used like the rules beside it
    """A rule for a quota: so many microseconds of each period, or -1 for no limit."""

    def __call__(self, value: t.Any, where: str) -> int:
        return _NO_LIMIT if str(value) == str(_NO_LIMIT) else super().__call__(value, where)


_QUOTA = _microseconds(1000, 17592186044415)
_NUMA_MODE = validators.choice("interleave", "strict", "preferred", "restrictive")
_POLICY = validators.choice("force", "require", "optional", "disable", "forbid")


@dataclass(frozen=True)
class _Cpu(GroupField):
    """A model's name makes the mode custom, and any other mode has no model. Another mode is checked in its own way."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values:
        if isinstance(value, str):
            value = {"mode": value}
        values, known = super().check(value, where, have), have or {}
        of_model = values.get("mode", "custom") == "custom" and known.get("model")
        if values.get("model"):
            mode = values.setdefault("mode", "custom")
            if mode != "custom":
                raise InputError(
                    f"mode {mode} takes no model",
                    where=inside(where, "model"),
                    hint="Give only one of the two",
                )
        elif "fallback" in values and values["fallback"] != known.get("fallback") and not of_model:
            raise InputError(
                "without a model there is nothing to fall back from",
                where=inside(where, "fallback"),
                hint="Give a model, or leave fallback out",
            )
        mode, of_cpu = values.get("mode", known.get("mode", "custom")), bool(values.get("model") or of_model)
        if (
            "match" in values
            and not of_cpu
            and (values["match"], mode) != (known.get("match"), known.get("mode", "custom"))
        ):
            raise InputError(
                f"mode {mode} has no match" if mode != "custom" else "without a model there is nothing to match",
                where=inside(where, "match"),
                hint="It is for a CPU with a model",
            )
        return values

    def write(self, parent: etree._Element, value: Mapping[str, t.Any]) -> None:
        cpu, mode = parent.find("cpu"), value.get("mode")
        if cpu is not None and mode not in (None, (self.read(parent) or {}).get("mode")):
            _leave_mode(cpu, mode)
        super().write(parent, value)

    def read(self, parent: etree._Element) -> Values | None:
        values = super().read(parent)
        # As libvirt has it: a model without a mode, which is how machines were defined once, is a custom one.
        return {"mode": "custom", **values} if values and "model" in values else values


def only_of_host_modes(cpu: Mapping[str, t.Any]) -> str | None:
    """What of a requested CPU only HOST_MODES have (qemuValidateDomainDefCpu), as a place in the option."""
    if "migratable" in cpu:
        return "migratable"
    return "cache.mode" if cpu.get("cache", {}).get("mode") == "passthrough" else None


def _leave_mode(cpu: etree._Element, mode: str) -> None:
    """Take out what belongs to the mode that the CPU had, and what libvirt refuses in the new one.

    virCPUDefParseXML in src/conf/cpu_conf.c of libvirt, and qemuValidateDomainDefCpu in its src/qemu/qemu_validate.c.
    ``migratable`` is written by libvirt itself, nobody has asked for it.
    """
    cpu.attrib.pop("check", "")
    if mode != "custom":
        cpu.attrib.pop("match", "")
        for child in [*cpu.findall("model"), *cpu.findall("vendor")]:
            cpu.remove(child)
    if mode not in HOST_MODES:
        cpu.attrib.pop("migratable", "")
        for child in [*cpu.findall("cache"), *cpu.findall("maxphysaddr")]:
            if child.get("mode") == "passthrough":
                cpu.remove(child)


@dataclass(frozen=True)
class _Cache(GroupField):
    """QEMU emulates one of level 3, and the other modes are of all levels (qemuValidateDomainDefCpu in libvirt)."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values:
        values = super().check(value, where, have)
        emulates = {**(have or {}), **values}.get("mode") == "emulate"
        if emulates:
            values.setdefault("level", _EMULATED_LEVEL)
        if values.get("level") not in (None, _EMULATED_LEVEL if emulates else None):
            raise InputError(
                "no such level can be had in this mode",
                where=inside(where, "level"),
                hint=f"Set mode: emulate with level: {_EMULATED_LEVEL}, or leave level out",
            )
        return values

    def write(self, parent: etree._Element, value: Mapping[str, t.Any]) -> None:
        cache = parent.find(self.path)
        if cache is not None and value.get("mode", "emulate") != "emulate":
            cache.attrib.pop("level", "")
        super().write(parent, value)


@dataclass(frozen=True)
class _Schedulers(ListField):
    """Real-time schedulers have a priority, the others none. libvirt gives back a row for each vCPU, in their order."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> tuple[Values, ...]:
        there = have if isinstance(have, (list, tuple)) else ()
        asked = super().check(value, where, have)
        # A row may name less than what the machine has in its place.
        pairs = zip_longest(asked, there[: len(asked)])
        rows = _one_by_one([row if "vcpus" in row else {**known, **row} for row, known in pairs])
        for row, other in zip(rows, rows[1:]):  # noqa: B905 - not in Python 3.9
            if row["vcpus"] == other["vcpus"]:
                raise InputError(f"vCPU {row['vcpus']} is in two of them", where=where)
        return rows

    def read(self, parent: etree._Element) -> tuple[Values, ...]:
        rows = super().read(parent)
        # XML of the user's may say it in other words.
        return _one_by_one(rows) if all(_PLAIN_SET.fullmatch(row.get("vcpus", "")) for row in rows) else rows

    def _check_row(self, row: t.Any, where: str, have: Values | None) -> Values:
        values = super()._check_row(row, where, have)
        if ("priority" in values) != (values["scheduler"] in ("fifo", "rr")):
            raise InputError(
                f"scheduler {values['scheduler']} takes {'no' if 'priority' in values else 'a'} priority", where=where
            )
        return values


def _one_by_one(rows: Sequence[Values]) -> tuple[Values, ...]:
    found = []
    for row in rows:
        for part in row["vcpus"].split(","):
            first, _dash, last = part.partition("-")
            found += [(number, row) for number in range(int(first), int(last or first) + 1)]
    return tuple({**row, "vcpus": str(number)} for number, row in sorted(found, key=lambda one: one[0]))


@dataclass(frozen=True)
class _NumaMemory(GroupField):
    """The nodes are named, or libvirt asks numad for them: ``placement: auto``. Without a mode it is strict."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values:
        values = super().check(value, where, have)
        if values.get("placement") != "auto" and "nodeset" not in values:
            raise InputError("nodeset is missing", where=where, hint="Name the nodes, or set placement: auto")
        if values.get("placement") == "auto" and "nodeset" in values:
            raise InputError("placement auto takes no nodeset", where=inside(where, "nodeset"))
        if values.get("placement") == "static":
            # Nodes that are named are static ones, and libvirt leaves the word out.
            del values["placement"]
        return values

    def write(self, parent: etree._Element, value: Mapping[str, t.Any]) -> None:
        super().write(parent, value)
        memory = parent.find(self.path)
        if memory is None:
            return
        # libvirt takes one of the two.
        if value.get("placement") == "auto":
            memory.attrib.pop("nodeset", "")
        elif "nodeset" in value and memory.get("placement") == "auto":
            del memory.attrib["placement"]


@dataclass(frozen=True)
class _Cells(ListField):
    """NUMA cells are numbered from 0 without a gap, as a cell's place in the list where it has no id.

    libvirt refuses other ids. Of a distance that it refuses, it frees what is not its own, and libvirtd crashes (9.0.0:
    ``free(): invalid pointer``): to a cell that there is not, 10 to another cell, anything else to the cell itself.
    """

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> tuple[Values, ...]:
        rows = super().check(value, where, have)
        if have is not None and covers(have, rows):
            return rows
        known = "The only cell has the id 0"
        if len(rows) > 1:
            known = f"The ids of {len(rows)} cells are 0 to {len(rows) - 1}"
        ids: set[int] = set()
        for index, row in enumerate(rows):
            place = f"{where}[{index}]"
            number = row.get("id", index)
            if number >= len(rows) or number in ids:
                words = f"the id {number} is not free" if number in ids else f"{number} is too high"
                raise InputError(words, where=inside(place, "id"), hint=known)
            ids.add(number)
            for other, distance in row.get("distances", {}).items():
                # One beside which nothing is said is as the machine has it.
                if distance and "value" in distance:
                    _check_distance(number, int(other), distance["value"], len(rows), inside(place, "distances"), known)
        return rows

    def _places(self, rows: Sequence[Mapping[str, t.Any]], have: Sequence[Values]) -> dict[int, int]:
        there = {cell.get("id", place): place for place, cell in enumerate(have)}
        numbers = [row.get("id", index) for index, row in enumerate(rows)]
        return {index: there[number] for index, number in enumerate(numbers) if number in there}

    def write(self, parent: etree._Element, value: Sequence[Mapping[str, t.Any]]) -> None:
        super().write(parent, value)
        cells = self._elements(parent)
        ids = {cell.get("id", str(index)) for index, cell in enumerate(cells)}
        for cell in cells:
            for sibling in cell.findall("distances/sibling"):
                if sibling.get("id") not in ids:
                    drop(sibling)
            distances = cell.find("distances")
            if distances is not None and not len(distances):
                # libvirt refuses an empty list.
                drop(distances)


def _check_distance(cell: int, other: int, distance: int, cells: int, where: str, known: str) -> None:
    """Refuse a distance that libvirt refuses, before it crashes."""
    if other >= cells:
        raise InputError(f"there is no cell {other}", where=where, hint=known)
    if (distance == _OWN_DISTANCE) != (other == cell):
        to = "the cell itself" if other == cell else f"cell {other}"
        words = f"{_OWN_DISTANCE}, no other" if other == cell else f"{_OWN_DISTANCE + 1} to 255"
        raise InputError(f"the distance to {to} is {distance}", where=inside(where, str(other)), hint=f"It is {words}")


@dataclass(frozen=True)
class _Topology(GroupField):
    """What is not named is one."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values:
        return {"sockets": 1, "cores": 1, "threads": 1, **super().check(value, where, have)}


def _pins(key: str, number: str) -> NamedListField:
    """The host's CPUs that threads of a kind may run on, by the number of the thread."""
    cpus = (AttributeField("cpuset", validators.cpu_set, "@cpuset"),)
    return NamedListField(key, key, number, INDEX, cpus, short="cpuset", required=("cpuset",))


_TUNING = GroupField(
    "tuning",
    "cputune",
    (
        TextField("shares", validators.whole_number(2, 262144), "shares"),
        TextField("period", _PERIOD, "period"),
        TextField("quota", _QUOTA, "quota"),
        TextField("global_period", _PERIOD, "global_period"),
        TextField("global_quota", _QUOTA, "global_quota"),
        TextField("emulator_period", _PERIOD, "emulator_period"),
        TextField("emulator_quota", _QUOTA, "emulator_quota"),
        TextField("iothread_period", _PERIOD, "iothread_period"),
        TextField("iothread_quota", _QUOTA, "iothread_quota"),
        _pins("vcpupin", "vcpu"),
        AttributeField("emulatorpin", validators.cpu_set, "emulatorpin@cpuset"),
        _pins("iothreadpin", "iothread"),
        _Schedulers(
            "vcpusched",
            "vcpusched",
            (
                AttributeField("vcpus", validators.cpu_set, "@vcpus"),
                AttributeField("scheduler", validators.choice("batch", "idle", "fifo", "rr"), "@scheduler"),
                AttributeField("priority", validators.whole_number(1, 99), "@priority"),
            ),
            required=("vcpus", "scheduler"),
        ),
    ),
)
CPU = _Cpu(
    "cpu",
    "",
    (
        AttributeField("mode", validators.choice(*CPU_MODES), "cpu@mode"),
        TextField("model", validators.word, "cpu/model"),
        AttributeField("fallback", validators.choice("allow", "forbid"), "cpu/model@fallback"),
        TextField("vendor", validators.word, "cpu/vendor"),
        AttributeField("check", validators.choice("none", "partial", "full"), "cpu@check"),
        AttributeField("match", validators.choice("minimum", "exact", "strict"), "cpu@match"),
        AttributeField("migratable", validators.yes_or_no, "cpu@migratable", ON_OFF),
        _Topology(
            "topology",
            "cpu/topology",
            tuple(AttributeField(word, COUNT, f"@{word}") for word in ("sockets", "dies", "cores", "threads")),
        ),
        NamedListField(
            "features",
            "cpu/feature",
            "name",
            validators.word,
            (AttributeField("policy", _POLICY, "@policy"),),
            short="policy",
            required=("policy",),
            default="require",
        ),
        _Cache(
            "cache",
            "cpu/cache",
            (
                AttributeField("level", validators.whole_number(1, 3), "@level"),
                AttributeField("mode", validators.choice("emulate", "passthrough", "disable"), "@mode"),
            ),
            required=("mode",),
        ),
        _Cells(
            "numa",
            "cpu/numa/cell",
            (
                AttributeField("id", INDEX, "@id"),
                AttributeField("cpus", validators.cpu_set, "@cpus"),
                SizeField("memory", "@memory", capacity=True),
                AttributeField("access", validators.choice("shared", "private"), "@memAccess"),
                AttributeField("discard", validators.yes_or_no, "@discard"),
                NamedListField(
                    "distances",
                    "distances/sibling",
                    "id",
                    INDEX,
                    (AttributeField("value", validators.whole_number(_OWN_DISTANCE, 255), "@value"),),
                    short="value",
                    required=("value",),
                ),
            ),
            required=("memory",),
        ),
        _TUNING,
        TextField("iothreads", COUNT, "iothreads"),
    ),
)
NUMATUNE = GroupField(
    "numatune",
    "numatune",
    (
        _NumaMemory(
            "memory",
            "memory",
            (
                AttributeField("mode", _NUMA_MODE, "@mode"),
                AttributeField("nodeset", validators.cpu_set, "@nodeset"),
                AttributeField("placement", validators.choice("static", "auto"), "@placement"),
            ),
        ),
        NamedListField(
            "memnodes",
            "memnode",
            "cellid",
            INDEX,
            (AttributeField("mode", _NUMA_MODE, "@mode"), AttributeField("nodeset", validators.cpu_set, "@nodeset")),
            required=("mode", "nodeset"),
        ),
    ),
)
