"""The one settings file, ``config.toml`` in the home folder. It seeds; what is set while running is kept in the store.

::

    [server]
    port = 7070

    [store]
    url = "postgresql://gpusquad@/gpusquad"

    [cluster]
    simulate = 8        # cards made of nothing, to try things out

    [policy]
    mode = "fair"

    [predict]
    predictor = "recent:last=3"

    [hang]
    silent_s = 900
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import structlog
from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from gpusquad.core.hang.hang import HangRules
from gpusquad.gpu.attach.settings import ContextBytes, checked_context_bytes, checked_fail_open_ms
from gpusquad.gpu.daemon.unmanaged import Rule
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import Sharing
from gpusquad.model.virtual import MOST_PARTS

FILE = "config.toml"
_log = structlog.get_logger("gpusquad.config")
SIMULATED_CARDS = 8
"""Where there is no GPU."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerConfig(_Section):
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 7070
    hosts: tuple[str, ...] = ()
    """Other names it is called by."""
    requests_per_s: Annotated[float, Field(gt=0)] = 1000.0
    requests_burst: Annotated[int, Field(gt=0)] = 2000


class StoreConfig(_Section):
    url: str = ""
    """Left out: a SQLite file in the home folder."""
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    keep_days: Annotated[float, Field(gt=0)] = 90.0
    """The stories of finished jobs, and samples a tenth of that."""


class ClusterConfig(_Section):
    engine: Literal["local", "kubernetes"] = "local"
    """Processes of this machine, or pods of a cluster."""
    simulate: Annotated[int, Field(ge=0, le=1024)] | None = None
    """So many cards made of nothing. Left out: real ones, or eight of these where there are none."""
    virtual: Annotated[int, Field(ge=1, le=MOST_PARTS)] = 1
    """Each card is shown as so many smaller ones: disjoint SMs, and a part of the memory."""
    sample_every_s: Annotated[float, Field(ge=0.1, le=60)] = 1.0


class KubernetesConfig(_Section):
    """Read where ``cluster.engine`` is kubernetes."""

    kubeconfig: str = ""
    """Left out: the service account of the pod, or the usual places."""
    context: str = ""
    scheduler: str = "gpusquad"
    """Pods whose schedulerName this is are placed here."""
    namespace: str = ""
    """Where the lease is. Left out: the namespace of the service account."""
    lease: str = "gpusquad"
    """By which replicas agree who decides. Empty: this is the only one."""
    start_timeout_s: Annotated[float, Field(gt=0)] = 600.0
    """A gang of which not all pods run after this long is released and queued again."""
    dry_run: bool = False
    """Decide and tell, but bind and delete nothing."""
    image: str = ""
    """For jobs that are submitted here and name none. Empty: they have to."""
    namespaces: dict[str, str] = Field(default_factory=dict)
    """Of tenants whose namespace is not called like them."""
    keep_finished_s: Annotated[float, Field(ge=0)] = 604_800.0
    """Jobs that were submitted here go, with their pods and logs, so long after their end."""
    tell_per_s: Annotated[float, Field(ge=0, le=1000)] = 10.0
    """Writes by which users see on their pods why they wait, all pods together. 0: none."""
    tell_every_s: Annotated[float, Field(ge=1)] = 60.0
    """The same with other numbers is told to a pod no more often than this."""
    tell_scheduled: Literal["none", "gang", "pod"] = "gang"
    """Which pods get the event Scheduled: none, the first of each gang, or all."""
    agent_account: Annotated[str, Field(pattern=r"^(system:serviceaccount:[a-z0-9.-]+:[a-z0-9.-]+)?$")] = ""
    """Whose reports of cards and runs are taken. Empty: nobody's."""
    report_every_s: Annotated[float, Field(ge=0.1, le=60)] = 5.0
    """How often agents report. One that is silent for four times as long is not waited for."""


class PolicyConfig(_Section):
    mode: str = "fifo"
    """Until another one is set."""


class PredictConfig(_Section):
    predictor: str = "combined"
    """Who foretells run times; ``gpusquad policies predictor`` lists them."""


class InterferenceConfig(_Section):
    sharing: Sharing = "time-slicing"
    """How jobs on one card share it, and so which measurements count: ``mps`` where the multi-process service runs."""


