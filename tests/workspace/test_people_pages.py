"""Pages of workspaces, members and one's own account."""

import pytest
from allauth.usersessions.models import UserSession
from django.core import mail
from django.core.cache import cache
from django.test import Client

from tests.conftest import PASSWORD
from workspace import accounts
from workspace.actions import people
from workspace.models import Invitation, Membership, Workspace

HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>'


@pytest.fixture(autouse=True)
def _no_tries_so_far():
    """Rate limits count in the cache, which outlives a test."""
    cache.clear()


def signed_in(username, agent="Browser"):
    """A browser that signed in through the page, with a session on the list."""
    browser = Client(headers={"user-agent": agent})
    browser.post("/accounts/login/", {"login": username, "password": PASSWORD})
    return browser


def seat(user, workspace):
    return Membership.objects.get(user=user, workspace=workspace)


def test_the_only_workspace_opens_at_once_and_the_list_is_one_link_away(client, member):
    client.force_login(member)
    assert client.get("/")["Location"] == "/w/first/"
    assert "First workspace" in client.get("/?all").content.decode()


def test_several_workspaces_are_listed_without_those_of_others(client, owner, outsider):
    people.create_workspace(name="Second", by=owner)
    people.create_workspace(name="Private matters", by=outsider)
    client.force_login(owner)
    page = client.get("/").content.decode()
    assert "First workspace" in page
    assert "Second" in page
    assert "Private matters" not in page


def test_somebody_in_no_workspace_is_told_how_to_get_into_one(
    client, workspace, member
):
    people.remove_member(member=seat(member, workspace), by=member)
    client.force_login(member)
    response = client.get("/")
    assert response.status_code == 200
    assert "can invite you" in response.content.decode()


def test_staff_make_a_workspace_from_the_list(client, owner):
    client.force_login(owner)
    response = client.post("/", {"name": "Second"})
    assert response["Location"] == "/w/second/"


def test_a_member_gets_neither_the_form_nor_the_workspace(client, member):
    client.force_login(member)
    assert "New workspace" not in client.get("/?all").content.decode()
    assert client.post("/", {"name": "Second"}).status_code == 403
    assert not Workspace.objects.filter(name="Second").exists()


def test_general_settings_are_saved_and_a_bad_one_keeps_what_was_typed(
    client, workspace, admin
):
    client.force_login(admin)
    url = "/w/first/settings/"
    good = {"name": "Harbour", "time_zone": "Asia/Seoul", "network": "on"}
    assert client.post(url, good).status_code == 302
    workspace.refresh_from_db()
    assert (workspace.name, workspace.network) == ("Harbour", True)
    response = client.post(url, good | {"name": "x\u202ey"})
    assert response.status_code == 400
    assert "invisible" in response.content.decode()
    workspace.refresh_from_db()
    assert workspace.name == "Harbour"


def test_a_viewer_reads_the_settings_without_forms_to_change_them(client, viewer):
    client.force_login(viewer)
    page = client.get("/w/first/settings/").content.decode()
    assert "First workspace" in page
    assert 'name="time_zone"' not in page
    assert "/settings/delete" not in page
    assert client.post("/w/first/settings/", {"name": "x"}).status_code == 403


def test_a_workspace_is_deleted_only_by_its_name(client, workspace, owner):
    client.force_login(owner)
    url = "/w/first/settings/delete"
    wrong = client.post(url, {"delete-name": "first"})
    assert wrong.status_code == 400
    assert "Nothing was deleted" in wrong.content.decode()
    assert client.post(url, {"delete-name": workspace.name}).status_code == 302
    assert client.get("/w/first/settings/").status_code == 404


def test_ownership_is_handed_over_from_the_settings(client, workspace, owner, member):
    client.force_login(owner)
    url = "/w/first/settings/transfer"
    assert client.post(url, {"member": "999999"}).status_code == 404
    assert client.post(url, {"member": "x' OR 1=1"}).status_code == 404
    client.post(url, {"member": seat(member, workspace).pk})
    assert seat(member, workspace).role == "owner"
    assert seat(owner, workspace).role == "admin"


def test_leaving_ends_in_the_list_of_workspaces(client, workspace, member):
    client.force_login(member)
    assert client.post("/w/first/settings/leave")["Location"] == "/"
    assert client.get("/w/first/settings/").status_code == 404


