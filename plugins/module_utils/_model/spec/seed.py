# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wish for a seed: what a machine is to find at its first boot."""

from __future__ import annotations

import base64
import binascii
import datetime
import re
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields import validators
from ansible_collections.brine.virt.plugins.module_utils._model.spec.pool_name import pool_name

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
# What useradd of Debian, of Fedora and RHEL, and of SUSE has in common, and the length that utmp has room for.
_USER = re.compile(r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}\Z")
_PATH = re.compile(r"^/[^\x00-\x1f\x7f]*[^/\x00-\x1f\x7f]\Z")
_MODE = re.compile(r"^[0-7]{3,4}\Z")
_OWNER = re.compile(r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}(:[A-Za-z_][A-Za-z0-9_.-]{0,31})?\Z")
# crypt(5): $id$, then parameters, salt and hash.
_PASSWORD_HASH = re.compile(r"^\$[A-Za-z0-9-]{1,12}\$[A-Za-z0-9./$,=+-]{13,360}\Z")
# sshd(8), AUTHORIZED_KEYS FILE FORMAT: options, the type, the key in base64, a comment.
_AUTHORIZED_KEY = re.compile(r"(^|\s)(sk-)?(ssh|ecdsa)-[a-z0-9-]+(@openssh\.com)? AAAA[A-Za-z0-9+/]+={0,3}(\s|$)")
_PACKAGE = re.compile(r"^[A-Za-z0-9@][^\s]*\Z")
_TIMEZONE = re.compile(r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*\Z")
_LOCALE = re.compile(r"^[A-Za-z0-9_.@-]+\Z")


@dataclass(frozen=True)
class User:
    """An account beside the one that Ansible logs in with."""

    name: str
    gecos: str | None = None
    groups: tuple[str, ...] = ()
    shell: str = "/bin/bash"
    sudo: bool = False
    authorized_keys: tuple[str, ...] = ()
    password_hash: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class SeedFile:
    """A file to write. content is text, or base64 where the encoding says so."""

    path: str
    content: str = field(default="", repr=False)
    owner: str = "root:root"
    mode: str = "0644"
    encoding: str = "text"
    secret: bool = False

    @property
    def data(self) -> bytes:
        """What is to stand in the file."""
        return base64.b64decode(self.content) if self.encoding == "base64" else self.content.encode()


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


def _matching(pattern: re.Pattern[str], what: str, hint: str) -> validators.Rule:
    """A rule for a text of a pattern."""

    def rule(value: t.Any, where: str) -> str:
        if not isinstance(value, str) or not pattern.match(value):
            raise InputError(f"{value!r} is not {what}", where=where, hint=hint)
        return value

    return rule


_hostname = _matching(
    _HOSTNAME,
    "a host name",
    "Use up to 64 letters, digits, dots and dashes, with a letter or digit at both ends of each part",
)
_user = _matching(
    _USER, "a user name", "Use up to 32 letters, digits, dots, dashes and underscores, the first a letter or underscore"
)
_path = _matching(_PATH, "the path of a file", "Write it from the root, like /etc/motd")


def _list(value: t.Any, where: str) -> Sequence[t.Any]:
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{value!r} is not a list", where=where)
    return value


def _command(value: t.Any, where: str) -> t.Any:
    """A command as cloud-init's runcmd takes it: a line for the shell, or a list of words."""
    if isinstance(value, (list, tuple)):
        return [validators.text(word, f"{where}[{index}]") for index, word in enumerate(value)]
    return validators.text(value, where)


def _password_hash(value: t.Any, where: str) -> str:
    """A hash for /etc/shadow. The value is not repeated in the complaint: it may be the password itself."""
    if not isinstance(value, str) or not _PASSWORD_HASH.match(value):
        raise InputError(
            "this is not the hash of a password",
            where=where,
            hint="Make one with openssl passwd -6, or with the filter password_hash",
        )
    return value


def _authorized_keys(value: t.Any, where: str) -> tuple[str, ...]:
    """Public SSH keys; a text may have several, one a line, as the file authorized_keys has them."""
    found = []
    for index, item in enumerate([value] if isinstance(value, str) else _list(value, where)):
        place = where if isinstance(value, str) else f"{where}[{index}]"
        text = validators.text(item, place)
        if "PRIVATE KEY" in text:
            raise InputError("this is a private key", where=place, hint="Give its public half, from the file with .pub")
        for line in (line.strip() for line in text.splitlines()):
            if not line or line.startswith("#"):
                continue
            if not _AUTHORIZED_KEY.search(line):
                raise InputError(
                    f"{line!r} is not a public SSH key", where=place, hint="Write it like ssh-ed25519 AAAAC3..."
                )
            found.append(line)
    return tuple(found)


def _mode(value: t.Any, where: str) -> str:
    """The mode of a file; a number is refused, as YAML reads 0644 as 420."""
    if not isinstance(value, str) or not _MODE.match(value):
        raise InputError(f"{value!r} is not the mode of a file", where=where, hint='Write it in quotes, like "0644"')
    return value.zfill(4)


def _content(value: t.Any, where: str) -> str:
    """A file's content, which no complaint repeats."""
    if isinstance(value, (Mapping, list, tuple, bytes)):
        raise InputError("the content is not a text", where=where, hint="Turn data into text with to_json or to_yaml")
    return validators.text(value, where)


FILE_RULES: dict[str, validators.Rule] = {
    "path": _path,
    "content": _content,
    "owner": _matching(_OWNER, "an owner", "Write it like root:root"),
    "mode": _mode,
    "encoding": validators.choice("text", "base64"),
    "secret": validators.yes_or_no,
}


def _file(value: t.Any, where: str) -> SeedFile:
    file = SeedFile(**{"path": "", **validators.read_mapping(value, where, FILE_RULES)})
    if not file.path:
        raise InputError("path is missing", where=where, hint="A file needs a path")
    if file.encoding != "base64":
        return file
    content = "".join(file.content.split())
    try:
        base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InputError("the content is not base64", where=validators.inside(where, "content")) from exc
    return replace(file, content=content)


USER_RULES: dict[str, validators.Rule] = {
    "name": _user,
    "gecos": _matching(re.compile(r"^[^:\x00-\x1f\x7f]*\Z"), "a user's full name", "Use no colon and no line break"),
    "groups": validators.list_of(_matching(_USER, "the name of a group", "Write it like adm")),
    "shell": _path,
    "sudo": validators.yes_or_no,
    "authorized_keys": _authorized_keys,
    "password_hash": _password_hash,
}


def _more_user(value: t.Any, where: str) -> User:
    user = User(**{"name": "", **validators.read_mapping(value, where, USER_RULES)})
    if not user.name:
        raise InputError("name is missing", where=where, hint="A user needs a name")
    return user


def _only_once(rule: validators.Rule, key: str) -> validators.Rule:
    """A rule for a list in which no two items have the same value of a field."""

    def checked(value: t.Any, where: str) -> tuple[t.Any, ...]:
        found = tuple(rule(item, f"{where}[{index}]") for index, item in enumerate(_list(value, where)))
        first: dict[str, int] = {}
        for index, item in enumerate(found):
            name = getattr(item, key)
            if first.setdefault(name, index) != index:
                raise InputError(f"{name!r} is in {where}[{first[name]}] already", where=f"{where}[{index}].{key}")
        return found

    return checked


def plain_data(value: t.Any, where: str) -> t.Any:
    """Data as JSON can carry it; a date, which YAML makes of 2030-01-31, becomes its text again."""
    if isinstance(value, Mapping):
        return {
            validators.text(key, where): plain_data(item, validators.inside(where, str(key)))
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
    raise InputError(f"{value!r} is nothing that YAML can say", where=where)


def user_data_kind(text: str) -> str | None:
    """The MIME subtype of a user-data text; None for what cloud-init does not know."""
    return next((kind for start, kind in USER_DATA_KINDS.items() if text.startswith(start)), None)


def _user_data(value: t.Any, where: str) -> str | dict[str, t.Any]:
    if isinstance(value, Mapping):
        return dict(plain_data(value, where))
    text = validators.text(value, where)
    if user_data_kind(text) is None:
        raise InputError(
            "the user_data is of no kind that cloud-init knows",
            where=where,
            hint="Begin it with #cloud-config or #!, or write it as a mapping",
        )
    return text


def _network(value: t.Any, where: str) -> dict[str, t.Any]:
    """A network configuration of the user's own; the key ``network`` around it, as in cloud.cfg.d, may be there."""
    network: dict[str, t.Any] = plain_data(validators.any_mapping(value, where), where)
    if set(network) == {"network"} and isinstance(network["network"], dict):
        network, where = network["network"], validators.inside(where, "network")
    if network.get("version") not in (1, 2):
        raise InputError(
            "the network configuration has no version that cloud-init knows", where=where, hint="Say version: 2"
        )
    return network


SEED_RULES: dict[str, validators.Rule] = {
    "method": validators.choice("nocloud", "guestfs", "none"),
    "hostname": _hostname,
    "fqdn": _matching(_FQDN, "a full host name", "Write it like web1.example.org"),
    "instance_id": _matching(_INSTANCE_ID, "an instance id", "Use letters, digits, dots, colons and dashes"),
    "user": _user,
    "authorized_keys": _authorized_keys,
    "password_hash": _password_hash,
    "ssh_pwauth": validators.yes_or_no,
    "users": _only_once(_more_user, "name"),
    "packages": validators.list_of(_matching(_PACKAGE, "a package", "Give its name alone")),
    "files": _only_once(_file, "path"),
    "run_commands": lambda value, where: tuple(_command(v, f"{where}[{i}]") for i, v in enumerate(_list(value, where))),
    "network": _network,
    "user_data": _user_data,
    "timezone": _matching(_TIMEZONE, "a time zone", "Write it like Europe/Vienna"),
    "locale": _matching(_LOCALE, "a locale", "Write it like C.UTF-8"),
    "pool": pool_name,
}


def read_seed(value: t.Any, where: str) -> dict[str, t.Any]:
    """The keys of a seed that were given, checked, by the fields of Seed. Raises InputError with the place."""
    return validators.read_mapping(value, where, SEED_RULES)


def make_seed(
    machine_name: str,
    given: Mapping[str, t.Any],
    where: str,
    *,
    defaults: Mapping[str, t.Any] | None = None,
    common: str = "seed",
) -> Seed:
    """The seed of a machine from what read_seed has read: its own keys, over those for all machines.

    where: the place of the machine's own seed; common: of the one for all. Raises InputError when the keys do not go
    together.
    """
    wish = {**(defaults or {}), **given}

    def place(key: str) -> str:
        return validators.inside(where if key in given else common, key)

    if "hostname" not in wish:
        wish["hostname"] = wish["fqdn"].split(".")[0] if "fqdn" in wish else hostname_of(machine_name)
    seed = Seed(**wish)
    if seed.method == "guestfs":
        for key in _NEEDS_CLOUD_INIT:
            if getattr(seed, key):
                raise InputError(
                    f"{key} needs cloud-init, which the method guestfs does without",
                    where=place(key),
                    hint="Say method: nocloud for an image with cloud-init, or use files",
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
