"""Fixtures that run a test on SQLite and on a real PostgreSQL, each time with a new empty database.

``database``: open and with its schema. ``database_url``: the same, not opened. ``blank_url``: without a schema.
``postgresql_server``: the server itself, for tests that stop it. ``tests/conftest.py`` imports them for all tests.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import psycopg
import pytest

from gpusquad.store.database import Database

__all__ = ["blank_url", "database", "database_template", "database_url", "postgresql_server", "sqlite_folder"]

KINDS = ["sqlite", "postgresql"]
MISSING_MESSAGE = "no PostgreSQL server here; on Debian and Ubuntu: apt-get install postgresql"
START_S = 60
MEMORY_FOLDER = Path("/dev/shm")
MIN_FREE_BYTES = 4 << 30


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A database with its schema and no rows."""
    opened = Database(database_url)
    yield opened
    opened.close()


@pytest.fixture(params=KINDS)
def database_url(
    request: pytest.FixtureRequest, sqlite_folder: Path, database_template: Callable[[str], str]
) -> Iterator[str]:
    """URL of a database with its schema and no rows."""
    if request.param == "sqlite":
        path = sqlite_folder / "gpusquad.db"
        shutil.copyfile(database_template("sqlite"), path)
        yield f"sqlite:///{path}"
    else:
        template = database_template("postgresql")
        yield from _new_database(request.getfixturevalue("postgresql_server"), template)


@pytest.fixture(params=KINDS)
def blank_url(request: pytest.FixtureRequest, sqlite_folder: Path) -> Iterator[str]:
    """URL of a database without tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{sqlite_folder / 'blank.db'}"
    else:
        yield from _new_database(request.getfixturevalue("postgresql_server"), "template0")


@pytest.fixture
def sqlite_folder() -> Iterator[Path]:
    """Folder for SQLite files, in memory if possible: opening and closing a database on disk waits for the disk."""
    with tempfile.TemporaryDirectory(prefix="gpusquad-db-", dir=memory_folder()) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """One server for all tests of this process, started on first use."""
    programs = _find_programs()
    if programs is None:
        # CI must not skip the PostgreSQL tests.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(MISSING_MESSAGE)
    # Not under pytest's folder: the path of a socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="gpusquad-pg-", dir=memory_folder()))
    server = PostgresqlServer(programs, folder)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def database_template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Template databases to copy, which is much faster than creating the schema for every test."""
    templates: dict[str, str] = {}

    def template(kind: str) -> str:
        if kind not in templates:
            templates[kind] = _sqlite_template(tmp_path_factory) if kind == "sqlite" else _postgresql_template(request)
        return templates[kind]

    return template


class PostgresqlServer:
    """A PostgreSQL server on a Unix socket. Data survives a crash of the server but, for speed, not of the machine."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._names = (f"test_{number}" for number in itertools.count())
        self._process: subprocess.Popen[str] | None = None
        self._log: list[str] = []
        # PostgreSQL refuses to run as root.
        self._as_user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}

    def create(self) -> None:
        if self._as_user:
            shutil.chown(self._folder, "postgres", "postgres")
        options = ["--username=gpusquad", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        command = [self._programs / "initdb", "--pgdata", self._folder / "data", *options]
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=False, **self._as_user)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        settings = {
            "listen_addresses": "", "unix_socket_directories": self._folder, "fsync": "off", "full_page_writes": "off",
            "shared_buffers": "32MB", "max_connections": "60",
        }  # fmt: skip
        command = [self._programs / "postgres", "-D", self._folder / "data"]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        libc, sigquit = ctypes.CDLL(None), signal.SIGQUIT
        self._process = subprocess.Popen(
            command, cwd=self._folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            start_new_session=True, **self._as_user,
            preexec_fn=lambda: libc.prctl(1, sigquit),  # PR_SET_PDEATHSIG: the server ends when the tests are killed
        )  # fmt: skip
        ready = threading.Event()
        threading.Thread(target=self._follow, args=(self._process, ready), daemon=True).start()
        assert ready.wait(START_S), "".join(self._log)
        assert self._process.poll() is None, "".join(self._log)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """SIGINT: closes connections properly. SIGQUIT: ends like a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_S)
            self._process = None

    def url(self, name: str) -> str:
        return f"postgresql://gpusquad@/{name}?host={self._folder}"

    def add(self, template: str) -> str:
        """Create a database and return its name."""
        name = next(self._names)
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            # File copy takes half the time. Version 14 always uses it and has no option for it.
            strategy = "STRATEGY FILE_COPY" if connection.info.server_version >= 150_000 else ""
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} {strategy}")  # pyright: ignore
        return name

    def drop(self, name: str) -> None:
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def _follow(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                self._log.append(line)
                if "ready to accept connections" in line:
                    ready.set()
        ready.set()  # the server has ended; the log has the cause


def _new_database(server: PostgresqlServer, template: str) -> Iterator[str]:
    name = server.add(template)
    yield server.url(name)
    server.drop(name)


@cache
def sqlite_schema() -> bytes:
    """Content of a SQLite file with the schema and no rows. Writing it takes a tenth of the time of a migration."""
    with tempfile.TemporaryDirectory(prefix="gpusquad-db-", dir=memory_folder()) as folder:
        path = Path(folder) / "gpusquad.db"
        _migrate(f"sqlite:///{path}")
        return path.read_bytes()


def _sqlite_template(factory: pytest.TempPathFactory) -> str:
    path = factory.mktemp("template") / "gpusquad.db"
    path.write_bytes(sqlite_schema())
    return str(path)


def _postgresql_template(request: pytest.FixtureRequest) -> str:
    server: PostgresqlServer = request.getfixturevalue("postgresql_server")
    name = server.add("template0")
    _migrate(server.url(name))
    return name


def _migrate(url: str) -> None:
    database = Database(url)
    database.migrate()
    database.close()


def memory_folder() -> Path | None:
    """The file system in memory if it is large enough: databases are created and dropped in half the time."""
    try:
        return (
            MEMORY_FOLDER
            if shutil.disk_usage(MEMORY_FOLDER).free >= MIN_FREE_BYTES and os.access(MEMORY_FOLDER, os.W_OK)
            else None
        )
    except OSError:
        return None


def _find_programs() -> Path | None:
    """Folder of the newest server. Debian has one folder per version; other systems have the server in the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    in_path = shutil.which("postgres")
    if not found and in_path is not None:
        found = [Path(in_path).resolve()]
    if not found or (os.geteuid() == 0 and not _has_user("postgres")):
        return None
    return found[-1].parent


def _has_user(name: str) -> bool:
    return any(entry.pw_name == name for entry in pwd.getpwall())
