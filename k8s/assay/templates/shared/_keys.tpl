{{/* Refuses keys that the chart has for itself, and variables that are secrets. A schema could refuse
     them too, but says neither where nor why. Takes root. */}}
{{- define "assay.refuseKeys" -}}
{{- $v := .Values -}}
{{- $labels := "^(app\\.kubernetes\\.io/|helm\\.sh/|assay/)" -}}
{{- $annotations := "^(helm\\.sh/(hook|resource-policy)|assay/)" -}}
{{- include "assay.refuseReserved" (dict "path" "commonLabels" "map" $v.commonLabels "reserved" $labels) -}}
{{- include "assay.refuseReserved" (dict "path" "commonAnnotations" "map" $v.commonAnnotations "reserved" $annotations) -}}
{{- include "assay.refuseReserved" (dict "path" "trainer.run.files" "map" $v.trainer.run.files "reserved" "^(run|pipeline)\\.yaml$") -}}
{{- $files := dict "judge.config" $v.judge.config "reward.executor.config" $v.reward.executor.config "trainer.run.file" $v.trainer.run.file "trainer.run.files" $v.trainer.run.files -}}
{{- range $path, $value := $files -}}
{{- include "assay.refuseSecrets" (dict "path" $path "value" $value) -}}
{{- end -}}
{{- range $path := include "assay.podTemplates" . | fromYaml | values | uniq | sortAlpha -}}
{{- $part := $v -}}
{{- range splitList "." $path }}{{ $part = index $part . }}{{ end -}}
{{- $account := $part.serviceAccount | default dict -}}
{{- include "assay.refuseReserved" (dict "path" (printf "%s.podLabels" $path) "map" $part.podLabels "reserved" $labels) -}}
{{- include "assay.refuseReserved" (dict "path" (printf "%s.podAnnotations" $path) "map" $part.podAnnotations "reserved" $annotations) -}}
{{- include "assay.refuseReserved" (dict "path" (printf "%s.annotations" $path) "map" $part.annotations "reserved" $annotations) -}}
{{- include "assay.refuseReserved" (dict "path" (printf "%s.serviceAccount.annotations" $path) "map" $account.annotations "reserved" $annotations) -}}
{{- range $name, $_ := $part.environment -}}
{{- if regexMatch "(_TOKEN|_PASSWORD|_SECRET|_KEY|_REDIS_URL|_CLIENT_TOKENS)$" $name -}}
{{- fail (printf "%s.environment.%s: its name is that of a secret; set %s.secretEnvironment" $path $name $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Takes path, map, and reserved, a pattern of the chart's own keys. */}}
{{- define "assay.refuseReserved" -}}
{{- $path := .path -}}
{{- $reserved := .reserved -}}
{{- range $key, $_ := .map -}}
{{- if regexMatch $reserved $key -}}
{{- fail (printf "%s.%s: the chart sets such keys itself; choose another" $path $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses keys that hold a secret: these values go into a ConfigMap. Takes path and value. */}}
{{- define "assay.refuseSecrets" -}}
{{- $path := .path -}}
{{- if kindIs "map" .value -}}
{{- range $key, $value := .value -}}
{{- if and (kindIs "string" $value) (regexMatch "(?i)^(api_?key|token|password|secret|authorization)$" $key) -}}
{{- fail (printf "%s.%s: everyone who reads ConfigMaps would see this secret; give the name of a variable, as in api_key_env, and set the variable by secretEnvironment" $path $key) -}}
{{- end -}}
{{- include "assay.refuseSecrets" (dict "path" (printf "%s.%s" $path $key) "value" $value) -}}
{{- end -}}
{{- else if kindIs "slice" .value -}}
{{- range $index, $value := .value -}}
{{- include "assay.refuseSecrets" (dict "path" (printf "%s.%d" $path $index) "value" $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
