{{/* What a download is: the hub's client, or a program of one's own that leaves FOLDER whole. It ends
     after its deadline; started again, it resumes. Takes root, part (the download's), image, suffix. */}}
{{- define "assay.downloadContainer" -}}
name: download
{{- $own := .part.image | default "" }}
image: {{ empty $own | ternary (include "assay.image" .) (include "assay.otherImage" (dict "root" .root "image" $own)) | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
command:
  {{- if .part.command }}
  {{- toYaml .part.command | nindent 2 }}
  {{- else }}
  - python
  - -c
  - |
    {{- .root.Files.Get "files/download_model.py" | nindent 4 }}
  {{- end }}
env:
  - {name: HOME, value: /tmp}
  - {name: REPOSITORY, value: {{ .part.repository | quote }}}
  - {name: REVISION, value: {{ .part.revision | quote }}}
  - {name: FOLDER, value: {{ printf "/var/lib/assay/models/%s" .part.folder | quote }}}
  - {name: DEADLINE_S, value: {{ .part.deadlineS | quote }}}
  {{- if .part.tokenSecret.name }}
  - name: HF_TOKEN
    valueFrom:
      secretKeyRef: {name: {{ .part.tokenSecret.name | quote }}, key: {{ .part.tokenSecret.key | quote }}}
  {{- end }}
  {{- include "assay.ownEnvironment" . | nindent 2 }}
resources:
  {{- include "assay.resources" . | nindent 2 }}
securityContext:
  {{- include "assay.containerSecurity" . | nindent 2 }}
{{- end -}}

{{/* The pod that fills the claim. Takes a context. */}}
{{- define "assay.downloadPod" -}}
metadata:
  {{- include "assay.podMetadata" . | nindent 2 }}
spec:
  {{- include "assay.pod" . | nindent 2 }}
  restartPolicy: Never
  containers:
    - {{- include "assay.downloadContainer" . | nindent 6 }}
      volumeMounts:
        - {name: models, mountPath: /var/lib/assay/models}
        - {name: tmp, mountPath: /tmp}
        {{- include "assay.ownMounts" . | nindent 8 }}
  volumes:
    {{- include "assay.modelVolume" .root | nindent 4 }}
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
    {{- include "assay.ownVolumes" . | nindent 4 }}
{{- end -}}

{{/* Fills a pod's own volume of models before the pod's container starts. Takes root. */}}
{{- define "assay.fetchModel" -}}
{{- $part := .root.Values.inference -}}
{{- if and $part.modelDownload.enabled (eq $part.modelCache.kind "pod") }}
initContainers:
  - {{- include "assay.downloadContainer" (dict "root" .root "part" $part.modelDownload "image" $part.image "suffix" "-cpu") | nindent 4 }}
    volumeMounts:
      - {name: models, mountPath: /var/lib/assay/models}
      - {name: scratch, mountPath: /tmp}
{{- end }}
{{- end -}}

{{/* Lets a download have the account of inference where it exists before the release. Takes root and
     context. */}}
{{- define "assay.downloadAccount" -}}
{{- $inference := .root.Values.inference -}}
{{- if eq (toString ($inference.serviceAccount | default dict).create) "false" -}}
{{- $_ := set .context "parent" (dict "component" "inference" "part" $inference) -}}
{{- end -}}
{{- end -}}

{{/* Annotations of what exists before everything else: the download ends before an engine is made,
     so that no GPU waits for it. Takes weight. */}}
{{- define "assay.beforeAll" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
