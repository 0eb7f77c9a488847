{{/* Labels and annotations of a pod: none that a newer chart changes, else it would restart all.
     Takes root, component, part and network, and where a change of it restarts the pod, config; and
     meshPlace, where it is another one. */}}
{{- define "assay.podMetadata" -}}
{{- $annotations := dict -}}
{{- if hasKey . "config" -}}
{{- $annotations = dict "assay/config" (toJson .config | sha256sum) -}}
{{- end -}}
labels:
  {{- include "assay.selector" . | nindent 2 }}
  app.kubernetes.io/part-of: assay
  assay/network: {{ .network }}
  {{- if and .root.Values.oneNode (has .network (list "inference" "engine" "trainer" "download")) }}
  assay/volumes: shared
  {{- end }}
  {{- $mesh := dict "root" .root "place" (.meshPlace | default .network) }}
  {{- with merge (dict) (.part.podLabels | default dict) (.root.Values.commonLabels | default dict) (include "assay.meshLabels" $mesh | fromYaml) }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge $annotations (.part.podAnnotations | default dict) (include "assay.meshAnnotations" $mesh | fromYaml) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Of every pod: no token of Kubernetes, no variables of other services, nobody's rights, and the
     place that its part asks for. Takes root, component, part, and account, parent and asRoot. */}}
{{- define "assay.pod" -}}
serviceAccountName: {{ include "assay.accountName" . | quote }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with include "assay.pullSecrets" .root }}
imagePullSecrets:
  {{- . | nindent 2 }}
{{- end }}
{{- include "assay.placement" . }}
{{- if .asRoot }}
securityContext:
  runAsUser: 0
  seccompProfile:
    type: RuntimeDefault
{{- else }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end }}
{{- end -}}

{{/* Secrets of the registries: the chart's own, and those of a chart above, by name or as objects.
     Takes root. */}}
{{- define "assay.pullSecrets" -}}
{{- $names := list -}}
{{- range concat (.Values.image.pullSecrets | default list) ((.Values.global | default dict).imagePullSecrets | default list) -}}
{{- if kindIs "map" . -}}
{{- $names = append $names .name -}}
{{- else -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
{{- range uniq $names }}
- name: {{ . | quote }}
{{- end -}}
{{- end -}}

{{/* Where a pod goes, and how fast it has to. Takes root, component, part, and spread. */}}
{{- define "assay.placement" -}}
{{- with .graceS | default .part.graceS }}
terminationGracePeriodSeconds: {{ . }}
{{- end }}
{{- range $key := list "priorityClassName" "runtimeClassName" "schedulerName" }}
{{- with index $.part $key }}
{{ $key }}: {{ . | quote }}
{{- end }}
{{- end }}
{{- range $key := list "nodeSelector" "tolerations" }}
{{- with index $.part $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with include "assay.affinity" . | fromYaml }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- include "assay.spread" . }}
{{- end -}}

{{/* A part's own constraints; else, of several replicas, different nodes and zones where there are
     several. A constraint without labelSelector counts the part's own pods. Takes root, component,
     part and spread. */}}
{{- define "assay.spread" -}}
{{- $labels := dict "matchLabels" (include "assay.selector" . | fromYaml) -}}
{{- $constraints := list -}}
{{- if hasKey .part "topologySpreadConstraints" -}}
{{- range .part.topologySpreadConstraints -}}
{{- $constraints = append $constraints (hasKey . "labelSelector" | ternary . (merge (dict "labelSelector" $labels) .)) -}}
{{- end -}}
{{- else if .spread -}}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" -}}
{{- $constraints = append $constraints (dict "maxSkew" 1 "topologyKey" . "whenUnsatisfiable" "ScheduleAnyway" "labelSelector" $labels) -}}
{{- end -}}
{{- end -}}
{{- with $constraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A part's affinity and, with oneNode, that pods which share a volume keep together. The first of
     them may go anywhere. Takes root, part and network. */}}
{{- define "assay.affinity" -}}
{{- $affinity := deepCopy (.part.affinity | default dict) -}}
{{- if and .root.Values.oneNode (has .network (list "inference" "engine" "trainer" "download")) -}}
{{- $labels := merge (dict "assay/volumes" "shared") (include "assay.identity" .root | fromYaml) -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" $labels) -}}
{{- $pods := $affinity.podAffinity | default dict -}}
{{- $rule := "requiredDuringSchedulingIgnoredDuringExecution" -}}
{{- $_ := set $pods $rule (append (index $pods $rule | default list) $term) -}}
{{- $_ := set $affinity "podAffinity" $pods -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}

{{/* Name of a pod's account. A pod with a parent has its parent's, unless it asks for another. Takes
     root, component, part, and account and parent: the parent's component and part. */}}
{{- define "assay.accountName" -}}
{{- $account := .part.serviceAccount | default dict -}}
{{- if $account.name -}}
{{- $account.name -}}
{{- else if and .parent (not $account.create) -}}
{{- include "assay.accountName" (dict "root" .root "component" .parent.component "part" .parent.part) -}}
{{- else if eq (toString $account.create) "false" -}}
default
{{- else -}}
{{- include "assay.fullname" .root }}-{{ .account | default .component -}}
{{- end -}}
{{- end -}}

{{/* Whether the chart makes a pod's account. Takes what the name takes. */}}
{{- define "assay.createsAccount" -}}
{{- $create := toString (.part.serviceAccount | default dict).create -}}
{{- if ternary (eq $create "true") (ne $create "false") (hasKey . "parent") -}}true{{- end -}}
{{- end -}}

{{/* Name, labels and annotations of an account. Takes what the name takes. */}}
{{- define "assay.accountMetadata" -}}
{{- $annotations := merge (dict) (.annotations | default dict) ((.part.serviceAccount | default dict).annotations | default dict) -}}
{{- include "assay.metadata" (dict "root" .root "component" .component "whole" (include "assay.accountName" .) "annotations" $annotations) -}}
{{- end -}}

{{/* What the level `restricted` of Pod Security asks of a container, and a read-only root. */}}
{{- define "assay.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Alive is /health, ready is /ready; until the first answer there is time. Takes part, startupS
     and, where nothing is ready before something else happened, ready. */}}
{{- define "assay.probes" -}}
startupProbe:
  httpGet: {path: /health, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: {{ ceil (divf .startupS 5) }}
livenessProbe:
  httpGet: {path: /health, port: http}
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: {{ .ready | default "/ready" | quote }}, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end -}}

{{/* Those who route to a pod hear that it goes before it refuses connections. */}}
{{- define "assay.farewell" -}}
preStop:
  sleep: {seconds: 5}
{{- end -}}

{{/* What a service gives to requests in flight: the grace period, less the farewell and a margin. */}}
{{- define "assay.shutdownGrace" -}}
- name: ASSAY_SHUTDOWN_GRACE_S
  value: {{ sub (int (.graceS | default .part.graceS)) 15 | quote }}
{{- end -}}

{{/* A token as NAME, from the key of a service. Takes root and service. */}}
{{- define "assay.token" -}}
- name: ASSAY_{{ upper .service }}_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ .root.Values.auth.existingSecret | quote }}, key: {{ .service | quote }}}
{{- end -}}

