"""What is secret, by its name and by its value, and the mask that stands for it.

The only place that decides this. A mask is a keyed fingerprint: the same value gives the same mask under one key, a
changed value a changed one, and there is no way back. The key is the workspace's, and stays out of git.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from knobledger.knobs.reading import Reading


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A part of a name is what stands between `_`, `-`, `.` or a change to upper case.
_SECRET_PARTS: Final = _names("""
    password passwd passphrase pwd pass secret secrets credential credentials cred creds apikey privatekey
    token bearer authorization cookie
""")
_KEY_BEFORE: Final = _names("""
    api access secret private auth account encryption signing license ssh deploy master admin hmac sas wandb
    openai anthropic service shared session
""")
"""`..._KEY` is secret behind one of these; KEY_CACHE_DTYPE, KV_KEY and the like are not."""
_TOKEN_NEIGHBOURS: Final = _names("""
    max min num total count limit length len size budget per batch path dir id ids type pad eos bos unk sep
    special file rate ratio chunk tokens window start end stop new step steps prefill decode
""")
"""A `token` beside one of these is a piece of text, not a credential."""
_HARMLESS_ENDS: Final = _names("""
    path file dir dtype type size len length timeout ttl name enabled policy mode
""")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_TRIVIAL = re.compile(r"(?i)|0|1|true|false|yes|no|on|off|none|null|auto|empty|[0-9]{1,3}")

_BY_VALUE: Final = re.compile(
    r"""
    (?<![A-Za-z0-9_])(?:
        hf_[A-Za-z0-9]{8,}
      | api_org_[A-Za-z0-9]{8,}
      | sk-[A-Za-z0-9_-]{8,}
      | (?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{16,}
      | github_pat_[A-Za-z0-9_]{16,}
      | glpat-[A-Za-z0-9_-]{12,}
      | xox[abprs]-[A-Za-z0-9-]{8,}
      | nvapi-[A-Za-z0-9_-]{12,}
      | (?:AKIA|ASIA)[A-Z0-9]{12,}
      | AIza[A-Za-z0-9_-]{20,}
      | eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+
      | gsk_[A-Za-z0-9]{16,}
      | dckr_pat_[A-Za-z0-9_-]{8,}
      | pypi-[A-Za-z0-9_-]{16,}
    )
    | (?<=[Bb]earer\ )[A-Za-z0-9._~+/=-]{6,}
    | (?<=[Bb]asic\ )[A-Za-z0-9+/]{8,}={0,2}
    | (?<=://)(?P<user>[^\s/:@'"$]{0,64}):(?P<password>[^\s/@'"]{1,256})(?=@)
    | -----BEGIN[A-Z ]*PRIVATE\ KEY-----.*?(?:-----END[A-Z ]*PRIVATE\ KEY-----|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(
    # Only a flag's value may stand after a blank: in prose the word before a secret's name must not swallow it.
    r"(?P<name>(?P<flag>--[A-Za-z][A-Za-z0-9_.-]*)|[A-Za-z_][A-Za-z0-9_]*)"
    r"(?P<join>=|:[ \t]*|(?(flag)[ \t]+(?=[^\s-])|(?!)))"
)
_VALUE = re.compile(r"\"(?:[^\"\\]|\\.){0,2000}\"|'[^']{0,2000}'|[^\s\"';|&<>()]+")
_MASK = re.compile(r"<secret [0-9a-f]{4}: ?[0-9a-f]{12}>|<secret [0-9a-f]{4}:[0-9a-f]{12}>")
_SHORTEST: Final = 6
"""A seen secret shorter than this is not searched for in free text: it would be found everywhere; characters."""


class Masker:
    """Masks secrets under one key.

    `add` and `keep` are globs of names (`*_PIN`, `--api-*`) that are secret, or not, whatever the rules say; `keep`
    is the stronger. What a masker has masked once as a value, it finds again in free text.
    """

    def __init__(self, key: bytes, *, add: Sequence[str] = (), keep: Sequence[str] = ()) -> None:
        self._key = key
        self._add = tuple(add)
        self._keep = tuple(keep)
        self._seen: set[str] = set()
        self.key_id = hashlib.sha256(b"knobledger key id\0" + key).hexdigest()[:4]
        """names the key in each mask: fingerprints of different keys are never compared"""

    def is_secret(self, name: str, value: str | None) -> bool:
        """Whether the knob's value must not be shown."""
        if any(fnmatchcase(name, glob) for glob in self._keep):
            return False
        if any(fnmatchcase(name, glob) for glob in self._add):
            return True
        if value is not None and _BY_VALUE.search(value):
            return True
        if value is not None and (_TRIVIAL.fullmatch(value) or value.startswith("$")):
            return False
        return secret_name(name)

    def mask(self, value: str) -> str:
        """The fingerprint that stands for `value`: `<secret KEY:HASH>`."""
        if _MASK.fullmatch(value):
            return value
        if len(value) >= _SHORTEST:
            self._seen.add(value)
        digest = hmac.new(self._key, value.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()
        return f"<secret {self.key_id}:{digest[:12]}>"

    def value(self, name: str, value: str | None) -> str | None:
        """The value, or its mask if it is secret. A URL or header keeps what is not secret of it."""
        if value is None or not self.is_secret(name, value):
            return value
        if self._named_secret(name):
            return self.mask(value)
        return self._by_value(value)

    def content(self, reading: Reading) -> bytes:
        """The file's bytes with every secret masked, in comments, heredocs and plain text too; as many lines."""
        spans: list[tuple[int, int]] = []
        for site in reading.sites:
            shown = site.value
            raw = reading.content[site.span[0] : site.span[1]].decode("utf-8", "surrogateescape")
            if (
                site.file is None
                and not site.bare
                and self.is_secret(site.name, raw if shown is None else shown)
            ):
                if shown is not None and len(shown) >= _SHORTEST:
                    self._seen.add(shown)
                expands = shown is None and raw.lstrip("\"'").startswith("$")
                if not expands and (shown is None or self._named_secret(site.name)):
                    spans.append(site.span)
        out: list[str] = []
        at = 0
        for start, end in _merged(spans):
            out.append(self.text(reading.content[at:start].decode("utf-8", "surrogateescape")))
            secret = reading.content[start:end].decode("utf-8", "surrogateescape")
            out.append(_same_lines(secret, self.mask(_unquoted(secret))))
            at = end
        out.append(self.text(reading.content[at:].decode("utf-8", "surrogateescape")))
        return "".join(out).encode("utf-8", "surrogateescape")

    def text(self, text: str) -> str:
        """Free text with what looks like a secret, or was masked before, masked; as many lines."""
        text = _outside_masks(text, self._named_in_text)
        text = _outside_masks(text, self._by_value)
        for secret in sorted(self._seen, key=len, reverse=True):
            if secret in text:
                mask = _same_lines(secret, self.mask(secret))
                text = _outside_masks(text, lambda part, s=secret, m=mask: part.replace(s, m))  # type: ignore[misc]
        return text

    def _named_secret(self, name: str) -> bool:
        return secret_name(name) or any(fnmatchcase(name, glob) for glob in self._add)

    def _by_value(self, text: str) -> str:
        def one(match: re.Match[str]) -> str:
            password = match.group("password")
            if password is None:
                return _same_lines(match.group(), self.mask(match.group()))
            if password.startswith("$") or _MASK.fullmatch(password):
                return match.group()
            return f"{match.group('user')}:{self.mask(password)}"

        return _BY_VALUE.sub(one, text)

    def _named_in_text(self, text: str) -> str:
        if "=" not in text and ":" not in text and "--" not in text:
            return text
        out: list[str] = []
        done = at = 0
        while name := _NAME.search(text, at):
            at = name.end()  # what looks like a value may begin with the name of a secret
            if not self._named_secret(name.group("name")):
                continue
            value = _VALUE.match(text, at)
            masked = self._value_mask(name, value.group()) if value else None
            if value and masked is not None:
                out += [text[done:at], masked]
                done = at = value.end()
        return "".join([*out, text[done:]])

    def _value_mask(self, name: re.Match[str], written: str) -> str | None:
        """The mask of a value as it is written after a secret's name; None where it is not worth hiding."""
        value = _unquoted(written)
        if not self.is_secret(name.group("name"), value) or value.startswith(("$", "<")):
            return None
        if name.group("join").startswith(":") and not (len(value) >= 8 and any(c.isdigit() for c in value)):
            return None
        quote = written[:1] if written[:1] in "\"'" else ""
        return quote + _same_lines(value, self.mask(value)) + quote


@lru_cache(maxsize=4096)
def secret_name(name: str) -> bool:
    """Whether a name says that its value is a credential."""
    parts = [part.lower() for part in _PARTS.findall(name)]
    if not parts or name in ("PWD", "OLDPWD"):
        return False
    if parts[-1] in _HARMLESS_ENDS and not ({"password", "secret"} & set(parts) and parts[-1] in ("name",)):
        return False
    for index, part in enumerate(parts):
        neighbours = {*parts[max(0, index - 1) : index], *parts[index + 1 : index + 2]}
        if part in ("token", "pass", "bearer", "cookie"):
            if part == "token" and (neighbours & _TOKEN_NEIGHBOURS):
                continue
            if part == "pass" and index != len(parts) - 1:
                continue
            return True
        if part in _SECRET_PARTS or part.endswith(("password", "passwd", "secret")):
            return True
        if part in ("key", "keys") and index and parts[index - 1] in _KEY_BEFORE and index == len(parts) - 1:
            return True
        if part == "key" and index and parts[index - 1] in ("api", "access", "secret", "private"):
            return True
    return False


def _outside_masks(text: str, change: Callable[[str], str]) -> str:
    """Change `text` but for the masks in it."""
    if "<secret " not in text:
        return change(text)
    out, at = [], 0
    for match in _MASK.finditer(text):
        out.append(change(text[at : match.start()]))
        out.append(match.group())
        at = match.end()
    out.append(change(text[at:]))
    return "".join(out)


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text


def _same_lines(secret: str, mask: str) -> str:
    """The mask with as many newlines behind it as the secret holds."""
    return mask + "\n" * secret.count("\n")


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged
