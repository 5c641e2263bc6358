"""Sizes and durations."""

import pytest

from labctl.workloads.units import format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (4096, 4096), ("4096", 4096), ("4k", 4096), ("4K", 4096), ("4KiB", 4096), ("4 KiB", 4096), ("1m", 1 << 20),
        ("256MiB", 256 << 20), ("1.5GiB", 3 << 29), ("2g", 2 << 30), ("1TiB", 1 << 40), ("512b", 512),
    ],
)  # fmt: skip
def test_sizes_are_powers_of_1024(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["4kB", "4MB", "4 GB", "4x", "", "k", "-4k", "0.3b", "1e3", True, None, 1.5, [4]])
def test_what_is_no_size_or_ambiguous_is_refused(text):
    with pytest.raises(ValueError, match=r"size|whole number"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(4, 4.0), (0.5, 0.5), ("4", 4.0), ("4s", 4.0), ("500ms", 0.5), ("1.5m", 90.0), ("2min", 120.0), ("1h", 3600.0)],
)
def test_durations_are_seconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "4d", "1h30m", True, None])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0B"), (1023, "1023B"), (4096, "4KiB"), (1536, "1.5KiB"), (3 << 29, "1.5GiB"), (1 << 41, "2TiB")],
)
def test_sizes_are_shown_in_the_largest_unit(size, text):
    assert format_size(size) == text
