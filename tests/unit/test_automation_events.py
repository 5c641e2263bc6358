"""From raw events to the recap: statuses, errors that count, lost events."""

from __future__ import annotations

from labctl.automation.events import Recap, message_of, status_of, task_event


def fold(*raws):
    recap = Recap()
    for number, raw in enumerate(raws, 1):
        complete = {"counter": number, **raw}
        recap.add(complete, task_event(complete))
        recap.publish(complete)
    return recap


def failed(host="a", **extra):
    result = {"msg": extra.pop("msg", "broken"), **extra.pop("res", {})}
    return {"event": "runner_on_failed", "event_data": {"host": host, "task": "t", "res": result, **extra}}


def stats(**data):
    return {"event": "playbook_on_stats", "event_data": data}


def test_success_needs_code_recap_hosts_and_all_events():
    assert status_of(None, 0, fold(stats(ok={"a": 1}))) == "successful"
    assert status_of(None, 0, fold()) == "failed"
    assert status_of(None, 0, fold(stats())) == "failed"
    assert status_of(None, None, fold(stats(ok={"a": 1}))) == "failed"


def test_a_gap_in_the_counters_is_lost_events():
    recap = fold(stats(ok={"a": 1}))
    raw = {"counter": 3, "event": "verbose", "stdout": "x"}
    recap.add(raw, task_event(raw))
    assert recap.lost_events
    assert status_of(None, 0, recap) == "failed"


def test_an_event_without_its_body_is_lost():
    assert fold({"event": "runner_on_ok"}, stats(ok={"a": 1})).lost_events


def test_stopped_wins_over_everything_else():
    assert status_of("timeout", 2, fold(failed())) == "timeout"
    assert status_of("canceled", 0, fold(stats(ok={"a": 1}))) == "canceled"
    assert status_of("orphaned", None, fold()) == "canceled"


def test_argument_errors_are_a_fault_of_the_variables():
    recap = fold(failed(res={"argument_errors": ["size: must be int"]}), stats(failures={"a": 1}))
    assert status_of(None, 2, recap) == "spec-error"
    assert recap.errors[0].spec_error
    assert "size: must be int" in recap.errors[0].message


def test_unreachable_only_if_nothing_failed():
    gone = {"event": "runner_on_unreachable", "event_data": {"host": "b", "task": "t", "res": {"msg": "no route"}}}
    assert status_of(None, 4, fold(gone, stats(dark={"b": 1}))) == "unreachable"
    assert status_of(None, 6, fold(gone, failed(), stats(dark={"b": 1}, failures={"a": 1}))) == "failed"


def test_a_playbook_that_could_not_begin_is_failed_and_not_unreachable():
    assert status_of(None, 4, fold()) == "failed"
    assert status_of(None, 4, fold({"event": "verbose", "stdout": "[ERROR]: no vault secrets found"})) == "failed"


def test_ignored_and_rescued_failures_do_not_count():
    recap = fold(
        failed(msg="ignored", ignore_errors=True),
        failed(msg="rescued"),
        failed(msg="real"),
        failed(host="b", msg="rescued on b"),
        stats(failures={"a": 1}, ok={"b": 3}, rescued={"a": 1, "b": 1}),
    )
    assert [(error.host, error.message) for error in recap.errors] == [("a", "real")]


def test_a_loop_shows_the_words_of_its_items():
    item = {
        "event": "runner_item_on_failed",
        "event_data": {"host": "a", "task": "t", "task_uuid": "u", "res": {"msg": "disk full"}},
    }
    recap = fold(item, failed(msg="One or more items failed", task_uuid="u"), stats(failures={"a": 1}))
    assert recap.errors[0].message == "disk full"


def test_results_come_from_set_stats_per_host():
    def published(host, **data):
        result = {"ansible_stats": {"data": data, "per_host": True, "aggregate": True}}
        return {"event": "runner_on_ok", "event_data": {"host": host, "res": result}}

    recap = Recap()
    for raw in (published("a", k=1, d={"x": 1}), published("b", k=1), published("a", d={"y": 2})):
        recap.publish(raw)
    assert recap.results == {"a": {"k": 1, "d": {"x": 1, "y": 2}}, "b": {"k": 1}}


def test_the_message_has_the_programs_own_words():
    assert message_of({"msg": "non-zero return code", "stderr": "fio: bad option"}) == (
        "non-zero return code\nfio: bad option"
    )
    assert message_of({"censored": "hidden", "msg": "x"}) == "hidden"
