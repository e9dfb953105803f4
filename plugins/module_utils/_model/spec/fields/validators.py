# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checked reading of what users wrote: every value by its own rule, every complaint with its place."""

from __future__ import annotations

import datetime
import ipaddress
import re
import typing as t
from collections.abc import Mapping

from ...._base.errors import InputError, Mistakes, inside, one_of_these, shown

# A rule takes the value and its place, and gives back the clean value or raises InputError.
Rule = t.Callable[[t.Any, str], t.Any]

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
# What of a key may be repeated: the letters that options have, and the colon behind them.
_KEY_BEGIN = re.compile(r"[\w.-]{0,63}:?")
_MAC = re.compile(r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")
# Python reads no number of thousands of digits from a text.
_MOST_DIGITS = 30
# What XML 1.0 cannot carry at all: https://www.w3.org/TR/xml/#charsets
# What YAML makes of other words without quotes, as YAML writes it: https://yaml.org/type/bool.html
_MISREAD = {"true": "on and yes without quotes", "false": "off and no without quotes", "null": "~ and an empty key"}
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def written(key: t.Any) -> str:
    """A key, or another word, as it is written in YAML and JSON."""
    if key is None:
        return "null"
    return str(key).lower() if isinstance(key, bool) else str(key)


def unknown_option(key: t.Any, where: str, known: t.Iterable[str]) -> InputError:
    """The error for a key that is none of these options. YAML may have read another word than the user wrote."""
    word, names = written(key), set(known)
    begin = _KEY_BEGIN.findall(word)[0]
    if begin != word:
        # {password:x} is one key to YAML, and what stands behind the colon may be a secret.
        hint = "Write a space after the colon" if begin.endswith(":") else one_of_these(begin, names)
        word = f"{begin}..."
    elif word in ("true", "on") and "hypervisor" in names:
        hint = "The option for the hypervisor is hypervisor"
    else:
        hint = one_of_these(word if isinstance(key, str) else "", names)
    return InputError(f"unknown option {word!r}", where=where or None, hint=f"{_misread(word)}{hint}")


def _misread(word: str) -> str:
    """A sentence about what else YAML reads as this word, for a hint to go on."""
    return f"YAML reads {_MISREAD[word]} as {word}. " if word in _MISREAD else ""


def read_mapping(
    value: t.Any, where: str, rules: Mapping[str, Rule], required: t.Iterable[str] = (), hint: str | None = None
) -> dict[str, t.Any]:
    """The keys of a mapping by their rules; keys that are absent or null are absent in the result.

    required: keys that have to be there; hint: what to say to whom one is missing. Raises InputError for anything but a
    mapping, with a line for each unknown key and each value that is refused, and for the first key that is missing.
    """
    if not isinstance(value, Mapping):
        raise InputError(
            f"{shown(value, as_text=False)} is not a mapping of options",
            where=where or None,
            hint=f"Known: {', '.join(rules)}",
        )
    clean = {}
    mistakes = Mistakes()
    for key, item in value.items():
        with mistakes.noted():
            if key not in rules:
                raise unknown_option(key, where, rules)
            if item is not None:
                clean[str(key)] = rules[key](item, inside(where, str(key)))
    mistakes.conclude()
    for key in required:
        if key not in clean:
            raise InputError(f"{key} is missing", where=where or None, hint=hint)
    return clean


def text(value: t.Any, where: str) -> str:
    """A text that XML can carry."""
    if value is None:
        # Of an item of a list; a null under a key is not read at all.
        raise InputError("null is not a string", where=where, hint="Leave it out, or write it in quotes")
    if isinstance(value, (Mapping, list, tuple, bytes)):
        raise InputError(f"{shown(value)} is not a string", where=where)
    found = _NOT_XML.search(str(value))
    if found:
        raise InputError(f"the text has a control character ({found.group()!r}) in it", where=where)
    return str(value)


def lines(value: t.Any, where: str) -> str:
    """A text of one or more lines, whose ends are as XML has them."""
    return text(value, where).replace("\r\n", "\n").replace("\r", "\n")


def line(value: t.Any, where: str) -> str:
    """A text without line breaks, as libvirt wants a title."""
    clean = text(value, where)
    if "\n" in clean or "\r" in clean:
        raise InputError("the text has more than one line", where=where)
    return clean


def filled_line(value: t.Any, where: str) -> str:
    """The same with more than blanks in it. libvirt refuses others, or forgets them, and each run would write them."""
    clean = line(value, where)
    if not clean.strip():
        raise InputError("it is empty", where=where, hint="Leave it out")
    return clean


def name(value: t.Any, where: str) -> str:
    """A name that is safe as a libvirt name, as a part of a file name and, nearly, as a host name."""
    if not isinstance(value, (str, int)) or isinstance(value, bool) or not _NAME.match(str(value)):
        word = written(value)
        if isinstance(value, (bool, float, datetime.date)) and _NAME.match(word):
            raise InputError(f"{word!r} is not a name", where=where, hint=f"{_misread(word)}Write the name in quotes")
        raise InputError(
            f"{shown(value)} is not a name",
            where=where,
            hint="Use up to 63 letters, digits, dots, dashes and underscores, the first a letter or digit",
        )
    return str(value)


class whole_number:  # noqa: N801 - used like the functions beside it
    """A rule for whole numbers from minimum to maximum."""

    def __init__(self, minimum: int, maximum: int) -> None:
        self.minimum, self.maximum = minimum, maximum

    def __call__(self, value: t.Any, where: str) -> int:
        number = None
        if isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, str) and value.strip().isdecimal() and len(value.strip()) <= _MOST_DIGITS:
            number = int(value)
        if number is None or not self.minimum <= number <= self.maximum:
            raise InputError(
                f"{shown(value)} is not allowed",
                where=where,
                hint=f"Give a whole number from {self.minimum} to {self.maximum}",
            )
        return number