def test_the_last_owner_who_leaves_is_told_what_to_do_first(client, owner):
    client.force_login(owner)
    response = client.post("/w/first/settings/leave")
    assert response.status_code == 409
    assert "at least one owner" in response.content.decode()


def test_a_new_invitation_is_shown_once(client, workspace, admin):
    client.force_login(admin)
    url = "/w/first/settings/members/"
    assert client.post(url, {"role": "member", "email": ""}).status_code == 302
    first = client.get(url).content.decode()
    token = first.split("/join/")[1].split("/")[0]
    assert people.find_invitation(token).created_by == admin
    assert token not in client.get(url).content.decode()


def test_an_invitation_with_an_address_is_mailed_where_mail_is_set_up(
    client, workspace, owner, settings
):
    settings.EMAIL_HOST = "mail.example.org"
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    client.force_login(owner)
    url = "/w/first/settings/members/"
    client.post(url, {"role": "member", "email": "ada@example.org"})
    (message,) = mail.outbox
    assert message.to == ["ada@example.org"]
    assert "/join/" in message.body


def test_mail_that_cannot_be_sent_leaves_the_link_to_pass_on(
    client, workspace, owner, settings
):
    settings.EMAIL_HOST = "127.0.0.1"
    settings.EMAIL_PORT = 1
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    client.force_login(owner)
    url = "/w/first/settings/members/"
    response = client.post(
        url, {"role": "member", "email": "ada@example.org"}, follow=True
    )
    page = response.content.decode()
    assert "could not be sent" in page
    assert "/join/" in page


def test_an_admin_is_not_offered_the_role_of_owner_and_cannot_send_it(
    client, workspace, admin
):
    client.force_login(admin)
    url = "/w/first/settings/members/"
    assert 'value="owner"' not in client.get(url).content.decode()
    assert client.post(url, {"role": "owner"}).status_code == 400
    assert not Invitation.objects.filter(role="owner", created_by=admin).exists()


def test_members_see_who_is_here_but_no_invitations(client, workspace, owner, member):
    people.invite(
        workspace=workspace, by=owner, role="member", email="secret@example.org"
    )
    client.force_login(member)
    page = client.get("/w/first/settings/members/").content.decode()
    assert "owner" in page
    assert "secret@example.org" not in page
    assert "Invite somebody" not in page


def test_roles_are_changed_and_people_removed_on_the_page(
    client, workspace, owner, member
):
    client.force_login(owner)
    at = f"/w/first/settings/members/{seat(member, workspace).pk}"
    client.post(f"{at}/role", {"role": "admin"})
    assert seat(member, workspace).role == "admin"
    client.post(f"{at}/remove")
    assert not workspace.memberships.filter(user=member).exists()
    assert client.post(f"{at}/remove").status_code == 404


def test_members_and_invitations_of_another_workspace_do_not_exist_here(
    client, workspace, owner, member, outsider
):
    elsewhere = outsider.memberships.get().workspace
    foreign = seat(outsider, elsewhere)
    invited = people.invite(workspace=elsewhere, by=outsider, role="member").invitation
    client.force_login(owner)
    people.remove_member(member=seat(owner, elsewhere), by=owner)
    for url in (
        f"/w/first/settings/members/{foreign.pk}/role",
        f"/w/first/settings/members/{foreign.pk}/remove",
        f"/w/first/settings/invitations/{invited.pk}/revoke",
    ):
        assert client.post(url, {"role": "viewer"}).status_code == 404
    assert seat(outsider, elsewhere).role == "owner"
    invited.refresh_from_db()
    assert invited.revoked_at is None


def test_an_invitation_is_withdrawn_on_the_page_once(client, workspace, admin):
    invited = people.invite(workspace=workspace, by=admin, role="member")
    client.force_login(admin)
    url = f"/w/first/settings/invitations/{invited.invitation.pk}/revoke"
    assert client.post(url).status_code == 302
    assert client.post(url).status_code == 409
    assert Client().get(f"/join/{invited.token}/").status_code == 410


def test_hostile_names_are_text_on_every_page_that_shows_them(
    client, workspace, owner, member
):
    member.display_name = HOSTILE[:80]
    member.save()
    workspace.name = HOSTILE[:80]
    workspace.save()
    people.change_role(member=seat(member, workspace), role="owner", by=owner)
    token = people.invite(workspace=workspace, by=member, role="viewer").token
    browser = signed_in("member", agent=HOSTILE)
    pages = [
        browser.get(url).content.decode()
        for url in (
            "/?all",
            "/account/",
            "/w/first/settings/",
            "/w/first/settings/members/",
        )
    ]
    pages.append(Client().get(f"/join/{token}/").content.decode())
    for page in pages:
        assert "&lt;img" in page
        assert "<img src=x" not in page
        assert "<script>alert" not in page


