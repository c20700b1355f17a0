"""Allowed destinations of notices. A channel is a URL that contains a secret; the configured allow-list selects which
are allowed.

An entry is a scheme (``slack``: any URL of that scheme) or a scheme at a host (``json@127.0.0.1``,
``mailtos@smtp.lab``, ``json@hooks.lab:8443``; ``file@NAME`` for one file). Without the list, any member could make this
server send requests into its internal network. So the default names only services with fixed hosts: nothing in such a
URL can lead elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpusquad.model.errors import Invalid

MAX_URL_CHARS = 2048

HOSTED = frozenset({
    # chat
    "slack", "discord", "tgram", "gchat", "wxteams", "webex", "twist", "flock", "ryver", "zoom", "feishu", "lark",
    "dingtalk", "wecombot", "line",
    # phones and people on call
    "pover", "pbul", "pagerduty", "pagertree", "opsgenie", "signl4", "spike",
    # mail by a provider's HTTP API
    "sendgrid", "mailgun", "sparkpost", "postmark", "brevo", "mailersend", "resend", "smtp2go", "ses", "o365",
})  # fmt: skip
BY_HOST = frozenset({
    "json", "jsons", "xml", "xmls", "form", "forms", "mailto", "mailtos", "gotify", "gotifys", "ntfy", "ntfys",
    "mmost", "mmosts", "rocket", "rockets", "file",
})  # fmt: skip
"""Schemes whose URL names the host, so that an entry can be limited to one."""

_SCHEME = re.compile(r"[a-z0-9][a-z0-9+.-]{0,31}")
_HOST = re.compile(r"(?:[a-z0-9._-]{1,253}|\[[0-9a-f:]{2,45}\])(?::[0-9]{1,5})?")


class SendFailed(Exception):
    """The channel did not accept the notice. The text never contains any part of the URL."""

    def __init__(self, reason: str, *, permanent: bool = False, rejected: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.permanent = permanent
        """No later attempt can succeed."""
        self.rejected = rejected
        """The channel answered that it does not want this notice. It may want others."""


@dataclass(frozen=True, slots=True)
class AllowList:
    """Schemes, and schemes at hosts, that rules may use."""

    entries: frozenset[str] = HOSTED

    @classmethod
    def parse(cls, entries: Iterable[str], field: str = "notify.channels") -> AllowList:
        """The entries in configuration form; ``hosted`` stands for the default ones."""
        result: set[str] = set()
        for entry in entries:
            result |= HOSTED if entry == "hosted" else {_checked(entry, field)}
        return cls(frozenset(result))

    def allows(self, scheme: str, host: str = "", port: int | None = None) -> bool:
        """Whether notices may be sent there."""
        host = host.lower()
        return not self.entries.isdisjoint({scheme, f"{scheme}@{host}", f"{scheme}@{host}:{port}"})

    def why_not(self, scheme: str) -> Invalid:
        """Error for the owner of a channel that is not allowed."""
        plain = sorted({entry.partition("@")[0] for entry in self.entries})
        cure = "an administrator can allow it under notify.channels" + (
            f"; allowed: {', '.join(plain)}" if plain else ""
        )
        return Invalid("url", f"{scheme}:// is not an allowed channel here", cure)


def check_text(url: object) -> str:
    """Check that it can be a URL: one line of text, not too long."""
    if not isinstance(url, str) or "://" not in url:
        raise Invalid("url", "is not the URL of a channel", "for example slack://TOKEN_A/TOKEN_B/TOKEN_C")
    if len(url) > MAX_URL_CHARS:
        raise Invalid("url", f"is longer than {MAX_URL_CHARS} characters")
    if not url.isprintable() or " " in url:
        raise Invalid("url", "contains spaces or unprintable characters", "escape them, for example %20")
    return url


def mask(url: str) -> str:
    """A URL safe to show: its scheme, and its host if that is not secret."""
    scheme, found, rest = url.partition("://")
    scheme = scheme.lower()
    if not found or not _SCHEME.fullmatch(scheme):
        return "…"
    # In slack://A/B/C the "host" is the first part of the secret.
    place = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    if scheme not in BY_HOST | {"http", "https"} or not _HOST.fullmatch(place.lower()):
        return f"{scheme}://…"
    return f"{scheme}://{place}" + ("" if rest == place else "/…")


def _checked(entry: str, field: str) -> str:
    scheme, found, host = entry.lower().partition("@")
    if not _SCHEME.fullmatch(scheme):
        raise Invalid(field, f"{entry!r} is not a scheme", "for example slack or json@hooks.example.org")
    if found and scheme not in BY_HOST:
        raise Invalid(field, f"{scheme} cannot be limited to a host", f"use {scheme} alone to allow it everywhere")
    if found and not _HOST.fullmatch(host):
        raise Invalid(field, f"{host!r} is not a host", "for example json@hooks.example.org:8443")
    return f"{scheme}{found}{host}"
