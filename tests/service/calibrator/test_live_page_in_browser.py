"""The live page in headless Chromium, wide and on a phone: nothing is cut off, and a keyboard reaches everything."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_figures import content
from prometheus_client import CollectorRegistry

from stream_masker.service.calibrator.page.document import document
from stream_masker.service.observability.health import Health, HttpServer

pytest.importorskip("selenium", reason="selenium is not installed")
pytestmark = pytest.mark.skipif(
    not (shutil.which("chromedriver") and shutil.which("chromium")), reason="chromium or chromedriver is not installed"
)

SIZES = {"wide": (1280, 900), "phone": (390, 844)}
CONFIGURATION = "\n".join(f"key_{i}: {'long ' * 40}" for i in range(5))

TOO_WIDE = """
return [...document.querySelectorAll('body *')].filter(one => !one.closest('.scroll') && !one.closest('.skip')
  && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 80))"""
REACHABLE = """
return [...document.querySelectorAll("a[href], summary, [tabindex='0']")].filter(one => one.checkVisibility())
  .map(one => one.tagName)"""
FOCUSED = """
const one = document.activeElement, outline = getComputedStyle(one);
return [one.tagName, one.getAttribute('aria-label') || one.textContent, outline.outlineStyle]"""
AXE = os.environ.get("STREAM_MASKER_AXE", "")
"""The file ``axe.min.js`` of the npm package axe-core."""

VIOLATIONS = """
const done = arguments[arguments.length - 1];
axe.run().then(found => done([found.passes.length, found.violations.map(one => [one.id, one.nodes[0].html])]));"""
SMALLEST_TEXT = """
const scale = svg => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
return Math.min(...[...document.querySelectorAll('body *')]
  .filter(one => one.textContent.trim() && one.checkVisibility())
  .map(one => parseFloat(getComputedStyle(one).fontSize) * (one.ownerSVGElement ? scale(one.ownerSVGElement) : 1)))"""


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    html = document(content(configuration=CONFIGURATION))
    pages = {"/": lambda query: html}
    with HttpServer(host="127.0.0.1", port=0, health=Health(), registry=CollectorRegistry(), pages=pages) as server:
        yield server


@pytest.fixture(params=SIZES)
def browser(request, server):
    """A browser that has loaded the page; it logs what the page does on the network."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"):
        options.add_argument(argument)
    width, height = SIZES[request.param]
    options.add_experimental_option("mobileEmulation", {"deviceMetrics": {"width": width, "height": height}})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    with webdriver.Chrome(options=options, service=service) as driver:
        driver.get(f"http://127.0.0.1:{server.port}/")
        yield driver


def requested(driver) -> set[str]:
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    return {url for url in sent if url.startswith("http")}


def test_page_is_read_by_keyboard_on_any_screen_and_loads_nothing_else(browser, server) -> None:
    """One test for each size, because the start of a browser takes longest."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    address = f"http://127.0.0.1:{server.port}/"
    assert requested(browser) <= {address, f"{address}favicon.ico"}
    assert [entry for entry in browser.get_log("browser") if "favicon" not in entry["message"]] == []
    assert browser.execute_script(TOO_WIDE) == []
    assert browser.execute_script(SMALLEST_TEXT) >= 10

    expected = browser.execute_script(REACHABLE)
    reached = []
    for _ in expected:
        browser.switch_to.active_element.send_keys(Keys.TAB)
        tag, name, outline = browser.execute_script(FOCUSED)
        reached.append(tag)
        assert outline != "none", name
    assert reached == expected

    browser.get(address)
    first = browser.find_element(By.CSS_SELECTOR, "details summary")
    first.send_keys(Keys.ENTER)
    assert browser.find_element(By.CSS_SELECTOR, "details[open] table").is_displayed()
    assert browser.get_screenshot_as_png().startswith(b"\x89PNG")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.skipif(not AXE, reason="set STREAM_MASKER_AXE to axe.min.js (npm install axe-core)")
def test_axe_finds_nothing_about_keyboard_contrast_or_structure(browser, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.execute_script("document.querySelectorAll('details').forEach(one => one.open = true)")
    browser.execute_script(Path(AXE).read_text())
    passed, violations = browser.execute_async_script(VIOLATIONS)
    assert passed > 20
    assert violations == []
