"""Manages one card: its folder and its daemon, which outlives its starter and is found again by its socket.

The folder has ``card.json`` (the card), ``policy`` (if one was set, for later daemons), ``told.json`` (attach records),
``context.json`` (the cost of a CUDA context), the region's files, the daemon's socket, lock and log, and ``mps``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from gpusquad.gpu.attach.client_environment import own_environment
from gpusquad.gpu.attach.context_cost import measure_and_save, saved_context_cost
from gpusquad.gpu.attach.library import client_library
from gpusquad.gpu.attach.mps_pool import MpsPool
from gpusquad.gpu.attach.records import AttachRecords, make_open, read_json, refuse_others, write_whole
from gpusquad.gpu.attach.settings import CardSharingSettings
from gpusquad.gpu.daemon.wire import LOCK, LOG, SOCKET, TAKEN, ask
from gpusquad.gpu.mps import ProgramRunner, run_here
from gpusquad.gpu.region.layout import VERSION
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid, NotReady
from gpusquad.model.sm_groups import SMS_PER_GROUP

CARD, POLICY, WORDS, CONTEXT = "card.json", "policy", "stderr", "context.json"
ANSWER_TIMEOUT_S, QUICK_S = 5.0, 1.0
"""Time limit of an answer, and the one for interactive calls."""
_LOOK_S = 0.02
_REAL = "GPU-"
"""Prefix of the driver's card ids."""
# -P: do not import from the current folder.
_PROGRAM = (sys.executable, "-P", "-m", "gpusquad.gpu.daemon")
_log = logging.getLogger(__name__)
_children: list[subprocess.Popen] = []
"""Daemons started by this process. They are polled, so that none stays a zombie."""
_good_policies: set[str] = set()
"""Policies that were checked by a program, which need not run again."""


