"""One Apprise channel, limited to the allow-list and kept from revealing secrets.

Apprise is made for the owner of a machine: its URLs can name files of the server (``template=``), follow redirects, set
their own timeouts and appear in its logs. Here URLs come from members, so all that is disabled.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from typing import Any

import apprise
from apprise.plugins import url_to_dict
from apprise.plugins.custom_json import NotifyJSON

from gpusquad.model.errors import Invalid
from gpusquad.server.notify.channels import BY_HOST, AllowList, SendFailed
from gpusquad.server.notify.messages import NoticeMessage

MAX_TARGETS = 20
_READS_FILES = frozenset({"template", "attach", "keyfile", "subfile", "pgp", "pgpkey", "pgppub", "pgpprv", "wkd"})
_REJECTED = frozenset({"400", "413", "415", "422"})
"""Answers about the notice itself, and not about the channel."""
_STATUS = re.compile(r"\berror=(\d{3})\b")
_ASSET = apprise.AppriseAsset(
    app_id="gpusquad", app_desc="gpusquad", app_url="", image_url_mask="", image_url_logo="", async_mode=False,
    http_redirects=False, interpret_emojis=False, pgp_autogen=False, pem_autogen=False, storage_mode="memory",
)  # fmt: skip
_reading = threading.Lock()  # Apprise loads its plugins at the first use, which is not thread-safe


class AppriseChannel:
    """A URL that notices may be sent to."""

    def __init__(self, url: str, allow: AllowList, timeout_s: float) -> None:
        with _reading:
            self._plugin = _plugin(url, allow)
        self._plugin.socket_connect_timeout = self._plugin.socket_read_timeout = timeout_s
        self._plugin.redirects = False

    def send(self, message: NoticeMessage) -> None:
        """Deliver, or raise SendFailed."""
        if isinstance(self._plugin, NotifyJSON) and message.payload is not None:
            self._add_data(self._plugin, message.payload)
        _capture.start()
        try:
            done = self._plugin.notify(body=message.body, title=message.title, body_format=apprise.NotifyFormat.TEXT)
        except Exception as error:  # a plugin's bug fails one channel, and its text may contain the URL
            raise SendFailed(f"the channel failed with {type(error).__name__}") from None
        if not done:
            raise _failure(_capture.messages())

    @staticmethod
    def _add_data(plugin: Any, payload: Mapping[str, Any]) -> None:
        """Send the notice as data beside Apprise's own fields. Fields that the URL adds keep their place."""
        plugin.json_version = payload.get("version", plugin.json_version)
        data = {name: value for name, value in payload.items() if name != "version"}
        plugin.payload_extras = data | plugin.payload_extras
        plugin.headers = {"Idempotency-Key": str(payload.get("id", ""))} | plugin.headers


def _plugin(url: str, allow: AllowList) -> Any:
    parts = _parts(url)
    scheme = str(parts["schema"]).lower() if parts else url.partition("://")[0].lower()
    if scheme not in {entry.partition("@")[0] for entry in allow.entries}:
        raise allow.why_not(scheme)
    if parts is None:
        raise _unreadable(scheme)
    if _READS_FILES & {str(name).lower() for name in parts.get("qsd") or ()}:
        raise Invalid("url", "names a file of the server", "leave out template, attach and keys")
    if not str(parts.get("fullpath") or "/").startswith("/"):  # joined to the host, it would name another host
        raise _unreadable(scheme)
    parts["redirect"] = False
    plugin = apprise.Apprise.instantiate(parts, asset=_ASSET)
    if plugin is None:
        raise _unreadable(scheme)
    _check_plugin(plugin, scheme, allow)
    return plugin


def _parts(url: str) -> dict[str, Any] | None:
    try:
        return url_to_dict(url)
    except Exception:  # hundreds of parsers with untrusted input
        return None


def _check_plugin(plugin: Any, scheme: str, allow: AllowList) -> None:
    """Checks the parsed URL, whatever its text looked like."""
    host = str(getattr(plugin, "smtp_host", "") or plugin.host or "") if scheme in BY_HOST else ""
    if not allow.allows(scheme, host, plugin.port):
        raise allow.why_not(scheme)
    if any(isinstance(value, apprise.AppriseAttachment) and value for value in vars(plugin).values()):
        raise Invalid("url", "names a file of the server")
    if len(plugin) > MAX_TARGETS:
        raise Invalid("url", f"names more than {MAX_TARGETS} receivers", "create several rules")


def _unreadable(scheme: str) -> Invalid:
    return Invalid("url", f"cannot be read as a {scheme}:// channel", "see the Apprise documentation for its form")


def _failure(messages: str) -> SendFailed:
    """The cause, without Apprise's own text, which may contain parts of the URL."""
    status = _STATUS.search(messages)
    if status:
        return SendFailed(f"the channel answered {status[1]}", rejected=status[1] in _REJECTED)
    if "onnection" in messages or "ocket" in messages:
        return SendFailed("the channel cannot be reached")
    return SendFailed("the channel did not accept it")


class _LogCapture(logging.Handler):
    """Captures Apprise's log of one delivery, per thread, to keep it out of our log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._of = threading.local()

    def start(self) -> None:
        self._of.messages = []

    def messages(self) -> str:
        return "\n".join(self._of.messages)

    def emit(self, record: logging.LogRecord) -> None:
        messages = getattr(self._of, "messages", None)
        if messages is not None and len(messages) < 50:
            messages.append(record.getMessage())


def _keep_quiet() -> _LogCapture:
    capture = _LogCapture()
    logger = logging.getLogger("apprise")
    logger.handlers[:], logger.propagate = [capture], False
    logger.setLevel(logging.WARNING)
    # It logs the path of every request, and the path of a webhook is its secret.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    return capture


_capture = _keep_quiet()
