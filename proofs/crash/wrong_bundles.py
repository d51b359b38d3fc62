"""Mutants of what is done with small files: bundles, and the bodies that are put at their keys."""

from __future__ import annotations

from typing import Final

from proofs.crash.settings import Setting
from proofs.crash.wrong_lines import CrashMutant

__all__ = ["BUNDLE_MUTANTS"]

_JOBS: Final = (
    Setting(mode="overwrite", tracking="small"),
    Setting(shape="three", tracking="small"),
)

BUNDLE_MUTANTS: Final = (
    CrashMutant(
        "small files are put before the commit point",
        "magicfs.transaction.prepare",
        "check_success(context, output)",
        "from magicfs.protocol.steps import Batch, Put; "
        "from magicfs.transaction.visible import Bundles; "
        "steps = [one for one in output.steps() if isinstance(one, Put)]; "
        'await engine.run(Batch("put", steps), '
        "bodies=Bundles(engine.store, lambda: asyncio.sleep(0)))",
        "a",
        _JOBS,
    ),
    CrashMutant(
        "what a bundle holds is not compared",
        "magicfs.transaction.visible",
        "if len(body) != step.length or hashlib.sha256(body).hexdigest() != step.sha256:",
        "if len(body) != step.length:",
        "c",
        _JOBS,
        "altered",
    ),
    CrashMutant(
        "the lost reply of a put is not read back",
        "magicfs.engine",
        "return await self._read_back(step, error)",
        "return await self._read_back(step, error) if isinstance(step, Complete) else "
        '(Outcome.UNKNOWN if error.retryable else Outcome.FAILED, error, "")',
        "b",
        _JOBS,
    ),
    CrashMutant(
        "bundles go before their files are put",
        "magicfs.transaction.execute",
        "bodies = Bundles(self.engine.store, partial(self.record.confirm, version))",
        "bodies = Bundles(self.engine.store, partial(self.record.confirm, version)); "
        "await self.engine.store.delete(list(output.bundles))",
        "b",
        _JOBS,
    ),
    CrashMutant(
        "bodies lie in a bundle one byte further than they are said to",
        "magicfs.filesystem.in_hand",
        'put = await store.put(key, b"".join(taken.values()))',
        'put = await store.put(key, b"?" + b"".join(taken.values()))',
        "b",
        _JOBS,
    ),
    CrashMutant(
        "small files of a bundle beside uploads are forgotten",
        "magicfs.transaction.execute",
        "if result.ok and (last or output.bundles):",
        "if result.ok and last:",
        "b",
        _JOBS,
    ),
)
