"""Address and credentials of the API server: from a kubeconfig file, or as a pod of the cluster."""

from __future__ import annotations

import base64
import binascii
import contextlib
import ipaddress
import os
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import orjson
import yaml

from gpusquad.model.errors import Invalid

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts the pod's token, the authority's certificate and the namespace."""

_REFUSED = {
    "auth-provider": "give the user an exec section or a token instead",
    "username": "give the user a token or a client certificate; API servers take no passwords any more",
    "as": "give gpusquad a user of its own instead of letting it speak for another",
}
_COMMAND_S = 60.0
_EARLY = timedelta(seconds=60)
"""A token is renewed before it expires: the request must arrive with it, and clocks differ."""


class BearerToken(Protocol):
    """Safe to print: no token is shown."""

    def now(self) -> str | None:
        """The token to send, "" for none. None: call `renew` first. Never blocks."""
        ...

    def renew(self) -> bool:
        """The current token is missing, old or refused. May take long. False: there is no other."""
        ...


class FixedToken:
    def __init__(self, text: str = "") -> None:
        self._text = text

    def __repr__(self) -> str:
        return "FixedToken(…)" if self._text else "FixedToken()"

    def now(self) -> str:
        return self._text

    def renew(self) -> bool:
        return False


class TokenFile:
    """The kubelet replaces a pod's token about every hour; checking the file costs a microsecond or two."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: tuple[int, int, int] | None = None
        self._text = ""

    def __repr__(self) -> str:
        return f"TokenFile({str(self._path)!r})"

    def now(self) -> str:
        try:
            found = os.stat(self._path)
            mark = (found.st_mtime_ns, found.st_ino, found.st_size)
            if mark != self._mark:
                self._text, self._mark = self._path.read_text().strip() or self._text, mark
        except OSError as error:
            if not self._text:  # otherwise the current token may do until the file is back
                raise Invalid("tokenFile", f"{self._path} cannot be read: {error.strerror}", "check it") from error
        return self._text

    def renew(self) -> bool:
        before = self._text
        self._mark = None
        return self.now() != before


@dataclass(frozen=True)
class _Credential:
    token: str
    expires: datetime | None