{{/* Names under which the pods of a service are asked, as callers in this namespace and in others
     write them. Engines behind a router have a Service of their own. Takes root and service. */}}
{{- define "assay.serviceHosts" -}}
{{- $services := list .service -}}
{{- if and (eq .service "inference") (include "assay.routed" .root) -}}
{{- $services = append $services "engine" -}}
{{- end -}}
{{- $hosts := list -}}
{{- range $service := $services -}}
{{- $name := printf "%s-%s" (include "assay.fullname" $.root) $service -}}
{{- $inside := printf "%s.%s" $name $.root.Release.Namespace -}}
{{- $hosts = concat $hosts (list $name $inside (printf "%s.svc" $inside) (printf "%s.svc.cluster.local" $inside)) -}}
{{- end -}}
{{- concat $hosts (.root.Values.auth.hosts | default list) | join "," -}}
{{- end -}}

{{/* Its own token, and others' tokens if clients have theirs. Without tokens, its names: a service
     refuses requests under any other name. Takes root and service. */}}
{{- define "assay.ownToken" -}}
{{- if .root.Values.auth.enabled }}
{{ include "assay.token" . }}
{{- if .root.Values.auth.clients }}
- name: ASSAY_CLIENT_TOKENS
  valueFrom:
    secretKeyRef: {name: {{ .root.Values.auth.existingSecret | quote }}, key: clients}
{{- end }}
{{- else }}
- {name: ASSAY_ALLOWED_HOSTS, value: {{ include "assay.serviceHosts" . | quote }}}
{{- end }}
{{- end -}}

