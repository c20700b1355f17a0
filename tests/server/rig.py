"""The whole API with a real store and a fake scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from gpusquad.model.errors import Invalid
from gpusquad.server.app import PREFIX, make_app
from gpusquad.server.audit import AuditTrail
from gpusquad.server.auth import Auth, hash_of, new_token
from gpusquad.server.clock import Clock
from gpusquad.server.ids import new_id
from gpusquad.server.limits import ApiLimits
from gpusquad.server.metrics import Meters
from gpusquad.server.permissions import SCOPES_OF
from gpusquad.server.secrets import SecretStore
from gpusquad.server.services.sharing.cards import CardDivides, CardService
from gpusquad.server.wiring import Services
from gpusquad.store import people
from gpusquad.store.database import Database
from gpusquad.store.people import TenantRow, TokenRow, UserRow
from tests.server.fake_divides import FakeDivides
from tests.server.fake_scheduler import FakeScheduler

USERS = (
    UserRow("root", "default", "admin"),
    UserRow("ann", "a", "member"),
    UserRow("amy", "a", "member"),
    UserRow("vic", "a", "viewer"),
    UserRow("bob", "b", "member"),
)
JOB_FILE = {"command": ["true"], "gpus": 1}


@dataclass(frozen=True)
class Chunk:
    offset: int
    data: bytes
    next_offset: int


@dataclass
class FakeLogReader:
    """Reads one file per task, named by the task's number."""

    folder: Path

    def tasks(self) -> list[int]:
        return sorted(int(path.name) for path in self.folder.iterdir())

    def size(self, task: int) -> tuple[int, int]:
        return 0, len(self._data(task))

    def read(self, task: int, offset: int, limit: int) -> Chunk:
        data = self._data(task)[offset : offset + limit]
        return Chunk(offset, data, offset + len(data))

    def tail(self, task: int, lines: int) -> int:
        data = self._data(task)
        lines_kept = data.splitlines(keepends=True)[-lines:] if lines else []
        return len(data) - sum(map(len, lines_kept))

    def _data(self, task: int) -> bytes:
        return (self.folder / str(task)).read_bytes()


@dataclass
class FakeLogs:
    """Logs in folders named ``JOB.ATTEMPT``."""

    root: Path
    is_watched: bool = True

    def folder(self, job_id: str, attempt: int) -> Path | None:
        return self._at(job_id, attempt) if self.is_watched else None

    def reader(self, job_id: str, attempt: int) -> FakeLogReader | None:
        folder = self._at(job_id, attempt)
        return FakeLogReader(folder) if folder.is_dir() else None

    def write(self, job_id: str, attempt: int, task: int, data: bytes) -> None:
        self._at(job_id, attempt).mkdir(parents=True, exist_ok=True)
        with (self._at(job_id, attempt) / str(task)).open("ab") as file:
            file.write(data)

    def _at(self, job_id: str, attempt: int) -> Path:
        return self.root / f"{job_id}.{attempt}"


@dataclass
class FakeNotices:
    tested: list[str] = field(default_factory=list)
    woken: int = 0

    def check(self, url: str) -> None:
        if not url.startswith("slack://"):
            raise Invalid("url", "does not lead to a channel that is allowed here")

    def test(self, url: str) -> str:
        self.tested.append(url)
        return ""

    def wake(self) -> None:
        self.woken += 1

    def settle(self) -> None: ...


@dataclass
class Rig:
    """An API application with its users and their tokens."""

    home: Path
    database: Database
    limits: ApiLimits = field(default_factory=ApiLimits)
    monotonic_s: Callable[[], float] | None = None
    make_scheduler: Callable[[Database, Clock], Any] | None = None
    """Creates another scheduler than the fake."""
    divides: CardDivides = field(default_factory=FakeDivides)
    clock: Any = field(default_factory=Clock)

    def __post_init__(self) -> None:
        with self.database.write() as c:
            for tenant in ("default", "a", "b"):
                people.put_tenant(c, TenantRow(tenant))
            for user in USERS:
                people.put_user(c, user)
        if self.make_scheduler is None:
            self.scheduler = FakeScheduler(self.database, self.clock.now_us)
        else:
            self.scheduler = self.make_scheduler(self.database, self.clock)
        self.logs = FakeLogs(self.home / "runs")
        self.notices = FakeNotices()
        self.secrets = SecretStore(self.home)
        self.auth = Auth(self.database, self.clock.now_us)
        self.services = Services(
            scheduler=self.scheduler,
            database=self.database,
            logs=self.logs,
            notices=self.notices,
            secrets=self.secrets,
            metrics=Meters(self.clock.now_us),
            auth=self.auth,
            audit=AuditTrail(self.database, self.clock.now_us),
            divides=CardService(
                self.database,
                self.clock.now_us,
                self.scheduler.node_service.cards,
                lambda: self.scheduler.policy_service.divide,
                self.divides,
            ),
            limits=self.limits,
            clock=self.clock,
        )
        if self.monotonic_s is not None:
            self.services = replace(self.services, monotonic_s=self.monotonic_s)
        self.tokens = {user.name: self.token(user.name) for user in USERS}
        self.app = make_app(self.services)
        self.client = TestClient(self.app, base_url="http://localhost", raise_server_exceptions=False)

    def token(self, user: str, scopes: Sequence[str] | None = None, expires_us: int | None = None) -> str:
        """Create a token directly in the store."""
        role = next(row.role for row in USERS if row.name == user)
        token = new_token()
        granted = sorted(SCOPES_OF[role] if scopes is None else scopes)  # pyright: ignore[reportArgumentType]
        with self.database.write() as c:
            people.add_token(
                c, TokenRow(new_id(), user, "test", hash_of(token), granted, self.clock.now_us(), expires_us)
            )
        return token

    def call(self, method: str, path: str, user: str | None = "ann", *, token: str = "", **options: Any):
        """Send a request under the API's prefix. A path with a leading slash is used as it is."""
        headers = dict(options.pop("headers", {}))
        if token or user:
            headers.setdefault("Authorization", f"Bearer {token or self.tokens[user or '']}")
        target = path if path.startswith("/") else f"{PREFIX}/{path}"
        return self.client.request(method, target, headers=headers, **options)

    def get(self, path: str, user: str | None = "ann", **options: Any):
        return self.call("GET", path, user, **options)

    def post(self, path: str, user: str | None = "ann", **options: Any):
        return self.call("POST", path, user, **options)

    def submit(self, user: str = "ann", **file: Any) -> dict[str, Any]:
        """Submit one job as this user."""
        answer = self.post("jobs", user, json={"file": JOB_FILE | file})
        assert answer.status_code == 201, answer.text
        return answer.json()["jobs"][0]


def error_of(answer: Any) -> dict[str, Any]:
    """Return the error of an answer after checking its form."""
    error = answer.json()["error"]
    assert error.keys() >= {"code", "message", "field", "cure"}
    assert list(answer.json()) == ["error"]
    return error
