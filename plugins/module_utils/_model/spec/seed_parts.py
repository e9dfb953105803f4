# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The users and files of a seed, and the rules for what is said of them."""

from __future__ import annotations

import base64
import binascii
import re
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..._base.errors import InputError, inside, shown
from .fields import validators

# What useradd of Debian, of Fedora and RHEL, and of SUSE has in common, and the length that utmp has room for.
_USER = re.compile(r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}\Z")
_PATH = re.compile(r"^/[^\x00-\x1f\x7f]*[^/\x00-\x1f\x7f]\Z")
_MODE = re.compile(r"^[0-7]{3,4}\Z")
_OWNER = re.compile(r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}(:[A-Za-z_][A-Za-z0-9_.-]{0,31})?\Z")
# crypt(5): $id$, then parameters, salt and hash.
_PASSWORD_HASH = re.compile(r"^\$[A-Za-z0-9-]{1,12}\$[A-Za-z0-9./$,=+-]{13,360}\Z")
# sshd(8), AUTHORIZED_KEYS FILE FORMAT: options, the type, the key in base64, a comment.
_AUTHORIZED_KEY = re.compile(r"(^|\s)(sk-)?(ssh|ecdsa)-[a-z0-9-]+(@openssh\.com)? AAAA[A-Za-z0-9+/]+={0,3}(\s|$)")


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


class matching:  # noqa: N801 - used like the functions beside it
    """A rule for texts that begin with what a regular expression matches; hint is what would be right."""

    def __init__(self, expression: re.Pattern[str], what: str, hint: str) -> None:
        self.expression = expression
        self._what, self._hint = what, hint

    def __call__(self, value: t.Any, where: str) -> str:
        if not isinstance(value, str) or not self.expression.match(value):
            raise InputError(f"{shown(value)} is not {self._what}", where=where, hint=self._hint)
        return value


user_name = matching(
    _USER, "a user name", "Use up to 32 letters, digits, dots, dashes and underscores, the first a letter or underscore"
)
_path = matching(_PATH, "the path of a file", "Write an absolute path, like /etc/motd")


def list_value(value: t.Any, where: str) -> Sequence[t.Any]:
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{shown(value, as_text=False)} is not a list", where=where)
    return value


def password_hash(value: t.Any, where: str) -> str:
    """A hash for /etc/shadow. The value is not repeated in the complaint: it may be the password itself."""
    if not isinstance(value, str) or not _PASSWORD_HASH.match(value):
        raise InputError(
            "this is not a password hash",
            where=where,
            hint="Make one with openssl passwd -6, or with the filter password_hash",
        )
    return value


def authorized_keys(value: t.Any, where: str) -> tuple[str, ...]:
    """Public SSH keys; a text may have several, one a line, as the file authorized_keys has them."""
    found = []
    for index, item in enumerate([value] if isinstance(value, str) else list_value(value, where)):
        place = where if isinstance(value, str) else f"{where}[{index}]"
        text = validators.text(item, place)
        if "PRIVATE KEY" in text:
            raise InputError("this is a private key", where=place, hint="Give its public key, from the .pub file")
        for line in (line.strip() for line in text.splitlines()):
            if not line or line.startswith("#"):
                continue
            if not _AUTHORIZED_KEY.search(line):
                raise InputError(
                    f"{shown(line)} is not a public SSH key", where=place, hint="Write it like ssh-ed25519 AAAAC3..."
                )
            found.append(line)
    return tuple(found)


def _mode(value: t.Any, where: str) -> str:
    """The mode of a file; a number is refused, as YAML reads 0644 as 420."""
    if not isinstance(value, str) or not _MODE.match(value):
        raise InputError(
            f"{shown(value)} is not the mode of a file", where=where, hint='Write it in quotes, like "0644"'
        )
    return value.zfill(4)


def _content(value: t.Any, where: str) -> str:
    """A file's content, which no complaint repeats."""
    if isinstance(value, (Mapping, list, tuple, bytes)):
        raise InputError(
            "the content is not a string", where=where, hint="Convert data to text with to_json or to_yaml"
        )
    return validators.text(value, where)


FILE_RULES: dict[str, validators.Rule] = {
    "path": _path,
    "content": _content,
    "owner": matching(_OWNER, "an owner", "Write it like root:root"),
    "mode": _mode,
    "encoding": validators.choice("text", "base64"),
    "secret": validators.yes_or_no,
}


def read_file(value: t.Any, where: str) -> SeedFile:
    file = SeedFile(**validators.read_mapping(value, where, FILE_RULES, ("path",), "A file needs a path"))
    if file.encoding != "base64":
        return file
    content = "".join(file.content.split())
    try:
        base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InputError("the content is not base64", where=inside(where, "content")) from exc
    return replace(file, content=content)


USER_RULES: dict[str, validators.Rule] = {
    "name": user_name,
    "gecos": matching(re.compile(r"^[^:\x00-\x1f\x7f]*\Z"), "a user's full name", "Use no colon and no line break"),
    "groups": validators.list_of(matching(_USER, "the name of a group", "Write it like adm")),
    "shell": _path,
    "sudo": validators.yes_or_no,
    "authorized_keys": authorized_keys,
    "password_hash": password_hash,
}


def read_user(value: t.Any, where: str) -> User:
    return User(**validators.read_mapping(value, where, USER_RULES, ("name",), "A user needs a name"))


def only_once(rule: validators.Rule, key: str) -> validators.Rule:
    """A rule for a list in which no two items have the same value of a field."""

    def checked(value: t.Any, where: str) -> tuple[t.Any, ...]:
        found = tuple(rule(item, f"{where}[{index}]") for index, item in enumerate(list_value(value, where)))
        first: dict[str, int] = {}
        for index, item in enumerate(found):
            name = getattr(item, key)
            if first.setdefault(name, index) != index:
                raise InputError(f"{name!r} is in {where}[{first[name]}] already", where=f"{where}[{index}].{key}")
        return found

    return checked
