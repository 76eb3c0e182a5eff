"""Client quotas: which limit counts, and how long a client waits."""

from __future__ import annotations

import pytest

from insync.security import quotas as quotas_module
from insync.security.quotas import (
    CONNECTION_CREATION_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    WINDOW_MS,
    WINDOWS,
    ClientQuotas,
    MutationQuota,
    QuotaEntity,
    QuotaManager,
    Rate,
    Share,
    TokenBucket,
    Windows,
)

SPECIFIC_FIRST = (
    QuotaEntity("alice", "app"),
    QuotaEntity("alice", DEFAULT),
    QuotaEntity("alice", None),
    QuotaEntity(DEFAULT, "app"),
    QuotaEntity(DEFAULT, DEFAULT),
    QuotaEntity(DEFAULT, None),
    QuotaEntity(None, "app"),
    QuotaEntity(None, DEFAULT),
)


def limit_of(quotas: ClientQuotas, user: str = "alice", client_id: str = "app") -> float | None:
    match = quotas.find(PRODUCER_BYTE_RATE, user, client_id)
    return None if match is None else match[1]


@pytest.mark.parametrize("first", range(len(SPECIFIC_FIRST)))
def test_the_most_specific_quota_counts(first: int) -> None:
    quotas = ClientQuotas()
    for number, entity in reversed(list(enumerate(SPECIFIC_FIRST))):
        if number >= first:
            quotas.set(entity, PRODUCER_BYTE_RATE, float(number))
    assert limit_of(quotas) == first


def test_a_removed_quota_gives_way_to_the_next_one() -> None:
    quotas = ClientQuotas()
    assert limit_of(quotas) is None
    quotas.set(QuotaEntity("alice", None), PRODUCER_BYTE_RATE, 10)
    quotas.set(QuotaEntity(DEFAULT, None), PRODUCER_BYTE_RATE, 20)
    assert limit_of(quotas) == 10
    quotas.set(QuotaEntity("alice", None), PRODUCER_BYTE_RATE, None)
    assert limit_of(quotas) == 20
    assert quotas.find("consumer_byte_rate", "alice", "app") is None
    quotas.set(QuotaEntity(DEFAULT, None), PRODUCER_BYTE_RATE, None)
    assert not quotas


def test_clients_of_a_user_share_the_users_limit_and_users_of_a_default_do_not() -> None:
    quotas = ClientQuotas()

    def share(user: str, client_id: str) -> Share:
        match = quotas.find(PRODUCER_BYTE_RATE, user, client_id)
        assert match is not None
        return match[0]

    quotas.set(QuotaEntity(DEFAULT, None), PRODUCER_BYTE_RATE, 10)
    assert share("alice", "a") == share("alice", "b")
    assert share("alice", "a") != share("bob", "a")
    quotas.set(QuotaEntity("alice", DEFAULT), PRODUCER_BYTE_RATE, 10)
    assert share("alice", "a") != share("alice", "b")
    quotas = ClientQuotas()
    quotas.set(QuotaEntity(None, DEFAULT), PRODUCER_BYTE_RATE, 10)
    assert share("alice", "a") == share("bob", "a")
    assert share("alice", "a") != share("alice", "b")


def test_a_client_below_its_rate_never_waits() -> None:
    rate = Rate()
    for now in range(0, 60_000, 100):
        rate.record(9, now)
        assert rate.throttle_ms(100, now) == 0


@pytest.mark.parametrize("excess", [2, 5, 20])
def test_a_client_that_waits_as_asked_is_back_at_its_rate(excess: int) -> None:
    """Whatever it tries to send: it gets the limit, and at most one request more per length of the windows."""
    rate, now, sent = Rate(), 0, 0
    while now < 600_000:
        rate.record(10 * excess, now)
        sent += 10 * excess
        now += max(100, rate.throttle_ms(100, now))
    assert 95 <= sent / (now / 1_000) <= 103 + 10 * excess / (WINDOWS - 1)


def test_old_seconds_leave_the_average() -> None:
    rate = Rate()
    rate.record(10_000, 500)
    assert rate.per_second(500) > 900
    assert rate.per_second(500 + WINDOWS * WINDOW_MS) == 0


def test_a_limit_of_zero_stops_a_client_for_a_bounded_time() -> None:
    rate = Rate()
    rate.record(1, 0)
    assert 0 < rate.throttle_ms(0, 0) < WINDOWS * WINDOW_MS


def test_a_burst_of_mutations_passes_and_is_paid_for_afterwards() -> None:
    bucket = TokenBucket(5, 0)
    assert bucket.throttle_ms(5, 0) == 0
    bucket.take(100, 5, 0)
    assert bucket.throttle_ms(5, 0) == round((100 - 5 * WINDOWS) / 5 * 1_000)
    assert bucket.throttle_ms(5, 9_000) == 0
    bucket.take(5 * WINDOWS + 1, 5, 1_000_000)
    assert bucket.throttle_ms(5, 1_000_000) == 200, "the bucket does not fill beyond its size"