class CardManager:
    """``lock`` groups several calls that belong together."""

    def __init__(self, card: Card, settings: CardSharingSettings, run: ProgramRunner = run_here) -> None:
        self.card, self._settings = card, settings
        self.folder = settings.card_folder(card.id)
        self.lock = threading.RLock()
        self.told = AttachRecords(self.folder / "told.json")
        self.silence = ""
        """Message that its daemon did not answer the last call. Empty: it did, or there is none."""
        self._untold: list[str | None] = []
        """Policy to be set when the daemon answers again; at most one."""
        self._context_bytes: int | None = None
        self._uuid = settings.uuid_of(card.id)
        self.pool = MpsPool(self._uuid, self.folder / "mps", settings.has_mps, run)

    # -- daemon ------------------------------------------------------------------------------------------------------

    def ask(self, question: Mapping[str, object]) -> dict:
        """Answer of the daemon, which is started first if needed. NotReady: it does not start. Invalid: it refuses."""
        with self.lock:
            self.start()
            try:
                return self._checked(ask(self._socket, question))
            except OSError:  # it may have ended in between, as an unused daemon does
                self.start()
            try:
                return self._checked(ask(self._socket, question))
            except OSError as error:
                raise self._trouble(f"the daemon does not answer ({error})") from None

    def ask_if_running(self, question: Mapping[str, object], within_s: float = ANSWER_TIMEOUT_S) -> dict | None:
        """None: it does not run and is not started for this, or it does not answer (see ``silence``)."""
        answer, self.silence = self._heard(question, within_s)
        return None if answer is None else self._checked(answer)

    def is_running(self) -> bool:
        return self._hello() is not None

    def start(self) -> None:
        """Start the daemon, or replace one of another version or with other settings. Clients continue."""
        with self.lock:
            self._start()
            while self._untold and not self.silence:
                self._tell_policy(self._untold.pop())

    def _start(self) -> None:
        with self.lock:
            hello = self._hello()
            wanted = {"version": version(), "region": VERSION, "settings": self._mark()}
            if hello is not None and all(hello.get(name) == value for name, value in wanted.items()):
                return
            self.make_folder()
            if hello is not None:
                others = ", ".join(name for name, value in wanted.items() if hello.get(name) != value)
                _log.info("card %s: replacing its daemon, which has another %s", self.card.id, others)
                self.ask_if_running({"do": "stop"})
            self._start_and_wait(None if hello is None else hello.get("pid"))

    def stop(self) -> None:
        """Stop the daemon and the pool. Clients that are left continue without SM shares; quotas still apply."""
        with self.lock:
            if self.ask_if_running({"do": "stop"}) is not None:
                self._wait_for_end()
            self.pool.stop()

    def make_folder(self) -> None:
        """Create the folder. To be called before writing to it."""
        make_open(self.folder)
        for place in (self._settings.folder, self.folder.parent, self.folder):
            refuse_others(place)
        write_whole(self.folder / CARD, json.dumps(asdict(self.card)) + "\n")

    def context_bytes(self) -> int:
        """Memory charged for the first context of a process: as set, or as measured before the first client. It does
        not change while there are clients, because their quotas were granted with it."""
        asked = self._settings.context_bytes
        if asked != "auto":
            return asked
        with self.lock:
            if self._context_bytes is None:
                self._context_bytes = saved_context_cost(self.folder / CONTEXT)
            if self._context_bytes is None and self.told.all():
                return int((self._hello() or {}).get("context_bytes", 0))
            if self._context_bytes is None:
                self.make_folder()
                is_real = self._uuid.startswith(_REAL)
                self._context_bytes = measure_and_save(self._uuid, self.folder / CONTEXT) if is_real else 0
            return self._context_bytes

    # -- policy ------------------------------------------------------------------------------------------------------

    def policy(self) -> str:
        """The policy set for this card, otherwise that of the settings."""
        for policy in self._untold:
            return self._named(policy)
        return self._named(_text(self.folder / POLICY) or None)

    def set_policy(self, policy: str | None) -> str:
        """Returns quickly: a daemon that is busy or does not answer gets the policy later."""
        if not self.lock.acquire(timeout=QUICK_S):
            self._untold[:] = [policy]
            return self._named(policy)
        try:
            return self._set_policy(policy)
        finally:
            self.lock.release()

    def _set_policy(self, policy: str | None) -> str:
        self.make_folder()
        wanted, before = self._named(policy), list(self._untold)
        answer, silence = self._heard({"do": "policy", "policy": wanted}, QUICK_S)
        self.silence = silence
        if answer is not None:
            self._checked(answer)
        elif not silence and wanted not in _good_policies:
            self._check(wanted)
            _good_policies.add(wanted)
        if self._untold == before:  # otherwise another one was set meanwhile and is still pending
            self._untold[:] = [policy] if silence else []
        if policy is None:
            (self.folder / POLICY).unlink(missing_ok=True)
        else:
            write_whole(self.folder / POLICY, policy + "\n")
        return wanted

    def _tell_policy(self, policy: str | None) -> None:
        try:
            self._set_policy(policy)
        except Invalid as error:
            _log.warning("card %s: cannot use divide policy %s: %s", self.card.id, self._named(policy), error)

    def _named(self, policy: str | None) -> str:
        return policy if policy is not None else self._settings.policy_for(self.card.id)

    # -- within ------------------------------------------------------------------------------------------------------

    @property
    def _socket(self) -> Path:
        return self.folder / SOCKET

    def _hello(self) -> dict | None:
        for child in list(_children):
            if child.poll() is not None:
                with contextlib.suppress(ValueError):  # removed by another thread
                    _children.remove(child)
        return self.ask_if_running({"do": "hello"})

    def _heard(self, question: Mapping[str, object], within_s: float) -> tuple[dict | None, str]:
        """Its answer, or the message that it did not answer although it runs."""
        try:
            return ask(self._socket, question, within_s), ""
        except (TimeoutError, BlockingIOError):  # the latter: its queue of connections is full
            pid = _text(self.folder / LOCK)
            return None, "the card's daemon" + (f" (process {pid})" if pid else "") + " does not answer"
        except OSError:
            return None, ""

    def _checked(self, answer: dict) -> dict:
        if answer.get("ok"):
            return answer
        kind = NotReady if answer.get("later") else Invalid
        raise kind(str(answer.get("field", "card")), str(answer.get("error", "")), str(answer.get("cure", "")))

    def _start_and_wait(self, old_pid: object) -> None:
        until_s = time.monotonic() + self._settings.starts_within_s
        child = self._spawn()
        while time.monotonic() < until_s:
            code = child.poll()
            hello = self._hello()
            if hello is not None and hello.get("pid") != old_pid:
                return
            if code == TAKEN:  # another one was faster, or the last one still holds the lock
                child = self._spawn()
            elif code is not None:
                raise self._trouble(f"the daemon ended with {code}: {self._last_words()}")
            time.sleep(_LOOK_S)
        holder = _text(self.folder / LOCK)
        raise self._trouble(
            f"no daemon answered within {self._settings.starts_within_s:g} s",
            f"look at {self.folder / LOG}" + (f", and whether process {holder} hangs" if holder else ""),
        )

    def _spawn(self) -> subprocess.Popen:
        with (self.folder / WORDS).open("wb") as words:
            child = subprocess.Popen(
                [*_PROGRAM, *self._arguments()],
                env=own_environment(), stdin=subprocess.DEVNULL, stdout=words, stderr=words, start_new_session=True,
            )  # fmt: skip
        _children.append(child)
        return child

    def _check(self, policy: str) -> None:
        """Only the daemon's program knows the policies. Its error lists them."""
        options = ["--check", "--card", self.card.id, "--folder", str(self.folder), f"--policy={policy}"]
        within_s = self._settings.starts_within_s
        try:
            done = subprocess.run([*_PROGRAM, *options], capture_output=True, text=True, check=False, timeout=within_s)
        except subprocess.TimeoutExpired:
            raise self._trouble(f"the policy could not be checked within {within_s:g} s") from None
        if done.returncode != 0:
            raise self._trouble(f"the policy could not be checked: {done.stderr.strip()[-500:]}")
        self._checked(json.loads(done.stdout))

    def _fixed(self) -> dict[str, object]:
        """Options that are fixed when a daemon starts."""
        one, card = self._settings, self.card
        said: dict[str, object] = {
            "card": card.id, "folder": self.folder.absolute(), "groups": one.groups_of(card),
            "sms-per-group": SMS_PER_GROUP, "sms": card.sms, "memory-bytes": card.memory_bytes,
            "context-bytes": self.context_bytes(), "fail-open-ms": one.fail_open_ms, "strangers": one.strangers,
            "idle-s": one.idle_s,
        }  # fmt: skip
        if self._uuid.startswith(_REAL):
            said["uuid"] = self._uuid
        if one.coefficients is not None:
            said["coefficients"] = one.coefficients.absolute()
        return said

    def _mark(self) -> str:
        """Hash of the fixed options."""
        return hashlib.sha256(json.dumps(self._fixed(), default=str, sort_keys=True).encode()).hexdigest()[:16]

    def _arguments(self) -> list[str]:
        one = self._settings
        said = {
            **self._fixed(), "settings": self._mark(), "version": version(), "policy": self.policy(),
            "otherwise": one.policy_for(self.card.id), "library": client_library(one),
        }  # fmt: skip
        return ["--log", *(f"--{name}={value}" for name, value in said.items())]

    def _wait_for_end(self) -> None:
        until_s = time.monotonic() + self._settings.starts_within_s
        while self._hello() is not None and time.monotonic() < until_s:
            time.sleep(_LOOK_S)

    def _last_words(self) -> str:
        return (_text(self.folder / WORDS).splitlines() or ["no output"])[-1][-500:]

    def _trouble(self, problem: str, cure: str = "") -> NotReady:
        return NotReady(f"card {self.card.id}", problem, cure or f"look at {self.folder / LOG}")


def cards_of(settings: CardSharingSettings) -> list[Card]:
    """Cards found in the folder."""
    found = []
    for file in sorted((settings.folder / "cards").glob(f"*/{CARD}")):
        try:
            found.append(Card(**read_json(file)))
        except (TypeError, ValueError, OSError) as error:
            _log.warning("%s is ignored: %s", file, error)
    return found


@lru_cache(maxsize=1)
def version() -> str:
    """Version of the package. A daemon of another version is replaced. Empty: not installed."""
    try:
        return metadata.version("gpusquad")
    except metadata.PackageNotFoundError:
        return ""


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
