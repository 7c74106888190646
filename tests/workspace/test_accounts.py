"""How accounts come about: the set-up link, invitations, sign-up and sign-in."""

from datetime import timedelta

import pytest
from allauth.mfa.totp.internal import auth as totp
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from tests.conftest import PASSWORD
from workspace import accounts
from workspace.actions import people
from workspace.errors import BadInput, Conflict, Gone, NotVisible
from workspace.models import Invitation, Membership, User


@pytest.fixture(autouse=True)
def _no_tries_so_far():
    """Rate limits count in the cache, which outlives a test."""
    cache.clear()


@pytest.fixture
def empty_server(db, var_dir, fast_passwords):
    """A server that nobody has set up."""


def token_of(link):
    return link.rstrip("/").rsplit("/", 1)[1]


def filled(**changes):
    values = {
        "username": "ada",
        "display_name": "Ada L.",
        "email": "ada@example.org",
        "password": PASSWORD,
        "password_again": PASSWORD,
    }
    return values | changes


def test_the_set_up_page_makes_the_administrator_and_opens_the_first_workspace(
    client, empty_server
):
    link = accounts.make_setup_link("http://testserver")
    assert client.get(link).status_code == 200
    response = client.post(link, filled())
    user = User.objects.get()
    assert response.status_code == 302
    assert response["Location"] == "/w/first/"
    assert user.is_staff
    assert user.is_superuser
    assert user.memberships.get().role == "owner"
    assert client.get("/account/").status_code == 200


def test_looking_at_the_set_up_link_does_not_use_it_up(client, empty_server):
    link = accounts.make_setup_link("http://testserver")
    for _ in range(3):
        assert client.get(link).status_code == 200


def test_a_used_set_up_link_says_so_and_points_to_sign_in(client, empty_server):
    link = accounts.make_setup_link("http://testserver")
    client.post(link, filled())
    for response in (
        Client().get(link),
        Client().post(link, filled(username="eve", email="")),
    ):
        assert response.status_code == 410
        assert "was used" in response.content.decode()
        assert "/accounts/login/" in response.content.decode()
    assert User.objects.count() == 1


def test_an_old_set_up_link_names_the_command_that_prints_a_new_one(
    client, empty_server
):
    link = accounts.make_setup_link("http://testserver")
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    response = client.get(link)
    assert response.status_code == 410
    assert "manage.py setup_link" in response.content.decode()


def test_a_set_up_link_that_never_was_is_not_found(client, empty_server):
    assert client.get("/setup/never-printed/").status_code == 404
    with pytest.raises(NotVisible):
        accounts.find_setup("never-printed")


def test_a_new_set_up_link_ends_the_one_before(empty_server):
    first = token_of(accounts.make_setup_link("http://x"))
    second = token_of(accounts.make_setup_link("http://x"))
    with pytest.raises(Gone):
        accounts.find_setup(first)
    assert accounts.find_setup(second)


def test_an_invitation_is_no_set_up_link(workspace, owner):
    token = people.invite(workspace=workspace, by=owner, role="owner").token
    with pytest.raises(NotVisible):
        accounts.find_setup(token)


def test_there_is_no_set_up_link_once_there_is_an_administrator(owner):
    with pytest.raises(Conflict, match="administrator already"):
        accounts.make_setup_link("http://x")
    with pytest.raises(CommandError, match="administrator already"):
        call_command("setup_link")


def test_the_command_prints_a_link_that_works(empty_server, capsys):
    call_command("setup_link", base_url="https://work.example.org/")
    link = capsys.readouterr().out.strip()
    assert link.startswith("https://work.example.org/setup/")
    assert accounts.find_setup(token_of(link))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"password": "12345678", "password_again": "12345678"}, "too common"),
        ({"password_again": "something else"}, "differ"),
        ({"username": "two words"}, "valid username"),
        ({"username": ""}, "required"),
        ({"email": "nobody"}, "valid email"),
        ({"display_name": "x\u202ey"}, "invisible"),
    ],
)
def test_what_cannot_be_used_is_said_beside_what_was_typed_and_the_link_stays(
    client, empty_server, changes, sentence
):
    link = accounts.make_setup_link("http://testserver")
    response = client.post(link, filled(**changes))
    assert response.status_code == 400
    assert sentence in response.content.decode()
    assert not User.objects.exists()
    assert client.post(link, filled()).status_code == 302


