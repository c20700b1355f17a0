"""How a cluster is found and who we are there, and what is said when that cannot be."""

from __future__ import annotations

import base64
import json
import os
import ssl
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusquad.kube.access import FixedToken, KubeAccess, TokenCommand, TokenFile, load_access
from gpusquad.model.errors import Invalid

SECRET = "hush-hush"


def write(
    path: Path, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None, **context: str
) -> Path:
    content = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **context}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("pem")
    certificate, key = folder / "tls.crt", folder / "tls.key"
    command = [
        "openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "2",
        "-subj", "/CN=test", "-keyout", key, "-out", certificate,
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def test_a_file_with_a_token(tmp_path: Path):
    access = load_access(write(tmp_path / "config", {"token": SECRET}, namespace="lab"))
    assert (access.url, access.namespace, access.token.now()) == ("https://10.0.0.1:6443", "lab", SECRET)


def test_the_namespace_is_default_where_none_is_named(tmp_path: Path):
    assert load_access(write(tmp_path / "config")).namespace == "default"


def test_nothing_secret_shows(tmp_path: Path, pem: tuple[Path, Path]):
    key = pem[1].read_text()
    fixed = load_access(write(tmp_path / "one", {"token": SECRET, "client-key": str(pem[1])}))
    (tmp_path / "token").write_text(SECRET)
    filed = load_access(write(tmp_path / "two", {"tokenFile": "token"}))
    filed.token.now()
    printed = load_access(write(tmp_path / "three", {"exec": exec_section(tmp_path, {"token": SECRET}, args=[SECRET])}))
    printed.token.renew()
    shown = f"{fixed!r} {filed!r} {printed!r} {fixed} {vars(filed)}"
    assert SECRET not in shown
    assert key.splitlines()[1] not in shown


def test_the_order_of_places(tmp_path: Path):
    home = write(tmp_path / ".kube" / "config", {"token": "home"})
    named = write(tmp_path / "named", {"token": "named"})
    explicit = write(tmp_path / "explicit", {"token": "explicit"})
    pod = pod_folder(tmp_path)
    found = {"HOME": str(home.parents[1])}

    def token(path: Path | None = None) -> str | None:
        return load_access(path, environment=found, service_account=pod).token.now()

    assert token() == "home"
    found["KUBERNETES_SERVICE_HOST"] = "10.96.0.1"
    assert token() == "pod"
    found["KUBECONFIG"] = str(named)
    assert token() == "named"
    assert token(explicit) == "explicit"


def pod_folder(tmp_path: Path) -> Path:
    pod = tmp_path / "pod"
    pod.mkdir()
    (pod / "token").write_text("pod\n")
    (pod / "namespace").write_text("inside")
    (pod / "ca.crt").write_text("certificates")
    return pod


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("10.96.0.1", "https://10.96.0.1:444"),
        ("fd00::1", "https://[fd00::1]:444"),
        ("api.local", "https://api.local:444"),
    ],
)
def test_in_a_pod(tmp_path: Path, host: str, url: str):
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "444"}
    access = load_access(environment=environment, service_account=pod_folder(tmp_path))
    assert (access.url, access.namespace, access.authority) == (url, "inside", "certificates")


def test_a_token_file_is_read_again_when_it_changes(tmp_path: Path):
    """As the kubelet does it: a new file takes the place of the old one."""
    path, new = tmp_path / "token", tmp_path / "new"
    path.write_text("first\n")
    token = TokenFile(path)
    assert token.now() == "first"
    new.write_text("other\n")
    new.rename(path)
    assert token.now() == "other"
    path.unlink()
    assert token.now() == "other"


def test_a_token_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(Invalid, match=r"tokenFile: .*cannot be read"):
        TokenFile(tmp_path / "none").now()


def test_several_files_are_merged_and_paths_start_from_their_own_folder(tmp_path: Path):
    first, second = tmp_path / "a" / "config", tmp_path / "b" / "config"
    write(first, {"tokenFile": "token"})
    write(second, {"token": "later"}, {"server": "https://later:1"})
    (first.parent / "token").write_text("earlier")
    environment = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "none"), str(first), str(second)])}
    access = load_access(environment=environment)
    assert (access.url, access.token.now()) == ("https://10.0.0.1:6443", "earlier")


