# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task says of machines, as specs: options over defaults, profiles resolved, all checked."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ...._base.errors import InputError, Mistakes, shown
from ..disk import DEFAULT_MODELS, ORIGINS, Disk, read_disk
from ..existing import Existing, FindExisting, none_exists
from ..fields.given import GivenOptions
from ..fields.table import Field, Values, rules_beside
from ..hardware.description import HARDWARE
from ..machine import MACHINE_RULES, Machine, places_of
from ..machine_state import ABSENT, take_start, yielding_state
from ..names import machine_name
from ..nic import Nic, read_nic
from ..profiles.resolve import Profiles, read_profiles, resolve_devices
from ..profiles.salt_words import switched, translate_salt_words
from ..seed import make_seed, read_seed
from ..seed_parts import authorized_keys
from .checks import AddressesOfList, check_devices, check_firmware, check_hardware, check_references

_Device = t.TypeVar("_Device", Disk, Nic)
# The hint for a machine that is not there, and of which the task does not say enough to create it.
NEW_MACHINE = "A new machine needs name, vcpus and memory"
_LIST_HINT = "Begin each with a dash, and give it a name: - {name: web1}"


def read_machines(specs: t.Any, **options: t.Any) -> list[Machine]:
    """As read_good_machines, for who needs all of them. Raises InputError for all that are wrong, with a line for each
    mistake."""
    mistakes = Mistakes()
    machines = read_good_machines(specs, mistakes, **options)
    mistakes.conclude()
    return list(machines.values())


def read_good_machines(
    specs: t.Any,
    mistakes: Mistakes,
    *,
    disk_profiles: t.Any = None,
    nic_profiles: t.Any = None,
    seed_defaults: t.Any = None,
    default_keys: t.Any = None,
    defaults: Mapping[str, t.Any] | None = None,
    where: str = "machines",
    places: t.Sequence[str] | None = None,
    prefix: str = "",
    existing: FindExisting = none_exists,
) -> dict[int, Machine]:
    """A list of specs as the user wrote them, checked and with their profiles resolved, by their index in the list.

    mistakes: gets what is wrong with the others. defaults: options of a machine for all of the list, which give way to
    a machine's own; seed_defaults: the same for the options of the seed; default_keys: its authorized_keys where none
    are given, for which no machine is outdated. where, places: as in places_of; prefix: what the names of the profiles
    begin with in the user's input. existing: what is there already. Raises InputError for
    what is no list, and for profiles or defaults that are wrong.
    """
    if isinstance(specs, Mapping):
        # Not repeated: passwords may stand in it.
        raise InputError(
            "a mapping is not a list of machines",
            where=where or None,
            hint=_LIST_HINT,
        )
    if not isinstance(specs, (list, tuple)):
        raise InputError(
            f"{shown(specs, as_text=False)} is not a list of machines", where=where or None, hint=_LIST_HINT
        )
    common = _Common.read(disk_profiles, nic_profiles, seed_defaults, defaults, prefix, default_keys)
    machines: dict[int, Machine] = {}
    first: dict[str, str] = {}
    addresses = AddressesOfList()
    for index, place in enumerate(places_of(len(specs), where, places)):
        with mistakes.noted():
            machine = _read(specs[index], common, place, existing)
            if machine.name in first:
                raise InputError(
                    f"the name {machine.name!r} is taken by {first[machine.name]} already", where=f"{place}.name"
                )
            first[machine.name] = place
            addresses.take(machine, there=existing(machine.name) is not None)
            machines[index] = machine
    return machines


def read_machine(
    spec: t.Any,
    *,
    disk_profiles: t.Any = None,
    nic_profiles: t.Any = None,
    seed_defaults: t.Any = None,
    default_keys: t.Any = None,
    where: str = "",
    existing: FindExisting = none_exists,
) -> Machine:
    """One spec, checked and with its profiles resolved; where is empty for a module's own options."""
    return _read(
        spec, _Common.read(disk_profiles, nic_profiles, seed_defaults, default_keys=default_keys), where, existing
    )


@dataclass(frozen=True)
class _Common:
    """What all machines of a task have in common."""

    disk_profiles: Profiles
    nic_profiles: Profiles
    seed: Values
    defaults: GivenOptions
    seed_place: str = "seed"
    default_keys: tuple[str, ...] = ()

    @classmethod
    def read(
        cls,
        disk_profiles: t.Any,
        nic_profiles: t.Any,
        seed: t.Any,
        defaults: t.Any = None,
        prefix: str = "",
        default_keys: t.Any = None,
    ) -> _Common:
        clean = translate_salt_words({"seed": seed}, "").values["seed"]
        return cls(
            read_profiles("disk", disk_profiles, f"{prefix}disk_profiles"),
            read_profiles("nic", nic_profiles, f"{prefix}nic_profiles"),
            {} if clean is None else read_seed(clean, f"{prefix}seed"),
            _translate(defaults or {}, ""),
            f"{prefix}seed",
            () if default_keys is None else authorized_keys(default_keys, "default_authorized_keys"),
        )


