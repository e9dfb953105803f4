# SPDX-License-Identifier: GPL-3.0-or-later
"""Sentences of Ansible's documentation, without its marks or with those of reStructuredText."""

from __future__ import annotations

import re
import typing as t

# V(text), O(option), O(plugin#type:option=value), P(plugin#type), M(module), C(code), I(italics), B(bold), RV(value).
_MARK = re.compile(r"\b(?P<kind>RV|[OVPMCIB])\((?P<inside>(?:[^()\\]|\\.)*)\)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


def _bare(mark: re.Match[str]) -> str:
    text = mark["inside"]
    if mark["kind"] in ("O", "RV") and "#" in text:
        plugin, _kind, option = text.replace("#", ":").split(":", 2)
        text = f"{option} of {plugin}"
    if mark["kind"] == "P":
        text = text.partition("#")[0]
    return text


def plain(text: str) -> str:
    """Return a text without marks: `O(disks)` is disks."""
    return _MARK.sub(_bare, " ".join(text.split()))


def in_rst(text: str) -> str:
    """Return a text in reStructuredText, with what was marked as literals."""
    return _MARK.sub(lambda mark: f"``{_bare(mark)}``", " ".join(text.split()).replace("*", r"\*"))


def sentences(description: t.Any) -> list[str]:
    """Return the sentences of a description, which is a text or a list of paragraphs, with their marks."""
    paragraphs = [description] if isinstance(description, str) else description
    return [sentence for text in paragraphs for sentence in _SENTENCE.split(" ".join(text.split()))]


def first_sentence(description: t.Any) -> str:
    """Return the first sentence of a description, with its marks."""
    return sentences(description)[0]


def summary(description: t.Any) -> str:
    """Return the first sentence of a description without marks."""
    return plain(first_sentence(description))
