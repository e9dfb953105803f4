# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of the wish for a seed must stand in no output, not even in that of -vvv.

Read from the wish as the user wrote it, before anything is checked: the complaint about a wish is output as well.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator, Mapping

# Ansible takes a secret out of every word of the output that has it. Something shorter, such as "yes" or "root", would
# take half of the output away, and is no secret worth the name.
SHORTEST = 6
# The keys of cloud-init's modules, of netplan and of ourselves whose values are secret, wherever they stand.
_SECRET_KEY = re.compile(
    r"^(.*[_-])?(passwd|password|passphrase|password[_-]hash|private|private[_-]key|secret|token|psk|key[_-]password"
    r"|activation[_-]key)$",
    re.IGNORECASE,
)
# Lists of user:password, one a line.
_PASSWORD_LISTS = ("list",)
# Words that cloud-init takes in place of a password.
_NO_SECRETS = frozenset({"random"})
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?-----END [A-Z0-9 ]*PRIVATE KEY-----", re.DOTALL)
_LINE = re.compile(r"""^[\s{,-]*["']?(?P<key>[\w-]+)["']?\s*:\s*(?P<value>\S.*?)\s*$""", re.MULTILINE)


def secrets_of(seed: t.Any) -> set[str]:
    """The secret texts in a seed as the user wrote it; anything but a mapping has none.

    These are password hashes, the values of keys such as ``passwd``, ``hashed_passwd``, ``plain_text_passwd`` and
    ``password``, the passwords of ``chpasswd``, private keys, and the content of files with ``secret: true``; in
    user_data given as text as well, there by its lines where it is no YAML. No text of less than SHORTEST characters.
    """
    found = set(_secrets(seed)) if isinstance(seed, Mapping) else set()
    return {text for text in found if len(text) >= SHORTEST and text.lower() not in _NO_SECRETS}


def _secrets(value: t.Any, key: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        if value.get("secret") in (True, "true", "yes", "on", "1", 1) and isinstance(value.get("content"), str):
            yield from (value["content"], value["content"].strip())
        for name, item in value.items():
            yield from _secrets(item, f"{key}.{name}")
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _secrets(item, key)
    elif isinstance(value, str):
        yield from _secrets_of_text(value, key)


def _secrets_of_text(text: str, key: str) -> Iterator[str]:
    """Of one text under a key, which is the path to it."""
    *parents, name = key.split(".")
    if _SECRET_KEY.match(name) and name != "lock_passwd":
        yield from (text, text.strip())
    if name in _PASSWORD_LISTS and "chpasswd" in parents:
        for line in text.splitlines():
            yield line.partition(":")[2].strip()
    for match in _PRIVATE_KEY.finditer(text):
        yield match.group()
    if name == "user_data":
        yield from _secrets_of_user_data(text)


def _secrets_of_user_data(text: str) -> Iterator[str]:
    for match in _LINE.finditer(text):
        if _SECRET_KEY.match(match["key"]) and match["key"] != "lock_passwd":
            yield match["value"].split(" #")[0].strip().rstrip(",}").strip("\"'")
    # What YAML makes of the text is what may be repeated somewhere, and the other way round.
    try:
        import yaml
    except ImportError:
        return
    try:
        loaded = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return
    if isinstance(loaded, Mapping):
        yield from _secrets(loaded)
