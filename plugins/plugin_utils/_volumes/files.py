# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files of the controller volumes are to hold: each is hashed, and sent only where a volume lacks it.

Nothing of Ansible is needed here: the transport is the caller's.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...module_utils._base.errors import Mistakes, inside
from ...module_utils._host.images.source_file import (
    NEEDED_FILES,
    ONLY_ASKED,
    SENT_FILES,
    SourceFile,
    look_at_source,
    source_to_module,
)
from ...module_utils._host.images.stream import ProgressCallback, no_progress
from ...module_utils._model.image.checksum import parse_checksum

Options = Mapping[str, t.Any]


def have_volumes(
    args: dict[str, t.Any],
    *,
    find: t.Callable[[str, str], str],
    ask: t.Callable[[dict[str, t.Any]], dict[str, t.Any]],
    send: t.Callable[[str, str, str], str],
    progress: t.Callable[[str], ProgressCallback] = lambda _subject: no_progress,
) -> dict[str, t.Any]:
    """The module's result.

    args: the task's options; find: the file of the controller that a src means, by that and its place in the options;
    ask: runs the module with such; send: sends a file, for a volume, under a name, and says where it is then; progress:
    what is told how far the work on a volume's file is.
    """
    found, mistakes = dict[int, tuple[SourceFile, str]](), Mistakes()
    for index, (place, item) in _with_source(args).items():
        with mistakes.noted():
            found[index] = _look(item, place, find, progress)
    mistakes.conclude()
    if not found:
        # Nothing to send, or a spec that the module refuses in its own words.
        return ask(args)
    said = {str(index): source_to_module(source) for index, (source, _subject) in found.items()}
    answer = ask({**args, SENT_FILES: said, ONLY_ASKED: True})
    needed = answer.pop(NEEDED_FILES, None)
    if answer.get("failed") or not needed:
        return answer
    sent = {
        str(index): source_to_module(source, send(str(source.path), subject, f"volume{index}"))
        for index, (source, subject) in found.items()
        if index in needed
    }
    return ask({**args, SENT_FILES: {**said, **sent}})


def _look(
    item: Options,
    place: str,
    find: t.Callable[[str, str], str],
    progress: t.Callable[[str], ProgressCallback],
) -> tuple[SourceFile, str]:
    subject, where_checksum = str(item.get("name")), inside(place, "checksum")
    where = inside(place, "src")
    wanted = item.get("checksum")
    source = look_at_source(
        find(str(item["src"]), where),
        where,
        checksum=parse_checksum(wanted, where_checksum) if wanted else None,
        where_checksum=where_checksum,
        on_progress=progress(subject),
    )
    return source, subject


def _with_source(args: Options) -> dict[int, tuple[str, Options]]:
    """The volumes with a file of the controller, by their places in the list: what complaints begin with, and their
    options. Whatever else is wrong, the module says."""
    listed = args.get("volumes")
    items = (
        [("", args)] if listed is None else [(f"volumes[{index}]", item) for index, item in enumerate(_list(listed))]
    )
    return {
        index: (place, item)
        for index, (place, item) in enumerate(items)
        if isinstance(item, Mapping) and item.get("src") and not item.get("path") and item.get("state") != "absent"
    }


def _list(value: t.Any) -> list[t.Any]:
    return list(value) if isinstance(value, (list, tuple)) else []
