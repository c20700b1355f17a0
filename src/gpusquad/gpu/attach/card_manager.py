"""One card: its folder and its daemon, which outlives whoever started it and is found again by its socket.

The folder has ``card.json`` (which card it is of), ``policy`` (set by somebody, for daemons to come), ``told.json``
(what each tenant was told), ``context.json`` (what a CUDA context costs there), the region's files, the daemon's
socket, lock and log, and ``mps``.
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
from gpusquad.gpu.attach.context_cost import kept_context_cost, new_context_cost
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
PATIENCE_S, QUICK_S = 5.0, 1.0
"""How long an answer may take; and where somebody waits for what it is asked for."""
_LOOK_S = 0.02
_REAL = "GPU-"
"""What the driver's names of cards begin with."""
# -P: not what lies in the folder that the service was started in.
_PROGRAM = (sys.executable, "-P", "-m", "gpusquad.gpu.daemon")
_log = logging.getLogger(__name__)
_children: list[subprocess.Popen] = []
"""Daemons of this process: asked now and then whether they have ended, so that none stays a zombie."""
_good_policies: set[str] = set()
"""A program was started to check them; for the next card it need not be."""


class CardManager:
    """``lock`` is for whoever asks several things that belong together."""

    def __init__(self, card: Card, settings: CardSharingSettings, run: ProgramRunner = run_here) -> None:
        self.card, self._settings = card, settings
        self.folder = settings.card_folder(card.id)
        self.lock = threading.RLock()
        self.told = AttachRecords(self.folder / "told.json")
        self.silence = ""
        """In words, that its daemon is there and did not answer when it was asked last. Empty: it did, or is none."""
        self._untold: list[str | None] = []
        """The policy that a daemon which does not answer is to be told of when it does; at most one."""
        self._context_bytes: int | None = None
        self._uuid = settings.uuid_of(card.id)
        self.pool = MpsPool(self._uuid, self.folder / "mps", settings.has_mps, run)

    # -- its daemon --------------------------------------------------------------------------------------------------

    def ask(self, question: Mapping[str, object]) -> dict:
        """Its answer; it is started first if it does not run. NotNow: it does not start. Invalid: it says no."""
        with self.lock:
            self.start()
            try:
                return self._checked(ask(self._socket, question))
            except OSError:  # it may have ended between the two, as one does that nobody needed for long
                self.start()
            try:
                return self._checked(ask(self._socket, question))
            except OSError as error:
                raise self._trouble(f"its daemon does not answer ({error})") from None

    def ask_if_running(self, question: Mapping[str, object], within_s: float = PATIENCE_S) -> dict | None:
        """None: it does not run, and is not started for this; or it does not answer, as ``silence`` says then."""
        answer, self.silence = self._heard(question, within_s)
        return None if answer is None else self._checked(answer)

    def is_running(self) -> bool:
        return self._hello() is not None

    def start(self) -> None:
        """Nothing happens if it runs, is of this version and has these settings; another one is replaced, tenants run
        on."""
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
                _log.info("card %s: its daemon is replaced, for it has another %s", self.card.id, others)
                self.ask_if_running({"do": "stop"})
            self._start_and_wait(None if hello is None else hello.get("pid"))

    def stop(self) -> None:
        """The daemon and the pool. Tenants that are left run on without shares; their quotas hold."""
        with self.lock:
            if self.ask_if_running({"do": "stop"}) is not None:
                self._wait_for_end()
            self.pool.stop()

    def make_folder(self) -> None:
        """To be called before anything is put into it."""
        make_open(self.folder)
        for place in (self._settings.folder, self.folder.parent, self.folder):
            refuse_others(place)
        write_whole(self.folder / CARD, json.dumps(asdict(self.card)) + "\n")

    def context_bytes(self) -> int:
        """Charged for a process's first context: as set, or as measured before the first tenant came. While tenants are
        there it stays what it was: their parts were asked for, and given, with that."""
        asked = self._settings.context_bytes
        if asked != "auto":
            return asked
        with self.lock:
            if self._context_bytes is None:
                self._context_bytes = kept_context_cost(self.folder / CONTEXT)
            if self._context_bytes is None and self.told.all():
                return int((self._hello() or {}).get("context_bytes", 0))
            if self._context_bytes is None:
                self.make_folder()
                is_real = self._uuid.startswith(_REAL)
                self._context_bytes = new_context_cost(self._uuid, self.folder / CONTEXT) if is_real else 0
            return self._context_bytes

    # -- its policy --------------------------------------------------------------------------------------------------

    def policy(self) -> str:
        """What somebody set for this card, else what the settings say."""
        for policy in self._untold:
            return self._named(policy)
        return self._named(_text(self.folder / POLICY) or None)

    def set_policy(self, policy: str | None) -> str:
        """Soon, whatever the daemon does: one that does not answer, or is waited for, hears of it when it does."""
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
        if self._untold == before:  # else somebody set another one meanwhile, which is still to be told
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
            _log.warning("card %s: not divided by %s: %s", self.card.id, self._named(policy), error)

    def _named(self, policy: str | None) -> str:
        return policy if policy is not None else self._settings.policy_for(self.card.id)

    # -- within ------------------------------------------------------------------------------------------------------

    @property
    def _socket(self) -> Path:
        return self.folder / SOCKET

    def _hello(self) -> dict | None:
        for child in list(_children):
            if child.poll() is not None:
                with contextlib.suppress(ValueError):  # another thread has done it
                    _children.remove(child)
        return self.ask_if_running({"do": "hello"})

    def _heard(self, question: Mapping[str, object], within_s: float) -> tuple[dict | None, str]:
        """What it says, if it does; else why not, if it should have."""
        try:
            return ask(self._socket, question, within_s), ""
        except (TimeoutError, BlockingIOError):  # the latter: too many wait for it already
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
            if code == TAKEN:  # another one was faster, or the last one has not let go yet
                child = self._spawn()
            elif code is not None:
                raise self._trouble(f"its daemon ended with {code}: {self._last_words()}")
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
        """Policies are known to the daemon's program alone; its error names what there is."""
        options = ["--check", "--card", self.card.id, "--folder", str(self.folder), f"--policy={policy}"]
        within_s = self._settings.starts_within_s
        try:
            done = subprocess.run([*_PROGRAM, *options], capture_output=True, text=True, check=False, timeout=within_s)
        except subprocess.TimeoutExpired:
            raise self._trouble(f"its policy could not be checked within {within_s:g} s") from None
        if done.returncode != 0:
            raise self._trouble(f"its policy cannot be checked: {done.stderr.strip()[-500:]}")
        self._checked(json.loads(done.stdout))

    def _fixed(self) -> dict[str, object]:
        """What a daemon is told when it starts, and never again."""
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
        """Differs where daemons would be told something else."""
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
        return (_text(self.folder / WORDS).splitlines() or ["it said nothing"])[-1][-500:]

    def _trouble(self, problem: str, cure: str = "") -> NotReady:
        return NotReady(f"card {self.card.id}", problem, cure or f"look at {self.folder / LOG}")


def cards_of(settings: CardSharingSettings) -> list[Card]:
    """Those that were kept in the folder before."""
    found = []
    for file in sorted((settings.folder / "cards").glob(f"*/{CARD}")):
        try:
            found.append(Card(**read_json(file)))
        except (TypeError, ValueError, OSError) as error:
            _log.warning("%s is left aside: %s", file, error)
    return found


@lru_cache(maxsize=1)
def version() -> str:
    """Of the package: a daemon of another one is replaced. Sources that nobody installed have none."""
    try:
        return metadata.version("gpusquad")
    except metadata.PackageNotFoundError:
        return ""


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