def yes_or_no(value: t.Any, where: str) -> bool:
    """A boolean, also in the words that YAML and the command line use."""
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    answer = words.get(str(value).strip().lower())
    if answer is None:
        raise InputError(f"{shown(value)} is neither true nor false", where=where)
    return answer


class choice:  # noqa: N801 - used like the functions beside it
    """A rule for one of a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, value: t.Any, where: str) -> str:
        if value not in self.words:
            raise InputError(
                f"{shown(value)} is not a choice", where=where, hint=f"Choose one of {', '.join(self.words)}"
            )
        return str(value)


class pattern:  # noqa: N801 - used like the functions beside it
    """A rule for texts that a regular expression matches as a whole; example is what complaints show."""

    def __init__(self, expression: str, what: str, example: str) -> None:
        self.expression = re.compile(expression)
        self._what, self._example = what, example

    def __call__(self, value: t.Any, where: str) -> str:
        if isinstance(value, bool) or not isinstance(value, (str, int)) or not self.expression.fullmatch(str(value)):
            raise InputError(f"{shown(value)} is not {self._what}", where=where, hint=f"Write it like {self._example}")
        return str(value)


# VIR_DOMAIN_CPUMASK_LEN in libvirt's src/conf/domain_conf.h.
_MOST_CPUS = 16384
_NUMBERS = pattern(r"[0-9]{1,5}(-[0-9]{1,5})?(,\^?[0-9]{1,5}(-[0-9]{1,5})?)*", "a set of numbers", "0-3,8")


def cpu_set(value: t.Any, where: str) -> str:
    """A set of CPUs or of NUMA nodes, in the words in which libvirt gives it back: 0,1 is 0-1."""
    numbers: set[int] = set()
    for part in _NUMBERS(value, where).split(","):
        first, _dash, last = part.lstrip("^").partition("-")
        some = range(int(first), int(last or first) + 1)
        if some.stop > _MOST_CPUS:
            raise InputError(
                f"{shown(value)} is beyond what libvirt knows", where=where, hint=f"The last number is {_MOST_CPUS - 1}"
            )
        if not some:
            raise InputError(
                f"{shown(value)} is not a set of numbers", where=where, hint=f"{part} ends before it begins"
            )
        numbers = numbers.difference(some) if part.startswith("^") else numbers.union(some)
    if not numbers:
        raise InputError(f"{shown(value)} selects no number", where=where, hint="Write it like 0-3,8")
    starts = sorted(number for number in numbers if number - 1 not in numbers)
    ends = sorted(number for number in numbers if number + 1 not in numbers)
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends))  # noqa: B905 - not in Python 3.9


word = pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]*", "a word", "EPYC-Rome")
path = pattern(r"/[^\x00-\x1f\x7f]*[^\x00-\x1f\x7f/]", "an absolute path", "/srv/data")


class list_of:  # noqa: N801 - used like the functions beside it
    """A rule for a list, each item by its own rule; a single plain value counts as a list of one."""

    def __init__(self, item_rule: Rule) -> None:
        self.item_rule = item_rule

    def __call__(self, value: t.Any, where: str) -> tuple[t.Any, ...]:
        if isinstance(value, (str, int, float)):
            value = [value]
        if not isinstance(value, (list, tuple)):
            raise InputError(f"{shown(value)} is not a list", where=where)
        return tuple(self.item_rule(item, f"{where}[{index}]") for index, item in enumerate(value))


def any_mapping(value: t.Any, where: str) -> dict[str, t.Any]:
    """A mapping whose keys are the user's own."""
    if not isinstance(value, Mapping):
        raise InputError(f"{shown(value, as_text=False)} is not a mapping", where=where)
    return {text(written(key), where): item for key, item in value.items()}


