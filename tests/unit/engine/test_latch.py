from graphmill.engine.latch import Latch


def test_a_latch_goes_on_above_its_high_mark_and_off_below_its_low_mark_and_tells_when_it_goes_on():
    latch = Latch(10, low_share=0.8)
    told = [(latch.feed(figure), latch.is_on) for figure in (10, 10.1, 12, 9, 8, 7.9, 9, 10, 11)]
    assert told == [
        (False, False),
        (True, True),
        (False, True),
        (False, True),
        (False, True),
        (False, False),
        (False, False),
        (False, False),
        (True, True),
    ]


def test_a_latch_without_a_mark_never_goes_on():
    assert not Latch(None, low_share=0.8).feed(1e300)
