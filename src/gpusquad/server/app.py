"""The HTTP application: routers, middleware and error handling."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

from anyio import to_thread
from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from gpusquad import __version__
from gpusquad.server import api_errors
from gpusquad.server.description import describe
from gpusquad.server.limits import Buckets
from gpusquad.server.metrics import CountRequests
from gpusquad.server.middleware.agents import AgentEntrance
from gpusquad.server.middleware.authentication import Entrance
from gpusquad.server.middleware.body import BodyLimit
from gpusquad.server.middleware.compression import Compression
from gpusquad.server.middleware.failures import Failures
from gpusquad.server.middleware.headers import SecurityHeaders
from gpusquad.server.middleware.hosts import Hosts
from gpusquad.server.params import known_query_only
from gpusquad.server.routers import (
    agents,
    audit,
    cards,
    cluster,
    efficiency,
    events,
    free,
    goals,
    health,
    inbox,
    interference,
    job_answers,
    jobs,
    logs,
    notices,
    people,
    pods,
    policy,
    prediction_series,
    predictions,
    queue,
    recommend,
    schema,
    secrets,
    timeline,
    tokens,
    usage,
)
from gpusquad.server.web import Dashboard
from gpusquad.server.wiring import Services

PREFIX = "/api/v1"
OPENAPI = f"{PREFIX}/openapi.json"
OPEN_PATHS = (OPENAPI, f"{PREFIX}/schema/job")
"""Open without a token. They reveal no secrets."""
AGENT_PATH = f"{PREFIX}{agents.SAMPLES}"
"""Only for platforms with node agents, which have their own authentication and tokens."""
ROUTERS = (
    jobs, job_answers, pods, recommend, logs, queue, cluster, cards, policy, usage, predictions, events, people, tokens,
    audit, secrets, notices, inbox, schema,
    timeline, efficiency, free, interference, goals, prediction_series,
)  # fmt: skip


def make_app(services: Services) -> FastAPI:
    """The application for these services. It starts and stops none of them."""
    app = bare_app(has_agents=services.agents is not None)
    app.state.services = services
    app.router.default = Dashboard(app.router.default, PREFIX)
    api_errors.install(app)
    _add_middleware(app, services)
    services.scheduler.on_event(services.broadcast.wake)
    return app


def bare_app(has_agents: bool = False) -> FastAPI:
    """Routes and their description, without services."""
    app = FastAPI(
        title="gpusquad",
        version=__version__,
        openapi_url=OPENAPI,
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_unique_id,
        lifespan=_lifespan,
    )
    app.openapi = lambda: describe(app)
    app.router.routes.extend(_routes(has_agents))
    return app


@cache
def _routes(has_agents: bool) -> tuple[BaseRoute, ...]:
    """Shared by all applications of a process, because reading the parameters of all endpoints takes a while."""
    api = APIRouter(dependencies=[Depends(known_query_only)])
    for module in (*ROUTERS, *((agents,) if has_agents else ())):
        api.include_router(module.router)
    root = APIRouter(generate_unique_id_function=_unique_id)
    root.include_router(api, prefix=PREFIX)
    root.include_router(health.router)
    return tuple(root.routes)


def _unique_id(route: APIRoute) -> str:
    return route.name


def all_routes() -> list[tuple[str, APIRoute]]:
    """Every endpoint with its full path."""
    parts = [(PREFIX, module.router) for module in ROUTERS] + [("", health.router)]
    return [
        (prefix + route.path, route) for prefix, part in parts for route in part.routes if isinstance(route, APIRoute)
    ]


def _add_middleware(app: FastAPI, services: Services) -> None:
    """Each middleware wraps those before it, so a request passes them from last to first."""
    limits, monotonic_s = services.limits, services.monotonic_s
    app.add_middleware(Compression, prefix=PREFIX)
    app.add_middleware(BodyLimit, most_bytes=limits.body_bytes, timeout_s=limits.body_timeout_s)
    open_paths = OPEN_PATHS
    if services.agents is not None:
        open_paths = (*OPEN_PATHS, AGENT_PATH)
        app.add_middleware(
            AgentEntrance,
            auth=services.agents.auth,
            path=AGENT_PATH,
            nodes=Buckets(limits.node_reports_per_s, limits.node_reports_burst, monotonic_s),
            unknown=Buckets(limits.unknown_per_s, limits.unknown_burst, monotonic_s),
            count=services.metrics.reported,
        )
    app.add_middleware(
        Entrance,
        auth=services.auth,
        known=Buckets(limits.requests_per_s, limits.requests_burst, monotonic_s),
        unknown=Buckets(limits.unknown_per_s, limits.unknown_burst, monotonic_s),
        prefix=PREFIX,
        open_paths=open_paths,
    )
    app.add_middleware(Hosts, names=limits.hosts)
    app.add_middleware(Failures)
    app.add_middleware(SecurityHeaders, private_prefix=PREFIX)
    app.add_middleware(CountRequests, meters=services.metrics)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    services: Services = app.state.services
    to_thread.current_default_thread_limiter().total_tokens = services.limits.threads
    yield
    services.broadcast.close()
