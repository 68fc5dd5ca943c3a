"""Datasets: rows from local files, a mirror or the hub, split by split."""
