{{/* All pods of a namespace, by its name. */}}
{{- define "assay.namespace" -}}
namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ . }}}}
{{- end -}}

{{/* Pods of this release that have a place in the network. Takes root and places. */}}
{{- define "assay.peers" -}}
{{- range .places }}
- podSelector:
    matchLabels:
      app.kubernetes.io/instance: {{ $.root.Release.Name }}
      assay/network: {{ . }}
{{- end }}
{{- end -}}

{{/* The pods that a policy is about. Takes root and place. */}}
{{- define "assay.subject" -}}
podSelector:
  matchLabels:
    app.kubernetes.io/instance: {{ .root.Release.Name }}
    assay/network: {{ .place }}
policyTypes: [Ingress, Egress]
{{- end -}}

{{- define "assay.port" -}}
ports:
  - {protocol: TCP, port: {{ . }}}
{{- end -}}

{{/* A rule for whoever reads metrics at a port. Takes root and port. */}}
{{- define "assay.scraped" -}}
{{- $monitoring := .root.Values.monitoring -}}
{{- if or $monitoring.scrape $monitoring.serviceMonitor.enabled }}
- from:
    - {{ include "assay.namespace" $monitoring.namespace }}
  {{- include "assay.port" .port | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A rule for those outside who may call a service. Takes root, service and port. */}}
{{- define "assay.clients" -}}
{{- $network := .root.Values.networkPolicy -}}
{{- $ingress := .root.Values.ingress -}}
{{- $published := and $ingress.enabled (index $ingress.hosts .service) -}}
{{- if or $network.clients $published }}
- from:
    {{- if $published }}
    - {{ include "assay.namespace" $ingress.controller }}
    {{- end }}
    {{- with $network.clients }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- include "assay.port" .port | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A rule to pods of this release. Takes root, places and port. */}}
{{- define "assay.to" -}}
- to:
    {{- include "assay.peers" . | nindent 4 }}
  {{- include "assay.port" .port | nindent 2 }}
{{- end -}}

{{/* A rule from pods of this release. Takes root, places and port. */}}
{{- define "assay.from" -}}
- from:
    {{- include "assay.peers" . | nindent 4 }}
  {{- include "assay.port" .port | nindent 2 }}
{{- end -}}

{{/* A rule to Redis, in the chart or elsewhere. Takes root. */}}
{{- define "assay.toRedis" -}}
{{- $redis := .root.Values.redis -}}
{{- if $redis.enabled -}}
{{- include "assay.to" (dict "root" .root "places" (list "redis") "port" 6379) -}}
{{- else -}}
- to:
    {{- range $redis.external.cidrs }}
    - ipBlock: {cidr: {{ . }}}
    {{- end }}
  {{- include "assay.port" $redis.external.port | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* A rule to the collector of traces. Takes root. */}}
{{- define "assay.toTraces" -}}
{{- $monitoring := .root.Values.monitoring -}}
{{- if $monitoring.traces.endpoint }}
- to:
    - {{ include "assay.namespace" $monitoring.traces.namespace }}
  {{- include "assay.port" $monitoring.traces.port | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A rule to public addresses, at port 443. Private ones stay closed, and those where clouds keep
     credentials: 169.254.169.254, 100.100.100.200, 192.0.0.192, 168.63.129.16, fd00:ec2::254. */}}
{{- define "assay.toInternet" -}}
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        except:
          - 0.0.0.0/8
          - 10.0.0.0/8
          - 100.64.0.0/10
          - 127.0.0.0/8
          - 168.63.129.16/32
          - 169.254.0.0/16
          - 172.16.0.0/12
          - 192.0.0.0/24
          - 192.168.0.0/16
          - 198.18.0.0/15
          - 224.0.0.0/3
    - ipBlock:
        cidr: ::/0
        except:
          - ::/128
          - ::1/128
          - ::ffff:0:0/96
          - 64:ff9b::/96
          - fc00::/7
          - fe80::/10
          - ff00::/8
  {{- include "assay.port" 443 | nindent 2 }}
{{- end -}}
