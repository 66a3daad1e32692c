"""All arrays of the engine in one named tuple."""

from __future__ import annotations

from typing import NamedTuple

from stream_masker.core.replacement.dag.cache import CandidateCache
from stream_masker.core.replacement.dag.index import GraphArrays, MemberLists
from stream_masker.core.replacement.dag.scratch import AncestorScratch


class DagArrays(NamedTuple):
    """The index of the taxonomy (``graph``, ``lists``), the cache and the scratch memory of one ``DagReplacer``."""

    graph: GraphArrays
    lists: MemberLists
    cache: CandidateCache
    scratch: AncestorScratch
