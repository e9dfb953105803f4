# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets on their way to a module: taken out of its options, and sent beside them.

The options that Ansible logs on the host and repeats in its output hold placeholders. The values come beside them
under a name of their own, which only the module's work opens. A secret that comes up again in a text, in whatever
spelling, is masked there.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import shlex
import typing as t
from collections.abc import Mapping
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape, quoteattr

# In no argument spec, and so in no documentation, for it is no option for tasks: the action plugin fills it.
OPTION = "_withheld"
# Beside it for virt_init, for its warnings: what the inventory calls the host.
HOST_NAME = "_host_name"
HIDDEN = "********"
# A mask is taken out of every word of the output that has it. Something shorter, such as "yes" or "root", would take
# half of the output away; so would the usual short lines of a file.
SHORTEST = 6
_SHORTEST_LINE = 12
# Words that cloud-init takes in place of a password.
NO_SECRETS = frozenset({"random"})
_PLACEHOLDER = re.compile(r"HIDDEN_[0-9a-f]{16}_[0-9]+_")
_FRAME = re.compile(r"^-----(BEGIN|END) [A-Z0-9 ]+-----$")

# libvirt's attribute; the quotes are those of XML.
_XML_PASSWORD = re.compile(r"""(?P<begin>\bpasswd\s*=\s*)(?P<quote>["'])(?P<value>.+?)(?P=quote)""", re.DOTALL)


def placeholder(nonce: str, number: int) -> str:
    """A text that stands for a secret.

    nonce: 16 hex digits, new for each task, so that no text of a user is like it.
    """
    return f"HIDDEN_{nonce}_{number}_"


def is_placeholder(value: t.Any) -> bool:
    """Whether a value stands for a secret, and is nothing besides."""
    return isinstance(value, str) and _PLACEHOLDER.fullmatch(value.strip()) is not None


def has_placeholder(text: str) -> bool:
    """Whether a secret was taken out of a text."""
    return _PLACEHOLDER.search(text) is not None


def as_option(values: Mapping[str, t.Any], masks: t.Iterable[str]) -> dict[str, t.Any]:
    """The option for a module. values: the secrets by their placeholders, plain data; masks: see masks_of."""
    # The values in one text: each by itself would be masked wherever it stands, a single digit for instance.
    # Ansible masks that text as well: "{}" would be gone from all output, a machine's empty list of disks for instance.
    text = json.dumps(dict(values), default=str) if values else ""
    return {"values": text, "masks": sorted(masks)}


