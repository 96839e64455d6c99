"""What a host told, read out of whatever came from it."""

from __future__ import annotations

from launcher.doctor.answers import Answers, Gpu, Python

WORD = "w0rd"


def said(*lines: str) -> bytes:
    return "".join(f"{WORD}{line}\n" for line in lines).encode()


def test_parts_are_read_as_they_come() -> None:
    python = '{"python": {"version": "3.12.3", "executable": "/venv/bin/python"}}'
    gpus = '{"gpus": {"driver": "570", "cuda": "12.8", "devices": [%s], "complaint": ""}}'
    gpu = '{"index": 0, "name": "H100", "memory": 81559, "used": 4}'
    answers = Answers.of(said(python, gpus % gpu), WORD)

    assert answers.python == Python("3.12.3", "/venv/bin/python")
    assert answers.gpus is not None
    assert answers.gpus.devices == (Gpu(0, "H100", 81559, 4),)
    assert (answers.room, answers.all_told) == (None, False)


def test_what_others_print_is_passed_over() -> None:
    noise = b'hello\n{"python": 3}\n\xff\x00\n'

    assert Answers.of(noise + said('{"unwritable": ""}') + noise, WORD) == Answers(unwritable="")


def test_a_line_that_has_not_come_whole_is_waited_for() -> None:
    assert Answers.of(said('{"unwritable": ""}', '{"all_told": true}')[:-1], WORD) == Answers(unwritable="")


def test_all_that_failed_is_kept() -> None:
    answers = Answers.of(said('{"trouble": ["gpus", "x"]}', '{"trouble": ["room", "y"]}'), WORD)

    assert answers.trouble == (("gpus", "x"), ("room", "y"))
