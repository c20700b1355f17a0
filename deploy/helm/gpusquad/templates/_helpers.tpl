{{- define "gpusquad.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Selector of the pods of one component: called with (dict "root" $ "part" "server"). */}}
{{- define "gpusquad.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "gpusquad.labels" -}}
{{ include "gpusquad.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "gpusquad.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{- define "gpusquad.postgresql" -}}
{{- if .Values.store.url }}true{{ end -}}
{{- end -}}

{{- define "gpusquad.replicas" -}}
{{- $postgresql := include "gpusquad.postgresql" . -}}
{{- $replicas := .Values.replicas -}}
{{- if kindIs "invalid" $replicas }}{{ $replicas = ternary 2 1 (eq $postgresql "true") }}{{ end -}}
{{- if and (gt (int $replicas) 1) (not $postgresql) -}}
{{- fail "replicas: more than one needs PostgreSQL; set store.url" -}}
{{- end -}}
{{- int $replicas -}}
{{- end -}}

{{- define "gpusquad.priorityClass" -}}
{{- if .Values.priorityClass.name }}{{ .Values.priorityClass.name }}
{{- else if .Values.priorityClass.create }}{{ include "gpusquad.fullname" . }}{{ end -}}
{{- end -}}

{{- define "gpusquad.serverUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "gpusquad.fullname" . }}
{{- end -}}

{{- define "gpusquad.agentUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "gpusquad.fullname" . }}-agent
{{- end -}}

{{- define "gpusquad.reporting" -}}
{{- if and .Values.agent.enabled .Values.agent.reporting.enabled }}true{{ end -}}
{{- end -}}

{{- define "gpusquad.agentNodes" -}}
{{- if kindIs "invalid" .Values.agent.nodeSelector }}{{ dict "nvidia.com/gpu.present" "true" | toJson }}
{{- else }}{{ .Values.agent.nodeSelector | toJson }}{{ end -}}
{{- end -}}

{{/* Called with a value and the value under its deprecated name. The latter takes precedence if set, because values kept by an upgrade have only that name. */}}
{{- define "gpusquad.renamed" -}}
{{- kindIs "invalid" (last .) | ternary (first .) (last .) | toJson -}}
{{- end -}}