def _translate(spec: t.Any, where: str) -> GivenOptions:
    if not isinstance(spec, Mapping):
        raise InputError(
            f"{shown(spec, as_text=False)} is not a mapping of options",
            where=where or None,
            hint=f"Known: {', '.join(MACHINE_RULES)}",
        )
    return translate_salt_words(spec, where)


def _read(spec: t.Any, common: _Common, where: str, find_existing: FindExisting) -> Machine:
    own = _translate(spec, where)
    options = own.over(_yielding(common.defaults, own))
    existing = find_existing(str(options.values.get("name")))
    have = existing.values if existing else None
    unseen = existing is not None and have is None
    if unseen:
        options = _without_refused(options)
    # A name is what the inventory and files of ours are called by, whoever gave it.
    given = options.read({**rules_beside(MACHINE_RULES, HARDWARE, have), "name": machine_name})
    take_start(given, options)
    leaves = given.get("state") == ABSENT
    for key in ("name",) if leaves or existing else ("name", "vcpus", "memory"):
        if key not in given:
            # Without a place it is the only one, most often of the command line, where its name may be misspelled.
            nowhere = "" if where or "name" not in given else f"there is no machine {given['name']!r}, and "
            raise InputError(f"{nowhere}{key} is missing", where=where or None, hint=NEW_MACHINE)
    disks = resolve_devices("disk", common.disk_profiles, options, have and have.get("disks", {}))
    image_is_old = _is_of_other_disk(disks, options, have)
    disks = disks if image_is_old else _place_image(disks, options)
    nics = resolve_devices("nic", common.nic_profiles, options, have and have.get("nics", {}))
    for key in ("disk_profile", "disks", "nic_profile", "nics", "clone"):
        given.pop(key, None)
    seed_base = {key: value for key, value in common.seed.items() if value is not None}
    if switched(spec.get("seed")) is True and seed_base.get("method") == "none":
        del seed_base["method"]
    image = given.pop("image", None)
    if not image_is_old and not any(disk.values.get("image") == options.values.get("image") for disk in disks):
        # A default for all machines that gave way to this one's own disks.
        image = None
    hardware = {field.key: given.pop(field.key) for field in HARDWARE if field.key in given}
    vcpus, memory_mib = (_maximum(hardware.get(key), (have or {}).get(key)) for key in ("vcpus", "memory"))
    _take_cpu_mode(hardware, given.pop("cpu_mode", None), options)
    check_firmware(given, options)
    if have or {"vcpus", "memory"} <= hardware.keys() and not unseen:
        check_hardware(hardware, vcpus, options, have or {})
    own_seed = given.pop("seed", {})
    # Who says null of them does without these, too.
    default_keys = () if "authorized_keys" in {**common.seed, **own_seed} else common.default_keys
    # A null of its own counts where it takes something away.
    seed = {key: value for key, value in own_seed.items() if value is not None or key in seed_base}
    machine = Machine(
        vcpus=vcpus,
        memory_mib=memory_mib,
        image=image,
        disks=_each("disk", read_disk, disks, existing),
        nics=_each("nic", lambda device, there: read_nic(device, given["name"], there), nics, existing),
        seed=make_seed(
            given["name"],
            seed,
            options.at("seed"),
            defaults=seed_base,
            common=common.seed_place,
            default_keys=default_keys,
        ),
        seed_requested=bool(seed or seed_base.keys() - {"authorized_keys"}),
        hardware=hardware,
        given=options,
        **given,
    )
    if not unseen:
        check_devices(hardware, machine.disks, machine.nics, options, have or {})
        check_references(hardware, vcpus, machine.disks, options, have or {})
    return machine


def _is_of_other_disk(disks: t.Sequence[GivenOptions], options: GivenOptions, have: Values | None) -> bool:
    """Whether the image is that of a disk which the machine has and nobody names: nothing is to be made from it."""
    there = (have or {}).get("disks", {})
    return bool(there) and "disk_profile" not in options.values and not any(disk.name in there for disk in disks)


# Of the memory, how much it is, in our words and in Salt's.
_AMOUNTS = ("maximum", "current", "boot")


def _maximum(value: Mapping[str, t.Any] | None, have: Mapping[str, t.Any] | None) -> int:
    """The most that is asked for; who asks for a part of what the machine has asks for as much as it has.

    Zero where nothing is asked for, and what the machine has is not known here.
    """
    if value is None:
        return int((have or {}).get("maximum") or 0)
    return int(value["maximum"] if "maximum" in value else (have or {})["maximum"])


