{{/*
How these templates work: `rh.labels` and `rh.selector` take a dict (root, component);
images and pods take their part of the values. Objects are one per file, by component.
*/}}

{{- define "rh.selector" -}}
app.kubernetes.io/name: {{ include "rh.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "rh.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "rh.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: ray-history-server
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Metadata of a namespaced object: dict root, component, name, annotations. */}}
{{- define "rh.metadata" -}}
name: {{ .name }}
namespace: {{ include "rh.namespace" .root }}
{{ include "rh.metadata.rest" . }}
{{- end -}}

{{- define "rh.metadata.rest" -}}
labels:
  {{- include "rh.labels" . | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* dict root, image */}}
{{- define "rh.image" -}}
{{- $registry := default .root.Values.global.imageRegistry .image.registry -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ default .root.Chart.AppVersion .image.tag }}{{ end -}}
{{- end -}}

{{- define "rh.pullSecrets" -}}
{{- with .Values.global.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Restricted Pod Security, and nothing to write to but the mounts. */}}
{{- define "rh.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* Where a pod may run: dict root, component, values. */}}
{{- define "rh.placement" -}}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
topologySpreadConstraints:
{{- if .values.topologySpreadConstraints }}
  {{- toYaml .values.topologySpreadConstraints | nindent 2 }}
{{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "rh.selector" . | nindent 8 }}
{{- end }}
{{- end -}}

{{/* Storage settings of server and collectors, as a list of environment variables. */}}
{{- define "rh.storage.env" -}}
- name: STORAGE_BACKEND
  value: {{ .Values.storage.backend | quote }}
{{- with .Values.storage.rootDir }}
- name: STORAGE_ROOT_DIR
  value: {{ . | quote }}
{{- end }}
{{- if eq .Values.storage.backend "local" }}
- name: STORAGE_LOCAL_DIR
  value: {{ .Values.storage.local.mountPath | quote }}
{{- else if eq .Values.storage.backend "gcs" }}
- name: GCS_BUCKET
  value: {{ required "storage.gcs.bucket: name the bucket" .Values.storage.gcs.bucket | quote }}
{{- else if eq .Values.storage.backend "oss" }}
- name: OSS_BUCKET
  value: {{ required "storage.oss.bucket: name the bucket" .Values.storage.oss.bucket | quote }}
- name: OSS_ENDPOINT
  value: {{ .Values.storage.oss.endpoint | quote }}
- name: OSS_REGION
  value: {{ required "storage.oss.region: name the region, such as cn-hangzhou" .Values.storage.oss.region | quote }}
{{- end }}
{{- with .Values.storage.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The shared volume of the local backend; empty for the others. */}}
{{- define "rh.storage.volumes" -}}
{{- if eq .Values.storage.backend "local" }}
- name: ray-history-storage
{{- if .Values.storage.local.volume }}
  {{- toYaml .Values.storage.local.volume | nindent 2 }}
{{- else }}
  persistentVolumeClaim:
    claimName: {{ required "storage.local: name a claim (claimName) or give a volume" .Values.storage.local.claimName }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Name of the claim that Ray pods need in their own namespaces; empty where they need none. */}}
{{- define "rh.storage.claim" -}}
{{- if and (eq .Values.storage.backend "local") (not .Values.storage.local.volume) -}}
{{- .Values.storage.local.claimName -}}
{{- end -}}
{{- end -}}

{{- define "rh.storage.mounts" -}}
{{- if eq .Values.storage.backend "local" }}
- name: ray-history-storage
  mountPath: {{ .Values.storage.local.mountPath }}
{{- end }}
{{- end -}}

{{/* Combinations that cannot work: said before anything is installed. */}}
{{- define "rh.checks" -}}
{{- if ne .Values.storage.backend "local" -}}
{{- fail (printf "storage.backend=%s: this version keeps sessions on a volume only (local)" .Values.storage.backend) -}}
{{- end -}}
{{- if and .Values.server.enabled (eq .Values.server.auth.mode "none") (not .Values.server.auth.allowOpen) -}}
{{- if or .Values.server.ingress.enabled .Values.server.httpRoute.enabled (ne .Values.server.service.type "ClusterIP") -}}
{{- fail "server.auth.mode=none: everybody who reaches the server reads every session. Keep it inside the cluster (no ingress, route or public Service), or say server.auth.allowOpen=true" -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.collector.serviceAccount.mode "fixed") (not .Values.collector.serviceAccount.name) -}}
{{- fail "collector.serviceAccount.mode=fixed: name the account in collector.serviceAccount.name" -}}
{{- end -}}
{{- if and .Values.identity.rrsa.enabled (or (not .Values.identity.rrsa.roleArn) (not .Values.identity.rrsa.providerArn)) -}}
{{- fail "identity.rrsa.enabled: roleArn and providerArn are needed" -}}
{{- end -}}
{{- if and .Values.server.autoscaling.enabled (lt (int .Values.server.autoscaling.maxReplicas) (int .Values.server.autoscaling.minReplicas)) -}}
{{- fail "server.autoscaling: maxReplicas is less than minReplicas" -}}
{{- end -}}
{{- if and .Values.server.ingress.enabled (not .Values.server.ingress.hosts) -}}
{{- fail "server.ingress.enabled: name at least one host in server.ingress.hosts" -}}
{{- end -}}
{{- if and .Values.server.httpRoute.enabled (not .Values.server.httpRoute.parentRefs) -}}
{{- fail "server.httpRoute.enabled: name the gateway in server.httpRoute.parentRefs" -}}
{{- end -}}
{{- end -}}
