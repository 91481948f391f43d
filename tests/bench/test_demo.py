"""`make demo` runs, in small."""

from bench import demo


def test_the_demo_in_small(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "CHICAGO", tmp_path / "absent")
    demo.main(5_000, tmp_path / "out")
    assert (tmp_path / "out/taxi/privacy.json").is_file()
    assert (tmp_path / "out/taxi.private/report.html").is_file()
