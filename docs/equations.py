"""Table of the equations: the formula, the function that computes it, and the paper that states it."""

from __future__ import annotations

from typing import Any, NamedTuple

import registries as code


class Equation(NamedTuple):
    """A row of the table. ``paper`` is the year of one of the five papers; ``place`` an equation, table or section."""

    what: str
    formula: str
    computed_by: Any
    paper: str
    place: str


EQUATIONS = (
    Equation("taxonomy of a domain", "τ(D(A)): the descendants of LCS(D(A))", code.Ontology.taxonomy, "2017", "10"),
    Equation("least common subsumer", "the common subsumer of greatest depth", code.Taxonomy.lcs, "2017", "9"),
    Equation(
        "Wu–Palmer distance",
        "1 − 2·depth(LCS) / (2·depth(LCS) + path(a, LCS) + path(b, LCS))",
        code.WuPalmer,
        "2017",
        "11, 12",
    ),
    Equation(
        "taxonomic distance",
        "log₂(1 + (∣T₁ ∪ T₂∣ − ∣T₁ ∩ T₂∣) / ∣T₁ ∪ T₂∣)",
        code.LogTaxonomic,
        "2013",
        "1",
    ),
    Equation("sMean", "argmin over c in τ of Σ sd(c, aᵢ)", code.semantic_mean, "2017", "13"),
    Equation("sVar", "(1/n)·Σ sd(aᵢ, sMean)²", code.semantic_variance, "2017", "14"),
    Equation("distance matrix", "sd(aᵢ, aⱼ)", code.Distance.matrix, "2017", "15"),
    Equation("sdCov", "(1/n)·√ΣΣ δA·δB, δ double-centred", code.distance_covariance, "2017", "16 to 18"),
    Equation("sdCor", "sdCov(A, B) / √(sdVar(A)·sdVar(B))", code.distance_correlation, "2017", "19"),
    Equation("sdVar", "sdCov(A, A)", code.distance_variance, "2017", "20"),
    Equation("covariance matrix Σ", "sdVar on the diagonal, sdCov off it", code.Statistics, "2017", "22"),
    Equation("nearest positive semidefinite Σ", "negative eigenvalues become 0", code.nearest_psd, "ours", "22"),
    Equation("semantic noise", "ε ~ N(0, α·sVar), or N(0, α·Σ)", code.NoiseSampler, "2017", "sections 4.4, 4.5"),
    Equation("replacement", "nearest admissible level to ∣ε∣", code.Replacer, "2017", "algorithms 1 to 3"),
    Equation("utility of an attribute", "RMSE, Δ sMean, Δ sVar", code.AttributeUtility, "2017", "section 5"),
    Equation("utility of a pair", "Δ sdCov, Δ sdCor", code.PairUtility, "2017", "section 5"),
    Equation("exponential mechanism", "P(c ∣ a) ∝ exp(−ε·sd(a, c) / 2)", code.Exponential, "2017", "section 2"),
    Equation("transport", "P(t ∣ s) = K(s, t)·Ψ(t) / Z(s), Φ = P / Z", code.SemanticTransport, "ours", "Cuturi 2013"),
    Equation("its kernel", "w = max(0, ln φ − λd² − ln u), Σ w = κ in a column", code.levelled, "ours", "Smith 2009"),
    Equation("its promise", "P(x ∣ t) ≤ max(β, P(x))", code.least_redraw, "ours", "Smith 2009"),
    Equation("transport given another attribute", "P(b ∣ a) to P(b ∣ a*)", code.Given, "ours", "Lindvall 2002"),
    Equation("PRAM", "P(c ∣ a) from a Markov matrix", code.Pram, "2017", "section 2"),
    Equation("marginality", "m(xⱼ) = Σ d(xⱼ, xₗ)", code.marginality_variance, "2013", "2"),
    Equation("marginality mean", "argmin m(xⱼ)", code.group_means, "2013", "3"),
    Equation("marginality variance", "Σ m(xⱼ) / n", code.marginality_variance, "2013", "5"),
    Equation("microaggregation groups", "MDAV by √(Σ (S²)ₗ₁₂ / (S²)ₗ)", code.mdav, "2013", "7, section 3.1"),
    Equation("representative of a group", "the least marginal value", code.group_means, "2013", "3"),
    Equation("hybrid microaggregation", "a value within the group's radius", code.near_values, "2013", "algorithm 1"),
    Equation("semantic rank swapping", "swap with one of the k nearest", code.RankSwapping, "2019", "4 to 11"),
    Equation("similarity S", "c₁·S′ + c₂·S″", code.ValueGraph.similarities, "2012", "1"),
    Equation("direct similarity S′", "Σₖ √(aᵢₖ·aₖⱼ) / √(d(i)·d(j))", code.ValueGraph.direct, "2012", "2"),
    Equation("transitive similarity S″", "S′ of the merged graph", code.ValueGraph.transitive, "2012", "algorithm 1"),
    Equation("probability of staying", "k₁k₂ / (k₁k₂ + k₂(∣S∣ − 1) + ∣S′∣)", code.stay_probability, "2012", "9"),
    Equation("VICUS", "Ps, Ps / k₁, Ps / (k₁k₂)", code.Vicus, "2012", "8 to 11"),
    Equation("Random", "(1 − Ps) / (∣S∣ + ∣S′∣ − 1)", code.RandomTransitions, "2012", "12"),
    Equation("transition probabilities", "P(a′ ∣ a)", code.Mechanism.attribute_channel, "ours", "Gouweleeuw 1998"),
    Equation("vulnerability", "Σ_a′ max_a p(a)·P(a′ ∣ a)", code.disclosure, "ours", "Smith 2009"),
    Equation("certain, likely", "share with max_a p(a ∣ a′) > 0.9, 0.5", code.disclosure, "ours", "Smith 2009"),
    Equation("bound of n draws", "√(ln(2/δ) / 2n)", code.hoeffding_bound, "ours", "Hoeffding 1963"),
    Equation("drift of values", "½·KL(p ‖ m) + ½·KL(q ‖ m), m = (p + q) / 2", code.jensen_shannon, "ours", "Lin 1991"),
)


def name_of(thing: Any) -> str:
    """Return the full name of a function, class or method, without the package's own."""
    module = thing.__module__.removeprefix("stream_masker.")
    return f"{module}.{thing.__qualname__}"


def equation_table() -> str:
    """All equations as a Markdown table."""
    head = "| quantity | formula | computed by | paper | equation or section |\n| --- | --- | --- | --- | --- |\n"
    return head + "".join(_row(equation) for equation in EQUATIONS)


def _row(equation: Equation) -> str:
    cells = (equation.what, equation.formula, f"`{name_of(equation.computed_by)}`", equation.paper, equation.place)
    return f"| {' | '.join(cells)} |\n"
