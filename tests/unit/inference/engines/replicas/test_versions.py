"""The versions of which an answer may have tokens."""

from assay_inference.engines.replicas.versions import AnnouncedVersions
from assay_shared.types import PolicyVersion

ONE, TWO, THREE = (PolicyVersion(version=number, digest=f"d{number}") for number in (1, 2, 3))
OTHER = PolicyVersion(version=1, digest="other")


def served(*policies: PolicyVersion) -> AnnouncedVersions:
    versions = AnnouncedVersions()
    for policy in policies:
        versions.announce(policy)
        versions.settle(is_served=True)
    return versions


def test_a_version_on_its_way_samples_next_to_the_served_one() -> None:
    versions = served(ONE)
    assert versions.current == {ONE}
    versions.announce(TWO)
    assert (versions.current, versions.served) == ({ONE, TWO}, ONE)
    versions.settle(is_served=True)
    assert (versions.current, versions.served) == ({TWO}, TWO)


def test_an_answer_may_have_tokens_of_all_that_came_since_its_request() -> None:
    versions = served(ONE, TWO)
    assert versions.since(TWO) == {TWO}, "and none of an older one"
    versions.announce(THREE)
    assert versions.since(ONE) == {ONE, TWO, THREE}
    assert versions.since(OTHER) == {TWO, THREE}, "an unknown one counts for nothing"
    assert served().since(None) == set()


def test_a_version_that_was_refused_is_not_served() -> None:
    versions = served(ONE)
    versions.announce(TWO)
    versions.settle(is_served=False)
    assert (versions.current, versions.served) == ({ONE}, ONE)
    versions.announce(TWO)  # again, after another
    versions.settle(is_served=True)
    assert versions.since(TWO) == {TWO}
