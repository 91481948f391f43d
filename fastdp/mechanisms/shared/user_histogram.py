"""The private histogram of rows per user, which user ids and the clip can come from."""

from collections.abc import Sequence

from ...privacy.clip import PRIVATE, TV_PER_LOST_ROW, size_edges, unit_noise
from ...release.gateway import Session
from ...userkeys import RowsPerUser
from ..base import Config, Ids, Job, Users
from .one_ways import part_mu

LABEL = "rows per user"
CLIP_SHARE = 0.02
"""Share of mu^2 of the histogram of rows per user where only the clip is chosen from it."""


def ids_share(ids: Ids, *, public: bool, user: bool) -> float:
    """The share of mu^2 that ids cost: nothing without a user column, with public data, or where
    none are wanted."""
    private = ids.source == "private" or (ids.source == "auto" and not public)
    return ids.share if user and private else 0.0


def users_share(config: Config, *, public: bool, user: bool) -> float:
    """The share of mu^2 of the histogram of rows per user. Ids and clip use the same one: the
    larger share pays for both."""
    share = ids_share(config.ids, public=public, user=user)
    if user and config.clip == PRIVATE:
        share = max(share, CLIP_SHARE if config.clip_share is None else config.clip_share)
    return share


def divided(left: float, shares: Sequence[float]) -> tuple[float, ...]:
    """`left` of mu^2 in the proportions of `shares`."""
    return tuple(left * s / sum(shares) for s in shares)


def measure_users(
    config: Config, session: Session, job: Job, displaced: float = TV_PER_LOST_ROW
) -> Users:
    """Measures the histogram of rows per user where ids or the clip depend on it, and chooses the
    clip where the run is to choose one, by its effect on the marginals that the config plans and on
    rows (`displaced`: see `privacy.clip`). Must be the first call on the session, unless the job
    has the histogram."""
    if job.users is not None:
        return job.users
    user, public = session.schema.user is not None, job.public is not None
    share = users_share(config, public=public, user=user)
    bound = session.schema.max_rows_per_user
    if not share or (bound is None and config.clip != PRIVATE):
        return Users()
    if bound is None or config.clip == PRIVATE:
        planned = config.clip_criteria(session.domain, public=public)
        mu = part_mu(session, share)
        noise = unit_noise(part_mu(session, 1.0), ((p.cells, p.weight) for p in planned))
        measured, choice = session.choose_clip(noise, mu=mu, label=LABEL, displaced=displaced)
        return Users(measured, share, choice.clip_correction)

    key = RowsPerUser(size_edges(bound))
    return Users(session.user_histogram(key, cap=1, mu=part_mu(session, share), label=LABEL), share)
