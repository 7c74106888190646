"""Translations: compiled without gettext, complete, and true to their placeholders."""

from __future__ import annotations

import gettext
import io
import os
import re
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as translate
from django.utils.translation import ngettext, override

from workspace import catalogues

SOURCE = Path(settings.BASE_DIR) / "locale/ko/LC_MESSAGES/django.po"
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|\{\w+\}")


def test_a_compiled_catalogue_is_one_that_gettext_reads():
    source = (
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'
        '"Plural-Forms: nplurals=1; plural=0;\\n"\n\n'
        '#, python-format\nmsgid "two"\n"lines\\n"\nmsgstr "두 줄\\n"\n\n'
        'msgid "%(n)d line"\nmsgid_plural "%(n)d lines"\nmsgstr[0] "%(n)d줄"\n\n'
        'msgid "not yet"\nmsgstr ""\n'
    )
    made = gettext.GNUTranslations(io.BytesIO(catalogues.compiled(source)))
    assert made.gettext("twolines\n") == "두 줄\n"
    assert made.ngettext("%(n)d line", "%(n)d lines", 3) == "%(n)d줄"
    assert made.gettext("not yet") == "not yet"


def test_a_missing_catalogue_is_written_and_a_fresh_one_left_alone(tmp_path):
    folder = tmp_path / "ko/LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / "django.po").write_text('msgid "a"\nmsgstr "가"\n')
    catalogues.compile_missing([tmp_path])
    target = folder / "django.mo"
    os.utime(target, (2_000_000_000, 2_000_000_000))
    target.write_bytes(target.read_bytes() + b"mark")
    catalogues.compile_missing([tmp_path])
    assert target.read_bytes().endswith(b"mark")
    assert [path.name for path in folder.iterdir() if path.name[0] == "."] == []


def test_every_korean_text_keeps_the_placeholders_of_its_original():
    pairs = dict(catalogues.messages(SOURCE.read_text(encoding="utf-8")))
    pairs.pop("", None)
    assert len(pairs) > 600
    for original, text in pairs.items():
        wanted = set(PLACEHOLDER.findall(original.split("\0")[-1]))
        assert set(PLACEHOLDER.findall(text)) == wanted, original


def test_no_korean_text_is_missing():
    source = SOURCE.read_text(encoding="utf-8")
    originals = re.findall(r"^msgid ", source, re.MULTILINE)
    assert len(dict(catalogues.messages(source))) == len(originals)


def test_the_product_speaks_korean():
    with override("ko"):
        assert translate("Stop the agent") == "에이전트 중지"
        assert ngettext("%(n)s line", "%(n)s lines", 2) % {"n": 2} == "2줄"
