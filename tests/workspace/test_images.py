"""What is kept of an image, and what is refused with a sentence."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.pictures import declared, noise, opened, picture, saved
from workspace import blobs, images
from workspace.errors import ActionError, BadInput, TooMuch


def padded(size: int) -> bytes:
    data = picture()
    return data + b"\0" * (size - len(data))


def test_twenty_mebibytes_are_accepted_and_one_byte_more_is_refused():
    assert images.prepared(padded(20_971_520)).mime == "image/png"
    with pytest.raises(TooMuch, match="20971521 bytes; the limit is 20971520"):
        images.prepared(padded(20_971_521))


def test_a_wide_image_is_scaled_to_the_longest_edge_and_rounded():
    kept = images.prepared(picture(4000, 1000))
    assert (kept.width, kept.height) == (1568, 392)
    assert opened(kept.data).size == (1568, 392)
    low = images.prepared(picture(4000, 1000), "low")
    assert (low.width, low.height) == (768, 192)


@given(st.integers(1, 40_000), st.integers(1, 40_000), st.sampled_from([768, 1568]))
def test_the_longest_edge_is_exactly_the_limit_or_untouched(width, height, edge):
    size = images.scaled((width, height), edge)
    assert max(size) == min(edge, max(width, height))
    assert min(size) >= 1


def test_a_small_image_keeps_its_pixels():
    kept = images.prepared(saved(noise(40, 30), "PNG"))
    assert (kept.width, kept.height) == (40, 30)


@pytest.mark.parametrize(
    ("form", "mime"),
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("WEBP", "image/webp"),
        ("GIF", "image/png"),
    ],
)
def test_the_type_is_what_the_bytes_say(form, mime):
    data = picture(form=form)
    assert images.type_of(data)
    assert images.prepared(data).mime == mime


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"BM" + b"\0" * 60,
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%PDF-1.7",
        b"\0\0\0\x20ftypavif",
    ],
)
def test_other_files_are_refused_with_the_types_that_work(data):
    with pytest.raises(BadInput, match="PNG, JPEG, WebP or GIF"):
        images.prepared(data)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF"])
def test_a_truncated_image_is_refused_with_a_sentence(form):
    data = saved(noise(200, 200, "RGB"), form)
    with pytest.raises(BadInput, match="damaged, incomplete"):
        images.prepared(data[: len(data) // 2])


@pytest.mark.parametrize("size", [(8001, 8000), (60_000, 60_000), (2**31 - 1, 1)])
def test_a_pixel_bomb_is_refused_before_it_is_decoded(size):
    with pytest.raises(ActionError):
        images.prepared(declared(*size))


def test_a_file_that_only_begins_like_an_image_is_refused():
    for head in (
        b"GIF89a=1;alert(1)//",
        b"\x89PNG\r\n\x1a\n<script>",
        b"\xff\xd8\xff<?",
    ):
        with pytest.raises(BadInput, match="not what it pretends"):
            images.prepared(head + b"x" * 500)


def test_what_hides_behind_the_pixels_is_not_kept():
    for form in ("PNG", "JPEG", "GIF", "WEBP"):
        data = picture(form=form) + b"PK\x03\x04 hidden <script>alert(1)</script>"
        kept = images.prepared(data)
        assert b"script" not in kept.data
        assert b"PK\x03\x04" not in kept.data


def test_a_rotated_photo_is_turned_upright_and_loses_its_metadata():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    exif[0x010E] = "where I live"
    image = Image.new("RGB", (400, 200), "red")
    image.paste("blue", (0, 0, 200, 200))
    kept = images.prepared(saved(image, "JPEG", exif=exif))
    assert (kept.width, kept.height) == (200, 400)
    upright = opened(kept.data)
    red, _green, blue = upright.getpixel((100, 50))
    assert blue > 200 > red
    assert not upright.getexif()
    assert b"where I live" not in kept.data


def test_of_an_animation_the_first_frame_is_kept():
    frames = [Image.new("RGB", (20, 10), color) for color in ("red", "lime", "blue")]
    for form in ("GIF", "WEBP"):
        data = saved(frames[0], form, save_all=True, append_images=frames[1:])
        kept = opened(images.prepared(data).data)
        assert getattr(kept, "n_frames", 1) == 1
        red, green, blue = kept.convert("RGB").getpixel((5, 5))
        assert red > 200 > max(green, blue)


def test_what_stays_too_large_as_png_becomes_jpeg():
    kept = images.prepared(saved(noise(1500, 1500), "PNG"))
    assert kept.mime == "image/jpeg"
    assert len(kept.data) <= images.MOST_KEPT


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16"])
def test_every_kind_of_pixels_is_taken(mode):
    color = 1 if mode in ("1", "P", "I;16", "L") else None
    image = Image.new(mode, (30, 20), color or (1, 1) if mode == "LA" else color or 1)
    assert images.prepared(saved(image, "PNG")).width == 30


@given(st.binary(max_size=400), st.sampled_from(["PNG", "JPEG", "WEBP", "GIF"]))
def test_no_bytes_make_it_fail_without_a_sentence(tail, form):
    data = picture(form=form)
    for broken in (data[:30] + tail, data[: len(data) // 2] + tail):
        with contextlib.suppress(ActionError):
            assert images.prepared(broken).width <= images.EDGES["high"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a/b/shot.png", "shot.png"),
        ("C:\\Users\\me\\shot.png", "shot.png"),
        ("", "image.png"),
        ("a\nb\x1b[31m.png", "a b [31m.png"),
        ("x" * 500, "x" * 120),
    ],
)
def test_a_name_is_its_last_part_on_one_line(name, shown):
    assert images.plain_name(name, "image/png") == shown


@pytest.mark.django_db
def test_equal_images_are_stored_once(workspace):
    one = images.keep(workspace.pk, picture(), "a.png")
    two = images.keep(workspace.pk, picture(), "b.png")
    assert one.sha256 == two.sha256
    assert opened(blobs.get(workspace.pk, one.sha256)).size == (8, 6)
    assert one.line == "image attached: a.png 8x6 image/png (1 KB)"