def test_certificates_as_files_and_in_place_are_the_same(tmp_path: Path, pem: tuple[Path, Path]):
    def data(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    by_file = load_access(
        write(
            tmp_path / "files",
            {"client-certificate": str(pem[0]), "client-key": str(pem[1])},
            {"certificate-authority": str(pem[0])},
        )
    )
    in_place = load_access(
        write(
            tmp_path / "data",
            {"client-certificate-data": data(pem[0]), "client-key-data": data(pem[1])},
            {"certificate-authority-data": data(pem[0])},
        )
    )
    for access in (by_file, in_place):
        context = access.tls()
        assert context is not None
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert len(context.get_ca_certs()) == 1
    assert (by_file.authority, by_file.certificate, by_file.key) == (
        in_place.authority,
        in_place.certificate,
        in_place.key,
    )


def test_insecure_checks_nothing(tmp_path: Path):
    context = load_access(write(tmp_path / "config", cluster={"insecure-skip-tls-verify": True})).tls()
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


def test_plain_http_needs_no_tls():
    assert KubeAccess("http://127.0.0.1:8001").tls() is None


def test_a_certificate_without_its_key_is_refused(pem: tuple[Path, Path]):
    with pytest.raises(Invalid, match="client-certificate"):
        KubeAccess("https://here", certificate=pem[0].read_text()).tls()


@pytest.mark.parametrize(
    ("user", "cluster", "complaint"),
    [
        ({"auth-provider": {"name": "gcp"}}, {}, r"users\[u\].user.auth-provider: not supported \(give"),
        ({"username": "me", "password": SECRET}, {}, r"user.username: not supported"),
        ({"as": "somebody"}, {}, r"user.as: not supported"),
        ({"token": 5}, {}, r"user.token: not a text"),
        ({"client-key-data": "%%%"}, {}, r"user.client-key-data: not PEM in base64"),
        ({"client-key": "none"}, {}, r"user.client-key: .*none cannot be read: No such file"),
        ({"exec": {"command": "x"}}, {}, r"user.exec.apiVersion: '' is not known"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}, {}, r"user.exec.command: missing"),
        ({}, {"server": "10.0.0.1"}, r"clusters\[c\].cluster.server: '10.0.0.1' is no address"),
        ({}, {"server": f"https://me:{SECRET}@10.0.0.1"}, r"cluster.server: a user or password in the address"),
        ({}, {"proxy-url": "http://proxy"}, r"cluster.proxy-url: a proxy is not supported"),
        ({}, {"insecure-skip-tls-verify": "yes"}, r"insecure-skip-tls-verify: neither true nor false"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_cure(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], complaint: str
):
    with pytest.raises(Invalid, match=complaint) as caught:
        load_access(write(tmp_path / "config", user, cluster))
    assert SECRET not in str(caught.value)


def test_an_unknown_context_tells_which_there_are(tmp_path: Path):
    with pytest.raises(Invalid, match=r"contexts\[there\]: not in the kubeconfig \(it has here\)"):
        load_access(write(tmp_path / "config"), "there")


def test_a_file_that_is_missing_or_broken(tmp_path: Path):
    with pytest.raises(Invalid, match="there is no file"):
        load_access(tmp_path / "none")
    broken = tmp_path / "broken"
    broken.write_text(f"token: {SECRET}\n  x: [")
    with pytest.raises(Invalid, match="is not YAML") as caught:
        load_access(broken)
    assert SECRET not in str(caught.value)


def test_nothing_to_be_found_says_where_it_was_looked_for(tmp_path: Path):
    with pytest.raises(Invalid, match="name a kubeconfig file, or set KUBECONFIG"):
        load_access(environment={"HOME": str(tmp_path)}, service_account=tmp_path)


# --- tokens from a command ---


def exec_section(folder: Path, status: Any, args: list[str] | None = None, code: int = 0) -> dict[str, Any]:
    """A program that notes how it was called and prints a credential."""
    program = folder / "give-token"
    answer = json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})
    program.write_text(
        f'#!/bin/sh\necho "$@|$WHERE|$KUBERNETES_EXEC_INFO" >> {folder}/calls\n'
        f"cat <<'END'\n{answer}\nEND\necho no luck >&2\nexit {code}\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": f".{os.sep}give-token",
        "args": args or [],
        "env": [{"name": "WHERE", "value": "lab"}],
    }


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_a_command_gives_a_token_and_is_asked_once(tmp_path: Path):
    access = load_access(write(tmp_path / "config", {"exec": exec_section(tmp_path, {"token": SECRET}, ["a b", "$c"])}))
    assert access.token.now() is None
    assert access.token.renew()
    assert [access.token.now() for _ in range(2)] == [SECRET, SECRET]
    [call] = calls(tmp_path)
    arguments, where, question = call.split("|")
    assert (arguments, where) == ("a b $c", "lab")
    assert json.loads(question)["spec"] == {"interactive": False}


def test_a_token_is_renewed_before_it_runs_out(tmp_path: Path):
    now = [datetime(2030, 1, 1, tzinfo=UTC)]
    exec_section(tmp_path, {"token": SECRET, "expirationTimestamp": "2030-01-01T01:00:00Z"})
    token = TokenCommand([str(tmp_path / "give-token")], "v1", {}, {}, wall=lambda: now[0])
    token.renew()
    now[0] += timedelta(minutes=58)
    assert token.now() == SECRET
    now[0] += timedelta(minutes=1)
    assert token.now() is None


@pytest.mark.parametrize(
    ("status", "code", "complaint"),
    [
        ({"token": SECRET}, 3, "failed with code 3: no luck"),
        (None, 0, "did not print an ExecCredential with a status"),
        ({"clientCertificateData": SECRET}, 0, "gave no token"),
        ({"token": SECRET, "expirationTimestamp": "soon"}, 0, "no time: 'soon'"),
    ],
)
def test_a_command_that_gives_none(tmp_path: Path, status: Any, code: int, complaint: str):
    exec_section(tmp_path, status, code=code)
    token = TokenCommand([str(tmp_path / "give-token")], "v1", {}, {})
    with pytest.raises(Invalid, match=complaint) as caught:
        token.renew()
    assert SECRET not in str(caught.value)


def test_a_command_that_is_not_there(tmp_path: Path):
    with pytest.raises(Invalid, match="cannot be started: No such file"):
        TokenCommand([str(tmp_path / "none")], "v1", {}, {}).renew()


def test_a_fixed_token_cannot_be_renewed():
    assert not FixedToken("x").renew()