def test_a_form_that_failed_does_not_send_the_password_back(client, empty_server):
    link = accounts.make_setup_link("http://testserver")
    response = client.post(link, filled(username=""))
    assert PASSWORD not in response.content.decode()


def test_an_invitation_makes_an_account_and_a_member_in_one_step(
    client, workspace, owner
):
    token = people.invite(workspace=workspace, by=owner, role="member").token
    page = client.get(f"/join/{token}/")
    assert page.status_code == 200
    response = client.post(f"/join/{token}/", filled())
    assert response["Location"] == "/w/first/"
    assert Membership.objects.get(user__username="ada").role == "member"
    assert Client().get(f"/join/{token}/").status_code == 410


def test_an_invitation_for_an_address_makes_the_account_of_that_address(
    client, workspace, owner
):
    token = people.invite(
        workspace=workspace, by=owner, role="member", email="ada@example.org"
    ).token
    assert 'name="email"' not in client.get(f"/join/{token}/").content.decode()
    client.post(f"/join/{token}/", filled(email="eve@example.org"))
    assert User.objects.get(username="ada").email == "ada@example.org"


def test_a_taken_user_name_or_address_makes_nothing_and_keeps_the_link(
    client, workspace, owner, member
):
    member.email = "taken@example.org"
    member.save()
    token = people.invite(workspace=workspace, by=owner, role="member").token
    for changes, sentence in (
        ({"username": "MEMBER"}, "is taken"),
        ({"email": "Taken@example.org"}, "sign in with it instead"),
    ):
        response = client.post(f"/join/{token}/", filled(**changes))
        assert response.status_code == 400
        assert sentence in response.content.decode()
    assert people.find_invitation(token)


def test_somebody_signed_in_is_asked_before_they_join(client, workspace, owner):
    elsewhere = people.create_workspace(name="Elsewhere", by=owner)
    token = people.invite(workspace=elsewhere, by=owner, role="viewer").token
    user = accounts.join(token=token, username="ada", password=PASSWORD).user
    invited = people.invite(workspace=workspace, by=owner, role="member").token
    client.force_login(user)
    assert client.get(f"/join/{invited}/").status_code == 200
    assert not workspace.memberships.filter(user=user).exists()
    assert client.post(f"/join/{invited}/")["Location"] == "/w/first/"
    assert workspace.memberships.filter(user=user).exists()


def test_a_member_who_opens_an_invitation_is_taken_to_the_workspace(
    client, workspace, owner, member
):
    token = people.invite(workspace=workspace, by=owner, role="admin").token
    client.force_login(member)
    assert client.post(f"/join/{token}/")["Location"] == "/w/first/"
    assert workspace.memberships.get(user=member).role == "member"
    assert people.find_invitation(token)


def test_a_weak_password_is_refused_by_the_action_too(empty_server):
    token = token_of(accounts.make_setup_link("http://x"))
    with pytest.raises(BadInput):
        accounts.accept_setup(token=token, username="ada", password="ada")
    assert not User.objects.exists()


def test_sign_up_is_closed_to_whoever_has_no_invitation(client, owner):
    response = client.post(
        "/accounts/signup/",
        {"username": "eve", "password1": PASSWORD, "password2": PASSWORD},
    )
    assert "by invitation" in response.content.decode()
    assert not User.objects.filter(username="eve").exists()
    assert "signup" not in client.get("/accounts/login/").content.decode()


def test_a_living_invitation_opens_sign_up_for_single_sign_on(client, workspace, owner):
    invited = people.invite(workspace=workspace, by=owner, role="member")
    client.get(f"/join/{invited.token}/")
    assert "by invitation" not in client.get("/accounts/signup/").content.decode()
    people.revoke_invitation(invitation=invited.invitation, by=owner)
    assert "by invitation" in client.get("/accounts/signup/").content.decode()


