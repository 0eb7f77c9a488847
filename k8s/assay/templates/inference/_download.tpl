{{/* The pod that fetches a model. Takes a context. */}}
{{- define "assay.downloadPod" -}}
metadata:
  labels:
    {{- include "assay.labels" . | nindent 4 }}
    assay/network: download
spec:
  {{- include "assay.pod" . | nindent 2 }}
  restartPolicy: OnFailure
  containers:
    - name: download
      image: {{ include "assay.image" . }}
      imagePullPolicy: {{ $.root.Values.image.pullPolicy }}
      command:
        - python
        - -c
        - |
          {{- $.root.Files.Get "files/download_model.py" | nindent 10 }}
      env:
        - {name: HOME, value: /tmp}
        - {name: REPOSITORY, value: {{ .part.modelDownload.repository | quote }}}
        - {name: REVISION, value: {{ .part.modelDownload.revision | quote }}}
        - {name: FOLDER, value: {{ printf "/var/lib/assay/models/%s" .part.modelDownload.folder | quote }}}
        {{- if .part.modelDownload.tokenSecret.name }}
        - name: HF_TOKEN
          valueFrom:
            secretKeyRef: {name: {{ .part.modelDownload.tokenSecret.name }}, key: {{ .part.modelDownload.tokenSecret.key }}}
        {{- end }}
      resources:
        requests: {cpu: "1", memory: 1Gi}
        limits: {memory: 4Gi}
      securityContext:
        {{- include "assay.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: models, mountPath: /var/lib/assay/models}
        - {name: tmp, mountPath: /tmp}
  volumes:
    - name: models
      persistentVolumeClaim:
        claimName: {{ include "assay.modelsClaim" .root }}
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
{{- end -}}

{{/* Holds a pod until the model that is fetched is there: it is renamed when it is whole. Takes a
     context. */}}
{{- define "assay.waitForModel" -}}
{{- $download := .root.Values.inference.modelDownload -}}
{{- if and .root.Values.inference.enabled $download.enabled }}
initContainers:
  - name: wait-for-model
    image: {{ include "assay.image" . }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    command: [sh, -ec, 'until [ -d "$FOLDER" ]; do sleep 5; done']
    env:
      - {name: FOLDER, value: {{ printf "/var/lib/assay/models/%s" $download.folder | quote }}}
    resources:
      requests: {cpu: 10m, memory: 16Mi}
      limits: {memory: 64Mi}
    securityContext:
      {{- include "assay.containerSecurity" . | nindent 6 }}
    volumeMounts:
      - {name: models, mountPath: /var/lib/assay/models, readOnly: true}
{{- end }}
{{- end -}}
