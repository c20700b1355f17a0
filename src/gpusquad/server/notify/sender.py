"""Sends one notice to one channel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from gpusquad.model.errors import Invalid
from gpusquad.server.notify.channels import AllowList, SendFailed, check_text, mask
from gpusquad.server.notify.file_channel import append, file_name
from gpusquad.server.notify.messages import NoticeMessage

__all__ = ["ChannelSender", "SendFailed", "Sender", "mask"]


STRUCTURED = frozenset({"json", "jsons", "file"})
"""Schemes that carry a notice as data."""


class Sender(Protocol):
    """Delivers to channels."""

    def send(self, url: str, message: NoticeMessage) -> None:
        """Deliver, or raise SendFailed."""
        ...

    def is_structured(self, url: str) -> bool:
        """Whether the channel carries a notice as data, and not only its text."""
        ...


@dataclass(frozen=True)
class ChannelSender:
    """Every channel of Apprise, and files, if the allow-list permits."""

    allow: AllowList = field(default_factory=AllowList)
    folder: Path | None = None
    """Folder of ``file://NAME``. None: there is no such channel."""
    timeout_s: float = 10.0

    def check(self, url: object) -> None:
        """Refuse a URL that can never work, with a message for its owner. Uses no network."""
        self._open(check_text(url))

    def send(self, url: str, message: NoticeMessage) -> None:
        """Deliver, or raise SendFailed."""
        try:
            deliver = self._open(check_text(url))
        except Invalid as wrong:
            raise SendFailed(wrong.problem, permanent=True) from None
        deliver(message)

    def is_structured(self, url: str) -> bool:
        return _scheme(url) in STRUCTURED

    def _open(self, url: str) -> Callable[[NoticeMessage], None]:
        if _scheme(url) == "file":
            return self._open_file(url)
        # Takes a second and some memory, so it is imported only to send.
        from gpusquad.server.notify.apprise_channel import AppriseChannel

        return AppriseChannel(url, self.allow, self.timeout_s).send

    def _open_file(self, url: str) -> Callable[[NoticeMessage], None]:
        name = file_name(url)
        if self.folder is None or not self.allow.allows("file", name):
            raise self.allow.why_not("file")
        return partial(_append, self.folder, name)


def _scheme(url: str) -> str:
    return url.partition("://")[0].lower()


def _append(folder: Path, name: str, message: NoticeMessage) -> None:
    try:
        append(folder, name, message)
    except OSError as error:
        raise SendFailed(f"cannot write {name}: {error.strerror or error}") from None