{{/* Address and token of each service that is called. Takes root and services. */}}
{{- define "assay.callees" -}}
{{- $ports := dict "inference" 8001 "sandbox" 8002 "judge" 8003 "reward" 8004 "trainer" 8005 }}
{{- range $service := .services }}
{{- if (index $.root.Values $service).enabled }}
- name: ASSAY_{{ upper $service }}_URL
  value: http://{{ include "assay.fullname" $.root }}-{{ $service }}:{{ index $ports $service }}
{{- if $.root.Values.auth.enabled }}
{{ include "assay.token" (dict "root" $.root "service" $service) }}
{{- end }}
{{- else if include "assay.elsewhere" (dict "root" $.root "service" $service) }}
{{- $external := (index $.root.Values $service).external }}
- name: ASSAY_{{ upper $service }}_URL
  value: {{ $external.url | quote }}
{{- with $external.tokenSecret }}
{{- if .name }}
- name: ASSAY_{{ upper $service }}_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ .name | quote }}, key: {{ .key | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Where traces go. Takes root. */}}
{{- define "assay.traces" -}}
{{- with .root.Values.monitoring.traces.endpoint }}
- name: ASSAY_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* A value as text. A large whole number stays one: it does not become 1e+06. */}}
{{- define "assay.plain" -}}
{{- if and (kindIs "float64" .) (eq (float64 (int64 .)) .) -}}
{{- int64 . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

{{/* A part's own further variables. Takes part. */}}
{{- define "assay.ownEnvironment" -}}
{{- range $name, $value := .part.environment }}
- name: {{ $name | quote }}
  value: {{ include "assay.plain" $value | quote }}
{{- end }}
{{- range .part.secretEnvironment }}
- name: {{ .name | quote }}
  valueFrom:
    secretKeyRef: {name: {{ .secret | quote }}, key: {{ .key | quote }}}
{{- end }}
{{- end -}}

{{/* A part's own further mounts, and its volumes. Take part. */}}
{{- define "assay.ownMounts" -}}
{{- with .part.extraVolumeMounts }}
{{- toYaml . }}
{{- end }}
{{- end -}}

{{- define "assay.ownVolumes" -}}
{{- with .part.extraVolumes }}
{{- toYaml . }}
{{- end }}
{{- end -}}

{{/* A quantity in whole mebibytes, rounded down. */}}
{{- define "assay.mebibytes" -}}
{{- $factors := dict "m" 0.000000000953674 "k" 0.00095367 "M" 0.95367431640625 "G" 953.67431640625 "T" 953674.31640625 "Ki" 0.0009765625 "Mi" 1.0 "Gi" 1024.0 "Ti" 1048576.0 "P" 953674316.40625 "Pi" 1073741824.0 "" 0.00000095367431640625 -}}
{{- mulf (regexFind "^[0-9.]+" (toString .) | float64) (index $factors (regexFind "[A-Za-z]*$" (toString .))) | floor | int64 -}}
{{- end -}}

{{/* Mebibytes on the node's disk that a pod with `scratch` may fill. Takes root, scratch and served. */}}
{{- define "assay.disk" -}}
{{- $cache := .root.Values.inference.modelCache -}}
{{- $size := mul 2 (include "assay.mebibytes" .scratch | int64) -}}
{{- if and (eq $cache.kind "pod") (not $cache.storageClass) -}}
{{- $size = add $size (include "assay.mebibytes" $cache.size | int64) -}}
{{- end -}}
{{- if and .served (eq .root.Values.trainer.weightTransfer "upload") -}}
{{- $size = add $size (mul 1024 .root.Values.inference.uploadsGi) -}}
{{- end -}}
{{- $size -}}
{{- end -}}

{{/* Resources of a container, with its GPUs, and with room on the node's disk for what it has there,
     where nothing else is said. Takes root, part, and of a pod with scratch that, and served. */}}
{{- define "assay.resources" -}}
{{- $resources := deepCopy .part.resources -}}
{{- $disk := or (dig "requests" "ephemeral-storage" "" $resources) (dig "limits" "ephemeral-storage" "" $resources) -}}
{{- if and .scratch (not $disk) -}}
{{- $asked := printf "%sMi" (include "assay.disk" .) -}}
{{- $_ := set $resources "requests" (merge (dict "ephemeral-storage" $asked) ($resources.requests | default dict)) -}}
{{- end -}}
{{- if eq (.part.accelerator | default "none") "nvidia" -}}
{{- $gpus := dict .part.gpuResource (.part.gpus | default 1 | toString) -}}
{{- $_ := set $resources "limits" (merge (dict) $gpus ($resources.limits | default dict)) -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* `listen` as Redis writes it: of several addresses, one of IPv6 may be missing. Takes root. */}}
{{- define "assay.redisBind" -}}
{{- $hosts := list -}}
{{- $several := contains "," .Values.listen -}}
{{- range splitList "," .Values.listen -}}
{{- $hosts = append $hosts (printf "%s%s" (and $several (contains ":" .) | ternary "-" "") .) -}}
{{- end -}}
{{- join " " $hosts -}}
{{- end -}}

{{/* A host as an address has it before its port: IPv6 in brackets. */}}
{{- define "assay.bracketed" -}}
{{- contains ":" . | ternary (printf "[%s]" .) . -}}
{{- end -}}
