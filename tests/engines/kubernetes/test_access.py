"""Tests of finding the cluster and its credentials from kubeconfig files, a pod or a command."""

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


def write_kubeconfig(
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


def test_access_is_read_from_a_kubeconfig(tmp_path: Path):
    access = load_access(write_kubeconfig(tmp_path / "config", {"token": SECRET}, namespace="lab"))
    assert (access.url, access.namespace, access.token.now()) == ("https://10.0.0.1:6443", "lab", SECRET)


def test_namespace_is_default_when_none_is_given(tmp_path: Path):
    assert load_access(write_kubeconfig(tmp_path / "config")).namespace == "default"


def test_secrets_are_not_in_the_text_of_an_access(tmp_path: Path, pem: tuple[Path, Path]):
    key = pem[1].read_text()
    with_token = load_access(write_kubeconfig(tmp_path / "one", {"token": SECRET, "client-key": str(pem[1])}))
    (tmp_path / "token").write_text(SECRET)
    with_token_file = load_access(write_kubeconfig(tmp_path / "two", {"tokenFile": "token"}))
    with_token_file.token.now()
    with_command = load_access(
        write_kubeconfig(tmp_path / "three", {"exec": exec_section(tmp_path, {"token": SECRET}, args=[SECRET])})
    )
    with_command.token.renew()
    text = f"{with_token!r} {with_token_file!r} {with_command!r} {with_token} {vars(with_token_file)}"
    assert SECRET not in text
    assert key.splitlines()[1] not in text


def test_explicit_path_takes_precedence_over_variable_pod_and_home(tmp_path: Path):
    home = write_kubeconfig(tmp_path / ".kube" / "config", {"token": "home"})
    from_variable = write_kubeconfig(tmp_path / "named", {"token": "named"})
    explicit = write_kubeconfig(tmp_path / "explicit", {"token": "explicit"})
    pod = pod_folder(tmp_path)
    environment = {"HOME": str(home.parents[1])}

    def token(path: Path | None = None) -> str | None:
        return load_access(path, environment=environment, service_account=pod).token.now()

    assert token() == "home"
    environment["KUBERNETES_SERVICE_HOST"] = "10.96.0.1"
    assert token() == "pod"
    environment["KUBECONFIG"] = str(from_variable)
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
def test_access_in_a_pod_uses_the_service_account(tmp_path: Path, host: str, url: str):
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "444"}
    access = load_access(environment=environment, service_account=pod_folder(tmp_path))
    assert (access.url, access.namespace, access.authority) == (url, "inside", "certificates")


def test_token_file_is_read_again_when_it_changes(tmp_path: Path):
    """As the kubelet does it: a new file replaces the old one."""
    path, new = tmp_path / "token", tmp_path / "new"
    path.write_text("first\n")
    token = TokenFile(path)
    assert token.now() == "first"
    new.write_text("other\n")
    new.rename(path)
    assert token.now() == "other"
    path.unlink()
    assert token.now() == "other"


def test_missing_token_file_is_rejected(tmp_path: Path):
    with pytest.raises(Invalid, match=r"tokenFile: .*cannot be read"):
        TokenFile(tmp_path / "none").now()


def test_kubeconfigs_are_merged_and_paths_are_relative_to_their_file(tmp_path: Path):
    first, second = tmp_path / "a" / "config", tmp_path / "b" / "config"
    write_kubeconfig(first, {"tokenFile": "token"})
    write_kubeconfig(second, {"token": "later"}, {"server": "https://later:1"})
    (first.parent / "token").write_text("earlier")
    environment = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "none"), str(first), str(second)])}
    access = load_access(environment=environment)
    assert (access.url, access.token.now()) == ("https://10.0.0.1:6443", "earlier")


