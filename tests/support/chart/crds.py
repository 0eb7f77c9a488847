"""Objects of operators, checked against their documentation of the chart's fields.

KEDA 2.17 (ScaledObject, TriggerAuthentication; the scalers redis, metrics-api and prometheus), the
Prometheus operator (ServiceMonitor, PrometheusRule) and JobSet 0.7 or newer. Other fields are
refused: a spelling mistake shows.
"""

from typing import Any

from jsonschema import Draft202012Validator

from tests.support.chart.gateway import HTTP_ROUTE_SPEC

Schema = dict[str, Any]


def _closed(properties: dict[str, Any], *required: str) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_TEXT: Schema = {"type": "string", "minLength": 1}
_LABELS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA = _closed(
    {"name": _TEXT, "namespace": _TEXT, "labels": _LABELS, "annotations": _LABELS}, "name"
)
_DURATION: Schema = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d|w|y))+$"}
_NUMBER_AS_TEXT: Schema = {"type": "string", "pattern": "^[0-9]+$"}

_REDIS_TRIGGER = _closed(
    {
        "type": {"const": "redis"},
        "name": _TEXT,
        "metadata": _closed(
            {
                "address": {"type": "string", "pattern": r"^([^:]+|\[[0-9a-f:]+\]):[0-9]+$"},
                "listName": _TEXT,
                "listLength": _NUMBER_AS_TEXT,
                "activationListLength": _NUMBER_AS_TEXT,
                "databaseIndex": _NUMBER_AS_TEXT,
                "enableTLS": {"enum": ["true", "false"]},
            },
            "address",
            "listName",
        ),
        "authenticationRef": _closed({"name": _TEXT}, "name"),
    },
    "type",
    "metadata",
)

_METRICS_API_TRIGGER = _closed(
    {
        "type": {"const": "metrics-api"},
        "metadata": _closed(
            {
                "url": {"type": "string", "format": "uri", "pattern": "^http://"},
                "format": {"enum": ["json", "prometheus", "xml", "yaml"]},
                "valueLocation": _TEXT,
                "targetValue": _NUMBER_AS_TEXT,
                "activationTargetValue": _NUMBER_AS_TEXT,
            },
            "url",
            "valueLocation",
            "targetValue",
        ),
    },
    "type",
    "metadata",
)
_PROMETHEUS_TRIGGER = _closed(
    {
        "type": {"const": "prometheus"},
        "metadata": _closed(
            {
                "serverAddress": {"type": "string", "pattern": "^https?://"},
                "query": _TEXT,
                "threshold": _NUMBER_AS_TEXT,
                "ignoreNullValues": {"enum": ["true", "false"]},
            },
            "serverAddress",
            "query",
            "threshold",
        ),
    },
    "type",
    "metadata",
)
_POLICY = _closed(
    {
        "type": {"enum": ["Pods", "Percent"]},
        "value": {"type": "integer", "minimum": 1},
        "periodSeconds": {"type": "integer", "minimum": 1, "maximum": 1800},
    },
    "type",
    "value",
    "periodSeconds",
)
_SCALING_RULES = _closed(
    {
        "stabilizationWindowSeconds": {"type": "integer", "minimum": 0, "maximum": 3600},
        "selectPolicy": {"enum": ["Max", "Min", "Disabled"]},
        "policies": {"type": "array", "items": _POLICY},
    }
)
_ADVANCED = _closed(
    {
        "scalingModifiers": _closed(
            {
                "formula": _TEXT,
                "target": _NUMBER_AS_TEXT,
                "activationTarget": _NUMBER_AS_TEXT,
                "metricType": {"enum": ["AverageValue", "Value"]},
            },
            "formula",
            "target",
        ),
        "horizontalPodAutoscalerConfig": _closed(
            {"behavior": _closed({"scaleUp": _SCALING_RULES, "scaleDown": _SCALING_RULES})}
        ),
    }
)
_FALLBACK = _closed(
    {
        "failureThreshold": {"type": "integer", "minimum": 0},
        "replicas": {"type": "integer", "minimum": 0},
        "behavior": {
            "enum": [
                *("static", "currentReplicas", "currentReplicasIfHigher"),
                "currentReplicasIfLower",
            ]
        },
    },
    "failureThreshold",
    "replicas",
)

