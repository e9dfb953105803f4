# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What in the options of a task must stand in no output, not even in that of -vvv.

Read from the options as the user wrote them, before anything is checked: the complaint about an option is output too.

Names whose values are secret are those of cloud-init's modules, of netplan, of variables, and of ourselves. A name says
by its last words what it is: ``private_key`` is one, ``private_key_path`` only says where one is.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import difflib
import json
import re
import typing as t
from collections.abc import Iterable, Iterator, Mapping

from .._model.url import replace_url_secrets
from .._model.withheld import (
    NO_SECRETS,
    OPTION,
    SHORTEST,
    has_placeholder,
    is_placeholder,
    outside_placeholders,
    replace_xml_passwords,
)

# Words of a name: between blanks of any kind, and where small letters turn into capitals.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# A name that ends with one of these is a secret's.
_SECRETS = frozenset(
    {"authorization", "passcode", "passphrase", "passwd", "password", "pass", "private", "psk", "secret", "token"}
    | {"passwords", "secrets", "tokens"}
)
# Misspelt ones are no less secret: what stands there is refused, but logged by then.
_OFTEN_MISSPELT = ("passphrase", "passwd", "password")
_ALIKE = 0.85
# Not all keys are secret: most that users write down are public ones. Those are, by the word before.
_SECRET_KEYS = frozenset(
    {"access", "account", "activation", "api", "auth", "authentication", "authorization", "client", "decryption"}
    | {"encryption", "enrollment", "hmac", "join", "licence", "license", "luks", "master", "private", "provisioning"}
    | {"preshared", "recovery", "registration", "secret", "server", "shared", "ssl", "tls", "unseal", "validation"}
    | {"wireguard"}
)
_SECRET_KEY_WORDS = frozenset(f"{word}{key}" for word in _SECRET_KEYS for key in ("key", "keys"))
# No passwords, though their names end like one.
_NO_SECRETS = frozenset({"chpasswd", "lock_passwd"})
# Called with what is to be taken out and with the secrets in it; gives back what stands in its place.
TakeOut = t.Callable[[t.Any, t.Collection[str]], t.Any]

# Options in which names are the user's own: a nic called "private" is no secret.
_FREE_NAMES = frozenset(
    {"disk_profiles", "disks", "images", "interfaces", "labels", "nic_profiles", "nics", "shared_folders", "tags"}
)
# libvirt's own addresses have a query with nothing secret in it.
_NO_ADDRESSES = frozenset({"uri"})
# The words that validators.yes_or_no takes for true.
_TRUE = ("true", "yes", "on", "1")
# Lists of user:password, one a line.
_PASSWORD_LISTS = ("list",)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?-----END [A-Z0-9 ]*PRIVATE KEY-----", re.DOTALL)
# Of YAML, of a configuration file, or of a script; a value in quotes without them.
_LINE = re.compile(
    r"""^(?P<begin>[\s{,-]*(?:export\s+)?["']?(?P<key>[\w-]+)["']?[ \t]*[:=][ \t]*(?P<quote>["']?))"""
    r"""(?P<value>\S.*?)(?P<end>(?P=quote)[ \t]*[,}]*(?:[ \t]\#.*)?[ \t]*\r?)$""",
    re.MULTILINE,
)
# What says in YAML that a value fills the lines below.
_BLOCK = re.compile(r"[|>][-+0-9]*")
# A key further on in a line: of JSON or YAML on one line, a connection's options, an assignment, an element of XML.
_KEY = re.compile(r"""(?<![\w-])(?P<key>[\w-]+)["']?\]?[ \t]*(?:=>|[:=>])[ \t]*""")
# What crypt(5) or htpasswd make of a password, by the methods that they know: such a text is known wherever it stands.
_HASH = re.compile(r"\$(?:1|2[abxy]|5|6|7|y|gy|md5|sha1|apr1|argon2id?)\$[A-Za-z0-9./$,=+-]{20,360}(?<!,)")
# Options that are data, where a text with a secret's name in it was to be data too; and what is text in them.
_DATA_OPTIONS = ("seed", "graphics")
_TEXTS_IN_DATA = ("content", "run_commands")
# What a file has besides its content; a misspelt option may be that.
_OF_FILES = ("path", "owner", "mode", "encoding", "secret")
# A text that Ansible would read as data, with a word in it that names a secret.
_DATA_TEXT = re.compile(r"(pass|pwd|secret|token|private|psk|key|authorization)[\w-]*[\"']?\s*[:=]", re.IGNORECASE)


