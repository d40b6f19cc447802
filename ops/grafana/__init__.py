"""The dashboards as Python, from which `python -m ops.grafana.build` writes dashboards/*.json (decision 0032)."""
