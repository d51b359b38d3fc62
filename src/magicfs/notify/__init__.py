"""Notifications of publications: functions, webhooks with CloudEvents, and OpenLineage events.

A job with option ``after`` records which notifications it owes before its commit point. Each record goes once
its notification was delivered, so ``magicfs recover`` delivers what a driver that died did not. A record
holds a kind and a name, and nothing else: addresses, headers and functions come from this process.
"""

from typing import TYPE_CHECKING, Final

from magicfs.runtime.registered import lazy_names

if TYPE_CHECKING:
    from magicfs.notify.catch_up import Notified as Notified
    from magicfs.notify.catch_up import catch_up as catch_up
    from magicfs.notify.configured import configured as configured
    from magicfs.notify.notifiers import Function as Function
    from magicfs.notify.notifiers import OpenLineage as OpenLineage
    from magicfs.notify.notifiers import Webhook as Webhook
    from magicfs.notify.published import Published as Published

_HOMES = {
    "Function": "magicfs.notify.notifiers",
    "Notified": "magicfs.notify.catch_up",
    "OpenLineage": "magicfs.notify.notifiers",
    "Published": "magicfs.notify.published",
    "Webhook": "magicfs.notify.notifiers",
    "catch_up": "magicfs.notify.catch_up",
    "configured": "magicfs.notify.configured",
}

__all__ = ["Function", "Notified", "OpenLineage", "Published", "Webhook", "catch_up", "configured"]
__getattr__: Final = lazy_names(__name__, _HOMES)
