"""Statistics that are updated by what entered and left the window, instead of being computed from all counts.

* ``mean``: sMean and sVar. The totals of a few candidate concepts are updated, and a lower bound on all other totals
  decides when to search again.
* ``marginal``: sdVar of one attribute, and the sums of distances of its values.
* ``covariance``: sdCov, sdCor and sdVar of a pair; it combines two marginals.
* ``kernels``: the compiled updates for small changes.

Results equal those of ``statistics.mean`` and ``statistics.covariance`` up to rounding that does not accumulate.
"""
