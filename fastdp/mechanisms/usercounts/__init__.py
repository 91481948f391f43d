"""User counts: how many people, by place, month and kind (`mechanism`, over `config`, `cells`,
`fit`, `output`)."""