def mac(value: t.Any, where: str) -> str:
    """A unicast MAC address in lower case with colons."""
    clean = str(value).strip().lower().replace("-", ":")
    if not _MAC.match(clean) or int(clean[:2], 16) & 1:
        # Parts of 59 and less are a number to base 60: https://yaml.org/type/int.html
        quotes = ", in quotes, as YAML reads it as a number without them" if isinstance(value, int) else ""
        raise InputError(
            f"{shown(value)} is not a MAC address of a nic",
            where=where,
            hint=f"Write it like 52:54:00:12:34:56{quotes}",
        )
    return clean


def interface_address(value: t.Any, where: str) -> str:
    """An address with its prefix length."""
    try:
        if "/" not in str(value):
            raise ValueError
        return str(ipaddress.ip_interface(str(value)))
    except ValueError as exc:
        raise InputError(
            f"{shown(value)} is not an address with a prefix", where=where, hint="Write it like 192.0.2.10/24"
        ) from exc


def host_address(value: t.Any, where: str) -> str:
    """An address with its prefix length that an interface can have: that of a host in its network."""
    interface = ipaddress.ip_interface(interface_address(value, where))
    own, network = interface.ip, interface.network
    if own.is_unspecified or own.is_loopback or own.is_multicast:
        raise InputError(
            f"{value!r} is an address that no interface can have", where=where, hint="Give one of the machine's own"
        )
    # Of a prefix with one or two addresses, each is one of a host: RFC 3021, RFC 6164.
    at_end = own in (network.network_address, network.broadcast_address)
    if network.num_addresses > 2 and at_end and (own.version == 4 or own == network.network_address):
        raise InputError(
            f"{value!r} is the address of a whole network",
            where=where,
            hint=f"Give the host's own address in it, such as {network.network_address + 1}/{network.prefixlen}",
        )
    return str(interface)


def address(value: t.Any, where: str) -> str:
    """A plain address."""
    try:
        return str(ipaddress.ip_address(str(value)))
    except ValueError as exc:
        raise InputError(f"{shown(value)} is not an address", where=where, hint="Write it like 192.0.2.1") from exc
