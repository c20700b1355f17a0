"""The service: store, platform, scheduler, notices and API."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import structlog

from gpusquad.app.background import SERVER_FILE, describe
from gpusquad.app.config import Config
from gpusquad.app.home import make_home, write_private
from gpusquad.app.interference_files import InterferenceFiles
from gpusquad.app.platforms import LocalPlatform, Platform
from gpusquad.app.retention import RetentionTask
from gpusquad.app.virtual_cards import check_unchanged
from gpusquad.model.errors import Invalid
from gpusquad.predict.progress import ProgressPredictor
from gpusquad.server.app import make_app
from gpusquad.server.audit import AuditTrail
from gpusquad.server.auth import Auth
from gpusquad.server.clock import Clock
from gpusquad.server.first_token import ensure_admin_token
from gpusquad.server.http import HttpServer
from gpusquad.server.limits import ApiLimits
from gpusquad.server.metrics import Meters, MetricsSnapshot, snapshot_of
from gpusquad.server.notify.channels import AllowList
from gpusquad.server.notify.feed import NoticeFeed
from gpusquad.server.notify.loop import NoticeLoop
from gpusquad.server.notify.outbox import Outbox
from gpusquad.server.notify.sender import ChannelSender
from gpusquad.server.periodic import PeriodicTask
from gpusquad.server.secrets import SecretStore
from gpusquad.server.services.prediction.predictor_files import PredictorFiles
from gpusquad.server.services.scheduler import Scheduler, Setup
from gpusquad.server.services.sharing.cards import CardService
from gpusquad.server.services.sharing.slo_recorder import GoalRecord
from gpusquad.server.wiring import Services
from gpusquad.store import events, jobs
from gpusquad.store.database import Database, StoreInUse

DATABASE_FILE = "gpusquad.db"
MODELS_FOLDER = "models"
FIRST_FORECASTS_S = 3.0
"""Interval at which the first forecasts of new pending jobs are kept. Jobs that start earlier did not wait."""
STORE_TIMEOUT_S = 60.0
"""Time that a new leader waits for the previous one to release the store."""
_log = structlog.get_logger("gpusquad")


@dataclass
class Service:
    """All parts of the running service."""

    home: Path
    config: Config

    def __post_init__(self) -> None:
        make_home(self.home)
        models = PredictorFiles(self.home / MODELS_FOLDER, self.config.predict.predictor)
        predictor = models.make()
        self.clock = Clock()
        # On a cluster the platform waits for leadership first, because a standby replica must not open the store.
        leads = self.config.cluster.engine == "kubernetes"
        platform = self._make_platform() if leads else None
        self.database = self._open_store(STORE_TIMEOUT_S if leads else 0.0)
        self.platform = platform or self._make_platform()
        if not leads:
            self._check_cards()
        self.meters = Meters(self.clock.now_us)
        self.secrets = SecretStore(self.home)
        self.scheduler = Scheduler(Setup(
            database=self.database, clock=self.clock, cluster=self.platform.cluster,
            make_engine=self.platform.make_engine, on_cluster=self.platform.on_cluster, maker=self.platform.maker,
            predictor=predictor, models=models, make_progress_model=ProgressPredictor, read_secret=self.secrets.read,
            known=InterferenceFiles(self.home, models.folder, self.config.interference.sharing, self.platform.cluster),
            simulated=self.platform.simulated, mode=self.config.policy.mode, rules=self.config.hang_rules(),
            containment=self.config.containment.rules(),
            observer=self.meters, allows_unmanaged=self.platform.allows_unmanaged,
            cluster_priority=self.platform.cluster_priority, estimators=self.platform.estimators,
        ))  # fmt: skip
        self.divides = CardService(
            self.database,
            self.clock.now_us,
            self.scheduler.node_service.cards,
            lambda: self.scheduler.policy_service.divide,
            self.platform.divides,
        )
        self.scheduler.policy_service.on_chosen = self.divides.follow
        self.platform.set_policy_source(self.divides.policy_of)
        self.meters.watch(self)
        self.retention = RetentionTask(self.database, self.home, self.config.store, self.clock.now_us)
        self.goals = GoalRecord(self.database, self.divides, self.scheduler.node_service.cards, self.clock.now_us)
        self.first_forecasts = PeriodicTask(
            "first forecasts", FIRST_FORECASTS_S, self.scheduler.queries.keep_first_forecasts,
            "cannot keep the forecasts of starts",
        )  # fmt: skip
        self._connect_notices()

    def start(self) -> None:
        """Start scheduling."""
        self.scheduler.on_event(self.platform.on_events)
        self.scheduler.start()
        self.platform.attach(self.scheduler)
        self.divides.follow()
        self.notices.start()
        self.retention.start()
        self.goals.start()
        self.first_forecasts.start()

    def close(self) -> None:
        """Stop the service. Running jobs continue, and the next start takes them over."""
        (self.home / SERVER_FILE).unlink(missing_ok=True)
        self.first_forecasts.close()
        self.scheduler.close()
        self.notices.stop(5.0)
        self.goals.close()
        self.retention.close()
        self.platform.close()
        self.database.close()

    def serve(self, ready_fd: int | None = None) -> None:
        """Serve requests until a signal stops the service. Writes one byte to ``ready_fd`` when it is ready."""
        server = self.config.server
        services = self._services()
        listening = _listen(server.host, server.port)
        port = listening.getsockname()[1]
        self.start()
        url = f"http://{_url_host(server.host)}:{port}"
        write_private(self.home / SERVER_FILE, describe(url))
        app = make_app(services)
        _log.info("ready", url=url, cards=self.platform.cluster.gpus, simulated=self.platform.simulated)
        if ready_fd is not None:
            os.write(ready_fd, b"1")  # connections wait in the backlog until the server accepts them
            os.close(ready_fd)
        self.scheduler.on_broken(lambda: os.kill(os.getpid(), signal.SIGTERM))
        # The HTTP server raises the signal that stopped it again when it is done, which must not prevent close().
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _stop)
        try:
            HttpServer(app, services, server.host, port).run(sockets=[listening])
        finally:
            self.close()

    def metrics_snapshot(self) -> MetricsSnapshot:
        """Data for a scrape of /metrics."""
        with self.database.read() as connection:
            finished = jobs.count_by_state(connection, jobs.JobFilter(states=jobs.FINAL_STATES))
        node_service = self.scheduler.node_service
        return snapshot_of(
            self.scheduler.queries.unfinished(), self.clock.now_us(), tenants=self.scheduler.tenants(),
            finished=finished, cards=node_service.cards(), usable=node_service.cluster().usable,
        )  # fmt: skip

    def _make_platform(self) -> Platform:
        if self.config.cluster.engine == "local":
            return LocalPlatform(self.home, self.config)
        try:
            from gpusquad.app.kubernetes_platform import KubernetesPlatform
        except ImportError as error:
            cure = "install gpusquad[kubernetes]"
            raise Invalid("cluster.engine", f"kubernetes needs the package {error.name}", cure) from None
        return KubernetesPlatform(self.config.kubernetes, self.clock.now_us)

    def _check_cards(self) -> None:
        """Refuse changed virtual cards. Not for a cluster, whose agents report their cards later."""
        try:
            with self.database.read() as connection:
                check_unchanged(jobs.unfinished(connection), self.platform.cluster)
        except Invalid:
            self.platform.close()
            self.database.close()
            raise

    def _open_store(self, timeout_s: float) -> Database:
        url = self.config.store.url or self.home / DATABASE_FILE
        database = Database(url, synchronous=self.config.store.synchronous)
        _own(database, timeout_s)
        database.migrate()
        ensure_admin_token(self.home, database, self.clock.now_us)
        with database.read() as connection:
            for event in events.after(connection, events.last_id(connection) - 1, 1):
                self.clock.not_before(event.at_us)
        return database

    def _connect_notices(self) -> None:
        allow = AllowList.parse(self.config.notify.channels)
        sender = ChannelSender(allow, self.home / "notices")
        outbox = Outbox(self.database, sender, self.clock.now_us, count=self.meters.notice)
        feed = NoticeFeed(self.database, self.config.server.public_url)
        self.notices = NoticeLoop(outbox, sender, feed)
        self.scheduler.on_event(feed.wake)

    def _services(self) -> Services:
        server = self.config.server
        limits = ApiLimits(
            requests_per_s=server.requests_per_s, requests_burst=server.requests_burst, hosts=server.hosts
        )
        return Services(
            scheduler=self.scheduler, database=self.database, logs=self.platform.logs, notices=self.notices,
            secrets=self.secrets, metrics=self.meters, auth=Auth(self.database, self.clock.now_us),
            audit=AuditTrail(self.database, self.clock.now_us), divides=self.divides, limits=limits, clock=self.clock,
            pods=self.platform.pods, agents=self.platform.agents,
        )  # fmt: skip


def _own(database: Database, timeout_s: float) -> None:
    """Lock the store. The previous leader may need a moment to release it."""
    until_s = time.monotonic() + timeout_s
    while True:
        try:
            return database.own()
        except StoreInUse as error:
            if time.monotonic() >= until_s:
                cure = "stop the other service, or use another home folder"
                raise Invalid("store", str(error), cure) from None
        time.sleep(0.5)


def _url_host(host: str) -> str:
    """Host name in URLs for this machine."""
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


def _stop(*_: object) -> None:
    raise SystemExit(0)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise Invalid("server.port", f"{host}:{port}: {error.strerror}", "choose another with --port") from None
    listening.listen(1024)
    return listening
