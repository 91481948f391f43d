"""The site builds, every page with its links."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the site's generator is not installed (fastdp[docs])")
ROOT = Path(__file__).parents[2]


def test_the_site_builds_without_a_warning(tmp_path):
    build = [sys.executable, ROOT / "packaging" / "site.py", "--to", tmp_path]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    reference = (site / "docs" / "reference" / "api-runs.html").read_text("utf-8")
    assert 'id="synthesize"' in reference
    notebook = (site / "examples" / "first_table.html").read_text("utf-8")
    pictures = re.findall(r'<img alt="" src="([^"]+)"', notebook)
    assert len(pictures) >= 2 and all(
        (site / "examples" / name).stat().st_size for name in pictures
    )
