{{/* Address of Redis, and the parts that services join to it: any character may be in a password.
     Takes root. */}}
{{- define "assay.redisEnvironment" -}}
{{- $redis := .root.Values.redis -}}
{{- $external := $redis.external -}}
- name: ASSAY_REDIS_URL
{{- if $redis.enabled }}
  value: redis://{{ include "assay.fullname" .root }}-redis:6379/0
{{- else }}
  value: {{ ternary "rediss" "redis" $external.tls }}://{{ include "assay.bracketed" $external.host }}:{{ $external.port }}/{{ $external.database }}
{{- end }}
- name: ASSAY_REDIS_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ $redis.existingSecret | quote }}, key: {{ $redis.passwordKey | quote }}}
{{- if and (not $redis.enabled) $external.usernameKey }}
- name: ASSAY_REDIS_USERNAME
  valueFrom:
    secretKeyRef: {name: {{ $redis.existingSecret | quote }}, key: {{ $external.usernameKey | quote }}}
{{- end }}
{{- if include "assay.redisAuthority" .root }}
- {name: ASSAY_REDIS_CA_FILE, value: /etc/assay/redis/ca.crt}
{{- end }}
{{- end -}}

{{/* Whether a part of this release uses Redis. Takes root. */}}
{{- define "assay.usesRedis" -}}
{{- $values := .Values -}}
{{- $judge := and $values.judge.enabled (eq $values.judge.shared "redis") -}}
{{- if or $values.trainer.enabled $values.worker.enabled $judge -}}true{{- end -}}
{{- end -}}

{{/* Whether the chart makes a Redis: a part uses it, or a rule of the values lets others in. Takes
     root. */}}
{{- define "assay.ownRedis" -}}
{{- if and .Values.redis.enabled (or (include "assay.usesRedis" .) .Values.networkPolicy.extraIngress.redis) -}}true{{- end -}}
{{- end -}}

{{/* Whether an authority of one's own vouches for Redis. Takes root. */}}
{{- define "assay.redisAuthority" -}}
{{- $redis := .Values.redis -}}
{{- if and (not $redis.enabled) $redis.external.tls $redis.external.caSecret.name -}}true{{- end -}}
{{- end -}}

{{/* Mount and volume of that authority's certificate. Take root. */}}
{{- define "assay.redisMounts" -}}
{{- if include "assay.redisAuthority" .root }}
- {name: redis-authority, mountPath: /etc/assay/redis, readOnly: true}
{{- end }}
{{- end -}}

{{- define "assay.redisVolumes" -}}
{{- if include "assay.redisAuthority" .root }}
- name: redis-authority
  secret:
    secretName: {{ .root.Values.redis.external.caSecret.name | quote }}
    items:
      - {key: {{ .root.Values.redis.external.caSecret.key | quote }}, path: ca.crt}
{{- end }}
{{- end -}}
