"""Which machines a host neither hears nor is heard by, as rules for `nft`."""

from __future__ import annotations

from collections.abc import Sequence

UNBLOCK = "add table inet rig\ndelete table inet rig\n"  # which must be there to be deleted


def blocking(addresses: tuple[str, str], ports: Sequence[int]) -> str:
    """Drop what comes from or goes to a machine; where ports are named, only what is from or to one of these ports."""
    sides = [f"th {side} {{ {', '.join(map(str, ports))} }}" for side in ("sport", "dport")] if ports else [""]
    chains = [
        f"chain {direction} {{ type filter hook {direction} priority 0\n"
        + "\n".join(
            f"{family} {end} {address} {side} drop"
            for family, address in zip(("ip", "ip6"), addresses, strict=True)
            for side in sides
        )
        + "\n}"
        for direction, end in (("input", "saddr"), ("output", "daddr"))
    ]
    return "\n".join(["table inet rig {", *chains, "}", ""])
