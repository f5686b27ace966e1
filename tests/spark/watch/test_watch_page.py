"""The live page in a real browser: what it shows, that it says when a query or the server is gone, and that nothing complains."""

from __future__ import annotations

import pytest

import penstock as ps

pytest.importorskip("pyspark")

from browser import CHROMIUM, Browser
from sparks import ON_SPARK, add_batches, in_batches, joined, rows

pytestmark = [
    *ON_SPARK,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="the page is looked at with chromium, which is not there (apt install chromium)"),
]
NAME = "<img src=x onerror='document.title=1'> & few"


def text_of(browser: Browser) -> str:
    return str(browser.evaluate("document.body.innerText"))


def test_the_page_from_before_the_first_batch_to_the_end_of_the_server(spark, tmp_path):
    frames = [in_batches(spark, tmp_path / side, [rows(side, 60, seconds=30)]) for side in "lr"]
    writer = joined(*frames, memory=20, shards=2, name="small").writeStream.format("noop").queryName(NAME)
    with ps.watch(spark) as served, Browser(tmp_path / "profile") as browser:
        browser.open(served.url)
        browser.wait("document.body.innerText.includes('No join runs yet')")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        browser.wait("document.querySelectorAll('section svg').length === 6")
        for side in "lr":
            add_batches(spark, tmp_path / side, [rows(side, 60, seconds=30, seed=1)])
        query.processAllAvailable()
        told = ps.progress(query).joins["small"]
        browser.wait(f"document.body.innerText.includes('batch {ps.progress(query).batch}')")
        shown = text_of(browser)
        assert f"{NAME} · small" in shown and browser.evaluate("document.querySelectorAll('img').length") == 0
        assert f"{told['retained_rows']} rows\nof 20 rows" in shown and f"{told['total_n_shed']} rows" in shown and "prob" in shown
        assert f"{100 * told['total_recall']:.1f} %" in shown
        assert f"{told['total_lost']} rows\nlost so far (counted)" in shown
        for width, scheme in ((1280, "light"), (1280, "dark"), (390, "dark"), (360, "light")):
            browser.show(width, 800, scheme)
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
        query.stop()
        browser.wait("document.body.innerText.includes('This query has stopped, after batch')")
        assert browser.evaluate("document.title") == "stopped · Penstock" and "0 of 1 query runs" in text_of(browser)
        assert browser.complaints == []
        served.stop()
        browser.wait("document.body.innerText.includes('The server does not answer')")
        assert f"{told['total_n_shed']} rows" in text_of(browser)


def test_the_page_says_why_a_query_failed(spark, tmp_path):
    frames = [in_batches(spark, tmp_path / side, [rows(side, 60, seconds=30)]) for side in "lr"]
    writer = joined(*frames, memory=4, shards=1, min_recall=(0.99, "fail"), lateness="0 seconds").writeStream.format("noop")
    with ps.watch(spark) as served, Browser(tmp_path / "profile", width=390) as browser:
        browser.open(served.url)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        with pytest.raises(Exception, match="min_recall must be reached"):
            query.awaitTermination()
        browser.wait("document.body.innerText.includes('This query has failed, before its first batch: min_recall must be reached')")
        assert browser.evaluate("document.title") == "1 failed · Penstock" and browser.complaints == []
