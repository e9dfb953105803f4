# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names whose values are secret: those of cloud-init's modules, of netplan, of variables, and of ourselves.

A name says by its last words what it is: ``private_key`` is one, ``private_key_path`` only says where one is.
"""

from __future__ import annotations

import re
import typing as t

# Words of a name: between blanks of any kind, and where small letters turn into capitals.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# A name that ends with one of these is a secret's.
_SECRETS = frozenset(
    {"authorization", "passcode", "passphrase", "passwd", "password", "pass", "private", "psk", "secret", "token"}
    | {"passwords", "secrets", "tokens"}
)
# Not all keys are secret: most that users write down are public ones. Those are, by the word before.
_SECRET_KEYS = frozenset(
    {"access", "account", "activation", "api", "auth", "authentication", "authorization", "client", "decryption"}
    | {"encryption", "enrollment", "hmac", "join", "licence", "license", "luks", "master", "private", "provisioning"}
    | {"preshared", "recovery", "registration", "secret", "server", "shared", "ssl", "tls", "unseal", "validation"}
    | {"wireguard"}
)
_SECRET_KEY_WORDS = frozenset(f"{word}{key}" for word in _SECRET_KEYS for key in ("key", "keys"))
# Not a password, though its name ends like one.
_NO_SECRETS = frozenset({"lock_passwd"})


def is_secret_name(name: str, parents: t.Sequence[str] = ()) -> bool:
    """Whether the value of this key is secret. parents: the keys of the mappings that it stands in, outermost first."""
    if name in _NO_SECRETS:
        return False
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    return (
        last in _SECRETS
        or last in _SECRET_KEY_WORDS
        or (last in ("key", "keys") and before in _SECRET_KEYS)
        or (last == "hash" and before in ("passwd", "password"))
        # Alone, it is a directory.
        or (last == "pwd" and before != "")
        or ("tunnels" in parents and _is_tunnel_key(name, parents))
    )


def _is_tunnel_key(name: str, parents: t.Sequence[str]) -> bool:
    """https://netplan.readthedocs.io/en/stable/netplan-yaml/#properties-for-device-type-tunnels"""
    return name == "key" or (name == "shared" and parents[-1] == "keys")
