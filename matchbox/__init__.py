"""matchbox: a deterministic, durable, sequenced price-time matching engine.

`import matchbox` is cheap: compiled code is loaded when an engine is made.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matchbox.constants import Action, Kind, Parameter, Reason, ReportFlag, Side, Tif
    from matchbox.embedded import Engine, ReferenceEngine
    from matchbox.schema import COMMAND, RECORD, REPORT, joined
    from matchbox.subscriber import Subscriber

_HOMES = {
    "Engine": "embedded",
    "ReferenceEngine": "embedded",
    "Subscriber": "subscriber",
    "COMMAND": "schema",
    "RECORD": "schema",
    "REPORT": "schema",
    "joined": "schema",
    "Action": "constants",
    "Kind": "constants",
    "Parameter": "constants",
    "Reason": "constants",
    "ReportFlag": "constants",
    "Side": "constants",
    "Tif": "constants",
}

__all__ = [
    "COMMAND",
    "RECORD",
    "REPORT",
    "Action",
    "Engine",
    "Kind",
    "Parameter",
    "Reason",
    "ReferenceEngine",
    "ReportFlag",
    "Side",
    "Subscriber",
    "Tif",
    "joined",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'matchbox' has no attribute {name!r}")
    return getattr(import_module(f"matchbox.{_HOMES[name]}"), name)
