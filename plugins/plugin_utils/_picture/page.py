# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page as one HTML file that loads nothing.

A content security policy allows the page's own style and script, by their hashes, and nothing else: a text that got
into the page as markup could neither run nor load anything.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ...module_utils._base.errors import InputError
from .contents import Picture
from .words import visible

_FOLDER = Path(__file__).parent


def render(picture: Picture, made: str, title: str) -> tuple[str, str]:
    """The HTML, and what tells it from a page that shows something else than another time or uptime.

    made: when the hypervisors were asked, in ISO 8601 with a time zone. Raises InputError.
    """
    moment = _moment(made)
    style, script = (_part(name) for name in ("page.css", "page.js"))
    # One of its own: Ansible's would look for templates in the texts.
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    template = environment.from_string(_text("page.html.j2"))

    def page(moment_iso: str, moment_text: str, digest: str) -> str:
        return template.render(
            picture=picture,
            title=visible(title),
            made=moment_iso,
            made_text=moment_text,
            digest=digest,
            style=Markup(style),
            script=Markup(script),
            style_hash=_hash(style),
            script_hash=_hash(script),
        )

    # Of all but itself, the time, and the uptimes, which go by with it.
    digest = hashlib.sha256(page("", "", "").encode()).hexdigest()
    return page(moment.isoformat(timespec="seconds"), moment.strftime("%Y-%m-%d %H:%M %Z"), digest), digest


def _moment(made: str) -> datetime.datetime:
    try:
        moment = datetime.datetime.fromisoformat(made)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InputError(
            f"{made!r} is not a time", where="made", hint="Give it in ISO 8601 with its zone: 2026-11-22T10:00:00+00:00"
        )
    return moment.astimezone(datetime.timezone.utc)


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _part(name: str) -> str:
    """A style or script; as it stands between its tags, which is what the browser makes its hash of."""
    return f"\n{_text(name)}"


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
