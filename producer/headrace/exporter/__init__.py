"""The exporter: what no single worker or gateway knows of a fleet, for Prometheus.

Knows how a survey reads as metrics. Does not know how surveys are taken: survey/ does. Needs the extra `exporter`;
`import headrace` never imports it.
"""
