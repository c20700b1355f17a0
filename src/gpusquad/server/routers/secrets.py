"""Secrets of the caller's tenant: set, list, delete; values are never shown."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from gpusquad.server.json_answer import Answer
from gpusquad.server.params import QueryLine, SecretName, Svc
from gpusquad.server.permissions import Member, tenant_used
from gpusquad.server.schemas.people import SecretPage, SecretRequest, SecretView
from gpusquad.server.views import page

router = APIRouter(prefix="/secrets", tags=["secrets"])


@router.get("", response_model=SecretPage)
def list_secrets(who: Member, svc: Svc, tenant: QueryLine = None) -> Answer:
    """List the names of secrets."""
    return Answer(page([{"name": name} for name in svc.secrets.names(tenant_used(who, tenant))]))


@router.put("/{name}", response_model=SecretView)
def put_secret(name: SecretName, body: SecretRequest, who: Member, svc: Svc, tenant: QueryLine = None) -> Answer:
    """Set a secret, replacing an earlier value."""
    owner = tenant_used(who, tenant)
    svc.secrets.put(owner, name, body.value)
    svc.audit.record(who, "secret.set", f"{owner}/{name}")
    return Answer({"name": name})


@router.delete("/{name}", status_code=204, response_class=Response)
def remove_secret(name: SecretName, who: Member, svc: Svc, tenant: QueryLine = None) -> Response:
    """Delete a secret. Running tasks keep its value."""
    owner = tenant_used(who, tenant)
    svc.secrets.remove(owner, name)
    svc.audit.record(who, "secret.remove", f"{owner}/{name}")
    return Response(status_code=204)
