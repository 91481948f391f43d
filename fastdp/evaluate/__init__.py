"""How good is a synthetic table? The field's scores at compiled speed. They see the truth: nothing here is
private.

`scores` computes every metric by name over `compare`, which puts two tables on one scale (`inputs`). The
public function, which can also write a report, is `report.evaluate`.
"""
