# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the event source `domains` is asked for, read from the arguments that a rulebook gives it. Pure."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ...module_utils._base.errors import InputError, Mistakes, inside
from ...module_utils._host.connection import make_uri, require_no_password
from ...module_utils._model.spec.fields import validators
from ...module_utils._model.spec.fields.given import GivenOptions

# Silence, and what it has swallowed. Rules that never get it would wait for ever, and nobody would know.
OF_HYPERVISORS = "hypervisor"
# What happens, as the key `type` of an event has it.
TYPES = (
    OF_HYPERVISORS,
    "lifecycle",
    "reboot",
    "io_error",
    "watchdog",
    "block_job",
    "migration",
    "disk_threshold",
    "agent",
)
TRANSPORTS = ("ssh", "tls")
DEFAULT_BUFFER = 1000
DEFAULT_RETRY_SECONDS = 30
# A name, an IPv4 or an IPv6 address.
_HOST_NAME = re.compile(r"[\w.:%-]+")
_USER = re.compile(r"[\w.-]+\$?")
_EXAMPLE = "Give names and URIs, such as {hv1: qemu+ssh://root@hv1.example.com/system}, or a list of host names"


@dataclass(frozen=True)
class EventRequest:
    """What is asked for.

    hypervisors: URI by name. types: of TYPES, always with OF_HYPERVISORS. threshold_percent: of a disk's size, beyond
    which a write into its file is an event; None for none. buffer: how many events of one hypervisor may wait for the
    rules. retry_seconds: longest time between two attempts to reach a hypervisor.
    """

    hypervisors: Mapping[str, str]
    types: frozenset[str] = frozenset(TYPES)
    threshold_percent: int | None = None
    buffer: int = DEFAULT_BUFFER
    retry_seconds: int = DEFAULT_RETRY_SECONDS


def _hypervisors(value: t.Any, where: str) -> dict[str, str | None]:
    """By name the URI, None where it is to be made from the name."""
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    if isinstance(value, list):
        value = _host_names(value, where)
    if not isinstance(value, Mapping) or not value:
        raise InputError("it names no hypervisor", where=where, hint=_EXAMPLE)
    mistakes = Mistakes()
    read: dict[str, str | None] = {}
    for name, uri in value.items():
        place = inside(where, validators.written(name))
        with mistakes.noted():
            text = None if uri is None else validators.line(uri, place)
            if text is not None:
                _require_no_password(text, place)
            if text is not None and ":" not in text:
                raise InputError(f"{text!r} is not a URI", where=place, hint=_EXAMPLE)
            read[validators.line(name, place)] = text
    mistakes.conclude()
    return read


def _host_names(names: list[t.Any], where: str) -> dict[str, None]:
    mistakes = Mistakes()
    read: dict[str, None] = {}
    for number, given in enumerate(names):
        place = f"{where}[{number}]"
        with mistakes.noted():
            name = "" if given is None else validators.line(given, place)
            _require_no_password(name, place)
            if not _HOST_NAME.fullmatch(name):
                raise InputError(f"{name!r} is not the name or the address of a host", where=place, hint=_EXAMPLE)
            if name in read:
                raise InputError(f"{name} is there twice", where=place)
            read[name] = None
    mistakes.conclude()
    return read


def _require_no_password(address: str, where: str) -> None:
    """Raise InputError for a password in an address, with or without a scheme: the address is in every event."""
    require_no_password(address if "://" in address else f"://{address}", where)


def _user(value: t.Any, where: str) -> str:
    """As it stands in a URI, so that nothing in it may end it there."""
    user = validators.line(value, where)
    _require_no_password(user if "@" in user else f"{user}@", where)
    if not _USER.fullmatch(user):
        raise InputError(f"{user!r} is not the name of a user", where=where, hint="Give it without a host: user: root")
    return user


def _types(value: t.Any, where: str) -> frozenset[str]:
    words = validators.list_of(validators.choice(*TYPES))(value, where)
    if not words:
        raise InputError("it is empty", where=where, hint=f"Choose from {', '.join(TYPES)}, or leave it out for all")
    return frozenset({*words, OF_HYPERVISORS})


RULES: dict[str, validators.Rule] = {
    "hypervisors": _hypervisors,
    "transport": validators.choice(*TRANSPORTS),
    "user": _user,
    "types": _types,
    "threshold_percent": validators.whole_number(1, 100),
    "buffer": validators.whole_number(10, 1_000_000),
    "retry_seconds": validators.whole_number(1, 3600),
}


def read_request(arguments: Mapping[str, t.Any]) -> EventRequest:
    """The arguments of the source in a rulebook. Raises InputError, which says of each mistake where it stands."""
    # Of ansible-rulebook itself.
    values = GivenOptions.of(arguments, "").without(["eda_feedback_queue"]).read(RULES)
    if "hypervisors" not in values:
        raise InputError("is missing", where="hypervisors", hint=_EXAMPLE)
    transport, user = values.get("transport", "ssh"), values.get("user")
    if None not in values["hypervisors"].values():
        for word in ("transport", "user"):
            if word in values:
                raise InputError("the hypervisors are given by URIs, which say it", where=word, hint="Leave it out")
    if user is not None and transport != "ssh":
        raise InputError("a user is for the transport ssh", where="user", hint="TLS knows clients by certificates")
    uris = {
        name: uri if uri is not None else make_uri(host=name, transport=transport, user=user)
        for name, uri in values["hypervisors"].items()
    }
    types = values.get("types", frozenset(TYPES))
    threshold = values.get("threshold_percent")
    if threshold is not None and "disk_threshold" not in types:
        raise InputError(
            "types does not have such events",
            where="threshold_percent",
            hint="Add disk_threshold to types, or leave it out",
        )
    if threshold is None and "disk_threshold" in types and "types" in values:
        raise InputError(
            "there are no such events without threshold_percent", where="types", hint="Give threshold_percent: 80"
        )
    return EventRequest(
        hypervisors=uris,
        types=types,
        threshold_percent=threshold,
        buffer=values.get("buffer", DEFAULT_BUFFER),
        retry_seconds=values.get("retry_seconds", DEFAULT_RETRY_SECONDS),
    )