def secrets_of(seed: t.Any) -> set[str]:
    """The secret texts in a seed as the user wrote it; anything but a mapping has none.

    These are password hashes, the values of keys whose names say so (is_secret_name), the passwords of ``chpasswd``,
    private keys, and the content of files with ``secret: true``, of others the lines whose names say so; in user_data
    given as text as well, there by its lines where it is no YAML. No text of less than SHORTEST characters.
    """
    found: set[str] = set()

    def note(value: t.Any, secrets: t.Collection[str]) -> t.Any:
        found.update(secrets)
        return value

    if isinstance(seed, Mapping):
        _taken_out(seed, "", note)
    return {text for text in found if len(text) >= SHORTEST and text.lower() not in NO_SECRETS}


def without_secrets(options: Mapping[str, t.Any], take_out: TakeOut) -> dict[str, t.Any]:
    """The options of virt_init or virt_image, or a requested machine, with each secret taken out.

    Beside those of a seed these are passwords of consoles and in ``xml``, variables whose names say so, and what
    addresses have before an @ or in their query. A text that was found to be secret is taken out wherever it stands.
    """
    found: set[str] = set()

    def noting(value: t.Any, secrets: t.Collection[str]) -> t.Any:
        found.update(secrets)
        return take_out(value, secrets)

    def of_address(part: str, secrets: t.Collection[str]) -> str:
        if not has_placeholder(part):
            return str(noting(part, secrets))
        # What is left of a part out of which something has been taken already.
        return outside_placeholders(part, lambda rest: str(noting(rest, (rest,))) if rest.strip() else rest)

    def of_addresses(text: str) -> str:
        # As a whole: without what a placeholder stands after, nobody can tell what it stands for.
        return replace_url_secrets(text, of_address)

    options = {
        key: value if key in _NO_ADDRESSES else _each_text(_of_option(key, value, noting), of_addresses)
        for key, value in options.items()
    }
    again = sorted((text for text in found if len(text.strip()) >= SHORTEST), key=len, reverse=True)
    if not again:
        return options
    pattern = re.compile("|".join(map(re.escape, again)))

    def elsewhere(text: str) -> str:
        return pattern.sub(lambda match: str(take_out(match.group(), (match.group(),))), text)

    return {
        key: _each_text(value, lambda text: outside_placeholders(text, elsewhere)) for key, value in options.items()
    }


def has_secrets(options: Mapping[str, t.Any]) -> bool:
    """Whether without_secrets would take anything out that has not been taken out already."""
    seen: list[t.Any] = []

    def note(value: t.Any, _secrets: t.Collection[str]) -> t.Any:
        if not is_placeholder(value):
            seen.append(value)
        return value

    without_secrets({key: value for key, value in options.items() if key != OPTION}, note)
    return bool(seen)


def _of_option(key: str, value: t.Any, take_out: TakeOut) -> t.Any:
    if key in _FREE_NAMES:
        return value
    if key == "machines" and isinstance(value, (list, tuple)):
        return [_machine(item, take_out) for item in value]
    if isinstance(value, str) and not is_secret_name(key):
        return _of_text_option(key, value, take_out)
    return _taken_out(value, key, take_out)


def _machine(value: t.Any, take_out: TakeOut) -> t.Any:
    if isinstance(value, Mapping):
        return {_of_key(key, take_out): _of_option(str(key), item, take_out) for key, item in value.items()}
    return _of_text_option("machines", value, take_out) if isinstance(value, str) else value


def _of_text_option(key: str, text: str, take_out: TakeOut) -> t.Any:
    if key == "xml":
        return replace_xml_passwords(text, lambda password: str(take_out(password, _texts(password))))
    if key in ("seed", "graphics", "variables", "machines"):
        with_data = _data_of(text)
        if with_data is not None:
            return _of_option(key, with_data, take_out)
        if _DATA_TEXT.search(text):
            return take_out(text, _secrets_of_data_text(text))
    return _taken_out(text, key, take_out)


