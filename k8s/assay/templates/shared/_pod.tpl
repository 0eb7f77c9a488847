{{/* Of every pod: no token of Kubernetes, no variables of other services, nobody's rights. */}}
{{- define "assay.pod" -}}
serviceAccountName: {{ include "assay.fullname" .root }}-{{ .account | default .component }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{/* Where a pod goes, and how fast it has to. Takes root, component and part. */}}
{{- define "assay.placement" -}}
terminationGracePeriodSeconds: {{ .part.graceS }}
{{- with .part.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .part.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Replicas on different nodes and zones, where there are several. Takes root and component. */}}
{{- define "assay.spread" -}}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "assay.selector" $ | nindent 8 }}
  {{- end }}
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
  httpGet: {path: {{ .ready | default "/ready" }}, port: http}
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
  value: {{ sub (int .part.graceS) 15 | quote }}
{{- end -}}

{{/* A token as NAME, from the key of a service. Takes root and service. */}}
{{- define "assay.token" -}}
- name: ASSAY_{{ upper .service }}_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ .root.Values.auth.existingSecret }}, key: {{ .service }}}
{{- end -}}

{{/* Its own token, and others' tokens if clients have theirs. Takes root and service. */}}
{{- define "assay.ownToken" -}}
{{- if .root.Values.auth.enabled }}
{{ include "assay.token" . }}
{{- if .root.Values.auth.clients }}
- name: ASSAY_CLIENT_TOKENS
  valueFrom:
    secretKeyRef: {name: {{ .root.Values.auth.existingSecret }}, key: clients}
{{- end }}
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
{{- end }}
{{- end }}
{{- end -}}

{{/* Address of Redis, with the password that the variable before it holds. Takes root. */}}
{{- define "assay.redisEnvironment" -}}
{{- $redis := .root.Values.redis -}}
- name: ASSAY_REDIS_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ $redis.existingSecret }}, key: {{ $redis.passwordKey }}}
- name: ASSAY_REDIS_URL
{{- if $redis.enabled }}
  value: redis://:$(ASSAY_REDIS_PASSWORD)@{{ include "assay.fullname" .root }}-redis:6379/0
{{- else }}
  {{- /* Celery's client takes any certificate unless it is told not to. */}}
  value: {{ ternary "rediss" "redis" $redis.external.tls }}://:$(ASSAY_REDIS_PASSWORD)@{{ $redis.external.host }}:{{ $redis.external.port }}/{{ $redis.external.database }}{{ ternary "?ssl_cert_reqs=required" "" $redis.external.tls }}
{{- end }}
{{- end -}}

{{/* Where traces go. Takes root. */}}
{{- define "assay.traces" -}}
{{- with .root.Values.monitoring.traces.endpoint }}
- name: ASSAY_OTLP_ENDPOINT
  value: {{ . }}
{{- end }}
{{- end -}}

{{/* A part's own further variables. Takes part. */}}
{{- define "assay.ownEnvironment" -}}
{{- range $name, $value := .part.environment }}
- name: {{ $name }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- range .part.secretEnvironment }}
- name: {{ .name }}
  valueFrom:
    secretKeyRef: {name: {{ .secret }}, key: {{ .key }}}
{{- end }}
{{- end -}}

{{/* Resources of a container, with its GPUs. Takes part. */}}
{{- define "assay.resources" -}}
{{- $resources := deepCopy .part.resources -}}
{{- if eq (.part.accelerator | default "none") "nvidia" -}}
{{- $gpus := dict "nvidia.com/gpu" (.part.gpus | default 1 | toString) -}}
{{- $_ := set $resources "limits" (merge (dict) $gpus ($resources.limits | default dict)) -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}
