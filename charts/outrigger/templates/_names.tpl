{{/* Names and labels. */}}

{{- define "outrigger.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{/* The name of every object. 50 characters leave room for the suffixes: a Service's name may have 63. */}}
{{- define "outrigger.fullname" -}}
{{- $name := include "outrigger.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "outrigger.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "outrigger.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "outrigger.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* Labels by which objects find the server's pods. Immutable in a Deployment. The component keeps the pod of the
     test out of the Service. */}}
{{- define "outrigger.selectorLabels" -}}
{{- dict
  "app.kubernetes.io/name" (include "outrigger.name" .)
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/component" "webhook"
  | toYaml }}
{{- end }}

{{/* Labels of every object but the pods. The argument: the context. */}}
{{- define "outrigger.labels" -}}
{{- include "outrigger.labelsWith" (list . dict) }}
{{- end }}

{{/* The same with an object's own, which win over the common ones. The argument: a list of the context and a map. */}}
{{- define "outrigger.labelsWith" -}}
{{- $context := index . 0 }}
{{- $own := dict
  "helm.sh/chart" (printf "%s-%s" $context.Chart.Name $context.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
  "app.kubernetes.io/name" (include "outrigger.name" $context)
  "app.kubernetes.io/instance" $context.Release.Name
  "app.kubernetes.io/version" $context.Chart.AppVersion
  "app.kubernetes.io/managed-by" $context.Release.Service
  "app.kubernetes.io/part-of" "outrigger" }}
{{- merge $own (index . 1 | default dict) ($context.Values.commonLabels | default dict) | toYaml }}
{{- end }}

{{/* The metadata of an object. The argument: a list of the context and, if the name has one, its suffix. */}}
{{- define "outrigger.metadata" -}}
{{- $context := index . 0 -}}
name: "{{ include "outrigger.fullname" $context }}{{ with slice . 1 }}{{ index . 0 }}{{ end }}"
labels:
  {{- include "outrigger.labels" $context | nindent 2 }}
{{- end }}

{{/* Whether the server elects a replica that writes: yes, or nothing. */}}
{{- define "outrigger.elects" -}}
{{- if or (eq .Values.certificates.mode "self-managed") .Values.identity.enabled }}yes{{ end }}
{{- end }}

{{/* The Secret with the mesh's CA. */}}
{{- define "outrigger.identitySecret" -}}
{{- default (printf "%s-identity" (include "outrigger.fullname" .)) .Values.identity.secretName }}
{{- end }}

{{/* The Secret with the serving certificate. */}}
{{- define "outrigger.certificateSecret" -}}
{{- if eq .Values.certificates.mode "secret" }}
{{- .Values.certificates.secretName }}
{{- else if eq .Values.certificates.mode "cert-manager" }}
{{- include "outrigger.fullname" . }}-tls
{{- else }}
{{- include "outrigger.fullname" . }}-certificates
{{- end }}
{{- end }}

{{/* The names under which the API server calls, and those of the values, as a list in YAML. */}}
{{- define "outrigger.certificateNames" -}}
{{- $service := printf "%s.%s.svc" (include "outrigger.fullname" .) .Release.Namespace -}}
- {{ $service | quote }}
- {{ printf "%s.%s" $service (default "cluster.local" .Values.settings.clusterDomain) | quote }}
{{- range .Values.certificates.extraNames }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* A duration such as 2160h, 5m or 30s in seconds. */}}
{{- define "outrigger.seconds" -}}
{{- $units := dict "h" 3600 "m" 60 "s" 1 -}}
{{- $unit := . | trunc -1 -}}
{{- mul (trimSuffix $unit . | int64) (get $units $unit) -}}
{{- end }}
