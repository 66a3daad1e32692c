{{- define "stream-masker.fullname" -}}
{{- $default := contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) -}}
{{- .Values.fullnameOverride | default $default | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "stream-masker.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "stream-masker.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{ include "stream-masker.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The configuration file. */}}
{{- define "stream-masker.configuration" -}}
{{- kindIs "string" .Values.configuration | ternary .Values.configuration (toYaml .Values.configuration) -}}
{{- end }}

{{/*
The keys of Secrets that a process reads as files, as a YAML list: the path of the file below the mount, and the variable
that names it.
*/}}
{{- define "stream-masker.secrets" -}}
{{- with .Values }}
- {name: {{ .secret.existingSecret }}, key: {{ .secret.key }}, path: secret, variable: SECRET__FILE}
{{- range $i, $previous := .secret.previous }}
- {name: {{ .existingSecret }}, key: {{ .key | default "secret" }}, path: previous-{{ $i }}}
{{- end }}
{{- with .http.token }}
{{- if .existingSecret }}
- {name: {{ .existingSecret }}, key: {{ .key }}, path: http-token, variable: HTTP__TOKEN__FILE}
{{- end }}
{{- end }}
{{- with .http.tls.existingSecret }}
- {name: {{ . }}, key: tls.crt, path: tls.crt, variable: HTTP__TLS__CERTIFICATE}
- {name: {{ . }}, key: tls.key, path: tls.key, variable: HTTP__TLS__KEY}
{{- end }}
{{- end }}
{{- end }}

{{/*
The specification of a pod: of a worker or a calibrator, or of a Job that works on the topics.
Takes (dict "root" CONTEXT "component" NAME "args" LIST "configMap" NAME).
*/}}
{{- define "stream-masker.pod" -}}
{{- $values := .root.Values }}
{{- $process := get (pick $values "worker" "calibrator") .component }}
{{- $folder := "/run/secrets/stream-masker" }}
{{- $secrets := include "stream-masker.secrets" .root | fromYamlArray }}
{{- $certificates := dict "tls" $values.kafka.certificates "registry" $values.schemaRegistry.certificates }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 30
restartPolicy: {{ empty $process | ternary "Never" "Always" }}
securityContext: {{- toYaml $values.podSecurityContext | nindent 2 }}
{{- with $values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $key := list "serviceAccountName" "priorityClassName" "nodeSelector" "tolerations" "affinity" "initContainers" }}
{{- with get $values $key }}
{{ dict $key . | toYaml }}
{{- end }}
{{- end }}
{{- if $process }}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "stream-masker.selectorLabels" $.root | nindent 8 }}
        app.kubernetes.io/component: {{ $.component }}
  {{- end }}
{{- end }}
containers:
  - name: {{ .component }}
    image: {{ $values.image.repository }}:{{ $values.image.tag | default .root.Chart.AppVersion }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    args: {{ toJson .args }}
    env:
      - {name: STREAM_MASKER_CONFIG, value: /etc/stream-masker/stream-masker.yaml}
      - {name: STREAM_MASKER__HTTP__HOST, value: "0.0.0.0"}
      - {name: STREAM_MASKER__HTTP__PORT, value: "9464"}
      {{- $previous := list }}
      {{- range $secrets }}
      {{- if .variable }}
      - {name: STREAM_MASKER__{{ .variable }}, value: {{ $folder }}/{{ .path }}}
      {{- else }}
      {{- $previous = append $previous (dict "file" (printf "%s/%s" $folder .path)) }}
      {{- end }}
      {{- end }}
      {{- with $previous }}
      - {name: STREAM_MASKER__PREVIOUS_SECRETS, value: {{ toJson . | quote }}}
      {{- end }}
      {{- range $section, $client := dict "KAFKA" $values.kafka "FORMAT__REGISTRY" $values.schemaRegistry }}
      {{- range $client.properties }}
      - name: STREAM_MASKER__{{ $section }}__PROPERTIES__{{ upper . }}
        valueFrom: {secretKeyRef: {name: {{ $client.existingSecret }}, key: {{ . }}}}
      {{- end }}
      {{- end }}
      {{- if eq .component "worker" }}
      - name: STREAM_MASKER__WORKER__INSTANCE
        valueFrom: {fieldRef: {fieldPath: metadata.name}}
      {{- end }}
      {{- with $values.env }}{{ toYaml . | nindent 6 }}{{ end }}
    {{- with $process }}
    {{- $http := printf "port: http, scheme: %s" (empty $values.http.tls.existingSecret | ternary "HTTP" "HTTPS") }}
    ports: [{name: http, containerPort: 9464}]
    startupProbe: {httpGet: {path: /healthz, {{ $http }}}, periodSeconds: 2, failureThreshold: 90}
    livenessProbe: {httpGet: {path: /healthz, {{ $http }}}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6}
    readinessProbe: {httpGet: {path: /readyz, {{ $http }}}, periodSeconds: 5, timeoutSeconds: 5}
    resources: {{- toYaml .resources | nindent 6 }}
    {{- else }}
    resources: {limits: {memory: 384Mi}}
    {{- end }}
    securityContext: {{- toYaml $values.securityContext | nindent 6 }}
    volumeMounts:
      - {name: secrets, mountPath: {{ $folder }}, readOnly: true}
      - {name: configuration, mountPath: /etc/stream-masker/stream-masker.yaml, subPath: stream-masker.yaml, readOnly: true}
      - {name: tmp, mountPath: /tmp}
      {{- range $name, $secret := $certificates }}
      {{- if $secret }}
      - {name: certificates-{{ $name }}, mountPath: /etc/stream-masker/{{ $name }}, readOnly: true}
      {{- end }}
      {{- end }}
      {{- with $values.volumeMounts }}{{ toYaml . | nindent 6 }}{{ end }}
volumes:
  - name: secrets
    projected:
      defaultMode: 0440
      sources:
        {{- range $secrets }}
        - secret: {name: {{ .name }}, items: [{key: {{ .key }}, path: {{ .path }}}]}
        {{- end }}
  - name: configuration
    configMap: {name: {{ .configMap }}}
  - name: tmp
    emptyDir: {sizeLimit: 64Mi}
  {{- range $name, $secret := $certificates }}
  {{- with $secret }}
  - name: certificates-{{ $name }}
    secret: {secretName: {{ . }}, defaultMode: 0440}
  {{- end }}
  {{- end }}
  {{- with $values.volumes }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
