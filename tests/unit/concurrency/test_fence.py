"""The longest beginning by completion that is a beginning by request, too: compared with trying every one."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hudi_ops.concurrency.foreign.fence import in_both_orders

TIMES = st.integers(1, 9).map(str)
WRITES = st.lists(st.tuples(TIMES, st.integers(10, 40).map(str)), max_size=7, unique_by=lambda one: one[1]).map(sorted)


@given(WRITES, st.integers(0, 7), st.sampled_from(["", "15", "25", "35"]))
def test_it_is_the_longest(writes: list[tuple[str, str]], most: int, fence: str) -> None:
    most = min(most, len(writes))

    def fits(count: int) -> bool:
        given_, held = writes[:count], [request for _, request in writes[count:]] + [fence] * bool(fence)
        is_whole = count == len(writes) or not count or writes[count][0] != writes[count - 1][0]
        return is_whole and all(request < other for _, request in given_ for other in held)

    assert in_both_orders(writes, most, fence) == max(count for count in range(most + 1) if fits(count) or not count)


def test_one_that_waits_holds_back_what_was_requested_after_it() -> None:
    writes = [("4", "13"), ("5", "11")]
    assert [in_both_orders(writes, 2, fence) for fence in ("", "12", "14", "10")] == [2, 0, 2, 0]
    assert in_both_orders(writes, 1, "") == 0, "11 would come after 13"
