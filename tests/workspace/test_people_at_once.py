"""Two people, one link or one owner's chair, at the same moment."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from tests.conftest import PASSWORD
from workspace import accounts
from workspace.actions import people
from workspace.errors import ActionError
from workspace.models import Membership, User, Workspace


@pytest.fixture
def at_once(real_transactions, var_dir, fast_passwords):
    """Runs the calls at the same moment; returns results and refusals, in order."""

    def run(*calls):
        barrier = Barrier(len(calls))

        def one(call):
            try:
                barrier.wait(timeout=10)
                return call()
            except ActionError as refusal:
                return refusal
            finally:
                connection.close()

        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(one, calls))

    return run


def refusals(results):
    return [result for result in results if isinstance(result, ActionError)]


def administrator():
    link = accounts.make_setup_link("http://x")
    token = link.rstrip("/").rsplit("/", 1)[1]
    return accounts.accept_setup(token=token, username="owner", password=PASSWORD)


def test_two_people_with_the_set_up_link_make_one_administrator(at_once):
    link = accounts.make_setup_link("http://x")
    token = link.rstrip("/").rsplit("/", 1)[1]
    results = at_once(
        *(
            lambda name=name: accounts.accept_setup(
                token=token, username=name, password=PASSWORD
            )
            for name in ("early", "late")
        )
    )
    assert len(refusals(results)) == 1
    assert refusals(results)[0].status == 410
    assert User.objects.count() == User.objects.filter(is_superuser=True).count() == 1
    assert Workspace.objects.count() == 1


def test_two_people_with_one_invitation_make_one_member(at_once):
    owner, workspace = administrator()
    token = people.invite(workspace=workspace, by=owner, role="member").token
    results = at_once(
        *(
            lambda name=name: accounts.join(
                token=token, username=name, password=PASSWORD
            )
            for name in ("early", "late")
        )
    )
    assert len(refusals(results)) == 1
    assert refusals(results)[0].status == 410
    assert set(User.objects.values_list("username", flat=True)) in (
        {"owner", "early"},
        {"owner", "late"},
    )


def test_two_owners_who_leave_at_once_leave_one_behind(at_once):
    owner, workspace = administrator()
    token = people.invite(workspace=workspace, by=owner, role="owner").token
    second = accounts.join(token=token, username="second", password=PASSWORD).user
    seats = {seat.user_id: seat for seat in Membership.objects.all()}
    results = at_once(
        lambda: people.remove_member(member=seats[owner.pk], by=owner),
        lambda: people.remove_member(member=seats[second.pk], by=second),
    )
    assert len(refusals(results)) == 1
    assert Membership.objects.filter(role="owner").count() == 1


def test_two_starts_at_once_seed_one_workspace(at_once):
    first, second = at_once(people.seed, people.seed)
    assert first == second
    assert Workspace.objects.count() == 1
