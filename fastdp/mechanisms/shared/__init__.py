"""What mechanisms share: a private choice of pairs (`tree`), marginals a model can afford (`choose`), rare
values merged (`compress`), public constraints as masks (`constraints`), and rows of a model (`common`).
"""
