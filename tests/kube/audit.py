"""Audit log of the API server: which user made which requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


@dataclass(frozen=True, order=True)
class Right:
    group: str
    resource: str
    verb: str


@dataclass(frozen=True)
class Request:
    user: str
    right: Right
    code: int
    uri: str


@dataclass(frozen=True)
class Audit:
    folder: Path

    def flags(self) -> tuple[str, ...]:
        """Return the audit flags of the API server. Watches are logged when they start."""
        policy = self.folder / "audit-policy.json"
        policy.write_text(json.dumps(POLICY))
        return (f"--audit-policy-file={policy}", f"--audit-log-path={self.folder / 'audit.log'}")

    def requests(self, user: str) -> Iterator[Request]:
        for line in (self.folder / "audit.log").read_text().splitlines():
            entry = json.loads(line)
            if entry["user"]["username"] == user and "objectRef" in entry:
                target = entry["objectRef"]
                resource = "/".join(filter(None, (target.get("resource", ""), target.get("subresource", ""))))
                right = Right(target.get("apiGroup", ""), resource, entry["verb"])
                yield Request(user, right, entry.get("responseStatus", {}).get("code", 0), entry["requestURI"])


def rights_in(rules: list[dict]) -> set[Right]:
    return {
        Right(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
