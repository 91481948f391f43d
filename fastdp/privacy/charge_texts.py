"""Charges and remaining budgets as numbers and as the words of error texts."""

from collections.abc import Mapping, Sequence

from .accountant import Event, Threshold
from .budget import combined_mu, epsilon_at, mu2, pure_epsilon


def summary(events: Sequence[Event], delta: float | None) -> dict:
    """The events as numbers: mu of all, epsilon at delta (None without a delta), pure epsilon where
    all are pure."""
    epsilon = None if delta is None else epsilon_at(events, delta)
    pure = pure_epsilon(events)
    numbers = {"epsilon": epsilon, "delta": delta, "mu": combined_mu(events) if events else 0.0}
    return numbers | {"pure_epsilon": None if pure is None else float(pure), "events": len(events)}


def say_charge(events: Sequence[Event]) -> str:
    """What events cost, as a pure epsilon where all are pure, else as mu and a delta for keys."""
    pure = pure_epsilon(events)
    if pure is not None:
        return f"a pure epsilon of {float(pure):.6g}"
    lost = sum(e.delta for e in events if isinstance(e, Threshold))
    return f"mu {float(mu2(events)) ** 0.5:.6g}" + (
        f" and a delta of {lost:.6g} for keys" if lost else ""
    )


def say_left(left: Mapping) -> str:
    """What a budget has left (`Budget.left`)."""
    figures = [f"mu {left['mu']:.6g}"] if left["mu"] is not None else []
    if left["epsilon"] is not None and left["delta"]:
        figures.append(f"epsilon {left['epsilon']:.6g} at delta {left['delta']:.6g}")
    elif left["pure_epsilon"]:
        figures.append(f"a pure epsilon of {left['pure_epsilon']:.6g}")
    if "keys_delta" in left:
        figures.append(f"a delta of {left['keys_delta']:.6g} for keys")
    return ", ".join(figures) or "nothing"


def say_group(group: tuple[str, ...]) -> str:
    """Whom events about groups of rows protect; no columns: single rows."""
    return f"one user's rows of one group over {', '.join(group)}" if group else "one row"
