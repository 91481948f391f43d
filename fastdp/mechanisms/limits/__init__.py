"""What limits a model: its size in cells and bytes, and cells that constraints leave empty."""
