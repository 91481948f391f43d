"""Long trials of whole runs as users make them: kills, memory, many at once, machines that give
out."""