def _without_refused(options: GivenOptions) -> GivenOptions:
    """The options without the values that no new machine can have: the machine's hypervisor knows whether it has them.

    What placement counts stays: the vCPUs, and of the memory how much it is.
    """

    def refused(field: Field) -> bool:
        value = options.values.get(field.key)
        try:
            return value is not None and field.check(value, "") is None
        except InputError:
            return True

    keys = {field.key for field in HARDWARE if field.key != "vcpus" and refused(field)}
    memory = options.values.get("memory")
    if "memory" in keys and isinstance(memory, Mapping):
        options = options.with_value("memory", {key: memory[key] for key in _AMOUNTS if key in memory} or memory)
    return options.without(keys - {"memory"})


def _each(
    kind: str,
    read: t.Callable[[GivenOptions, t.Any], _Device],
    devices: t.Iterable[GivenOptions],
    existing: Existing | None,
) -> tuple[_Device, ...]:
    """All devices as read; of those that are wrong, all mistakes at once.

    Of a machine that only its hypervisor knows, what no new machine can have is left out, for its hypervisor to judge.
    """
    found = []
    mistakes = Mistakes()
    for device in devices:
        with mistakes.noted():
            found.append(read(device, existing.device(kind, device.name) if existing else None))
    if existing is None or existing.values is not None:
        mistakes.conclude()
    return tuple(found)


def _yielding(defaults: GivenOptions, own: GivenOptions) -> GivenOptions:
    """The defaults without what a machine says in another way: its state has two options, and the mode of its CPU."""
    defaults = yielding_state(defaults, own)
    cpu, mode = own.values.get("cpu"), own.values.get("cpu_mode")
    if isinstance(cpu, Mapping) and {"mode", "model"} & set(cpu):
        return defaults.without(["cpu_mode"])
    common_cpu = defaults.values.get("cpu")
    if mode is not None and isinstance(common_cpu, Mapping):
        rest = {key: value for key, value in common_cpu.items() if key not in ("mode", "model")}
        return defaults.with_value("cpu", rest)
    return defaults


def _take_cpu_mode(hardware: Values, mode: str | None, options: GivenOptions) -> None:
    """The option cpu_mode is short for the mode of cpu."""
    if mode is None:
        return
    cpu = dict(hardware.get("cpu", {}))
    if cpu.setdefault("mode", mode) != mode:
        raise InputError(
            f"cpu has the mode {cpu['mode']}", where=options.at("cpu_mode"), hint="Give only one of the two"
        )
    hardware["cpu"] = cpu


def _place_image(disks: t.Sequence[GivenOptions], machine: GivenOptions) -> list[GivenOptions]:
    """The disks, the first of them with the machine's own image, and all with an image with its way of cloning.

    The image takes the place of one that the disk has from a profile. Raises InputError where there is no disk for it,
    or where that disk gets its content from elsewhere. An image that is a default for many machines gives way to what
    a machine's own disks say.
    """
    found = list(disks)
    if machine.values.get("image") is not None:
        first = next((index for index, disk in enumerate(found) if _takes_image(disk)), None)
        if first is None:
            raise InputError(
                "the machine has no disk for the image",
                where=machine.at("image"),
                hint="Name one in disks or in a profile, or leave image out",
            )
        found[first] = _with_image(found[first], machine)
    clone = machine.values.get("clone")
    if clone is None:
        return found
    place = machine.places["clone"]
    return [
        disk.with_value("clone", clone, place)
        if disk.values.get("image") is not None and disk.values.get("clone") is None
        else disk
        for disk in found
    ]


def _takes_image(disk: GivenOptions) -> bool:
    """Whether it is a disk at all; a kind that there is not is refused elsewhere."""
    kind: t.Any = disk.values.get("device")
    return (kind in (None, "disk") or str(kind) not in DEFAULT_MODELS) and disk.values.get("state") != "absent"


def _with_image(disk: GivenOptions, machine: GivenOptions) -> GivenOptions:
    image, place = machine.values["image"], machine.places["image"]
    origin = next((word for word in ORIGINS if disk.values.get(word) is not None), None)
    own_list = machine.at("disks")
    own = origin is not None and str(disk.places[origin]).startswith((f"{own_list}[", f"{own_list}."))
    if origin is None or (origin == "image" and (not own or disk.values["image"] == image)):
        return disk.with_value("image", image, place)
    if own and place.parent != machine.place and machine.places["disks"].parent == machine.place:
        return disk
    raise InputError(
        f"it is for the first disk, {disk.name!r}, and that has {disk.at(origin)}",
        where=machine.at("image"),
        hint="Give only one of the two",
    )