def test_open_sign_up_lets_anybody_in_but_into_no_workspace(
    client, owner, workspace, settings
):
    settings.SIGN_UP = "open"
    assert "signup" in client.get("/accounts/login/").content.decode()
    client.post(
        "/accounts/signup/",
        {
            "username": "eve",
            "email": "eve@example.org",
            "password1": PASSWORD,
            "password2": PASSWORD,
        },
    )
    eve = User.objects.get(username="eve")
    assert not eve.memberships.exists()
    assert not eve.is_staff
    assert "no workspace yet" in client.get("/").content.decode()
    assert client.get("/w/first/settings/").status_code == 404


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "javascript:alert(1)",
        "http:///evil.example",
    ],
)
def test_sign_in_never_leads_to_another_site(client, member, target):
    response = client.post(
        "/accounts/login/",
        {"login": "member", "password": PASSWORD, "next": target},
    )
    assert response.status_code == 302
    assert response["Location"] == "/"


def test_sign_in_leads_back_to_the_page_that_was_asked_for(client, member):
    asked = client.get("/w/first/settings/members/")
    assert asked["Location"].startswith("/accounts/login/?next=/w/first/")
    response = client.post(
        "/accounts/login/",
        {"login": "member", "password": PASSWORD, "next": "/w/first/settings/"},
    )
    assert response["Location"] == "/w/first/settings/"


def test_guessing_passwords_is_slowed_down_for_the_right_one_too(client, member):
    for _ in range(5):
        client.post("/accounts/login/", {"login": "member", "password": "wrong"})
    response = client.post(
        "/accounts/login/", {"login": "member", "password": PASSWORD}
    )
    assert response.status_code != 302
    assert client.get("/account/").status_code == 302


def test_too_many_sign_ins_from_one_place_get_a_page_that_says_when_to_try_again(
    client, member
):
    statuses = [
        client.post("/accounts/login/", {"login": f"n{n}", "password": "x"}).status_code
        for n in range(31)
    ]
    assert statuses[-1] == 429
    page = client.post("/accounts/login/", {"login": "member", "password": PASSWORD})
    assert "try again" in page.content.decode()


def test_an_account_that_is_off_cannot_sign_in(client, member):
    member.is_active = False
    member.save()
    client.post("/accounts/login/", {"login": "member", "password": PASSWORD})
    assert client.get("/account/").status_code == 302


def test_the_admin_has_no_sign_in_of_its_own(client, owner):
    response = client.post("/admin/login/", {"username": "owner", "password": PASSWORD})
    assert response.status_code == 302
    assert response["Location"].startswith("/accounts/login/")


@pytest.mark.parametrize("mail", ["", "mail.example.org"])
def test_a_forgotten_password_says_what_this_server_can_do(
    client, owner, settings, mail
):
    settings.EMAIL_HOST = mail
    page = client.get("/accounts/password/reset/").content.decode()
    assert ("sends no mail" in page) is (not mail)


@pytest.mark.parametrize(
    "path",
    [
        "/accounts/password/change/",
        "/accounts/email/",
        "/accounts/2fa/",
        "/accounts/2fa/totp/activate/",
        "/accounts/2fa/webauthn/",
        "/accounts/2fa/webauthn/add/",
        "/accounts/sessions/",
        "/accounts/logout/",
        "/accounts/reauthenticate/",
        "/accounts/3rdparty/",
    ],
)
def test_pages_of_the_account_are_drawn_in_the_products_layout(client, member, path):
    client.post("/accounts/login/", {"login": "member", "password": PASSWORD})
    response = client.get(path, follow=True)
    page = response.content.decode()
    assert response.status_code == 200
    assert 'class="settings-layout"' in page or 'class="entrance"' in page
    assert "Menu:" not in page


def test_two_step_sign_in_can_be_switched_on_without_mail_and_is_then_asked_for(
    client, member
):
    sign_in = {"login": "member", "password": PASSWORD}
    client.post("/accounts/login/", sign_in)
    assert client.get("/accounts/2fa/totp/activate/").status_code == 302
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    page = client.get("/accounts/2fa/totp/activate/")
    assert 'class="qr"' in page.content.decode()
    secret = page.context["form"].secret
    code = totp.format_hotp_value(
        totp.hotp_value(secret, next(totp.yield_hotp_counters_from_time()))
    )
    assert (
        client.post("/accounts/2fa/totp/activate/", {"code": code}).status_code == 302
    )
    other = Client()
    response = other.post("/accounts/login/", sign_in)
    assert response["Location"].startswith("/accounts/2fa/authenticate/")
    assert other.get("/account/").status_code == 302