def test_certificates_from_files_and_inline_data_are_equal(tmp_path: Path, pem: tuple[Path, Path]):
    def data(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    by_file = load_access(
        write_kubeconfig(
            tmp_path / "files",
            {"client-certificate": str(pem[0]), "client-key": str(pem[1])},
            {"certificate-authority": str(pem[0])},
        )
    )
    inline = load_access(
        write_kubeconfig(
            tmp_path / "data",
            {"client-certificate-data": data(pem[0]), "client-key-data": data(pem[1])},
            {"certificate-authority-data": data(pem[0])},
        )
    )
    for access in (by_file, inline):
        context = access.tls()
        assert context is not None
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert len(context.get_ca_certs()) == 1
    assert (by_file.authority, by_file.certificate, by_file.key) == (
        inline.authority,
        inline.certificate,
        inline.key,
    )


def test_insecure_access_verifies_no_certificate(tmp_path: Path):
    context = load_access(write_kubeconfig(tmp_path / "config", cluster={"insecure-skip-tls-verify": True})).tls()
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


def test_plain_http_needs_no_tls():
    assert KubeAccess("http://127.0.0.1:8001").tls() is None


def test_certificate_without_its_key_is_rejected(pem: tuple[Path, Path]):
    with pytest.raises(Invalid, match="client-certificate"):
        KubeAccess("https://here", certificate=pem[0].read_text()).tls()


@pytest.mark.parametrize(
    ("user", "cluster", "message"),
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
def test_unsupported_field_is_rejected_by_its_path(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], message: str
):
    with pytest.raises(Invalid, match=message) as caught:
        load_access(write_kubeconfig(tmp_path / "config", user, cluster))
    assert SECRET not in str(caught.value)


def test_unknown_context_is_rejected_with_the_known_ones(tmp_path: Path):
    with pytest.raises(Invalid, match=r"contexts\[there\]: not in the kubeconfig \(it has here\)"):
        load_access(write_kubeconfig(tmp_path / "config"), "there")


def test_missing_or_invalid_kubeconfig_is_rejected(tmp_path: Path):
    with pytest.raises(Invalid, match="there is no file"):
        load_access(tmp_path / "none")
    broken = tmp_path / "broken"
    broken.write_text(f"token: {SECRET}\n  x: [")
    with pytest.raises(Invalid, match="is not YAML") as caught:
        load_access(broken)
    assert SECRET not in str(caught.value)


def test_access_without_any_source_is_rejected_with_a_cure(tmp_path: Path):
    with pytest.raises(Invalid, match="name a kubeconfig file, or set KUBECONFIG"):
        load_access(environment={"HOME": str(tmp_path)}, service_account=tmp_path)


# --- tokens from a command ---


def exec_section(folder: Path, status: Any, args: list[str] | None = None, code: int = 0) -> dict[str, Any]:
    """Exec section with a program that records its arguments and prints a credential."""
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


def test_token_command_is_run_once_and_its_token_reused(tmp_path: Path):
    access = load_access(
        write_kubeconfig(tmp_path / "config", {"exec": exec_section(tmp_path, {"token": SECRET}, ["a b", "$c"])})
    )
    assert access.token.now() is None
    assert access.token.renew()
    assert [access.token.now() for _ in range(2)] == [SECRET, SECRET]
    [call] = calls(tmp_path)
    arguments, where, exec_info = call.split("|")
    assert (arguments, where) == ("a b $c", "lab")
    assert json.loads(exec_info)["spec"] == {"interactive": False}


def test_command_token_is_dropped_before_it_expires(tmp_path: Path):
    now = [datetime(2030, 1, 1, tzinfo=UTC)]
    exec_section(tmp_path, {"token": SECRET, "expirationTimestamp": "2030-01-01T01:00:00Z"})
    token = TokenCommand([str(tmp_path / "give-token")], "v1", {}, {}, wall=lambda: now[0])
    token.renew()
    now[0] += timedelta(minutes=58)
    assert token.now() == SECRET
    now[0] += timedelta(minutes=1)
    assert token.now() is None


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        ({"token": SECRET}, 3, "failed with code 3: no luck"),
        (None, 0, "did not print an ExecCredential with a status"),
        ({"clientCertificateData": SECRET}, 0, "gave no token"),
        ({"token": SECRET, "expirationTimestamp": "soon"}, 0, "no time: 'soon'"),
    ],
)
def test_token_command_without_a_valid_token_is_rejected(tmp_path: Path, status: Any, code: int, message: str):
    exec_section(tmp_path, status, code=code)
    token = TokenCommand([str(tmp_path / "give-token")], "v1", {}, {})
    with pytest.raises(Invalid, match=message) as caught:
        token.renew()
    assert SECRET not in str(caught.value)


def test_missing_token_command_is_rejected(tmp_path: Path):
    with pytest.raises(Invalid, match="cannot be started: No such file"):
        TokenCommand([str(tmp_path / "none")], "v1", {}, {}).renew()


def test_fixed_token_cannot_be_renewed():
    assert not FixedToken("x").renew()
