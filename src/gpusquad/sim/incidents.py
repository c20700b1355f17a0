"""What happens to cards and nodes during a simulation, one JSON object a line::

{"at": 3600, "card": "n0/1", "ok": false}
{"at": "2h", "node": "n3", "up": false}
"""

from __future__ import annotations

import json
from pathlib import Path

from gpusquad.core.ports import CardChanged, Event, NodeChanged
from gpusquad.model.cluster import Cluster
from gpusquad.model.errors import Invalid
from gpusquad.model.fields import Fields

Incidents = list[tuple[int, Event]]


def load_incidents(path: str | Path, cluster: Cluster) -> Incidents:
    """Incidents of a file, for cards and nodes of this cluster. Errors name the line."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise Invalid("incidents", f"there is no file {str(path)!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid("incidents", f"cannot read {str(path)!r}: {error}") from None
    nodes = {node.id for node in cluster.nodes}
    cards = {card.id for node in cluster.nodes for card in node.cards}
    result: Incidents = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            result.append(_incident(line, f"{Path(path).name}, line {number}", nodes, cards))
    return result


def _incident(line: str, where: str, nodes: set[str], cards: set[str]) -> tuple[int, Event]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        raise Invalid(where, "is not JSON", 'write {"at": 3600, "card": "n0/1", "ok": false}') from None
    fields = Fields(data, where, ("at", "card", "ok", "node", "up"))
    at_us = fields.optional_us("at")
    if at_us is None:
        raise Invalid(fields.at("at"), "is missing", "give the time since the start, in seconds or as 2h")
    card = _subject(fields, "card", "ok", cards, "node", "up")
    if card is not None:
        return at_us, CardChanged(card, fields.flag("ok", True))
    node = _subject(fields, "node", "up", nodes, "card", "ok")
    if node is not None:
        return at_us, NodeChanged(node, fields.flag("up", True))
    raise Invalid(where, "names neither a card nor a node", 'write "card": … "ok": … or "node": … "up": …')


def _subject(fields: Fields, name: str, state: str, known: set[str], *not_beside: str) -> str | None:
    """The card (or node) of the line, if it names one."""
    if name not in fields:
        return None
    for other in not_beside:
        if other in fields:
            raise Invalid(fields.at(other), f"stands beside {name}", "one line is about one card or one node")
    if state not in fields:
        raise Invalid(fields.at(state), "is missing", f"say whether the {name} is {state}: true or false")
    subject = fields.text(name, required=True)
    if subject not in known:
        raise Invalid(
            fields.at(name),
            f"there is no {name} {subject!r} in the cluster",
            f"for example {min(known)!r}" if known else "",
        )
    return subject
