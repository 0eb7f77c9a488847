{{/* Whether a part answers: a router does for engines that are not there. Takes a part. */}}
{{- define "assay.hasReplicas" -}}
{{- if or .autoscaling.enabled (gt (int .replicas) 0) -}}true{{- end -}}
{{- end -}}

{{/* What a pod is given in the mean, of as much as it can do at once. An autoscaler leaves a tenth
     of the target unscaled, and no work may wait for that. Takes the capacity. */}}
{{- define "assay.scalingTarget" -}}
{{- max 1 (div (mul (int .) 10) 11) -}}
{{- end -}}

{{/* How KEDA scales a part: up at once. With a minimum of 0, down only to zero, and only when
     nothing waits and nothing is in flight: no pod that works is taken. With another minimum, down
     after the highest demand of the cooldown. A metric that cannot be read leaves all as it is.
     Takes an autoscaling. */}}
{{- define "assay.kedaScaling" -}}
pollingInterval: {{ .pollS }}
cooldownPeriod: {{ .cooldownS }}
minReplicaCount: {{ .minReplicas }}
maxReplicaCount: {{ .maxReplicas }}
fallback:
  failureThreshold: 3
  replicas: {{ max 1 (int .minReplicas) }}
  behavior: currentReplicasIfHigher
{{- end -}}

{{- define "assay.kedaBehavior" -}}
horizontalPodAutoscalerConfig:
  behavior:
    scaleUp:
      stabilizationWindowSeconds: 0
      policies:
        - {type: Pods, value: {{ .maxReplicas }}, periodSeconds: 15}
    scaleDown:
      {{- if eq (int .minReplicas) 0 }}
      selectPolicy: Disabled
      {{- else }}
      stabilizationWindowSeconds: {{ .cooldownS }}
      {{- end }}
{{- end -}}
