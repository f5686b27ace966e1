"""Join graphs: what their texts mean, and what is refused."""

from __future__ import annotations

import pytest

from penstock.core.errors import PenstockError
from penstock.core.graph import Graph, is_graph

STREAMS = ("R", "S", "T")


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("R.a = S.a and S.b<=T.b", ["R.a = S.a", "S.b <= T.b"]),
        ("T.b > R.a, R.a != S.`a b`", ["R.a < T.b", "R.a != S.`a b`"]),
        ("|T.x - R.y| <= 0.5, S.a=R.a", ["|R.y - T.x| <= 0.5", "R.a = S.a"]),
        ("R.`x, y` = S.`p and q` and |S.a - T.a| <= 0.1", ["R.`x, y` = S.`p and q`", "|S.a - T.a| <= 0.1"]),
        ("R.`a``b` = S.`(c` and |S.(`x, (`, y) - T.(u, v)| <= 1", ["R.`a``b` = S.`(c`", "|S.(`x, (`, y) - T.(u, v)| <= 1"]),
        (["|R.(x, y) - S.(u,v)| <= 2", "S.u >= T.u"], ["|R.(x, y) - S.(u, v)| <= 2", "S.u >= T.u"]),
    ],
)
def test_links_are_read(text, links):
    assert is_graph(text)
    graph = Graph.parse(text, STREAMS)
    assert [link.text(STREAMS) for link in graph.links] == links
    assert Graph.parse(links, STREAMS) == graph  # what is written is read again


def test_the_columns_of_a_stream_come_once():
    graph = Graph.parse("R.a = S.a, R.a = T.b, R.c < T.c", STREAMS)
    assert [graph.columns(i) for i in range(3)] == [("a", "c"), ("a",), ("b", "c")]
    assert [len(graph.between(0, 2)), len(graph.between(2, 0)), len(graph.between(1, 2))] == [2, 2, 0]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("R.a = U.a", "stream of the predicate must be one of R, S, T, got 'U'"),
        ("R.a = S.a", "no link between {R, S} and {T}"),
        ("R.a = R.b, S.a = T.a", "looks at R alone"),
        (["R.a ~ S.a"], "must be links"),
        ("|R.x - S.x| <= -1, S.a = T.a", "predicate must compare a distance with a number >= 0, got '|R.x - S.x| <= -1'"),
        ("|R.(x, y) - S.x| <= 1, S.a = T.a", "equally many columns"),
        ([], "must be links"),
        ([3], "must be links"),
    ],
)
def test_what_is_no_join_graph_is_refused(spec, told):
    with pytest.raises(PenstockError) as error:
        Graph.parse(spec, STREAMS)
    assert told in str(error.value)


def test_cross_lets_parts_match_freely():
    assert Graph.parse("R.a = S.a", STREAMS, cross=True).pieces() == [[0, 1], [2]]
