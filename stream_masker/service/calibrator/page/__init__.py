"""The live page of the calibrator, for people: one HTML page without scripts and without anything to load.

``figures`` takes what may be published to people from a version, with a verdict; ``live`` keeps the figures of the last
versions, and fetches the page of the active calibrator for one that stands by. ``document`` renders them as HTML, and
``charts`` draws lines and bars.
"""

from stream_masker.service.calibrator.page.figures import published_figures, recovered_figures
from stream_masker.service.calibrator.page.live import LivePage, fetched_page

__all__ = ["LivePage", "fetched_page", "published_figures", "recovered_figures"]