def _data_of(text: str) -> t.Any:
    """The mapping or list that a text is in JSON, as it comes from a command line; None when it is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, (dict, list)) else None


def _each_text(value: t.Any, change: t.Callable[[str], str]) -> t.Any:
    if isinstance(value, Mapping):
        return {key: _each_text(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_each_text(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


def _taken_out(value: t.Any, key: str, take_out: TakeOut) -> t.Any:
    """A value without its secrets. key: the path to it."""
    *parents, name = key.split(".")
    secret = is_secret_name(name, parents)
    if isinstance(value, Mapping):
        if secret:
            # A mistake, for a secret is a text; it is no less secret for that.
            return {_of_key(word, take_out): _taken_out(item, key, take_out) for word, item in value.items()}
        secret_file = str(value.get("secret")).strip().lower() in _TRUE
        return {
            _of_key(word, take_out): take_out(item, _texts_of_file(str(item)))
            if secret_file and word not in _OF_FILES and _is_content(item)
            else _taken_out(item, f"{key}.{word}", take_out)
            for word, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_taken_out(item, key, take_out) for item in value]
    if secret and not isinstance(value, bool):
        return value if value is None or value == "" else take_out(value, _texts(str(value)))
    if not isinstance(value, str):
        return value
    if name == "user_data":
        # A text may be a script, and what in a script is secret nobody can tell.
        return take_out(value, set(_secrets_of_user_data(value)))
    if name in _PASSWORD_LISTS and "chpasswd" in parents:
        value = "".join(_of_password_line(line, take_out) for line in value.splitlines(keepends=True))
    elif (parents or [name])[0] in _DATA_OPTIONS and name not in _TEXTS_IN_DATA and _DATA_TEXT.search(value):
        return take_out(value, _secrets_of_data_text(value))
    value = _PRIVATE_KEY.sub(lambda match: str(take_out(match.group(), (match.group(),))), value)
    if name == "content":
        # Of a file that nobody has called secret, with secrets in its lines: a key of WireGuard, for example.
        value = "\n".join(_of_lines(value.split("\n"), take_out))
    return _HASH.sub(lambda match: str(take_out(match.group(), (match.group(),))), value)


def _of_key(word: t.Any, take_out: TakeOut) -> t.Any:
    """A key of a mapping; it has a secret in it where there is no space after the colon: {password:x}."""
    secret = isinstance(word, str) and (_DATA_TEXT.search(word) or _HASH.search(word))
    return take_out(word, (word,)) if secret else word


def _is_content(value: t.Any) -> bool:
    """Whether something is in a file with this content; a number that nobody put into quotes is a text there."""
    return isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != ""


def _of_lines(lines: Iterable[str], take_out: TakeOut) -> Iterator[str]:
    """Lines without the values of keys whose names say that they are secret, also where such a value fills the lines
    below its key."""
    block: int | None = None
    for line in lines:
        if block is not None and line.strip() and _indent(line) <= block:
            block = None
        span = _secret_in(line)
        if block is not None:
            value = line.strip()
            yield f"{line[: _indent(line)]}{take_out(value, {value})}" if value else line
        elif span is None:
            yield line
        else:
            begin, end = span
            if _BLOCK.fullmatch(line[begin:end].strip()):
                # It only says that the secret comes.
                block = _indent(line)
                yield line
            else:
                yield f"{line[:begin]}{take_out(line[begin:end], _texts(line[begin:end]))}{line[end:]}"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _secret_in(line: str) -> tuple[int, int] | None:
    """Where the value of a key whose name says that it is secret stands in a line; None where there is none.

    Of the first key of a line it is known where its value ends. Behind another one all the rest counts.
    """
    first = _LINE.match(line)
    if first and is_secret_name(first["key"]):
        return first.span("value")
    for match in _KEY.finditer(line):
        if is_secret_name(match["key"]) and line[match.end() :].strip():
            return match.end(), len(line.rstrip())
    return None


def _texts(text: str) -> set[str]:
    return {text, text.strip()}


def _texts_of_file(content: str) -> set[str]:
    """The content as it is written and, where it is base64, as it is meant."""
    with contextlib.suppress(binascii.Error, ValueError):
        return _texts(content) | _texts(base64.b64decode("".join(content.split()), validate=True).decode())
    return _texts(content)


def _of_password_line(line: str, take_out: TakeOut) -> str:
    user, colon, password = line.rstrip("\r\n").partition(":")
    end = line[len(user) + len(colon) + len(password) :]
    return f"{user}{colon}{take_out(password, _texts(password)) if password else ''}{end}"


def _secrets_of_data_text(text: str) -> set[str]:
    """A text that was to be data, and what is secret in it, which may stand elsewhere too."""
    return {text, *_secrets_of_user_data(text)}


def _secrets_of_user_data(text: str) -> Iterator[str]:
    yield from _PRIVATE_KEY.findall(text)
    for line in text.split("\n"):
        span = _secret_in(line)
        if span is not None:
            yield line[slice(*span)]
    # What YAML makes of the text is what may be repeated somewhere, and the other way round.
    try:
        import yaml
    except ImportError:
        return
    try:
        loaded = yaml.safe_load(text)
        found = secrets_of(loaded)
    except (yaml.YAMLError, ValueError, RecursionError):
        return
    yield from found


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
        or bool(difflib.get_close_matches(last, _OFTEN_MISSPELT, cutoff=_ALIKE))
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
