"""What a host told, heard out of whatever came from it."""

from __future__ import annotations

import msgspec
import pytest

from launcher.doctor.probing import NO_WORKDIR, Probe
from launcher.on_host.agent.framing import UnreadableError
from launcher.on_host.agent.messages import AskProgram, Command, ProgramEnded, ProgramNotRun, ProgramSaid, TellProgram
from launcher.on_host.agent.programs import MOST


class Heard:
    """A probe in a Python of the user's, what was sent to its host, and what it says."""

    def __init__(self, *workdirs: str) -> None:
        self.sent: list[Command] = []
        self.probe = Probe("worker", self.sent.append, ["/p/python"], [*workdirs] or ["/p"], {})

    def says(self, *lines: str, end: str = "\n") -> Probe:
        started = [each for each in self.sent if isinstance(each, AskProgram)][-1]
        word = started.said.split(b"\n")[1].decode()
        said = "\n".join(f"{word}{line}" for line in lines) + end
        self.probe.hear(ProgramSaid("worker", said.encode()))
        return self.probe

    def ends(self, code: int | None, number: int | None = None, last_words: str = "") -> Probe:
        self.probe.hear(ProgramEnded("worker", code, number, last_words.encode()))
        return self.probe


def test_parts_are_heard_as_they_come() -> None:
    heard = Heard()
    heard.probe.ask({"python": [], "gate": []})
    heard.says('{"python": {"version": "3.12.3"}}')

    assert heard.probe.answers == {"python": {"version": "3.12.3"}}
    assert (heard.probe.awaited, heard.probe.has_answered) == ({"gate"}, False)
    assert heard.says('{"gate": ""}').has_answered


def test_what_others_print_is_passed_over() -> None:
    heard = Heard()
    heard.probe.hear(ProgramSaid("worker", b'hello\n{"python": 3}\n\xff\x00\n'))

    assert heard.says('{"unwritable": ""}').answers == {"unwritable": ""}


def test_a_line_that_has_not_come_whole_is_waited_for() -> None:
    heard = Heard()
    assert heard.says('{"unwritable": ""}', '{"gate": ""', end="").answers == {"unwritable": ""}
    heard.probe.hear(ProgramSaid("worker", b"}\n"))

    assert heard.probe.answers == {"unwritable": "", "gate": ""}


def test_all_that_failed_is_kept_and_not_waited_for() -> None:
    heard = Heard()
    heard.probe.ask({"gpus": [], "room": []})
    heard.says('{"trouble": {"gpus": "x"}}', '{"trouble": {"room": "y"}}')

    assert heard.probe.trouble == {"gpus": "x", "room": "y"}
    assert heard.probe.has_answered


@pytest.mark.parametrize("line", ["[]", "{", '{"trouble": 5}', '{"trouble": {"gpus": 5}}'])
def test_what_no_probe_tells_is_refused(line: str) -> None:
    with pytest.raises((UnreadableError, msgspec.ValidationError)):
        Heard().says(line)


def test_a_flood_is_no_answer() -> None:
    heard = Heard()
    with pytest.raises(UnreadableError, match=f"more than {MOST} bytes"):
        heard.probe.hear(ProgramSaid("worker", bytes(MOST + 1)))


@pytest.mark.parametrize(
    ("how", "said", "silence", "refusal"),
    [
        ((0, None, ""), True, "", ""),
        ((1, None, "a\nOSError: b\n"), True, "OSError: b", ""),
        ((None, 4, ""), True, "it was ended by SIGILL", ""),
        ((1, None, ""), False, "", "/p/python: exit code 1"),
        ((0, None, ""), False, "", "/p/python: it says nothing; is it a Python?"),
    ],
)
def test_how_it_ended_is_told(how: tuple[int | None, int | None, str], said: bool, silence: str, refusal: str) -> None:
    heard = Heard()
    if said:
        heard.says('{"python": {}}')
    probe = heard.ends(*how)

    assert (probe.silence, probe.refusal, probe.has_answered) == (silence, refusal, True)


def test_a_directory_that_comes_with_the_start_need_not_be_there() -> None:
    heard = Heard("/new", "~")
    heard.probe.ask({"python": []})
    heard.probe.hear(ProgramNotRun("worker", f"{NO_WORKDIR} /new: No such file or directory"))

    assert [each.cwd for each in heard.sent if isinstance(each, AskProgram)] == ["/new", "~"]
    assert heard.says('{"python": {}}').has_answered, "it was asked again"
    assert b'"python"' in [each.said for each in heard.sent if isinstance(each, AskProgram)][-1]


def test_what_cannot_be_started_is_refused() -> None:
    heard = Heard()
    heard.probe.hear(ProgramNotRun("worker", f"{NO_WORKDIR} /p: No such file or directory"))
    heard.probe.ask({"tensorflow": []})

    assert heard.probe.refusal == f"{NO_WORKDIR} /p: No such file or directory"
    assert (heard.probe.has_answered, heard.probe.awaited) == (True, {"tensorflow"})
    assert not [each for each in heard.sent if isinstance(each, TellProgram)]


def test_who_has_not_answered_in_time_is_not_heard_any_more() -> None:
    heard = Heard()
    heard.probe.ask({"python": []})
    heard.probe.give_up(20.0)

    assert heard.says('{"python": {}}').answers == {}
    assert heard.ends(1, last_words="x").silence == "no answer in 20 s"