def opened(params: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """A module's options with the secrets in their places, and without the option that brought them."""
    sent = params.get(OPTION) or {}
    values = json.loads(sent.get("values") or "{}")
    return {key: _restored(value, values) for key, value in params.items() if key != OPTION}


def _restored(value: t.Any, values: Mapping[str, t.Any]) -> t.Any:
    if isinstance(value, Mapping):
        return {_restored(key, values): _restored(item, values) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_restored(item, values) for item in value]
    if isinstance(value, str):
        # A whole value may be something else than a text, such as a number.
        return values[value] if value in values else replace_placeholders(value, lambda it: str(values.get(it, it)))
    return value


def replace_placeholders(text: str, replace: t.Callable[[str], str]) -> str:
    """The text with each placeholder replaced."""
    return _PLACEHOLDER.sub(lambda match: replace(match.group()), text)


def outside_placeholders(text: str, change: t.Callable[[str], str]) -> str:
    """The text with all of it changed that is no placeholder."""
    kept = _PLACEHOLDER.findall(text)
    parts = [change(part) for part in _PLACEHOLDER.split(text)]
    return "".join(part + mark for part, mark in zip(parts, [*kept, ""]))  # noqa: B905 - Python 3.9 has no strict


@dataclasses.dataclass(frozen=True)
class SecretOptions:
    """What a module is told of the secrets among its options; Secrets in ``_module.py`` says what each part is for.

    left_in: for one whose action plugin sends the secrets beside the options, tells whether there are any in these all
    the same. words: names of options, however deep in others, whose values are secrets that no action plugin takes out.
    found_in: gives those that may stand anywhere, in options that are usually none.
    """

    left_in: t.Callable[[dict[str, t.Any]], bool] | None = None
    words: t.Collection[str] = ()
    found_in: t.Callable[[Mapping[str, t.Any]], set[str]] = lambda _options: set()
    hidden: str = HIDDEN

    @property
    def beside(self) -> tuple[str, ...]:
        """What its action plugin sends beside the options."""
        return () if self.left_in is None else (OPTION,)

    def in_clear(self, params: Mapping[str, t.Any]) -> bool:
        """Whether secrets stand in the options that the action plugin should have taken out."""
        return self.left_in is not None and self.left_in(dict(params))

    def anywhere(self, params: Mapping[str, t.Any]) -> bool:
        """Whether secrets may stand in the options."""
        return bool(self.words or self.found_in(params)) or self.in_clear(params)

    def texts(self, params: Mapping[str, t.Any]) -> set[str]:
        """All that is to appear in no output."""
        return {*kept_secret(params), *_values_of(params, self.words), *self.found_in(params)}

    def masked(self, text: str, params: Mapping[str, t.Any]) -> str:
        """A text with asterisks in place of the secrets that were sent beside the options, and of placeholders."""
        return masked(text, masks_in(params))


def _values_of(options: t.Any, words: t.Collection[str]) -> t.Iterator[str]:
    """All that stands under one of these words, however deep."""
    if isinstance(options, Mapping):
        for key, value in options.items():
            if key in words and isinstance(value, (str, int, float)) and str(value):
                yield str(value)
            yield from _values_of(value, words)
    elif isinstance(options, (list, tuple)):
        for item in options:
            yield from _values_of(item, words)


def kept_secret(params: Mapping[str, t.Any]) -> set[str]:
    """All texts in the option, which are to appear in no output: what ``no_log`` makes of an option in a spec."""
    sent = params.get(OPTION) or {}
    return {text for text in (sent.get("values"), *masks_in(params)) if text}


def masks_in(params: Mapping[str, t.Any]) -> tuple[str, ...]:
    """The masks that a module was sent."""
    return tuple((params.get(OPTION) or {}).get("masks") or ())


def masks_of(secrets: t.Iterable[str]) -> set[str]:
    """All spellings in which a text may repeat these secrets: escaped for JSON, Python, XML, a URL, a shell; in base64;
    and of one with several lines each line that tells anything.

    Of a secret with less than SHORTEST characters only what stands in quotes, as complaints write it.
    """
    found: set[str] = set()
    for secret in secrets:
        whole = secret.strip()
        if not whole or whole.lower() in NO_SECRETS:
            continue
        lines = [line.strip() for line in whole.splitlines()] if "\n" in whole else []
        long_lines = [line for line in lines if len(line) >= _SHORTEST_LINE and not _FRAME.match(line)]
        for text in (secret, whole, *long_lines):
            found |= _spellings(text)
        if len(whole) < SHORTEST:
            found |= {f"'{whole}'", f'"{whole}"'}
        for text in (secret, whole):
            # Up to the last character that does not hang on what follows.
            found.add(base64.b64encode(text.encode(errors="surrogateescape")).decode().rstrip("=")[:-1])
    return {text for text in found if len(text) >= SHORTEST or text[:1] in ("'", '"')}


def _spellings(text: str) -> set[str]:
    in_xml = escape(text)
    return {
        text,
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        repr(text)[1:-1],
        ascii(text)[1:-1],
        in_xml,
        quoteattr(text)[1:-1],
        in_xml.replace('"', "&quot;").replace("'", "&apos;"),
        quote(text, safe="", errors="surrogateescape"),
        quote(text, errors="surrogateescape"),
        quote_plus(text, errors="surrogateescape"),
        shlex.quote(text).strip("'"),
    }


def replace_xml_passwords(text: str, replace: t.Callable[[str], str]) -> str:
    """A piece of libvirt's XML with each password in it replaced."""

    def of(match: re.Match[str]) -> str:
        return f"{match['begin']}{match['quote']}{replace(match['value'])}{match['quote']}"

    return _XML_PASSWORD.sub(of, text)


def masked(text: str, masks: t.Iterable[str]) -> str:
    """A text with asterisks in place of secrets and of placeholders."""
    for mask in sorted(masks, key=len, reverse=True):
        text = text.replace(mask, HIDDEN)
    return replace_placeholders(text, lambda _placeholder: HIDDEN)


def all_masked(value: t.Any, masks: t.Collection[str]) -> t.Any:
    """The same of data: mappings, lists, and what Ansible has for errors; the rest stays as it is."""
    if isinstance(value, str):
        text = masked(value, masks)
        return value if text == value else text
    if isinstance(value, Mapping):
        return {all_masked(key, masks): all_masked(item, masks) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(all_masked(item, masks) for item in value) if type(value) in (list, tuple) else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        changed = {name: all_masked(item, masks) for name, item in fields.items()}
        return value if changed == fields else dataclasses.replace(value, **changed)
    return value
