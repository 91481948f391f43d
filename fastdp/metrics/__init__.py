"""Scores of a synthetic table against the true table. They read the true rows without noise, so no
result computed here is private.

`scores` computes every metric by name. It uses `compare`, which encodes both tables with the same
codes (`inputs`). The public function, which can also write a report, is `report.evaluate`.
"""
