# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options as a user gave them, each with the place and the spelling that it came from, for complaints to name."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...._base.errors import InputError, Mistakes, inside
from .validators import Rule, unknown_option, written


@dataclass(frozen=True)
class OptionPath:
    """Where an option stands in the input. parent: the place of what it belongs to, empty for a module's own options;
    word: the option as the user spelt it; note: what else is to be known of an option that the user did not write."""

    parent: str
    word: str
    note: str = ""

    def __str__(self) -> str:
        place = inside(self.parent, self.word)
        return f"{place} ({self.note})" if self.note else place


@dataclass(frozen=True)
class GivenOptions:
    """Options in the words of this collection, by whatever words they were given.

    values: the options; None is a null, which unsets what is laid beneath. places: of each option. place: of the whole,
    which of several layers is the uppermost. name: of a device.
    """

    values: Mapping[str, t.Any]
    places: Mapping[str, OptionPath] = field(default_factory=dict)
    place: str = ""
    name: str = ""

    @classmethod
    def of(cls, options: Mapping[t.Any, t.Any], place: str, name: str = "") -> GivenOptions:
        """Options as they stand at one place."""
        return cls(dict(options), {key: OptionPath(place, written(key)) for key in options}, place, name)

    def at(self, key: str) -> str:
        """The place of an option as the user knows it; where nobody named the option, where it would stand."""
        return str(self.places[key]) if key in self.places else inside(self.place, key)

    def word(self, key: str) -> str:
        """The option as the user spelt it."""
        return self.places[key].word if key in self.places else key

    def renamed(self, key: str, new: str, value: t.Any) -> GivenOptions:
        """The same under another name, with this value, at the place of the first.

        Raises InputError where the other name is there as well, with another value. A null yields to what is there.
        """
        place = self.places[key]
        rest = self.without([key])
        if self.values[key] is None:
            return rest if new in rest.values else rest.with_value(new, None, place)
        if rest.values.get(new) not in (None, value):
            raise InputError(
                f"{place.word} and {rest.word(new)} are given together",
                where=self.place or None,
                hint="Give only one of the two",
            )
        return rest.with_value(new, value, place)

    def with_value(self, key: str, value: t.Any, place: OptionPath | None = None) -> GivenOptions:
        """The same with another value; place: where it comes from, unless that stays as it is."""
        places = self.places if place is None else {**self.places, key: place}
        return GivenOptions({**self.values, key: value}, places, self.place, self.name)

    def noted(self, note: str) -> GivenOptions:
        """The same with a note at the place of each option."""
        places = {key: replace(place, note=note) for key, place in self.places.items()}
        return GivenOptions(self.values, places, self.place, self.name)

    def only(self, keys: t.Container[str]) -> GivenOptions:
        """The same with these options alone."""
        return self.without([key for key in self.values if key not in keys])

    def without(self, keys: t.Iterable[str]) -> GivenOptions:
        """The same without some options."""
        out = set(keys)
        return GivenOptions(
            {key: value for key, value in self.values.items() if key not in out},
            {key: place for key, place in self.places.items() if key not in out},
            self.place,
            self.name,
        )

    def over(self, base: GivenOptions) -> GivenOptions:
        """This laid over a base, option by option. A null stays, so that ``read`` leaves the option out."""
        return GivenOptions({**base.values, **self.values}, {**base.places, **self.places}, self.place, self.name)

    def check_words(self, known: t.Iterable[str]) -> None:
        """Raises InputError with a line for each option that is not known. known: all spellings."""
        words = list(known)
        mistakes = Mistakes()
        for key, place in self.places.items():
            if key not in words:
                wrong = place.word if isinstance(key, str) else key
                mistakes.found.append(unknown_option(wrong, place.parent, words))
        mistakes.conclude()

    def read(self, rules: Mapping[str, Rule]) -> dict[str, t.Any]:
        """The values by their rules; options that are absent or null are absent in the result.

        Raises InputError for all unknown options and all that rules refuse, each with its place.
        """
        clean = {}
        mistakes = Mistakes()
        with mistakes.noted():
            self.check_words(rules)
        for key, value in self.values.items():
            if value is not None and key in rules:
                with mistakes.noted():
                    clean[key] = rules[key](value, self.at(key))
        mistakes.conclude()
        return clean
