{{/* What is routed from outside, for each service: no probe, no metrics, no page of documentation.
     `exact` is one path, `prefix` a path and all below it. Takes service. */}}
{{- define "assay.publicPaths" -}}
{{- if eq . "trainer" -}}
exact: [/, /open]
prefix: [/v1]
{{- else if eq . "reward" -}}
exact: [/get_reward]
prefix: [/v1]
{{- else -}}
exact: []
prefix: [/v1]
{{- end -}}
{{- end -}}

{{/* Peers through which requests come in: the controller's pods, or a load balancer's addresses.
     Takes root. */}}
{{- define "assay.entrants" -}}
{{- $ingress := .Values.ingress -}}
{{- $controller := $ingress.controller | default (ternary "ingress-nginx" "" (eq $ingress.preset "nginx")) -}}
{{- with $controller }}
- {{ include "assay.namespace" . }}
{{- end }}
{{- if eq $ingress.preset "gclb" }}
- ipBlock: {cidr: 130.211.0.0/22}
- ipBlock: {cidr: 35.191.0.0/16}
{{- end }}
{{- range $ingress.sources }}
- ipBlock: {cidr: {{ .cidr | quote }}}
{{- end }}
{{- end -}}

{{/* Annotations of the Ingress: those of the preset, then the values' own. Takes root. */}}
{{- define "assay.ingressAnnotations" -}}
{{- $ingress := .Values.ingress -}}
{{- $seconds := $ingress.timeoutS | toString -}}
{{- $preset := dict -}}
{{- if eq $ingress.preset "nginx" -}}
{{- $preset = dict "nginx.ingress.kubernetes.io/proxy-read-timeout" $seconds "nginx.ingress.kubernetes.io/proxy-body-size" "32m" -}}
{{- else if eq $ingress.preset "alb" -}}
{{- $preset = dict "alb.ingress.kubernetes.io/target-type" "ip" "alb.ingress.kubernetes.io/healthcheck-path" "/health" "alb.ingress.kubernetes.io/load-balancer-attributes" (printf "idle_timeout.timeout_seconds=%s" $seconds) -}}
{{- else if eq $ingress.preset "gclb" -}}
{{- $preset = dict "kubernetes.io/ingress.class" "gce" -}}
{{- end -}}
{{- toYaml (merge (dict) $ingress.annotations $preset) -}}
{{- end -}}

{{/* Annotations of a service that has a name outside. Takes root and service. */}}
{{- define "assay.serviceAnnotations" -}}
{{- $ingress := .root.Values.ingress -}}
{{- if and $ingress.enabled (index $ingress.hosts .service) -}}
{{- $preset := dict -}}
{{- if and (eq $ingress.preset "gclb") (eq $ingress.kind "Ingress") -}}
{{- $preset = dict "cloud.google.com/neg" "{\"ingress\": true}" -}}
{{- end -}}
{{- toYaml (merge (dict) $ingress.serviceAnnotations $preset) -}}
{{- end -}}
{{- end -}}

{{/* The spec of an HTTPRoute of the Gateway API. Takes root and service. */}}
{{- define "assay.route" -}}
{{- $ingress := .root.Values.ingress -}}
{{- $paths := include "assay.publicPaths" .service | fromYaml -}}
parentRefs:
  - group: gateway.networking.k8s.io
    kind: Gateway
    name: {{ $ingress.gateway.name | quote }}
    {{- with $ingress.gateway.namespace }}
    namespace: {{ . | quote }}
    {{- end }}
    {{- with $ingress.gateway.sectionName }}
    sectionName: {{ . | quote }}
    {{- end }}
hostnames:
  - {{ index $ingress.hosts .service | quote }}
rules:
  - matches:
      {{- range $paths.exact }}
      - path: {type: Exact, value: {{ . | quote }}}
      {{- end }}
      {{- range $paths.prefix }}
      - path: {type: PathPrefix, value: {{ . | quote }}}
      {{- end }}
    timeouts: {request: {{ $ingress.timeoutS }}s}
    backendRefs:
      - {kind: Service, name: {{ include "assay.fullname" .root }}-{{ .service }}, port: {{ .port }}}
{{- end -}}

{{/* Whether a service has a route of a kind. Takes root, service and kind. */}}
{{- define "assay.routedOutside" -}}
{{- $ingress := .root.Values.ingress -}}
{{- if and $ingress.enabled (eq $ingress.kind .kind) (index $ingress.hosts .service) -}}true{{- end -}}
{{- end -}}
