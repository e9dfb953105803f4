# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's one family of errors.

Raised deep, turned into one sentence in one place. Each error carries what is wrong, where in the user's
input it stands, and what would be right.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import traceback
import typing as t

# The longest text that is repeated in a complaint; paths and names are shorter.
_LONGEST_SHOWN = 80
_ONE_WORD = re.compile(r"[\w./-]{0,40}")


def single_line(text: t.Any) -> str:
    """Any message as one clause: line breaks and runs of blanks become one blank, a closing full stop goes."""
    return " ".join(str(text).split()).rstrip(".")


def visible(text: str) -> str:
    """A text of visible characters and line breaks: what a guest or a server says must not draw on the terminal."""
    if text.isprintable():  # nearly always
        return text
    return "".join(char if char == "\n" or char.isprintable() else " " for char in text)


def shown(value: t.Any, *, as_text: bool = True) -> str:
    """What a complaint says in the place of a value: a word or a number as it is written.

    A secret may stand in anything else, by a slip: in data, in a text that was to be data, and in long texts. Of these
    only the kind is said, never a part: where secrets are masked, a part of one would not be found. as_text: whether a
    text could be right there at all; where none could, only a single word is repeated.
    """
    if isinstance(value, (t.Mapping, list, tuple)):
        return ("a mapping" if isinstance(value, t.Mapping) else "a list") if value else repr(value)
    if isinstance(value, bytes):
        return "binary data"
    if not isinstance(value, str):
        return repr(value)
    begin = value.lstrip()[:1]
    if begin and begin in "{[":
        return f"a text that begins with {begin}"
    if len(value) > _LONGEST_SHOWN or "\n" in value:
        return f"a text of {len(value)} characters"
    return repr(value) if as_text or _ONE_WORD.fullmatch(value) else "a text"


def place_in_yaml(error: Exception) -> str:
    """Where a text is not YAML, from PyYAML's complaint. What that says repeats the line, which may have a password in
    it: raise what is made of this ``from None``."""
    mark, position = getattr(error, "problem_mark", None), getattr(error, "position", None)
    if mark is not None:
        return f" in line {mark.line + 1}, column {mark.column + 1}"
    # A ValueError is of a value that is none of its kind, such as the date 2024-13-45.
    return f" at character {position + 1}" if position is not None else ": it has a date or a number that is none"


class VirtError(Exception):
    """Something the user has to know.

    what: one clause without a full stop; where: path in the user's input, such as C(virt_vms[3].disks[0].size);
    hint: what would be right, or what to do next. result: what more the module returns with it, by its names.
    """

    result: t.Mapping[str, t.Any] = {}

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        super().__init__(self.__str__())

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return visible(f"{text}. {self.hint}" if self.hint else text)


def inside(where: str, key: str) -> str:
    """The place of a key inside a place; the outermost place has no name."""
    return f"{where}.{key}" if where else key


class InputError(VirtError):
    """The spec itself is wrong: unknown key, wrong type, impossible value."""


class NotFoundError(VirtError):
    """Something the spec names does not exist on this hypervisor."""


class ConflictError(VirtError):
    """The spec collides with what already exists, and acting would lose something."""


class UnsupportedError(VirtError):
    """This hypervisor, or this version of its software, cannot do it."""


class UnreachableError(VirtError):
    """The hypervisor or its libvirt does not answer."""


class HostError(VirtError):
    """The hypervisor refused or failed while acting."""


class StoppedError(VirtError):
    """Nobody waits for the end of this any more."""


def stopped() -> StoppedError:
    """The error of work that was told to stop."""
    return StoppedError("it was interrupted")


def as_virt_error(exc: BaseException) -> VirtError:
    """Any exception as an error of ours, for where one machine's failure must not be everybody's.

    One that nobody expected says its type and where it was raised, so that its cause can be found.
    """
    if isinstance(exc, VirtError):
        return exc
    frames = traceback.extract_tb(exc.__traceback__)
    place = f" in {os.path.basename(frames[-1].filename)}, line {frames[-1].lineno}" if frames else ""
    words = single_line(exc)
    return HostError(f"unexpected {type(exc).__name__}{place}" + (f": {words}" if words else ""))


class HasError(t.Protocol):
    """The result of one machine among several."""

    error: VirtError | None


@contextlib.contextmanager
def own_error(result: HasError) -> t.Iterator[None]:
    """Whatever the block raises is noted as the error of this machine, and ends the block: it is not the others'
    fault, and they go on."""
    try:
        yield
    except Exception as exc:  # noqa: BLE001 - as said
        result.error = as_virt_error(exc)


def outcome(name: str, changed: bool, error: VirtError | None, more: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What became of one machine among several, in the words of a module's result. more: what else it says of it."""
    failure = {} if error is None else {"msg": str(error)}
    return {"name": name, "changed": changed, "failed": error is not None, **more, **failure}


def with_done(error: VirtError, done: t.Sequence[str], *, hint: str | None = None) -> VirtError:
    """An error with what was done before it. hint: instead of its own, where something was."""
    if not done:
        return error
    what = f"{error.what}. Done before that: {', '.join(done)}"
    return type(error)(what, where=error.where, hint=hint or error.hint)


def combined_error(errors: t.Sequence[VirtError]) -> VirtError:
    """Several errors as one with a line for each; a single one as it is. Of their class when they share it."""
    if len(errors) == 1:
        return errors[0]
    # A class from elsewhere may want more than a text.
    classes = {next(kind for kind in type(error).__mro__ if kind.__module__ == __name__) for error in errors}
    one_class = classes.pop() if len(classes) == 1 else VirtError
    return one_class("\n".join(str(error) for error in errors))


class Mistakes:
    """Errors that are collected, each once, so that the user meets all of them in one run."""

    def __init__(self) -> None:
        self.found: list[VirtError] = []

    @contextlib.contextmanager
    def noted(self) -> t.Iterator[None]:
        """Inside the block, an error of ours is kept and ends the block; everything else passes."""
        try:
            yield
        except VirtError as exc:
            if str(exc) not in map(str, self.found):
                self.found.append(exc)

    def conclude(self) -> None:
        """Raise what was found, as one error."""
        if self.found:
            raise combined_error(self.found)


# A machine has fewer options than this, a cloud thousands of machines; and Ansible prints an error twice.
_MOST_NAMED = 80


def one_of_these(word: str, known: t.Iterable[str]) -> str:
    """The hint for a word that is not known: the nearest one, or all of them, and of very many the first."""
    names = sorted(set(known))
    near = difflib.get_close_matches(word, names, n=1)
    if near:
        return f"Did you mean {near[0]}?"
    if not names:
        return "There are none at all"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"Known: {', '.join(names[:_MOST_NAMED])}{more}"
