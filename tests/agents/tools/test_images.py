"""view_image, and the images that other tools bring."""

from __future__ import annotations

import base64
import os
from dataclasses import replace

import pytest

from agents.errors import ToolError
from agents.tools.base import ToolResult
from agents.tools.images import Encoded, ViewImage, attach_images, view_image
from tests.pictures import noise, picture, saved
from workspace import blobs

pytestmark = pytest.mark.django_db


@pytest.fixture
def ctx(agent, workspace):
    return replace(agent.context, workspace_id=workspace.pk)


def encoded(data: bytes, mime: str = "image/png") -> Encoded:
    return Encoded(base64.b64encode(data).decode(), mime)


def test_the_tool_line_names_the_image_and_holds_nothing_of_it(agent, ctx):
    (agent.root / "art").mkdir()
    (agent.root / "art" / "shot.png").write_bytes(picture(4000, 1000))
    result = view_image(ctx, ViewImage(path="art/shot.png"))
    assert result.output == "image attached: shot.png 1568x392 image/png (2 KB)"
    [kept] = result.meta["images"]
    assert (kept["width"], kept["height"]) == (1568, 392)
    assert blobs.get(ctx.workspace_id, kept["sha256"])[:4] == b"\x89PNG"


def test_low_detail_is_a_smaller_image(agent, ctx):
    (agent.root / "shot.png").write_bytes(picture(4000, 1000))
    result = view_image(ctx, ViewImage(path="/workspace/shot.png", detail="low"))
    assert "768x192" in result.output


def test_a_model_that_cannot_see_is_told_so_and_nothing_is_read(agent, ctx):
    blind = replace(ctx, sees_images=False)
    with pytest.raises(ToolError, match="cannot see images"):
        view_image(blind, ViewImage(path="there-is-no-such.png"))


def test_the_type_is_read_from_the_bytes_not_from_the_name(agent, ctx):
    (agent.root / "photo.txt").write_bytes(picture(form="JPEG"))
    (agent.root / "fake.png").write_text("<svg onload=alert(1)>")
    assert "image/jpeg" in view_image(ctx, ViewImage(path="photo.txt")).output
    with pytest.raises(ToolError, match="no PNG, JPEG, WebP or GIF"):
        view_image(ctx, ViewImage(path="fake.png"))


def test_a_file_over_the_limit_is_refused_by_its_size(agent, ctx):
    with (agent.root / "big.png").open("wb") as file:
        file.write(picture())
        os.truncate(file.fileno(), 20_971_520)
    assert view_image(ctx, ViewImage(path="big.png")).ok
    os.truncate(agent.root / "big.png", 20_971_521)
    with pytest.raises(ToolError, match="20971521 bytes; the limit is 20971520"):
        view_image(ctx, ViewImage(path="big.png"))


@pytest.mark.parametrize("path", ["../x.png", "/etc/passwd", "link.png", ".", "pipe"])
def test_no_path_leads_out_of_the_workspace(agent, ctx, path):
    (agent.root / "link.png").symlink_to("/etc/passwd")
    os.mkfifo(agent.root / "pipe")
    with pytest.raises(ToolError):
        view_image(ctx, ViewImage(path=path))


def test_four_images_of_a_result_are_kept_and_the_others_become_markers(ctx):
    found = [encoded(picture(n, n)) for n in range(1, 7)]
    result = attach_images(ctx, ToolResult(True, "Six shots."), found, "shot")
    sizes = [(row["width"], row["name"]) for row in result.meta["images"]]
    assert sizes == [(1, "shot 1"), (2, "shot 2"), (3, "shot 3"), (4, "shot 4")]
    head, own, *rest = result.output.split("\n")
    assert (head, own) == ("4 image(s) attached", "Six shots.")
    assert len(rest) == 2
    assert all(line.startswith("[image/png content, ") for line in rest)


@pytest.mark.parametrize(
    "bad",
    [
        Encoded("not base64!", "image/png"),
        encoded(b"plain text", "image/png"),
        encoded(saved(noise(60, 60), "PNG")[:400]),
        Encoded("A" * 28_000_000, "image/png"),
        Encoded("", "evil\nname\x1b"),
    ],
)
def test_what_is_no_image_becomes_a_marker_and_costs_no_place(ctx, bad):
    result = attach_images(ctx, ToolResult(True, ""), [bad, encoded(picture())])
    assert result.output.startswith("1 image(s) attached\n[")
    assert len(result.meta["images"]) == 1


def test_a_result_without_usable_images_says_only_what_was_there(ctx):
    result = attach_images(ctx, ToolResult(True, "text"), [encoded(b"x")])
    assert result.output == "text\n[image/png content, 3 bytes]"
    assert "images" not in result.meta