def manager(**limits: float) -> QuotaManager:
    made = QuotaManager(Windows(count=2), Windows(count=2))
    made.update({QuotaEntity("alice"): limits, QuotaEntity(ip="10.0.0.1"): {CONNECTION_CREATION_RATE: 5}})
    return made


def test_nothing_is_measured_while_there_is_no_quota() -> None:
    quotas = QuotaManager()
    assert not quotas.is_active
    quotas.update({QuotaEntity(ip=DEFAULT): {CONNECTION_CREATION_RATE: 5}})
    assert (quotas.is_active, quotas.ip_limits) == (False, {DEFAULT: 5}), "addresses are counted by connection"
    quotas.update({QuotaEntity("alice"): {PRODUCER_BYTE_RATE: 5}})
    assert (quotas.is_active, quotas.ip_limits) == (True, {})
    quotas.update({})
    assert not quotas.is_active


def test_a_client_waits_by_its_own_limit_only() -> None:
    quotas = manager(producer_byte_rate=100)
    assert quotas.record(PRODUCER_BYTE_RATE, "alice", "app", 1_000, 0) > 0
    assert quotas.record(PRODUCER_BYTE_RATE, "bob", "app", 1_000, 0) == 0
    assert quotas.record("consumer_byte_rate", "alice", "app", 1_000, 0) == 0
    assert quotas.record(PRODUCER_BYTE_RATE, "alice", "other", 0, 0) > 0, "another client of the same user"


def test_a_new_limit_counts_at_once_for_what_was_used_before() -> None:
    quotas = manager(producer_byte_rate=100)
    quotas.record(PRODUCER_BYTE_RATE, "alice", "app", 1_000, 0)
    quotas.update({QuotaEntity("alice"): {PRODUCER_BYTE_RATE: 10_000}})
    assert quotas.record(PRODUCER_BYTE_RATE, "alice", "app", 0, 0) == 0
    quotas.update({QuotaEntity("alice"): {PRODUCER_BYTE_RATE: 10}})
    assert quotas.record(PRODUCER_BYTE_RATE, "alice", "app", 0, 0) > 50_000


def test_the_wait_for_request_time_is_a_window_at_most() -> None:
    quotas = manager(request_percentage=1)
    assert quotas.record_request_time("alice", "app", 5_000_000, 0) == 0, "5 ms in a second are half a percent"
    assert quotas.record_request_time("alice", "app", 10**10, 0) == WINDOW_MS


def test_a_fetch_is_limited_to_what_the_rate_allows_in_the_measured_time() -> None:
    quotas = manager(consumer_byte_rate=100)
    assert quotas.max_fetch_bytes("alice", "app") == 100
    assert quotas.max_fetch_bytes("bob", "app") is None


def test_mutations_are_paid_for_afterwards() -> None:
    """KIP-599: what is refused does not count, and the wait is that of the refusal."""
    quotas = manager(controller_mutation_rate=5)

    def of_request(now: int, *, is_strict: bool = True) -> MutationQuota:
        quota = quotas.mutation_quota("alice", "app", is_strict=is_strict, now=now)
        assert quota is not None
        return quota

    first = of_request(0)
    assert (first.charge(15), first.throttle_ms) == (True, 0), "the bucket holds 10, for two seconds"
    assert (first.charge(1), first.throttle_ms) == (False, 1_000)
    second = of_request(500)
    assert (second.charge(1), second.throttle_ms) == (False, 500)
    third = of_request(1_000)
    assert (third.charge(5), third.throttle_ms) == (True, 0)
    patient = of_request(1_000, is_strict=False)
    assert (patient.charge(5), patient.throttle_ms) == (True, 2_000), "an older client is told to wait and not refused"
    assert quotas.mutation_quota("bob", "app", is_strict=True, now=0) is None


def test_clients_that_invent_ids_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas_module, "MAX_SHARES", 3_000)
    quotas = QuotaManager(Windows(count=2), Windows(count=2))
    both = {PRODUCER_BYTE_RATE: 100.0, CONTROLLER_MUTATION_RATE: 1.0}
    quotas.update({QuotaEntity(None, DEFAULT): both})
    now, busy = 0, None
    for now in range(6_000):  # one new id in a millisecond
        quotas.record(PRODUCER_BYTE_RATE, "alice", f"client-{now}", 1, now)
        quotas.mutation_quota("alice", f"client-{now}", is_strict=True, now=now)
        quotas.record(PRODUCER_BYTE_RATE, "alice", "busy", 100, now)
        busy = quotas.mutation_quota("alice", "busy", is_strict=False, now=now)
        assert busy is not None
        busy.charge(1)
    assert len(quotas._rates) + len(quotas._buckets) <= 3_000
    assert quotas.record(PRODUCER_BYTE_RATE, "alice", "busy", 0, now) > 0, "what is in use is kept"
    assert busy is not None
    assert busy.throttle_ms > 0
