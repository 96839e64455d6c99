"""The agent's program, as the launcher sends it."""

from __future__ import annotations

import threading

from launcher.hosts.transport import opening

HOSTS = 8


def test_threads_that_ask_at_once_share_one_program() -> None:
    together = threading.Barrier(HOSTS)
    got: list[bytes] = []

    def ask() -> None:
        together.wait()
        got.append(opening(("agent", "probe")))

    threads = [threading.Thread(target=ask) for _ in range(HOSTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(got) == HOSTS
    assert len({id(each) for each in got}) == 1, "each packing takes 6 ms, one after the other"