def _by(check: Callable[[Any], Any], kind: type[AfterValidator | BeforeValidator] = AfterValidator) -> object:
    """Refused in the words of whoever knows why. ``BeforeValidator``: also what is of another type."""

    def checked(value: object) -> object:
        try:
            return check(value)
        except Invalid as error:
            raise PydanticCustomError("setting", "{why}", {"why": f"{error.problem} ({error.cure})"}) from None

    return kind(checked)


class SharingConfig(_Section):
    """How jobs that share a card of this machine are kept to their parts. Kubernetes: the agents' own business."""

    enforce: bool = True
    """False: parts are only written down."""
    mps: Literal["auto", "off"] = "auto"
    """off: jobs of the class ``shared`` take turns as well."""
    unmanaged: Annotated[Rule, Field(validation_alias=AliasChoices("unmanaged", "strangers"))] = "report"
    """Rule for unmanaged processes on a shared card. ``strangers`` is the deprecated name of this setting."""
    folder: str = ""
    """Of the cards' shared memory; each service has one of its own in it. Left out: below /run, or in the user's
    runtime folder."""
    library_folder: str = ""
    """Where the library is put that jobs are started with: readable for every user, not on a ``noexec`` file system.
    Left out: below /var/lib for root, else where it was built."""
    idle_s: Annotated[float, Field(gt=0)] = 600.0
    """A card's daemon that has had nobody to look after for so long ends."""
    fail_open_ms: Annotated[int, _by(checked_fail_open_ms)] = 1000
    """Jobs run on as if alone where their card's daemon has been silent for so long. 0: they wait for it."""
    context_bytes: Annotated[ContextBytes, _by(checked_context_bytes, BeforeValidator)] = "auto"
    """Charged to a job's memory for the CUDA context of each of its processes. ``auto``: as measured on its card; 0:
    contexts are not charged."""


class LogsConfig(_Section):
    task_bytes: Annotated[int, Field(ge=1 << 16)] = 128 << 20
    """The newest of each task's output."""


class NotifyConfig(_Section):
    channels: tuple[str, ...] = ("hosted",)
    """Where notices may go: ``hosted`` are the known chat and mail services; see the guide for others."""


class Config(_Section):
    """Everything that can be set."""

    server: ServerConfig = ServerConfig()
    store: StoreConfig = StoreConfig()
    cluster: ClusterConfig = ClusterConfig()
    kubernetes: KubernetesConfig = KubernetesConfig()
    policy: PolicyConfig = PolicyConfig()
    predict: PredictConfig = PredictConfig()
    interference: InterferenceConfig = InterferenceConfig()
    sharing: SharingConfig = SharingConfig()
    hang: dict[str, float] = Field(default_factory=dict)
    logs: LogsConfig = LogsConfig()
    notify: NotifyConfig = NotifyConfig()

    def hang_rules(self) -> HangRules:
        known = HangRules.__dataclass_fields__
        for name in self.hang:
            if name not in known:
                raise Invalid(f"hang.{name}", "is not known", f"choose from {', '.join(known)}")
        return HangRules(**self.hang)


def home_folder() -> Path:
    """Where everything of this service lies."""
    return Path(os.environ.get("GPUSQUAD_HOME") or "~/.gpusquad").expanduser()


def load_config(home: Path, overrides: dict[str, dict[str, Any]] | None = None) -> Config:
    """The file, if there is one; ``overrides`` come from the command line."""
    path = home / FILE
    data: dict[str, Any] = {}
    if path.exists():
        try:
            data = tomllib.loads(path.read_text("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise Invalid(str(path), str(error)) from None
    for section, values in (overrides or {}).items():
        data[section] = data.get(section, {}) | {name: value for name, value in values.items() if value is not None}
    _warn_of_old_names(data)
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        problem = "is not a known setting" if first["type"] == "extra_forbidden" else first["msg"]
        raise Invalid(f"{path.name}: {'.'.join(map(str, first['loc']))}", problem) from None
    config.hang_rules()
    return config


def _warn_of_old_names(data: dict[str, Any]) -> None:
    sharing = data.get("sharing")
    if isinstance(sharing, dict) and "strangers" in sharing:
        _log.warning("sharing.strangers in config.toml is deprecated; rename it to sharing.unmanaged")
