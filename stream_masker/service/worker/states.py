"""The worker's state machine: which step follows, and what happens to the batches in flight.

At most two batches are in flight. The *previous* batch is committing while the *current* one is masked and written. The
state is what the main thread does (``Phase``) and how the previous batch stands (``Previous``). ``transition`` maps a
state and an event to the next state and to the actions that the worker performs; it is pure and has no other input.

The main thread performs the step of the current phase. A step ends with one of its own events:

    Phase         Step                                         Events
    GATHER        read messages until a batch is complete      GATHERED, NOTHING_GATHERED
    MASK          mask the current batch                       MASKED, NOTHING_MASKED
    AWAIT_LOG     wait until the previous records are in the   LOGGED
                  log, or their commit has failed
    WRITE         open a transaction with the current batch    WRITTEN, WRITE_FAILED
    AWAIT_COMMIT  wait for the previous commit                 SETTLED
    AUTHORIZE     get the group metadata that fences a commit  AUTHORIZED, REFUSED
    ABORT         abort the current transaction                ABORTED, ABORT_STUCK
    DRAIN         no current batch: wait for the previous      SETTLED
                  commit
    RECOVER       the current batch has failed: wait for the   SETTLED
                  previous commit
    REWIND        reopen the producers and read the failed     REWOUND
                  batches again from the committed offsets
    STOP          none: the worker closes its clients, which   -
                  aborts an open transaction

Step events select the next phase by the previous batch's status. Actions follow the phase:

    Phase         Event             NONE                 COMMITTING               FAILED
    GATHER        GATHERED          MASK                 MASK                     REWIND +FAIL_CURRENT
    GATHER        NOTHING_GATHERED  GATHER               DRAIN                    REWIND
    MASK          MASKED            WRITE                AWAIT_LOG                REWIND +FAIL_CURRENT
    MASK          NOTHING_MASKED    GATHER               DRAIN                    REWIND
    AWAIT_LOG     LOGGED            WRITE                WRITE                    REWIND +FAIL_CURRENT
    WRITE         WRITTEN           AUTHORIZE            AWAIT_COMMIT             ABORT
    WRITE         WRITE_FAILED      REWIND +FAIL_CURRENT RECOVER +FAIL_CURRENT    REWIND +FAIL_CURRENT
    AWAIT_COMMIT  SETTLED           AUTHORIZE            -                        ABORT
    AUTHORIZE     AUTHORIZED        GATHER +COMMIT       -                        -
    AUTHORIZE     REFUSED           ABORT                -                        -
    ABORT         ABORTED           REWIND +FAIL_CURRENT -                        REWIND +FAIL_CURRENT
    ABORT         ABORT_STUCK       REWIND +ABANDON      -                        REWIND +ABANDON
                                           +FAIL_CURRENT                                 +FAIL_CURRENT
    DRAIN         SETTLED           GATHER               -                        REWIND
    RECOVER       SETTLED           REWIND               -                        REWIND
    REWIND        REWOUND           GATHER               -                        GATHER

COMMIT makes the current batch the previous one, COMMITTING. REWOUND sets the previous status to NONE. A dash is an
event that cannot occur in that state; ``transition`` raises ImpossibleEventError. AWAIT_LOG, AWAIT_COMMIT, DRAIN and
RECOVER are entered only while the previous batch is COMMITTING; NONE and FAILED there mean that its commit has ended.

The other events occur in any phase and keep it, except that STOPPED leads to STOP. A rebalance callback raises REVOKED
in the middle of a step:

    Event          NONE    COMMITTING                        FAILED
    COMMITTED      NONE    NONE +ADVANCE                     FAILED
    COMMIT_FAILED  NONE    FAILED +FAIL_PREVIOUS             FAILED
    COMMIT_STUCK   NONE    FAILED +ABANDON +FAIL_PREVIOUS    FAILED
    REVOKED        NONE    COMMITTING +SETTLE                FAILED
    STOPPED        NONE    COMMITTING +SETTLE                FAILED

The end of a commit has no effect if none is pending: a revocation has settled that commit while a step waited for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto


class Phase(Enum):
    """What the main thread does."""

    GATHER = auto()
    MASK = auto()
    AWAIT_LOG = auto()
    WRITE = auto()
    AWAIT_COMMIT = auto()
    AUTHORIZE = auto()
    ABORT = auto()
    DRAIN = auto()
    RECOVER = auto()
    REWIND = auto()
    STOP = auto()


class Previous(Enum):
    """The batch before the current one: committed or absent, committing, or failed and not yet rewound."""

    NONE = auto()
    COMMITTING = auto()
    FAILED = auto()


class Event(Enum):
    """The end of a step, the end of a commit, a revocation of partitions, or the end of the worker."""

    GATHERED = auto()
    NOTHING_GATHERED = auto()
    MASKED = auto()
    NOTHING_MASKED = auto()
    LOGGED = auto()
    WRITTEN = auto()
    WRITE_FAILED = auto()
    SETTLED = auto()
    AUTHORIZED = auto()
    REFUSED = auto()
    ABORTED = auto()
    ABORT_STUCK = auto()
    REWOUND = auto()
    COMMITTED = auto()
    COMMIT_FAILED = auto()
    COMMIT_STUCK = auto()
    REVOKED = auto()
    STOPPED = auto()


class BatchAction(Enum):
    """What the worker does on a transition, before the next step.

    ``COMMIT``: start to commit the current batch. ``ADVANCE``: note that the previous batch is committed.
    ``FAIL_PREVIOUS``, ``FAIL_CURRENT``: keep the batch for the next rewind. ``ABANDON``: replace the producer that is
    stuck. ``SETTLE``: end the pending commit at once, without polling; a commit event follows.
    """

    COMMIT = auto()
    ADVANCE = auto()
    FAIL_PREVIOUS = auto()
    FAIL_CURRENT = auto()
    ABANDON = auto()
    SETTLE = auto()


@dataclass(frozen=True, slots=True)
class State:
    """The state of a worker; the initial one by default."""

    phase: Phase = Phase.GATHER
    previous: Previous = Previous.NONE


class ImpossibleEventError(RuntimeError):
    """An event that cannot occur in a state."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"{event.name} cannot occur in {state.phase.name} with {state.previous.name}")


