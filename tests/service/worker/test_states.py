"""The worker's state machine: every state with every event, and its invariants over random walks."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.service.worker import states
from stream_masker.service.worker.states import (
    BatchAction,
    Event,
    ImpossibleEventError,
    Phase,
    Previous,
    State,
    transition,
)

STEP_EVENTS = {
    Phase.GATHER: {Event.GATHERED, Event.NOTHING_GATHERED},
    Phase.MASK: {Event.MASKED, Event.NOTHING_MASKED},
    Phase.AWAIT_LOG: {Event.LOGGED},
    Phase.WRITE: {Event.WRITTEN, Event.WRITE_FAILED},
    Phase.AWAIT_COMMIT: {Event.SETTLED},
    Phase.AUTHORIZE: {Event.AUTHORIZED, Event.REFUSED},
    Phase.ABORT: {Event.ABORTED, Event.ABORT_STUCK},
    Phase.DRAIN: {Event.SETTLED},
    Phase.RECOVER: {Event.SETTLED},
    Phase.REWIND: {Event.REWOUND},
    Phase.STOP: set(),
}
COMMIT_ENDS = {Event.COMMITTED, Event.COMMIT_FAILED, Event.COMMIT_STUCK}
ANY_PHASE = COMMIT_ENDS | {Event.REVOKED, Event.STOPPED}
WAITS = {Phase.AWAIT_COMMIT, Phase.DRAIN, Phase.RECOVER}
"""The phases whose step ends only after the previous commit has ended."""


def can_occur(state: State, event: Event) -> bool:
    """Whether this event can occur in this state."""
    if event in ANY_PHASE:
        return True
    waits = state.phase in WAITS and state.previous is Previous.COMMITTING
    return event in STEP_EVENTS[state.phase] and not waits


def reachable() -> list[State]:
    """All states that events lead to from the initial one."""
    states, queue = [State()], deque([State()])
    while queue:
        state = queue.popleft()
        for event in Event:
            if can_occur(state, event) and (after := transition(state, event)[0]) not in states:
                states.append(after)
                queue.append(after)
    return states


REACHABLE = reachable()
ALL = [State(phase, previous) for phase in Phase for previous in Previous]


def test_the_reachable_states() -> None:
    none, committing, failed = Previous.NONE, Previous.COMMITTING, Previous.FAILED
    expected = {
        Phase.GATHER: {none, committing, failed},
        Phase.MASK: {none, committing, failed},
        Phase.AWAIT_LOG: {none, committing, failed},
        Phase.WRITE: {none, committing, failed},
        Phase.AWAIT_COMMIT: {none, committing, failed},
        Phase.AUTHORIZE: {none},
        Phase.ABORT: {none, failed},
        Phase.DRAIN: {none, committing, failed},
        Phase.RECOVER: {none, committing, failed},
        Phase.REWIND: {none, failed},
        Phase.STOP: {none, committing, failed},
    }
    assert set(REACHABLE) == {State(phase, previous) for phase, group in expected.items() for previous in group}


@pytest.mark.parametrize("state", REACHABLE, ids=lambda state: f"{state.phase.name} {state.previous.name}")
def test_every_event_has_a_result_or_is_impossible(state: State) -> None:
    for event in Event:
        if can_occur(state, event):
            after, actions = transition(state, event)
            assert after in REACHABLE
            assert set(actions) <= set(BatchAction)
        else:
            with pytest.raises(ImpossibleEventError, match=f"{event.name} cannot occur in {state.phase.name} with"):
                transition(state, event)


def test_every_state_that_cannot_be_reached_has_no_step_events() -> None:
    for state in set(ALL) - set(REACHABLE):
        for event in set(Event) - ANY_PHASE:
            with pytest.raises(ImpossibleEventError):
                transition(state, event)


def test_every_reachable_state_leads_back_to_gathering_or_has_stopped() -> None:
    for state in REACHABLE:
        seen = {state}
        queue = deque([state])
        while queue:
            here = queue.popleft()
            for event in set(Event) - {Event.STOPPED}:
                if can_occur(here, event) and (after := transition(here, event)[0]) not in seen:
                    seen.add(after)
                    queue.append(after)
        assert State() in seen or state.phase is Phase.STOP


@pytest.mark.parametrize("event", [event for event in Event if event in COMMIT_ENDS])
def test_the_end_of_a_commit_that_is_already_settled_has_no_effect(event: Event) -> None:
    for state in REACHABLE:
        if state.previous is not Previous.COMMITTING:
            assert transition(state, event) == (state, ())


@pytest.mark.parametrize("state", REACHABLE, ids=lambda state: f"{state.phase.name} {state.previous.name}")
def test_a_revocation_settles_the_pending_commit_and_changes_nothing_else(state: State) -> None:
    pending = state.previous is Previous.COMMITTING
    assert transition(state, Event.REVOKED) == (state, (BatchAction.SETTLE,) if pending else ())


@pytest.mark.parametrize("state", REACHABLE, ids=lambda state: f"{state.phase.name} {state.previous.name}")
def test_a_stop_settles_the_pending_commit_and_is_final(state: State) -> None:
    pending = state.previous is Previous.COMMITTING
    stopped, actions = transition(state, Event.STOPPED)
    assert (stopped, actions) == (State(Phase.STOP, state.previous), (BatchAction.SETTLE,) if pending else ())
    for event in ANY_PHASE:
        assert transition(stopped, event)[0].phase is Phase.STOP


def documented(first: str, columns: int) -> list[list[str]]:
    """The cells of a table in the module's docstring; ``first``: its first heading."""
    assert states.__doc__
    lines = states.__doc__.split(f"\n    {first} ", 1)[1].splitlines()
    heading = f"{first} {lines[0]}"
    starts = [match.start() for match in re.finditer(r"(?<=\s)\S|^\S", heading)]
    assert len(starts) == columns
    rows: list[list[str]] = []
    for line in lines[1:]:
        if not line.strip():
            return rows
        cells = [line[4:][a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
        if cells[0]:
            rows.append(cells)
        else:
            rows[-1] = [f"{above} {below}".strip() for above, below in zip(rows[-1], cells, strict=True)]
    raise AssertionError("the table has no end")


def cell(state: State, event: Event) -> str:
    """A table cell as documented: the target, then the actions."""
    try:
        after, actions = transition(state, event)
    except ImpossibleEventError:
        return "-"
    target = after.previous if event in ANY_PHASE else after.phase
    return " ".join([target.name, *(f"+{action.name}" for action in actions)])


def test_the_documented_step_table_is_the_transition_function() -> None:
    rows = documented("Phase         Event", 5)
    assert {(phase, event) for phase, event, *_ in rows} == {
        (phase.name, event.name) for phase, events in STEP_EVENTS.items() for event in events
    }
    for phase, event, *cells in rows:
        assert cells == [cell(State(Phase[phase], previous), Event[event]) for previous in Previous], (phase, event)


def test_the_documented_table_for_any_phase_is_the_transition_function() -> None:
    rows = documented("Event", 4)
    assert {event for event, *_ in rows} == {event.name for event in ANY_PHASE}
    for event, *cells in rows:
        for phase in Phase:
            assert cells == [cell(State(phase, previous), Event[event]) for previous in Previous], event


@dataclass
class Batches:
    """The effects of steps and actions on numbered batches; checks the invariants of exactly-once processing.

    ``next``: the batch to gather next. ``open``: those with an open transaction. ``logged``: those whose records are in
    the log. ``committed``: in the order of their commits. A commit with an unknown result counts as failed.
    """

    next: int = 0
    current: int | None = None
    previous: int | None = None
    open: set[int] = field(default_factory=set)
    logged: set[int] = field(default_factory=set)
    revoked: set[int] = field(default_factory=set)
    failed: list[int] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)

    def step_ended(self, phase: Phase, event: Event) -> None:
        """Apply the effect of a step, and check that it is allowed."""
        if event is Event.GATHERED:
            assert self.current is None
            self.current, self.next = self.next, self.next + 1
            self.revoked.discard(self.current)
        elif event is Event.NOTHING_MASKED:
            self.current, self.next = None, self.next - 1
        elif event is Event.LOGGED and self.previous is not None:
            self.logged.add(self.previous)
        elif event in {Event.WRITTEN, Event.WRITE_FAILED}:
            assert self.previous is None or self.previous in self.logged, "written before the records before it"
            if event is Event.WRITTEN:
                assert self.current is not None
                self.open.add(self.current)
            assert len(self.open) <= 2
        elif event in {Event.ABORTED, Event.ABORT_STUCK}:
            assert self.previous is None, "aborted while another transaction commits"
            assert self.current is not None
            self.open.remove(self.current)
        elif event is Event.REWOUND:
            assert (self.current, self.previous, self.open) == (None, None, set())
            assert self.failed, "rewound without a failed batch"
            self.next = min(self.failed)
            self.failed.clear()

    def act(self, action: BatchAction) -> None:
        """Perform an action, and check that it is allowed."""
        if action is BatchAction.COMMIT:
            assert self.current is not None
            assert self.previous is None, "two commits at a time"
            assert not self.failed, "committed after a failed batch that is not rewound"
            assert self.current in self.open
            assert self.current not in self.revoked, "committed after a revocation"
            assert self.current == len(self.committed), "committed out of order"
            self.previous, self.current = self.current, None
        elif action is BatchAction.ADVANCE:
            assert self.previous is not None
            self.committed.append(self.previous)
            self.open.remove(self.previous)
            self.previous = None
        elif action is BatchAction.FAIL_PREVIOUS:
            assert self.previous is not None
            self.failed.append(self.previous)
            self.open.remove(self.previous)
            self.previous = None
        elif action is BatchAction.FAIL_CURRENT:
            assert self.current is not None
            assert self.current not in self.open, "an open transaction is forgotten"
            self.failed.append(self.current)
            self.current = None


class Walk:
    """A random walk through the state machine; as in the worker's loop, commit events interrupt steps."""

    def __init__(self, choose: st.DataObject) -> None:
        self.choose = choose
        self.state = State()
        self.batches = Batches()

    def handle(self, event: Event) -> None:
        before, (self.state, actions) = self.state, transition(self.state, event)
        if event not in ANY_PHASE:
            self.batches.step_ended(before.phase, event)
        for action in actions:
            self.batches.act(action)
            if action is BatchAction.SETTLE:
                self.end_commit()
        assert (self.state.previous is Previous.COMMITTING) == (self.batches.previous is not None)
        assert (self.state.previous is Previous.FAILED) <= bool(self.batches.failed)

    def end_commit(self) -> None:
        self.handle(self.choose.draw(st.sampled_from(sorted(COMMIT_ENDS, key=lambda event: event.name))))
        assert self.state.previous is not Previous.COMMITTING

    def revoke(self) -> None:
        """A rebalance: the commit is settled before the partitions of the current batch are revoked."""
        self.handle(Event.REVOKED)
        assert self.batches.previous is None, "a commit is pending after the revocation"
        if self.batches.current is not None:
            self.batches.revoked.add(self.batches.current)

    def step(self) -> None:
        """One step: perhaps interrupted, then ended by one of its events."""
        for interruption in self.choose.draw(st.lists(st.sampled_from(["revoke", "commit"]), max_size=2)):
            if interruption == "revoke" and self.state.phase is not Phase.AUTHORIZE:
                self.revoke()
            elif interruption == "commit" and self.state.phase in WAITS | {Phase.AWAIT_LOG}:
                self.end_commit()
        if self.state.phase in WAITS and self.state.previous is Previous.COMMITTING:
            self.end_commit()
        events = [event for event in Event if event in STEP_EVENTS[self.state.phase]]
        if self.state.phase is Phase.AUTHORIZE and self.batches.current in self.batches.revoked:
            events = [Event.REFUSED]
        self.handle(self.choose.draw(st.sampled_from(events)))

    def stop(self) -> None:
        """The worker stops; closing its clients aborts open transactions."""
        self.handle(Event.STOPPED)
        assert self.batches.previous is None, "a commit is pending after the stop"
        assert self.batches.open <= {self.batches.current}, "a transaction is open that closing does not abort"


@given(st.data(), st.integers(0, 50))
def test_random_walks_keep_the_invariants(data: st.DataObject, steps: int) -> None:
    walk = Walk(data)
    for _ in range(steps):
        walk.step()
    walk.stop()
    assert walk.batches.committed == list(range(len(walk.batches.committed)))
