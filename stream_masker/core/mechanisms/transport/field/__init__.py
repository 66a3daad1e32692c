"""The transport of records of two or more scalar attributes: a Markov random field along the tree of the attributes.

Let P be the law of the window's records s. Among all channels M(t | s) whose masked records have the law of each pair
of attributes that are linked in the tree, and for which E[sd_j^γ] of each attribute has a given value, the one of
greatest entropy is (Lagrange's conditions)

    M(t | s) = Π_j K_j(s_j, t_j) · ρ(t_0) · Π_c ψ_c(t_p, t_c) / Z(s),

where p is the parent of c and Z(s) normalises. Given a record s it is a Markov random field along the tree, so that
Z(s), the laws of its pairs, and exact draws are sums from the leaves to the root and back (Pearl 1988). For two
attributes it is the transport of pairs (``transport.solver``). The move of each attribute depends on the whole record,
so no attribute is easier to guess because of its place in the tree.

An absent value is one more value, which moves to itself only. So records keep the attributes that they have, and the
law of which attributes are absent together is preserved, too.

The window's counts hold pairs. ``records`` therefore builds records that have these pairs along the tree, and are
otherwise independent. If the records of the window are not, that is, if their law is not Markov along the tree, masked
records have the laws of its pairs approximately.

* ``records``: these records. ``links``: the tree with its pairs, and the fitted field.
* ``messages``: the sums over a record's field. ``solver``: the fit of ρ, ψ and λ.
* ``channel``: the field in a form that masks. ``disclosure``: what masked records tell. ``prepared``: a field in use.
"""
