"""Functions that log in to the dashboard and create users."""

from __future__ import annotations

from typing import Any

from bench.running import RunningService


def address(service: RunningService) -> str:
    return service.client.url


def admin_token(service: RunningService) -> str:
    return (service.home / "token").read_text().strip()


def new_user(service: RunningService, name: str, role: str = "member", tenant: str = "default") -> str:
    """Create a user, and the tenant if it does not exist. Return a token of the user."""
    http = service.client.http
    if all(existing["name"] != tenant for existing in http.get("tenants")["items"]):
        http.post("tenants", body={"name": tenant})
    http.post("users", body={"name": name, "tenant": tenant, "role": role})
    return http.post("tokens", body={"user": name, "label": "test"})["token"]


def log_in(page: Any, service: RunningService, token: str = "", path: str = "/") -> Any:
    """Log in with a link as the command line prints it."""
    page.goto(f"{address(service)}{path}#token={token or admin_token(service)}")
    page.locator("#navigation").wait_for(state="attached")
    return page
