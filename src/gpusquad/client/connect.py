"""Finds the service: by environment variables, otherwise the one of this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusquad.client.client import Client
from gpusquad.client.errors import ServiceUnreachable
from gpusquad.model.errors import Invalid

START_ONE = "start one with `gpusquad up`"


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a service and its token."""

    url: str
    token: str = field(repr=False)
    is_local: bool


def find(environment: Mapping[str, str] | None = None, **options: Any) -> Client:
    """A client for that service. ``options`` are those of ``Client``."""
    address = locate(os.environ if environment is None else environment)
    cure = START_ONE if address.is_local else "check GPUSQUAD_URL"
    return Client(address.url, address.token, cure=cure, **options)


def locate(environment: Mapping[str, str]) -> Address:
    """``GPUSQUAD_URL`` and ``GPUSQUAD_TOKEN``, otherwise what the service wrote to its folder."""
    url, token = (environment.get(name, "").strip() for name in ("GPUSQUAD_URL", "GPUSQUAD_TOKEN"))
    home = home_of(environment)
    if not url:
        return Address(_local_url(home), token or _local_token(home), is_local=True)
    # Never send this machine's token to another service.
    if not token and _written_url(home) == url.rstrip("/"):
        token = _local_token(home)
    return Address(url, token, is_local=False)


def home_of(environment: Mapping[str, str]) -> Path:
    """The service's folder."""
    given = environment.get("GPUSQUAD_HOME", "")
    return Path(given).expanduser() if given else Path(environment.get("HOME") or "~").expanduser() / ".gpusquad"


def _local_url(home: Path) -> str:
    url = _written_url(home)
    if not url:
        raise ServiceUnreachable(f"no gpusquad service is running here; {START_ONE}")
    return url


def _written_url(home: Path) -> str:
    path = home / "server.json"
    try:
        url = json.loads(path.read_text(encoding="utf-8"))["url"]
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except PermissionError:
        raise Invalid("GPUSQUAD_HOME", f"you may not read {path}", "set GPUSQUAD_URL and GPUSQUAD_TOKEN") from None
    except (ValueError, KeyError, TypeError):
        raise Invalid("GPUSQUAD_HOME", f"{path} was not written by a gpusquad service", START_ONE) from None
    return str(url).rstrip("/")


def _local_token(home: Path) -> str:
    try:
        return (home / "token").read_text(encoding="utf-8").strip()
    except OSError:
        return ""  # the service then reports a missing token and the cure