def test_the_profile_is_saved_and_speaks_the_chosen_language_from_then_on(
    client, member
):
    client.force_login(member)
    response = client.post(
        "/account/", {"display_name": "나래", "language": "ko", "theme": "dark"}
    )
    assert response.status_code == 302
    assert response.cookies["django_language"].value == "ko"
    member.refresh_from_db()
    assert (str(member), member.language, member.theme) == ("나래", "ko", "dark")
    signing_in = Client().post(
        "/accounts/login/", {"login": "member", "password": PASSWORD}
    )
    assert signing_in.cookies["django_language"].value == "ko"


def test_a_language_or_theme_that_is_not_offered_is_refused(client, member):
    client.force_login(member)
    for changes in ({"language": "xx"}, {"theme": "<b>"}):
        sent = {"display_name": "", "language": "en", "theme": "auto"} | changes
        assert client.post("/account/", sent).status_code == 400
    member.refresh_from_db()
    assert (member.language, member.theme) == ("en", "auto")


def test_sessions_are_listed_and_one_can_be_signed_out(member):
    here, there = signed_in("member", "Firefox"), signed_in("member", "Phone")
    page = here.get("/account/").content.decode()
    assert "Firefox" in page
    assert "Phone" in page
    lost = UserSession.objects.get(user=member, user_agent="Phone")
    assert here.post(f"/account/sessions/{lost.pk}/end").status_code == 302
    assert there.get("/account/").status_code == 302
    assert here.get("/account/").status_code == 200
    assert here.post(f"/account/sessions/{lost.pk}/end").status_code == 404


def test_all_other_sessions_are_signed_out_at_once(member):
    here = signed_in("member")
    others = [signed_in("member", f"Other {n}") for n in range(3)]
    here.post("/account/sessions/end")
    assert here.get("/account/").status_code == 200
    assert {other.get("/account/").status_code for other in others} == {302}


def test_nobody_ends_the_session_of_somebody_else(member, viewer):
    signed_in("member")
    theirs = UserSession.objects.get(user=member)
    assert signed_in("viewer").post(
        f"/account/sessions/{theirs.pk}/end"
    ).status_code == (404)
    assert UserSession.objects.filter(pk=theirs.pk).exists()


def test_signing_a_session_out_closes_its_sockets(
    member, monkeypatch, django_capture_on_commit_callbacks
):
    sent = []
    monkeypatch.setattr("workspace.live.push", lambda *args: sent.append(args))
    here = signed_in("member")
    signed_in("member", "Phone")
    with django_capture_on_commit_callbacks(execute=True):
        here.post("/account/sessions/end")
    assert sent == [
        (f"u.{member.pk}", {"type": "access.revoked", "user": str(member.pk)})
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/account/",
        "/account/sessions/end",
        "/account/sessions/1/end",
        "/w/first/settings/",
        "/w/first/settings/leave",
        "/w/first/settings/transfer",
        "/w/first/settings/delete",
        "/w/first/settings/members/",
        "/w/first/settings/members/1/role",
        "/w/first/settings/members/1/remove",
        "/accounts/login/",
        "/accounts/logout/",
        "/i18n/setlang/",
    ],
)
def test_a_post_from_another_site_is_refused(owner, path):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(owner)
    assert browser.post(path, {"name": "forged"}).status_code == 403


def test_what_changes_something_cannot_be_done_by_a_link(client, owner):
    client.force_login(owner)
    for path in (
        "/account/sessions/end",
        "/w/first/settings/leave",
        "/w/first/settings/delete",
        "/w/first/settings/transfer",
        "/w/first/settings/members/1/remove",
    ):
        assert client.get(path).status_code == 405


def test_the_members_page_asks_no_query_per_person(
    client, workspace, owner, django_assert_max_num_queries
):
    client.force_login(owner)
    for n in range(20):
        token = people.invite(workspace=workspace, by=owner, role="viewer").token
        accounts.join(token=token, username=f"person{n}", password=PASSWORD)
        people.invite(workspace=workspace, by=owner, role="viewer")
    with django_assert_max_num_queries(12):
        assert client.get("/w/first/settings/members/").status_code == 200
