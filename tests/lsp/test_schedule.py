"""Whose turn it is, when documents take long."""

from pathlib import Path

from gpulint.lsp.schedule import FIRST_S, TURNS, Schedule

SLOW, SMALL, OTHER = Path("/slow.py"), Path("/small.py"), Path("/other.py")


def turns(schedule, count=50):
    """The documents of the next turns, where slow documents use up each of theirs."""
    found = []
    while (turn := schedule.next()) is not None and len(found) < count:
        found.append(sorted(path.name for path in turn.paths))
        if SLOW in turn.paths:
            schedule.cut(turn)
        else:
            schedule.finish(turn, 0.1)
    return found


def test_changed_documents_come_first():
    schedule = Schedule()
    schedule.recheck([SMALL, OTHER])
    schedule.change(OTHER)
    assert turns(schedule) == [["other.py"], ["small.py"]]


def test_a_slow_document_waits_for_all_others_and_is_given_up_in_the_end():
    schedule = Schedule()
    for path in (SLOW, SMALL):
        schedule.change(path)
    schedule.recheck([OTHER])
    together, *rest = turns(schedule)
    assert together == ["slow.py", "small.py"]
    assert rest[:2] == [["other.py"], ["small.py"]]
    assert rest[2:] == [["slow.py"]] * TURNS
    assert schedule.slow == {SLOW}


def test_each_turn_of_a_slow_document_is_longer():
    schedule = Schedule()
    schedule.change(SLOW)
    lengths = []
    while (turn := schedule.next()) is not None:
        lengths.append(turn.seconds)
        schedule.cut(turn)
    assert lengths == [FIRST_S * 2**number for number in range(TURNS)]
    schedule.recheck([SLOW])
    assert schedule.next() is None
    schedule.change(SLOW)
    assert schedule.next() is not None


def test_the_document_that_was_edited_last_comes_first_among_slow_ones():
    schedule = Schedule()
    for path in (SMALL, OTHER):
        schedule.change(path)
    schedule.postpone(schedule.next())
    assert schedule.next().paths == {OTHER}
    schedule.change(SMALL)
    assert schedule.next().paths == {SMALL}


def test_a_document_that_is_quick_by_itself_is_slow_no_more():
    schedule = Schedule()
    for path in (SLOW, SMALL):
        schedule.change(path)
    schedule.cut(schedule.next())
    turn = schedule.next()
    assert schedule.finish(turn, 1.0)
    assert turn.paths.isdisjoint(schedule.slow)
    assert not schedule.finish(schedule.next(), FIRST_S + 1)
    assert schedule.slow == {SLOW, SMALL} - turn.paths


def test_a_closed_document_has_no_turn_and_stays_slow_until_its_file_changes():
    schedule = Schedule()
    schedule.change(SLOW)
    turn = schedule.next()
    schedule.cut(turn)
    schedule.forget(SLOW)
    assert schedule.next() is None and schedule.slow == {SLOW}
    schedule.postpone(turn)  # the check of the closed document ends after it was closed
    assert schedule.next() is None
    schedule.reconsider([SLOW])
    assert not schedule.slow