_RULE = _closed(
    {
        "name": {"type": "string", "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
        "action": {"enum": ["FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"]},
        "onJobFailureReasons": {
            "type": "array",
            "uniqueItems": True,
            "items": {
                "enum": [
                    *("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes"),
                    *("MaxFailedIndexesExceeded", "PodFailurePolicy"),
                ]
            },
        },
    },
    "name",
    "action",
)
_JOB_SET = _closed(
    {
        "suspend": {"type": "boolean"},
        "ttlSecondsAfterFinished": {"type": "integer", "minimum": 0},
        "network": _closed(
            {
                "enableDNSHostnames": {"type": "boolean"},
                "subdomain": {"type": "string", "pattern": "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"},
                "publishNotReadyAddresses": {"type": "boolean"},
            }
        ),
        "failurePolicy": _closed(
            {
                "maxRestarts": {"type": "integer", "minimum": 0},
                "restartStrategy": {"enum": ["Recreate", "BlockingRecreate"]},
                "rules": {"type": "array", "items": _RULE},
            }
        ),
        "replicatedJobs": {
            "type": "array",
            "minItems": 1,
            "items": _closed(
                {
                    "name": _TEXT,
                    "replicas": {"type": "integer", "minimum": 0},
                    # The spec is a Job's, which Kubernetes' own schema checks.
                    "template": _closed({"spec": {"type": "object"}}, "spec"),
                },
                "name",
                "template",
            ),
        },
    },
    "replicatedJobs",
)

_ENDPOINT = _closed(
    {
        "port": _TEXT,
        "path": _TEXT,
        "interval": _DURATION,
        "relabelings": {
            "type": "array",
            "items": _closed(
                {
                    "sourceLabels": {"type": "array", "minItems": 1, "items": _TEXT},
                    "targetLabel": _TEXT,
                    "replacement": _TEXT,
                },
                "targetLabel",
            ),
        },
    },
    "port",
)

_SPECS: dict[tuple[str, str], Schema] = {
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): _JOB_SET,
    ("gateway.networking.k8s.io/v1", "HTTPRoute"): HTTP_ROUTE_SPEC,
    ("keda.sh/v1alpha1", "ScaledObject"): _closed(
        {
            "scaleTargetRef": _closed(
                {"name": _TEXT, "kind": _TEXT, "apiVersion": _TEXT},
                "name",
            ),
            "pollingInterval": {"type": "integer", "minimum": 1},
            "cooldownPeriod": {"type": "integer", "minimum": 0},
            "minReplicaCount": {"type": "integer", "minimum": 0},
            "maxReplicaCount": {"type": "integer", "minimum": 1},
            "fallback": _FALLBACK,
            "advanced": _ADVANCED,
            "triggers": {
                "type": "array",
                "minItems": 1,
                "items": {"oneOf": [_REDIS_TRIGGER, _METRICS_API_TRIGGER, _PROMETHEUS_TRIGGER]},
            },
        },
        "scaleTargetRef",
        "triggers",
    ),
    ("keda.sh/v1alpha1", "TriggerAuthentication"): _closed(
        {
            "secretTargetRef": {
                "type": "array",
                "minItems": 1,
                "items": _closed(
                    {
                        "parameter": {"enum": ["password", "username", "ca"]},
                        "name": _TEXT,
                        "key": _TEXT,
                    },
                    "parameter",
                    "name",
                    "key",
                ),
            }
        }
    ),
    ("monitoring.coreos.com/v1", "ServiceMonitor"): _closed(
        {
            "jobLabel": _TEXT,
            "selector": _closed({"matchLabels": _LABELS}, "matchLabels"),
            "endpoints": {
                "type": "array",
                "minItems": 1,
                "items": _ENDPOINT,
            },
        },
        "selector",
        "endpoints",
    ),
    ("monitoring.coreos.com/v1", "PrometheusRule"): _closed(
        {
            "groups": {
                "type": "array",
                "minItems": 1,
                "items": _closed(
                    {
                        "name": _TEXT,
                        "interval": _DURATION,
                        "labels": _LABELS,
                        "limit": {"type": "integer"},
                        "rules": {
                            "type": "array",
                            "items": _closed(
                                {
                                    "alert": _TEXT,
                                    "record": _TEXT,
                                    "expr": {"type": ["string", "integer"]},
                                    "for": _DURATION,
                                    "keep_firing_for": _DURATION,
                                    "labels": _LABELS,
                                    "annotations": _LABELS,
                                },
                                "expr",
                            ),
                        },
                    },
                    "name",
                    "rules",
                ),
            }
        },
        "groups",
    ),
}

CRD_SCHEMAS = {
    (version, kind): Draft202012Validator(
        _closed(
            {
                "apiVersion": {"const": version},
                "kind": {"const": kind},
                "metadata": _METADATA,
                "spec": spec,
            },
            "apiVersion",
            "kind",
            "metadata",
            "spec",
        )
    )
    for (version, kind), spec in _SPECS.items()
}


def check_crd(item: dict[str, Any]) -> str | None:
    """Return the error of an operator's object; None if it is right."""
    for error in CRD_SCHEMAS[item["apiVersion"], item["kind"]].iter_errors(item):
        return f"{error.json_path}: {error.message}"
    return None


def jobs_of(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the Jobs of a JobSet; none of another object."""
    if item["kind"] != "JobSet":
        return []
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}}
    return [job | one["template"] for one in item["spec"]["replicatedJobs"]]
