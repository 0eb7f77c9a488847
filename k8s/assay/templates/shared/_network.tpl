{{/* All pods of a namespace, by its name. */}}
{{- define "assay.namespace" -}}
namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ . | quote }}}}
{{- end -}}

{{/* Pods of this release that have a place in the network. Takes root and places. */}}
{{- define "assay.peers" -}}
{{- range .places }}
- podSelector:
    matchLabels:
      {{- include "assay.identity" $.root | nindent 6 }}
      assay/network: {{ . }}
{{- end }}
{{- end -}}

{{/* The pods that a policy is about. Takes root and place. */}}
{{- define "assay.subject" -}}
podSelector:
  matchLabels:
    {{- include "assay.identity" .root | nindent 4 }}
    assay/network: {{ .place }}
policyTypes: [Ingress, Egress]
{{- end -}}

{{/* One port by TCP and, between members of a mesh, the one that carries its traffic. Takes port
     and, where the mesh may carry it, root. */}}
{{- define "assay.port" -}}
ports:
  - {protocol: TCP, port: {{ .port }}}
  {{- if .root }}
  {{- with include "assay.meshPort" .root }}
  - {protocol: TCP, port: {{ . }}}
  {{- end }}
  {{- end }}
{{- end -}}

{{/* Arguments of assay.port for pods: a sandbox is in no mesh. Takes root, port and plain. */}}
{{- define "assay.podPort" -}}
{{- include "assay.port" (dict "port" .port "root" (ternary nil .root (default false .plain))) -}}
{{- end -}}

{{/* A rule for whoever reads metrics at a port. Takes root, port and, of a sandbox, plain. */}}
{{- define "assay.scraped" -}}
{{- $monitoring := .root.Values.monitoring -}}
{{- if or $monitoring.scrape $monitoring.serviceMonitor.enabled }}
- from:
    - {{ include "assay.namespace" $monitoring.namespace }}
  {{- include "assay.podPort" . | nindent 2 }}
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
    {{- include "assay.entrants" .root | nindent 4 }}
    {{- end }}
    {{- with $network.clients }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- include "assay.podPort" . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Further rules of a policy, as they are in the values. Takes root, direction and part. */}}
{{- define "assay.extraRules" -}}
{{- with index .root.Values.networkPolicy .direction .part }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A direction in which there are no rules but those of the values. Takes as assay.extraRules. */}}
{{- define "assay.onlyExtra" -}}
{{- $key := ternary "ingress" "egress" (eq .direction "extraIngress") -}}
{{ $key }}: {{ toJson (index .root.Values.networkPolicy .direction .part | default list) }}
{{- end -}}

{{/* Peers of a part that another release or cluster runs. Takes its `external`. */}}
{{- define "assay.externalPeers" -}}
{{- if .namespace }}
- {{ include "assay.namespace" .namespace }}
  podSelector:
    matchLabels:
      {{- toYaml .podLabels | nindent 6 }}
{{- end }}
{{- range .cidrs }}
- ipBlock: {cidr: {{ . | quote }}}
{{- end }}
{{- end -}}

{{/* Whether a part runs elsewhere. Takes root and service. */}}
{{- define "assay.elsewhere" -}}
{{- $part := index .root.Values .service -}}
{{- if and (not $part.enabled) $part.external $part.external.url -}}true{{- end -}}
{{- end -}}

{{/* Port of the pods behind an address: what the values say, else the address's own, else that of its
     scheme. Policies see the pod's port, which a Service may hide behind another. Takes url and port. */}}
{{- define "assay.addressPort" -}}
{{- $port := regexFind ":[0-9]+$" (urlParse .url).host | trimPrefix ":" -}}
{{- .port | default $port | default (ternary 443 80 (hasPrefix "https:" .url)) -}}
{{- end -}}

{{/* A rule to a service: to the pods of this release, or to where another one runs it. Takes root,
     service, port and, for a sandbox, plain. */}}
{{- define "assay.toService" -}}
{{- if include "assay.elsewhere" . }}
{{- $external := (index .root.Values .service).external }}
- to:
    {{- include "assay.externalPeers" $external | nindent 4 }}
  {{- include "assay.podPort" (dict "root" .root "port" (include "assay.addressPort" $external) "plain" (or .plain (not $external.namespace))) | nindent 2 }}
{{- else }}
{{- include "assay.to" (dict "root" .root "places" (list .service) "port" .port "plain" .plain) }}
{{- end }}
{{- end -}}

{{/* A rule to pods of this release. Takes root, places, port and, of a sandbox, plain. */}}
{{- define "assay.to" -}}
- to:
    {{- include "assay.peers" . | nindent 4 }}
  {{- include "assay.podPort" . | nindent 2 }}
{{- end -}}

{{/* A rule from pods of this release. Takes root, places, port and, of a sandbox, plain. */}}
{{- define "assay.from" -}}
- from:
    {{- include "assay.peers" . | nindent 4 }}
  {{- include "assay.podPort" . | nindent 2 }}
{{- end -}}

{{/* A rule to Redis, in the chart or elsewhere. Takes root. */}}
{{- define "assay.toRedis" -}}
{{- $redis := .root.Values.redis -}}
{{- if $redis.enabled -}}
{{- include "assay.to" (dict "root" .root "places" (list "redis") "port" 6379) -}}
{{- else -}}
- to:
    {{- range $redis.external.cidrs }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
  {{- include "assay.port" (dict "port" $redis.external.port) | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* Rules to the name servers, at the port where their pods listen, and to a node's cache of names,
     which listens at 53. Takes root. */}}
{{- define "assay.toNames" -}}
{{- $dns := .Values.networkPolicy.dns }}
- to:
    - {{ include "assay.namespace" $dns.namespace }}
      podSelector:
        matchLabels:
          {{ $dns.podLabel.key | quote }}: {{ $dns.podLabel.value | quote }}
  ports:
    - {protocol: UDP, port: {{ $dns.port }}}
    - {protocol: TCP, port: {{ $dns.port }}}
{{- with $dns.address }}
- to:
    - ipBlock: {cidr: {{ . }}/{{ contains ":" . | ternary 128 32 }}}
  ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
{{- end }}
{{- end -}}

{{/* A rule to the hub, where each pod fetches models for itself. Takes root. */}}
{{- define "assay.toHub" -}}
{{- $part := .Values.inference -}}
{{- if and (eq $part.modelCache.kind "pod") $part.modelDownload.enabled $part.modelDownload.internet }}
{{- include "assay.toInternet" . }}
{{- end }}
{{- end -}}

{{/* A rule to the collector of traces. Takes root. */}}
{{- define "assay.toTraces" -}}
{{- $monitoring := .root.Values.monitoring -}}
{{- if $monitoring.traces.endpoint }}
- to:
    - {{ include "assay.namespace" $monitoring.traces.namespace }}
  {{- $port := include "assay.addressPort" (dict "url" $monitoring.traces.endpoint "port" $monitoring.traces.port) }}
  {{- include "assay.podPort" (dict "root" .root "port" $port) | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Rules to the models of a judge or an executor. Takes root, and egress of the part's values. */}}
{{- define "assay.toModels" -}}
{{- if .egress.internet }}
{{- include "assay.toInternet" .root }}
{{- end }}
{{- $root := .root }}
{{- range .egress.pods }}
- to:
    - {{ include "assay.namespace" .namespace }}
      podSelector:
        matchLabels:
          {{- toYaml .pods | nindent 10 }}
  {{- include "assay.podPort" (dict "root" $root "port" .port) | nindent 2 }}
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
  {{- include "assay.port" (dict "port" 443) | nindent 2 }}
{{- end -}}
