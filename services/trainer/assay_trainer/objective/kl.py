"""The KL to the reference policy, by three estimates with a right gradient.

With d = log p_reference - log p of a token that p sampled, all are estimates of KL(p || reference)
of that token's distribution (J. Schulman, "Approximating KL Divergence", 2020):

estimator   value           bias of the value
k1          -d              none; may be negative
k2          d^2 / 2         small where the policies are close
k3          exp(d) - 1 - d  none; never negative; told with the ratio r, as it is trained on: a
                            token that another policy sampled may be improbable by now, and its
                            exp(d) huge

Added to a loss as they are, k1 has a gradient whose mean is 0, and that of k3 is not the KL's
(arXiv 2510.01555). So each has the gradient that its use in the literature gives, weighed by the
ratio r of a token sampled by another policy:

k1   in the reward (arXiv 2501.03262): r_t (sum of k1 from t to the end) grad log p_t, the gradient
     of the whole sequence's KL
k2   as a loss (arXiv 2510.01555): r_t k2, with r_t held fixed: r_t k1_t grad log p_t
k3   with the ratio (arXiv 2512.02556, eq. 7): grad (r_t k3) = r_t k1_t grad log p_t

So k2 and k3 have the same gradient for each token, that of the token's own KL, and differ in the
value alone. k1 also counts what a token does to the KL of later tokens, and varies more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay_trainer.objective.sampled import Sampled, sums_from_here

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class KLTerms:
    """The KL of each token: what is added to its loss, and the estimate for the step's event."""

    terms_L: "Tensor"
    values_L: "Tensor"


@dataclass(frozen=True)
class EstimatorRow:
    """An estimate of the KL."""

    name: str
    paper: str
    equation: str
    #: From the tokens and the reference's log-probabilities to the terms.
    terms: Callable[[Sampled, "Tensor"], KLTerms]


def _k1(sampled: Sampled, reference_L: "Tensor") -> KLTerms:
    value_L = (sampled.logprobs_L - reference_L).detach()
    to_come_L = sums_from_here(value_L, sampled.sequence_L)
    return KLTerms(sampled.log_ratio_L.exp() * to_come_L, value_L)


def _k2(sampled: Sampled, reference_L: "Tensor") -> KLTerms:
    value_L = (sampled.logprobs_L - reference_L).square() / 2
    return KLTerms(sampled.log_ratio_L.exp().detach() * value_L, value_L.detach())


def _k3(sampled: Sampled, reference_L: "Tensor") -> KLTerms:
    gap_L = reference_L - sampled.logprobs_L
    terms_L = sampled.log_ratio_L.exp() * (gap_L.expm1() - gap_L)
    return KLTerms(terms_L, terms_L.detach())


ESTIMATORS = {
    row.name: row
    for row in (
        EstimatorRow("k1", "arXiv 2501.03262", "-d, in the reward from t to the end", _k1),
        EstimatorRow("k2", "arXiv 2510.01555", "r d^2 / 2, as a loss, r held fixed", _k2),
        EstimatorRow("k3", "arXiv 2512.02556, eq. 7", "r (exp(d) - 1 - d), with its ratio", _k3),
    )
}
