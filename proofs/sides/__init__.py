"""The sides of the world beside one job and its rivals: their checks, and mutants that only they notice.

====  ==================================================================================================
``a``  maintenance: each command beside each other, beside jobs and beside itself
``b``  other destinations: nested, parent, extra, shared, moved
``c``  names
``d``  the public API as people use it: interruptions, forgotten options, forks, threads, the collector
``e``  sizes: what is written can be read
====  ==================================================================================================

Here are the checks of ``a``, ``d`` and ``e``; tests call them, too. Those of ``b`` and ``c`` are simulations
of ``proofs.crash``, and the model has settings of ``a`` and ``b``.
"""