def transition(state: State, event: Event) -> tuple[State, tuple[BatchAction, ...]]:
    """Return the next state, and the actions to perform in this order.

    Raises ImpossibleEventError if the event ends a step that the state does not have.
    """
    if (change := _ANY_PHASE.get(event)) is not None:
        phase = Phase.STOP if event is Event.STOPPED else state.phase
        previous, actions = change if state.previous is Previous.COMMITTING else (state.previous, ())
        return State(phase, previous), actions
    target = _STEPS.get((state.phase, event), {}).get(state.previous)
    if target is None:
        raise ImpossibleEventError(state, event)
    return State(target.phase, target.previous or state.previous), target.actions


@dataclass(frozen=True, slots=True)
class _Target:
    """Where the end of a step leads. ``previous``: the previous batch's new status; None: it stays."""

    phase: Phase
    actions: tuple[BatchAction, ...] = ()
    previous: Previous | None = None


_GATHER, _MASK, _DRAIN = _Target(Phase.GATHER), _Target(Phase.MASK), _Target(Phase.DRAIN)
_AWAIT_LOG, _WRITE, _AWAIT_COMMIT = _Target(Phase.AWAIT_LOG), _Target(Phase.WRITE), _Target(Phase.AWAIT_COMMIT)
_AUTHORIZE, _ABORT, _REWIND = _Target(Phase.AUTHORIZE), _Target(Phase.ABORT), _Target(Phase.REWIND)
_COMMIT = _Target(Phase.GATHER, (BatchAction.COMMIT,), Previous.COMMITTING)
_FAIL = _Target(Phase.REWIND, (BatchAction.FAIL_CURRENT,))
_FAIL_AND_WAIT = _Target(Phase.RECOVER, (BatchAction.FAIL_CURRENT,))
_ABANDON = _Target(Phase.REWIND, (BatchAction.ABANDON, BatchAction.FAIL_CURRENT))
_RESUME = _Target(Phase.GATHER, previous=Previous.NONE)

_ROWS: tuple[tuple[Phase, Event, _Target | None, _Target | None, _Target | None], ...] = (
    (Phase.GATHER, Event.GATHERED, _MASK, _MASK, _FAIL),
    (Phase.GATHER, Event.NOTHING_GATHERED, _GATHER, _DRAIN, _REWIND),
    (Phase.MASK, Event.MASKED, _WRITE, _AWAIT_LOG, _FAIL),
    (Phase.MASK, Event.NOTHING_MASKED, _GATHER, _DRAIN, _REWIND),
    (Phase.AWAIT_LOG, Event.LOGGED, _WRITE, _WRITE, _FAIL),
    (Phase.WRITE, Event.WRITTEN, _AUTHORIZE, _AWAIT_COMMIT, _ABORT),
    (Phase.WRITE, Event.WRITE_FAILED, _FAIL, _FAIL_AND_WAIT, _FAIL),
    (Phase.AWAIT_COMMIT, Event.SETTLED, _AUTHORIZE, None, _ABORT),
    (Phase.AUTHORIZE, Event.AUTHORIZED, _COMMIT, None, None),
    (Phase.AUTHORIZE, Event.REFUSED, _ABORT, None, None),
    (Phase.ABORT, Event.ABORTED, _FAIL, None, _FAIL),
    (Phase.ABORT, Event.ABORT_STUCK, _ABANDON, None, _ABANDON),
    (Phase.DRAIN, Event.SETTLED, _GATHER, None, _REWIND),
    (Phase.RECOVER, Event.SETTLED, _REWIND, None, _REWIND),
    (Phase.REWIND, Event.REWOUND, _RESUME, None, _RESUME),
)
"""For each phase and the end of its step: the targets if the previous batch is NONE, COMMITTING, FAILED."""

_STEPS: Mapping[tuple[Phase, Event], Mapping[Previous, _Target | None]] = {
    (phase, event): dict(zip(Previous, targets, strict=True)) for phase, event, *targets in _ROWS
}

_ANY_PHASE: Mapping[Event, tuple[Previous, tuple[BatchAction, ...]]] = {
    Event.COMMITTED: (Previous.NONE, (BatchAction.ADVANCE,)),
    Event.COMMIT_FAILED: (Previous.FAILED, (BatchAction.FAIL_PREVIOUS,)),
    Event.COMMIT_STUCK: (Previous.FAILED, (BatchAction.ABANDON, BatchAction.FAIL_PREVIOUS)),
    Event.REVOKED: (Previous.COMMITTING, (BatchAction.SETTLE,)),
    Event.STOPPED: (Previous.COMMITTING, (BatchAction.SETTLE,)),
}
"""The changes of a previous batch that is committing; they do not depend on the phase."""
