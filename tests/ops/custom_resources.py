"""What the custom resources of ours may hold, by the documents of those who define them.

Knows of each kind only the fields that are used here: ScaledObject by KEDA's specification of it (version 2.17),
PodMonitor and PrometheusRule by the API reference of the Prometheus Operator. Any other field is an error.
"""

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator

_STRING = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_DURATION = {"type": "string", "pattern": r"^\d+(ms|s|m|h|d)$"}
_LABELS = {"type": "object", "additionalProperties": _STRING}
_NUMBER = {"type": "string", "pattern": r"^\d+(\.\d+)?$"}


def _record(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _some(each: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": each, "minItems": 1}


_SCALING = _record(
    {
        "policies": _some(
            _record(
                {
                    "type": {"enum": ["Pods", "Percent"]},
                    "value": {"type": "integer", "minimum": 1},
                    "periodSeconds": _COUNT,
                }
            )
        )
    },
    {"stabilizationWindowSeconds": {"type": "integer", "minimum": 0, "maximum": 3600}},
)
_PROMETHEUS = _record(
    {"serverAddress": _STRING, "query": _STRING, "threshold": _NUMBER},
    {"activationThreshold": _NUMBER, "ignoreNullValues": {"enum": ["true", "false"]}},
)
_SPECS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("keda.sh/v1alpha1", "ScaledObject"): _record(
        {
            "scaleTargetRef": _record({"name": _STRING}),
            # A trigger of type Value has no fallback, so there is no metricType here.
            "triggers": _some(_record({"type": {"const": "prometheus"}, "metadata": _PROMETHEUS}, {"name": _STRING})),
        },
        {
            "pollingInterval": _COUNT,
            "cooldownPeriod": _COUNT,
            "minReplicaCount": _COUNT,
            "maxReplicaCount": _COUNT,
            "fallback": _record(
                {"failureThreshold": _COUNT, "replicas": _COUNT},
                {
                    "behavior": {
                        "enum": ["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"]
                    }
                },
            ),
            "advanced": _record(
                {
                    "horizontalPodAutoscalerConfig": _record(
                        {"behavior": _record({"scaleUp": _SCALING, "scaleDown": _SCALING})}
                    )
                }
            ),
        },
    ),
    ("monitoring.coreos.com/v1", "PodMonitor"): _record(
        {
            "selector": _record({"matchLabels": _LABELS}),
            "podMetricsEndpoints": _some(
                _record(
                    {"port": _STRING},
                    {
                        "path": _STRING,
                        "interval": _DURATION,
                        "scrapeTimeout": _DURATION,
                        "relabelings": _some(
                            _record({"action": {"const": "replace"}, "targetLabel": _STRING, "replacement": _STRING})
                        ),
                    },
                )
            ),
        }
    ),
    ("monitoring.coreos.com/v1", "PrometheusRule"): _record(
        {
            "groups": _some(
                _record(
                    {
                        "name": _STRING,
                        "rules": _some(
                            _record(
                                {"expr": {"type": ["string", "integer"]}},
                                {
                                    "alert": _STRING,
                                    "record": _STRING,
                                    "for": _DURATION,
                                    "keep_firing_for": _DURATION,
                                    "labels": _LABELS,
                                    "annotations": _LABELS,
                                },
                            )
                        ),
                    },
                    {"interval": _DURATION, "labels": _LABELS, "limit": _COUNT},
                )
            )
        }
    ),
}


def check(resource: Mapping[str, Any]) -> None:
    """See that a custom resource is one that its definition takes.

    Raises:
        jsonschema.ValidationError: It is not; the text says where.
        KeyError: Its kind is not known here.
    """
    spec = _SPECS[resource["apiVersion"], resource["kind"]]
    named = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": _STRING, "namespace": _STRING, "labels": _LABELS},
    }
    whole = _record({"apiVersion": _STRING, "kind": _STRING, "metadata": named, "spec": spec})
    Draft202012Validator(whole).validate(resource)
