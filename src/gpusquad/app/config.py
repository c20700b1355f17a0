"""The settings file ``config.toml`` in the home folder. Settings changed at run time are kept in the store instead.

::

    [server]
    port = 7070

    [store]
    url = "postgresql://gpusquad@/gpusquad"

    [cluster]
    simulate = 8        # simulated cards, to try gpusquad without GPUs

    [policy]
    mode = "fair"

    [predict]
    predictor = "recent:last=3"

    [hang]
    silent_s = 900

    [containment]
    max_losses = 12
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

from gpusquad.core.containment.rules import ContainmentRules
from gpusquad.core.hang.hang import HangRules
from gpusquad.gpu.attach.settings import ContextBytes, checked_context_bytes, checked_fail_open_ms
from gpusquad.gpu.daemon.unmanaged import Rule
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import Sharing
from gpusquad.model.virtual import MAX_PARTS

FILE = "config.toml"
_log = structlog.get_logger("gpusquad.config")
SIMULATED_CARDS = 8
"""Number of simulated cards if the machine has no GPU."""

_CONTAINMENT = ContainmentRules()
_DEPRECATED = {
    "sharing.strangers": "sharing.unmanaged",
    "kubernetes.tell_per_s": "kubernetes.status_writes_per_s",
    "kubernetes.tell_every_s": "kubernetes.status_repeat_s",
    "kubernetes.tell_scheduled": "kubernetes.scheduled_event",
}
"""Old names of settings, which are aliases of the new ones, and accepted with a warning."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerConfig(_Section):
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 7070
    hosts: tuple[str, ...] = ()
    """Other host names of the service."""
    public_url: Annotated[str, Field(max_length=2048, pattern=r"^(https?://[^\s/?#]+(/[^\s?#]*)?)?$")] = ""
    """Address of the dashboard as users reach it, for links in notices. Empty: no links."""
    requests_per_s: Annotated[float, Field(gt=0)] = 1000.0
    requests_burst: Annotated[int, Field(gt=0)] = 2000


class StoreConfig(_Section):
    url: str = ""
    """Default: a SQLite file in the home folder."""
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    keep_days: Annotated[float, Field(gt=0)] = 90.0
    """How long events of finished jobs are kept; samples are kept for a tenth of it."""


class ClusterConfig(_Section):
    engine: Literal["local", "kubernetes"] = "local"
    """Run jobs as processes of this machine, or schedule pods of a cluster."""
    simulate: Annotated[int, Field(ge=0, le=1024)] | None = None
    """Number of simulated cards. Default: real cards, or eight simulated ones if there are none."""
    virtual: Annotated[int, Field(ge=1, le=MAX_PARTS)] = 1
    """Number of virtual cards per card, with disjoint SMs and a part of the memory each."""
    sample_every_s: Annotated[float, Field(ge=0.1, le=60)] = 1.0


class KubernetesConfig(_Section):
    """Used if ``cluster.engine`` is kubernetes."""

    kubeconfig: str = ""
    """Default: the service account of the pod, or the usual kubeconfig."""
    context: str = ""
    scheduler: str = "gpusquad"
    """Pods with this schedulerName are scheduled by gpusquad."""
    namespace: str = ""
    """Namespace of the lease. Default: that of the service account."""
    lease: str = "gpusquad"
    """Lease by which replicas elect a leader. Empty: there is only one replica."""
    start_timeout_s: Annotated[float, Field(gt=0)] = 600.0
    """A gang whose pods do not all run after this time is released and requeued."""
    dry_run: bool = False
    """Decide and write status, but bind and delete no pods."""
    image: str = ""
    """Image of jobs submitted to the service without one. Empty: an image is required."""
    namespaces: dict[str, str] = Field(default_factory=dict)
    """Namespaces of tenants whose name differs from their namespace."""
    keep_finished_s: Annotated[float, Field(ge=0)] = 604_800.0
    """Jobs submitted to the service are deleted this long after their end, with their pods and logs."""
    status_writes_per_s: Annotated[
        float, Field(ge=0, le=1000, validation_alias=AliasChoices("status_writes_per_s", "tell_per_s"))
    ] = 10.0
    """Maximum rate of status writes to pods, which show why they wait, over all pods. 0: none."""
    status_repeat_s: Annotated[
        float, Field(ge=1, validation_alias=AliasChoices("status_repeat_s", "tell_every_s"))
    ] = 60.0  # fmt: skip
    """Minimum interval between status writes to a pod that differ only in numbers."""
    scheduled_event: Annotated[
        Literal["none", "gang", "pod"], Field(validation_alias=AliasChoices("scheduled_event", "tell_scheduled"))
    ] = "gang"
    """Pods that get the event Scheduled: none, the first of each gang, or all."""
    agent_account: Annotated[str, Field(pattern=r"^(system:serviceaccount:[a-z0-9.-]+:[a-z0-9.-]+)?$")] = ""
    """Service account of the agents, whose reports are accepted. Empty: none."""
    report_every_s: Annotated[float, Field(ge=0.1, le=60)] = 5.0
    """Report interval of the agents. An agent that is silent for four times as long counts as missing."""


class PolicyConfig(_Section):
    mode: str = "standard"
    """Mode until another one is set."""


class PredictConfig(_Section):
    predictor: str = "combined"
    """Predictor of run times; ``gpusquad policies predictor`` lists them."""


class InterferenceConfig(_Section):
    sharing: Sharing = "time-slicing"
    """How jobs share a card, which selects the measurements to use: ``mps`` if MPS runs."""


