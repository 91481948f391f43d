"""The private histogram of rows per user, which user ids and the clip can come from."""

from collections.abc import Sequence

from ...privacy.clip import PRIVATE, TV_PER_LOST_ROW, size_edges, unit_noise
from ...release.gateway import Session
from ...userkeys import RowsPerUser
from ..base import Config, Job, Users
from ..plans import ROWS_PER_USER
from .one_ways import part_mu


def in_proportion(left: float, shares: Sequence[float]) -> tuple[float, ...]:
    """`left` of mu^2 in the proportions of `shares`."""
    return tuple(left * s / sum(shares) for s in shares)


def measure_users(
    config: Config, session: Session, job: Job, displaced: float = TV_PER_LOST_ROW
) -> Users:
    """Measures the histogram of rows per user where ids or the clip depend on it. Where the run is
    to choose the clip, it does so by its effect on the planned marginals and on rows (`displaced`:
    see `privacy.clip`). Must be the first call on the session, unless the job has the histogram."""
    if job.users is not None:
        return job.users
    user = session.schema.user is not None
    public = job.public is not None
    share = config.users_share(public=public, user=user)
    bound = session.schema.max_rows_per_user
    if not share or (bound is None and config.clip != PRIVATE):
        return Users()
    if bound is None or config.clip == PRIVATE:
        planned = config.clip_criteria(session.domain, public=public)
        mu = part_mu(session, share)
        noise = unit_noise(part_mu(session, 1.0), ((p.cells, p.weight) for p in planned))
        measured, choice = session.choose_clip(
            noise, mu=mu, label=ROWS_PER_USER, displaced=displaced
        )
        return Users(measured, share, choice.clip_correction)

    key = RowsPerUser(size_edges(bound))
    return Users(
        session.user_histogram(key, cap=1, mu=part_mu(session, share), label=ROWS_PER_USER), share
    )