class TokenCommand:
    """A program that prints an ExecCredential: how clouds issue short-lived tokens."""

    def __init__(
        self,
        command: Sequence[str],
        version: str,
        environment: Mapping[str, str],
        spec: Mapping[str, Any],
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._command = tuple(command)
        self._version = version
        self._environment = dict(environment)
        self._spec = spec
        self._wall = wall
        self._lock = threading.Lock()
        self._last: _Credential | None = None

    def __repr__(self) -> str:
        return f"TokenCommand({self._command[0]!r})"  # its arguments may contain a secret

    @classmethod
    def read(cls, content: Any, where: str, folder: Path, cluster: Mapping[str, Any]) -> TokenCommand:
        """From the exec section of a user in a kubeconfig."""
        if not isinstance(content, Mapping) or not isinstance(content.get("command"), str):
            raise Invalid(f"{where}.command", "missing", "name the program that prints the credential")
        version = str(content.get("apiVersion") or "")
        if not version.startswith("client.authentication.k8s.io/"):
            raise Invalid(f"{where}.apiVersion", f"{version!r} is not known", "client.authentication.k8s.io/v1 is")
        if content.get("interactiveMode") == "Always":
            raise Invalid(
                f"{where}.interactiveMode", "the service cannot answer prompts", "use a credential that needs none"
            )
        command = content["command"]
        if os.sep in command:
            command = str(folder / command)
        spec: dict[str, Any] = {"interactive": False}
        if content.get("provideClusterInfo"):
            spec["cluster"] = {name: value for name, value in cluster.items() if name != "extensions"}
        pairs = {str(item["name"]): str(item.get("value", "")) for item in content.get("env") or ()}
        return cls((command, *map(str, content.get("args") or ())), version, pairs, spec)

    def now(self) -> str | None:
        last = self._last
        if last is None or (last.expires is not None and self._wall() >= last.expires - _EARLY):
            return None
        return last.token

    def renew(self) -> bool:
        with self._lock:
            self._last = self._credential(self._output())
        return True

    def _output(self) -> bytes:
        question = {"apiVersion": self._version, "kind": "ExecCredential", "spec": self._spec}
        environment = os.environ | self._environment | {"KUBERNETES_EXEC_INFO": orjson.dumps(question).decode()}
        try:
            done = subprocess.run(
                self._command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_S
            )
        except OSError as error:
            raise self._invalid(f"cannot be started: {error.strerror}") from error
        except subprocess.TimeoutExpired:
            raise self._invalid(f"did not end within {_COMMAND_S:g} s") from None  # its output may be secret
        if done.returncode:
            annotations = done.stderr.decode(errors="replace").strip()[-300:]
            raise self._invalid(f"failed with code {done.returncode}: {annotations}")
        return done.stdout

    def _credential(self, output: bytes) -> _Credential:
        status: Any = None
        with contextlib.suppress(orjson.JSONDecodeError, AttributeError):
            status = orjson.loads(output).get("status")
        if not isinstance(status, dict):
            raise self._invalid("did not print an ExecCredential with a status")
        if not status.get("token"):
            raise self._invalid("gave no token; client certificates from a command are not supported")
        expires = status.get("expirationTimestamp")
        try:
            return _Credential(str(status["token"]), _moment(expires) if expires else None)
        except (TypeError, ValueError):
            raise self._invalid(f"gave an expirationTimestamp that is no time: {expires!r}") from None

    def _invalid(self, problem: str) -> Invalid:
        return Invalid("exec", f"{self._command[0]} {problem}", "run it by hand to see what it prints")


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@dataclass(frozen=True)
class KubeAccess:
    """Everything a client needs. Secrets are not shown when it is printed."""

    url: str
    namespace: str = "default"
    authority: str = field(default="", repr=False)
    """Certificates in PEM that sign the server's; empty: those that the system trusts."""
    insecure: bool = False
    """Accept any certificate."""
    server_name: str = ""
    """Name in the server's certificate, if it is not the one in the URL."""
    token: BearerToken = field(default_factory=FixedToken)
    certificate: str = field(default="", repr=False)
    """Client certificate in PEM, with its key in `key`."""
    key: str = field(default="", repr=False)

    def tls(self) -> ssl.SSLContext | None:
        """TLS settings. None: the URL is plain http."""
        if not self.url.startswith("https:"):
            return None
        try:
            context = ssl.create_default_context(cadata=self.authority or None)
        except (ssl.SSLError, ValueError) as error:
            raise Invalid("certificate-authority", f"not certificates in PEM: {error}", "check the file") from error
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            _load_certificate(context, self.certificate, self.key)
        return context


def load_access(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> KubeAccess:
    """The first that exists: the named file, those in $KUBECONFIG, the pod's service account, ~/.kube/config."""
    if kubeconfig is not None:
        return _from_files([kubeconfig], context)
    named = [Path(name) for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    if named:
        return _from_files(named, context)
    if environment.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        return _from_pod(environment, service_account)
    usual = Path(environment.get("HOME") or Path.home()) / ".kube" / "config"
    if usual.exists():
        return _from_files([usual], context)
    raise Invalid(
        "kubeconfig",
        f"no cluster is known: $KUBECONFIG is not set, this is no pod with a service account, and there is no {usual}",
        "name a kubeconfig file, or set KUBECONFIG",
    )


def _from_pod(environment: Mapping[str, str], folder: Path) -> KubeAccess:
    host = environment["KUBERNETES_SERVICE_HOST"]
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = folder / "namespace"
    return KubeAccess(
        url=f"https://{_bracketed(host)}:{port}",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        authority=_read(folder / "ca.crt", "service account: ca.crt"),
        token=TokenFile(folder / "token"),
    )


def _bracketed(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host  # a name


# --- kubeconfig files ---


@dataclass(frozen=True)
class _Entry:
    """A cluster, user or context by its name, and the folder for relative paths in it."""

    where: str
    content: Mapping[str, Any]
    folder: Path

    def text(self, name: str) -> str:
        value = self.content.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise Invalid(f"{self.where}.{name}", "not a text", "put it in quotes")
        return value

    def flag(self, name: str) -> bool:
        value = self.content.get(name, False)
        if not isinstance(value, bool):
            raise Invalid(f"{self.where}.{name}", "neither true nor false")
        return value

    def path(self, name: str) -> Path | None:
        value = self.text(name)
        return self.folder / value if value else None

    def material(self, name: str) -> str:
        """PEM, given inline (as name-data, in base64) or as a file. Inline takes precedence, as for kubectl."""
        inline = self.text(f"{name}-data")
        if inline:
            return self._decoded(f"{name}-data", inline)
        path = self.path(name)
        return _read(path, f"{self.where}.{name}") if path is not None else ""

    def _decoded(self, name: str, inline: str) -> str:
        try:
            return base64.b64decode("".join(inline.split()), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            cure = f"give the path of a PEM file as {name.removesuffix('-data')} instead"
            raise Invalid(f"{self.where}.{name}", "not PEM in base64", cure) from None


def _from_files(paths: list[Path], context: str | None) -> KubeAccess:
    """Merge several files as kubectl does: the first value wins."""
    files = [(path, _parsed(path)) for path in paths if path.exists()]
    if not files:
        raise Invalid("kubeconfig", f"there is no file {', '.join(map(str, paths))}", "check the path or $KUBECONFIG")
    chosen = context or next((name for _, file in files if (name := file.get("current-context"))), None)
    if not chosen:
        raise Invalid("current-context", "not set in the kubeconfig", "name a context")
    chosen_context = _find(files, "contexts", "context", str(chosen))
    cluster = _find(files, "clusters", "cluster", chosen_context.text("cluster"))
    user_name = chosen_context.text("user")
    user = _find(files, "users", "user", user_name) if user_name else _Entry("user", {}, Path())
    return _access(cluster, user, chosen_context.text("namespace") or "default")


def _parsed(path: Path) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(_read(path, "kubeconfig"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)  # the error itself may quote a line with a token in it
        place = f" (line {mark.line + 1})" if mark is not None else ""
        raise Invalid(
            "kubeconfig", f"{path} is not YAML{place}", "kubectl config view shows what kubectl reads"
        ) from None
    if not isinstance(content, Mapping):
        raise Invalid("kubeconfig", f"{path} is not a kubeconfig", "it should hold clusters, users and contexts")
    return content


def _find(files: list[tuple[Path, Mapping[str, Any]]], plural: str, kind: str, name: str) -> _Entry:
    names: list[str] = []
    for path, file in files:
        for item in file.get(plural) or ():
            names.append(str(item.get("name")))
            if names[-1] == name:
                return _Entry(f"{plural}[{name}].{kind}", item.get(kind) or {}, path.parent.absolute())
    raise Invalid(f"{plural}[{name}]", "not in the kubeconfig", f"it has {', '.join(names)}" if names else "")


def _access(cluster: _Entry, user: _Entry, namespace: str) -> KubeAccess:
    return KubeAccess(
        url=_url(cluster),
        namespace=namespace,
        authority=cluster.material("certificate-authority"),
        insecure=cluster.flag("insecure-skip-tls-verify"),
        server_name=cluster.text("tls-server-name"),
        token=_token(user, cluster),
        certificate=user.material("client-certificate"),
        key=user.material("client-key"),
    )


def _url(cluster: _Entry) -> str:
    url = cluster.text("server").rstrip("/")
    field_name = f"{cluster.where}.server"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(field_name, f"{url!r} is no address of an API server", "like https://10.0.0.1:6443")
    if parts.username or parts.password:
        raise Invalid(field_name, "a user or password in the address", "give the user a token instead")
    if cluster.text("proxy-url"):
        raise Invalid(
            f"{cluster.where}.proxy-url", "a proxy is not supported", "name an address that is reached directly"
        )
    return url


def _token(user: _Entry, cluster: _Entry) -> BearerToken:
    for name, cure in _REFUSED.items():
        if user.content.get(name):
            raise Invalid(f"{user.where}.{name}", "not supported", cure)
    if user.content.get("exec"):
        return TokenCommand.read(user.content["exec"], f"{user.where}.exec", user.folder, cluster.content)
    path = user.path("tokenFile")
    return TokenFile(path) if path is not None else FixedToken(user.text("token"))


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Python reads certificates from files only. This one is readable only by us and is deleted after use."""
    with tempfile.NamedTemporaryFile("w", prefix="gpusquad-", suffix=".pem") as file:
        file.write(f"{certificate}\n{key}\n")
        file.flush()
        try:
            # A password would be requested on the terminal, where no user may be.
            context.load_cert_chain(file.name, password=lambda: "")
        except (ssl.SSLError, ValueError) as error:
            problem = "the certificate and its key cannot be used together"
            raise Invalid(
                "client-certificate", f"{problem}: {error}", "check client-certificate and client-key"
            ) from error


def _read(path: Path, where: str) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(
            where, f"{path} cannot be read: {getattr(error, 'strerror', None) or error}", "check it"
        ) from error