def _by(check: Callable[[Any], Any], kind: type[AfterValidator | BeforeValidator] = AfterValidator) -> object:
    """A validator from ``check``, with its error text. ``BeforeValidator`` also handles values of other types."""

    def checked(value: object) -> object:
        try:
            return check(value)
        except Invalid as error:
            raise PydanticCustomError("setting", "{why}", {"why": f"{error.problem} ({error.cure})"}) from None

    return kind(checked)


class SharingConfig(_Section):
    """How shares are enforced on this machine. On Kubernetes the agents have their own settings."""

    enforce: bool = True
    """False: shares are recorded but not enforced."""
    mps: Literal["auto", "off"] = "auto"
    """off: jobs with ``isolation: shared`` are time-sliced as well."""
    unmanaged: Annotated[Rule, Field(validation_alias=AliasChoices("unmanaged", "strangers"))] = "report"
    """Rule for unmanaged processes on a shared card. ``strangers`` is the deprecated name of this setting."""
    folder: str = ""
    """Parent folder of the cards' shared memory; each service creates its own folder in it. Default: below /run, or the
    user's runtime folder."""
    library_folder: str = ""
    """Folder for the library that is preloaded into jobs. It must be readable for all users and not be mounted
    ``noexec``. Default: below /var/lib for root, otherwise where it was built."""
    idle_s: Annotated[float, Field(gt=0)] = 600.0
    """A card daemon ends after this time without GPU clients."""
    fail_open_ms: Annotated[int, _by(checked_fail_open_ms)] = 1000
    """Jobs run without limits on time and SMs if their card daemon was silent for this long. 0: they wait for it."""
    context_bytes: Annotated[ContextBytes, _by(checked_context_bytes, BeforeValidator)] = "auto"
    """Memory charged to a job for the CUDA context of each process. ``auto``: as measured on its card; 0: not
    charged."""


class ContainmentConfig(_Section):
    """Limits on jobs that are lost again and again, and on cards that fail with them."""

    max_losses: Annotated[int, Field(ge=0, le=64)] = _CONTAINMENT.max_losses
    """Recent losses after which a job is held. 0: it is retried indefinitely."""
    forgiven_after_s: Annotated[float, Field(gt=0)] = _CONTAINMENT.forgiven_after_s
    """A loss counts until the job has run this long since, or has got further than ever."""
    first_backoff_s: Annotated[float, Field(ge=0)] = _CONTAINMENT.first_backoff_s
    """Delay after the second recent loss. It doubles with each further one."""
    most_backoff_s: Annotated[float, Field(ge=0)] = _CONTAINMENT.most_backoff_s
    suspect_cards: Annotated[int, Field(ge=0)] = _CONTAINMENT.suspect_cards
    """Different cards with faults after which a job is suspected and held. 0: never."""
    tenant_cards: Annotated[int, Field(ge=0)] = _CONTAINMENT.tenant_cards
    """Cards that wait for a self-test on account of one tenant at a time. 0: no limit."""

    def rules(self) -> ContainmentRules:
        return ContainmentRules(**self.model_dump())


class LogsConfig(_Section):
    task_bytes: Annotated[int, Field(ge=1 << 16)] = 128 << 20
    """Maximum size of the stored output of a task; the newest part is kept."""


class NotifyConfig(_Section):
    channels: tuple[str, ...] = ("hosted",)
    """Allowed targets of notices. ``hosted`` allows the known chat and mail services; see the guide for others."""


class Config(_Section):
    """All settings."""

    server: ServerConfig = ServerConfig()
    store: StoreConfig = StoreConfig()
    cluster: ClusterConfig = ClusterConfig()
    kubernetes: KubernetesConfig = KubernetesConfig()
    policy: PolicyConfig = PolicyConfig()
    predict: PredictConfig = PredictConfig()
    interference: InterferenceConfig = InterferenceConfig()
    sharing: SharingConfig = SharingConfig()
    hang: dict[str, float] = Field(default_factory=dict)
    containment: ContainmentConfig = ContainmentConfig()
    logs: LogsConfig = LogsConfig()
    notify: NotifyConfig = NotifyConfig()

    def hang_rules(self) -> HangRules:
        known = HangRules.__dataclass_fields__
        for name in self.hang:
            if name not in known:
                raise Invalid(f"hang.{name}", "is not a known setting", f"choose from {', '.join(known)}")
        return HangRules(**self.hang)


def home_folder() -> Path:
    """Home folder of the service."""
    return Path(os.environ.get("GPUSQUAD_HOME") or "~/.gpusquad").expanduser()


def load_config(home: Path, overrides: dict[str, dict[str, Any]] | None = None) -> Config:
    """Load the file if it exists. ``overrides`` come from the command line."""
    path = home / FILE
    data: dict[str, Any] = {}
    if path.exists():
        try:
            data = tomllib.loads(path.read_text("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise Invalid(str(path), str(error)) from None
    for section, values in (overrides or {}).items():
        data[section] = data.get(section, {}) | {name: value for name, value in values.items() if value is not None}
    _check_old_names(data)
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        problem = "is not a known setting" if first["type"] == "extra_forbidden" else first["msg"]
        raise Invalid(f"{path.name}: {'.'.join(map(str, first['loc']))}", problem) from None
    config.hang_rules()
    return config


def _check_old_names(data: dict[str, Any]) -> None:
    """Warn of deprecated names, and refuse one that is given together with the new name."""
    for old, new in _DEPRECATED.items():
        section, _, name = old.partition(".")
        given = data.get(section)
        if isinstance(given, dict) and name in given:
            if new.removeprefix(f"{section}.") in given:
                raise Invalid(f"{FILE}: {old}", f"is the old name of {new}, which is given too", "remove it")
            _log.warning(f"{old} in config.toml is deprecated; rename it to {new}")
