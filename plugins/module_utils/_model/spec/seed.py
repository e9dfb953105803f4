# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec for a seed: what a machine is to find at its first boot."""

from __future__ import annotations

import datetime
import re
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..._base.errors import InputError, inside, shown
from .fields import validators
from .names import pool_name
from .seed_parts import (
    SeedFile,
    User,
    authorized_keys,
    list_value,
    matching,
    only_once,
    password_hash,
    read_file,
    read_user,
    user_name,
)

DEFAULT_POOL = "default"
DEFAULT_USER = "ansible"
# How the kinds of user-data begin, each with its MIME type:
# https://cloudinit.readthedocs.io/en/latest/explanation/format.html
USER_DATA_KINDS = {
    "#cloud-config-archive": "cloud-config-archive",
    "#cloud-config": "cloud-config",
    "#include-once": "x-include-once-url",
    "#include": "x-include-url",
    "#cloud-boothook": "cloud-boothook",
    "#part-handler": "part-handler",
    "## template: jinja": "jinja2",
    "#!": "x-shellscript",
}
# What only a running cloud-init can do.
_NEEDS_CLOUD_INIT = ("instance_id", "locale", "network", "packages", "run_commands", "user_data")

_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# Linux has room for 64 bytes in a host name: HOST_NAME_MAX in limits.h.
_HOSTNAME = re.compile(rf"^(?=.{{1,64}}\Z){_LABEL}(\.{_LABEL})*\Z")
_FQDN = re.compile(rf"^(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})+\Z")
_INSTANCE_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}\Z")
_PACKAGE = re.compile(r"^[A-Za-z0-9@][^\s]*\Z")
_TIMEZONE = re.compile(r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*\Z")
_LOCALE = re.compile(r"^[A-Za-z0-9_.@-]+\Z")


@dataclass(frozen=True)
class Seed:
    """What a machine finds at its first boot. None and empty: nothing is said of it, the image decides."""

    method: str = "nocloud"
    hostname: str = ""
    user: str = DEFAULT_USER
    authorized_keys: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    run_commands: tuple[t.Any, ...] = ()
    user_data: str | dict[str, t.Any] | None = field(default=None, repr=False)
    pool: str = DEFAULT_POOL
    fqdn: str | None = None
    instance_id: str | None = None
    password_hash: str | None = field(default=None, repr=False)
    ssh_pwauth: bool = False
    users: tuple[User, ...] = ()
    files: tuple[SeedFile, ...] = ()
    network: dict[str, t.Any] | None = field(default=None, repr=False)
    timezone: str | None = None
    locale: str | None = None
    # Whether authorized_keys are those that nobody asked for, of whoever runs the task.
    keys_by_default: bool = False


_hostname = matching(
    _HOSTNAME,
    "a host name",
    "Use up to 64 letters, digits, dots and dashes, with a letter or digit at both ends of each part",
)


def _command(value: t.Any, where: str) -> t.Any:
    """A command as cloud-init's runcmd takes it: a line for the shell, or a list of words."""
    if isinstance(value, (list, tuple)):
        return [_word(word, f"{where}[{index}]") for index, word in enumerate(value)]
    return _word(value, where)


def _word(value: t.Any, where: str) -> str:
    if value is None or isinstance(value, bool):
        raise InputError(
            f"{validators.written(value)!r} is not a command, and no word of one",
            where=where,
            hint="Write it in quotes, or leave it out",
        )
    return validators.text(value, where)


def plain_data(value: t.Any, where: str) -> t.Any:
    """Data as JSON can carry it; a date, which YAML makes of 2030-01-31, becomes its text again."""
    if isinstance(value, Mapping):
        return {
            validators.text(validators.written(key), where): plain_data(item, inside(where, validators.written(key)))
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [plain_data(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, str):
        return validators.text(value, where)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise InputError(f"{shown(value)} cannot be written as YAML", where=where)


def user_data_kind(text: str) -> str | None:
    """The MIME subtype of a user-data text; None for what cloud-init does not know."""
    return next((kind for start, kind in USER_DATA_KINDS.items() if text.startswith(start)), None)


def _user_data(value: t.Any, where: str) -> str | dict[str, t.Any]:
    if isinstance(value, Mapping):
        return dict(plain_data(value, where))
    text = validators.text(value, where)
    if user_data_kind(text) is None:
        raise InputError(
            "the user_data is in no format that cloud-init knows",
            where=where,
            hint="Begin it with #cloud-config or #!, or write it as a mapping",
        )
    return text


def _network(value: t.Any, where: str) -> dict[str, t.Any]:
    """A network configuration of the user's own; the key ``network`` around it, as in cloud.cfg.d, may be there."""
    network: dict[str, t.Any] = plain_data(validators.any_mapping(value, where), where)
    if set(network) == {"network"} and isinstance(network["network"], dict):
        network, where = network["network"], inside(where, "network")
    if network.get("version") not in (1, 2):
        raise InputError(
            "the network configuration has no version that cloud-init knows", where=where, hint="Set version: 2"
        )
    return network


SEED_RULES: dict[str, validators.Rule] = {
    "method": validators.choice("nocloud", "guestfs", "none"),
    "hostname": _hostname,
    "fqdn": matching(_FQDN, "a full host name", "Write it like web1.example.org"),
    "instance_id": matching(_INSTANCE_ID, "an instance id", "Use letters, digits, dots, colons and dashes"),
    "user": user_name,
    "authorized_keys": authorized_keys,
    "password_hash": password_hash,
    "ssh_pwauth": validators.yes_or_no,
    "users": only_once(read_user, "name"),
    "packages": validators.list_of(matching(_PACKAGE, "a package", "Give its name only")),
    "files": only_once(read_file, "path"),
    "run_commands": lambda value, where: tuple(
        _command(v, f"{where}[{i}]") for i, v in enumerate(list_value(value, where))
    ),
    "network": _network,
    "user_data": _user_data,
    "timezone": matching(_TIMEZONE, "a time zone", "Write it like Europe/Vienna"),
    "locale": matching(_LOCALE, "a locale", "Write it like C.UTF-8"),
    "pool": pool_name,
}


def read_seed(value: t.Any, where: str) -> dict[str, t.Any]:
    """The keys of a seed that were given, checked, by the fields of Seed; a null stays. Raises InputError with the
    place."""
    clean = validators.read_mapping(value, where, SEED_RULES)
    return {**clean, **{str(key): None for key, item in value.items() if item is None}}


def make_seed(
    machine_name: str,
    given: Mapping[str, t.Any],
    where: str,
    *,
    defaults: Mapping[str, t.Any] | None = None,
    common: str = "seed",
    default_keys: tuple[str, ...] = (),
) -> Seed:
    """The seed of a machine from what read_seed has read: its own keys, over those for all machines.

    A null of its own takes away what is said for all. Who says anything of a seed gets one, unless its own method is
    none.
    where: the place of the machine's own seed; common: of the one for all. default_keys: its authorized_keys, if
    neither says anything of them. Raises InputError when the keys do not go together.
    """
    base = dict(defaults or {})
    own = [key for key, value in given.items() if value is not None]
    if own and "method" not in given and base.get("method") == "none":
        del base["method"]
    spec = {key: value for key, value in {**base, **given}.items() if value is not None}

    def place(key: str) -> str:
        return inside(where if key in given else common, key)

    if "hostname" not in spec:
        spec["hostname"] = spec["fqdn"].split(".")[0] if "fqdn" in spec else hostname_of(machine_name)
    if default_keys:
        spec.update(authorized_keys=default_keys, keys_by_default=True)
    seed = Seed(**spec)
    if given.get("method") == "none" and own != ["method"]:
        key = next(key for key in own if key != "method")
        raise InputError(
            f"{key} is for a seed, and this machine has method none",
            where=place(key),
            hint="Leave out one of the two",
        )
    if seed.method == "guestfs":
        for key in _NEEDS_CLOUD_INIT:
            if getattr(seed, key):
                raise InputError(
                    f"{key} needs cloud-init, which the method guestfs does without",
                    where=place(key),
                    hint="Set method: nocloud for an image with cloud-init, or use files",
                )
    for index, user in enumerate(seed.users):
        if user.name == seed.user:
            raise InputError(
                f"{user.name!r} is the user of the seed already",
                where=f"{place('users')}[{index}].name",
                hint="Give its keys and its password_hash beside user",
            )
    return seed


def hostname_of(machine_name: str) -> str:
    """The host name that a machine gets from its own name, which may have underscores, and dashes at its ends."""
    labels = (label.strip("-") for label in machine_name.replace("_", "-").split("."))
    return ".".join(label for label in labels if label)
