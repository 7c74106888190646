"""Keys at rest: unreadable without the server's key, readable across a rotation."""

import io
import logging
import threading

import pytest
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from agents import secrets
from agents.endpoint_actions import EndpointValues, save_endpoint
from agents.models import Endpoint
from agents.secrets import SecretUnreadable, decrypt, encrypt, reencrypt
from workspace.redaction import redact

CANARY = "canary-Zq7-do-not-show-4711"


@pytest.fixture
def keys(settings, var_dir):
    """Sets the server's keys, newest first."""

    def use(*values):
        settings.FERNET_KEYS = list(values)

    use()
    return use


def new_key():
    return Fernet.generate_key().decode()


def test_a_secret_comes_back_and_its_stored_form_does_not_contain_it(keys):
    stored = encrypt(CANARY)
    assert CANARY not in stored
    assert decrypt(stored) == CANARY


def test_equal_secrets_are_stored_differently(keys):
    assert encrypt(CANARY) != encrypt(CANARY)


def test_no_secret_is_stored_as_nothing(keys):
    assert (encrypt(""), decrypt(""), reencrypt("")) == ("", "", "")


def test_the_key_file_is_made_once_and_is_the_servers_own(keys, var_dir):
    first = encrypt(CANARY)
    file = var_dir / "fernet.key"
    written = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert decrypt(first) == CANARY
    assert file.read_bytes() == written
    assert [path.name for path in var_dir.iterdir()] == ["fernet.key"]


def test_threads_that_start_together_agree_on_one_key(keys, var_dir):
    start = threading.Barrier(8)
    stored = []

    def work():
        start.wait()
        stored.append(encrypt(CANARY))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [decrypt(one) for one in stored] == [CANARY] * 8


def test_after_a_rotation_old_secrets_are_read_and_new_ones_use_the_new_key(keys):
    old, new = new_key(), new_key()
    keys(old)
    stored = encrypt(CANARY)
    keys(new, old)
    assert decrypt(stored) == CANARY
    moved = reencrypt(stored)
    keys(new)
    assert decrypt(moved) == CANARY
    with pytest.raises(SecretUnreadable):
        decrypt(stored)


@pytest.mark.parametrize("stored", ["garbage", "gAAAAA", "é", "a" * 500])
def test_what_no_key_fits_is_refused_with_what_to_do(keys, stored):
    for read in (decrypt, reencrypt):
        with pytest.raises(SecretUnreadable, match="enter the key again"):
            read(stored)


def test_a_secret_that_was_tampered_with_is_refused(keys):
    stored = encrypt(CANARY)
    middle = len(stored) // 2
    other = "A" if stored[middle] != "A" else "B"
    with pytest.raises(SecretUnreadable):
        decrypt(stored[:middle] + other + stored[middle + 1 :])


def test_a_broken_server_key_is_named_but_never_quoted(keys):
    keys("not-a-fernet-key-" + CANARY)
    with pytest.raises(ImproperlyConfigured) as caught:
        encrypt("something")
    assert "44 characters" in str(caught.value)
    assert CANARY not in str(caught.value)
    assert caught.value.__suppress_context__


def test_an_empty_key_file_is_reported_and_not_replaced(keys, var_dir):
    (var_dir / "fernet.key").write_text("")
    with pytest.raises(ImproperlyConfigured, match=r"fernet\.key"):
        encrypt(CANARY)
    assert (var_dir / "fernet.key").read_text() == ""


def test_what_was_decrypted_is_blanked_out_of_text_and_log_lines(keys, caplog):
    decrypt(encrypt(CANARY))
    assert redact(f"the service said {CANARY}!") == "the service said [redacted]!"
    with caplog.at_level(logging.DEBUG):
        decrypt(encrypt(CANARY))
    assert CANARY not in caplog.text


def test_a_secret_is_no_attribute_of_the_module(keys):
    decrypt(encrypt(CANARY))
    assert CANARY not in repr(vars(secrets))


def test_rotating_moves_every_stored_key_and_names_those_it_cannot_read(
    keys, owner, workspace
):
    old, new = new_key(), new_key()
    keys(old)
    for name, kind in (("First", "anthropic"), ("Second", "chat_completions")):
        save_endpoint(
            by=owner,
            workspace=workspace,
            values=EndpointValues(
                name=name, kind=kind, base_url="https://models.example", key=CANARY
            ),
        )
    keys(new, old)
    out = io.StringIO()
    call_command("rotate_secrets", stdout=out)
    assert out.getvalue().startswith("2 stored keys")
    keys(new)
    assert {decrypt(one.secret) for one in Endpoint.objects.all()} == {CANARY}
    Endpoint.objects.filter(name="First").update(secret="garbage")
    with pytest.raises(CommandError, match="First"):
        call_command("rotate_secrets", stdout=out)
    assert CANARY not in out.getvalue()
