from hashlib import blake2b

from graphmill.journal.intake import SeenKeys


def test_keys_are_counted_however_many_and_long_they_are_and_however_far_apart_they_come():
    keys = [blake2b(b"%d" % number, digest_size=16).digest() for number in range(12_000)]
    keys += [key + b"=" for key in keys]
    seen = SeenKeys()
    try:
        assert {seen.add(key) for key in keys} == {1}
        assert all(key in seen for key in keys[::100])
        assert keys[0] + b"=2" not in seen
        assert [seen.add(key) for key in (keys[0], keys[0], keys[-1], keys[0] + b"=2")] == [2, 3, 2, 1]
    finally:
        seen.close()
